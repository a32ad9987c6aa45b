// memc_gnom_get and others: it answers the frames that Scapy makes with what
// Debian's memcached answers, and Scapy accepts the frames of its replies.
//
//   gnom_peers_test SCRIPT
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "kernels/memcached/gnom_test_util.h"

namespace carillon::kernels {
namespace {

std::string script;

std::string ToHex(const std::string& bytes) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string hex;
  for (const char c : bytes) {
    const auto byte = static_cast<uint8_t>(c);
    hex += kDigits[byte >> 4];
    hex += kDigits[byte & 15];
  }
  return hex;
}

std::string FromHex(const std::string& hex) {
  std::string bytes;
  for (size_t i = 0; i + 1 < hex.size(); i += 2) {
    bytes += static_cast<char>(std::stoul(hex.substr(i, 2), nullptr, 16));
  }
  return bytes;
}

std::vector<std::string> LinesOf(const std::string& arguments) {
  const std::string command = "/usr/bin/python3 -B " + script + " " + arguments;
  FILE* const output = popen(command.c_str(), "r");
  std::string text;
  std::array<char, 4096> part;
  for (size_t got; (got = fread(part.data(), 1, part.size(), output)) > 0;) {
    text.append(part.data(), got);
  }
  EXPECT_EQ(pclose(output), 0) << command;
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

TEST(MemcGnomPeers, ScapyAcceptsRepliesThatSayWhatMemcachedSays) {
  GnomServer server;
  std::vector<std::string> frames;
  std::vector<std::string> answers;
  for (const std::string& line : LinesOf("make")) {
    std::istringstream words(line);
    std::string verb, bytes, answer;
    words >> verb >> bytes >> answer;
    if (verb == "set") {
      ASSERT_EQ(server.Say(FromHex(bytes)), "STORED\r\n");
      continue;
    }
    frames.push_back(FromHex(bytes));
    answers.push_back(FromHex(answer));
  }
  ASSERT_EQ(frames.size(), 250u);
  const std::vector<GnomAnswer> replies = server.Answer(frames);
  const char* const folder = std::getenv("TEST_TMPDIR");
  const std::string file =
      std::string(folder == nullptr ? "/tmp" : folder) + "/replies";
  std::ofstream out(file);
  constexpr size_t kHeaders = 14 + 20 + 8 + 8;
  for (size_t i = 0; i < frames.size(); ++i) {
    ASSERT_EQ(replies[i].verdict, memcached::GnomVerdict::kAnswered) << i;
    EXPECT_EQ(replies[i].frame.substr(kHeaders), answers[i]) << i;
    out << ToHex(frames[i]) << " " << ToHex(replies[i].frame) << "\n";
  }
  out.close();
  const std::vector<std::string> faults = LinesOf("check < " + file);
  ASSERT_EQ(faults.size(), frames.size());
  for (size_t i = 0; i < faults.size(); ++i) EXPECT_EQ(faults[i], "") << i;
}

}  // namespace
}  // namespace carillon::kernels

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (argc != 2) return 2;
  carillon::kernels::script = argv[1];
  return RUN_ALL_TESTS();
}

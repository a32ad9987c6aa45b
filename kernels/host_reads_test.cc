// Kernels that copy the host's memory ask for a whole batch of it before they use
// any: each wait is a trip over PCIe. Read from the PTX that nvcc makes.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>
#include <string>
#include <string_view>

namespace carillon::kernels {
namespace {

constexpr char kPtx[] = "kernels/kernels.ptx";

std::string Ptx() {
  std::ifstream file(kPtx);
  return {std::istreambuf_iterator<char>(file), {}};
}

// The body of the first function whose name has `part`.
std::string BodyOf(const std::string& ptx, std::string_view part) {
  for (size_t at = 0; (at = ptx.find(part, at)) != std::string::npos; ++at) {
    const size_t begin = ptx.find_first_of("{;", at);
    // A declaration, or a call.
    if (begin == std::string::npos || ptx[begin] != '{') continue;
    return ptx.substr(begin, ptx.find("\n}", begin) - begin);
  }
  ADD_FAILURE() << "no function " << part << " in " << kPtx;
  return "";
}

// The most loads before the first use of what one of them gives. A store may use
// it by its address, and ends them, too.
size_t LongestBatch(std::string_view body, std::string_view load) {
  static const std::regex kRegister(R"(%\w+)");
  size_t longest = 0;
  std::set<std::string> batch;  // what was loaded
  for (size_t at = 0; at < body.size();) {
    const size_t end = std::min(body.find('\n', at), body.size());
    const std::string line(body.substr(at, end - at));
    at = end + 1;
    const std::set<std::string> named(
        std::sregex_token_iterator(line.begin(), line.end(), kRegister), {});
    const bool uses = std::ranges::any_of(
        named, [&](const std::string& one) { return batch.contains(one); });
    if (uses || line.find("\tst.") != line.npos) batch.clear();
    if (line.find(load) == line.npos) continue;
    batch.insert(line.substr(line.find('%'), line.find(',') - line.find('%')));
    longest = std::max(longest, batch.size());
  }
  return longest;
}

TEST(HostReadsTest, AUseEndsABatch) {
  const auto batch_with = [](const std::string& between) {
    return LongestBatch("\tld.relaxed.sys.b64 %rd5, [%rd1];\n" + between +
                            "\tld.relaxed.sys.b64 %rd50, [%rd2];\n",
                        "ld.relaxed.sys.b64");
  };
  EXPECT_EQ(batch_with("\tadd.s64 %rd2, %rd1, 8;\n"), 2u);
  EXPECT_EQ(batch_with("\tshr.u64 %rd3, %rd5, 8;\n"), 1u);
}

TEST(HostReadsTest, RequestsAreReadInBatches) {
  const std::string ptx = Ptx();
  // 64 bytes that begin anywhere lie in nine words.
  for (const char* copy : {"LineReader6Refill", "memc9CopyBytes"}) {
    EXPECT_GE(LongestBatch(BodyOf(ptx, copy), "ld.relaxed.sys.b64"), 9u)
        << copy;
  }
}

TEST(HostReadsTest, EchoReadsSixteenBytesALane) {
  const std::string body = BodyOf(Ptx(), ".entry carillon_echo(");
  EXPECT_NE(body.find(".v4."), body.npos) << body;
}

}  // namespace
}  // namespace carillon::kernels

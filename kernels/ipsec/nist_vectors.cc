#include "kernels/ipsec/nist_vectors.h"

#include <gtest/gtest.h>

#include <fstream>
#include <utility>

namespace carillon::ipsec_test {
namespace {

constexpr char kFolder[] =
    "/usr/lib/python3/dist-packages/cryptography_vectors/";

std::string Trimmed(const std::string& text) {
  const size_t first = text.find_first_not_of(" \r\t");
  if (first == text.npos) return "";
  return text.substr(first, text.find_last_not_of(" \r\t") + 1 - first);
}

std::pair<std::string, std::string> Field(const std::string& line) {
  const size_t equals = line.find('=');
  if (equals == line.npos) return {line, ""};
  return {Trimmed(line.substr(0, equals)), Trimmed(line.substr(equals + 1))};
}

}  // namespace

Bytes FromHex(std::string_view hex) {
  Bytes bytes;
  for (size_t i = 0; i + 1 < hex.size(); i += 2) {
    bytes.push_back(static_cast<uint8_t>(
        std::stoul(std::string(hex.substr(i, 2)), nullptr, 16)));
  }
  return bytes;
}

std::string ToHex(const Bytes& bytes) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string hex;
  for (const uint8_t byte : bytes) {
    hex += kDigits[byte >> 4];
    hex += kDigits[byte & 15];
  }
  return hex;
}

std::vector<Vector> NistVectors(const std::string& file) {
  std::ifstream in(kFolder + file);
  EXPECT_TRUE(in.is_open())
      << kFolder << file << ": install python3-cryptography-vectors";
  std::vector<Vector> vectors;
  Vector common;
  Vector fields;
  const auto end_vector = [&] {
    if (fields.empty()) return;
    fields.insert(common.begin(), common.end());
    vectors.push_back(std::exchange(fields, {}));
  };
  for (std::string line; std::getline(in, line);) {
    line = Trimmed(line);
    if (line.empty() || line[0] == '#') {
      if (line.empty()) end_vector();
      continue;
    }
    if (line[0] == '[') {
      end_vector();
      const auto [name, value] = Field(line.substr(1, line.size() - 2));
      if (value.empty()) {
        common["section"] = name;
      } else {
        common[name] = value;
      }
      continue;
    }
    fields.insert(Field(line));
  }
  end_vector();
  return vectors;
}

}  // namespace carillon::ipsec_test

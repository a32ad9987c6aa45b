// Kernels that copy the host's memory ask for a whole batch of it before they use
// any: each wait is a trip over PCIe. Read from the PTX that nvcc makes.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iterator>
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

// The most `loads` with no store between them.
size_t LongestBatch(std::string_view body, std::string_view load) {
  size_t longest = 0;
  size_t batch = 0;
  for (size_t at = 0; at < body.size();) {
    const size_t end = std::min(body.find('\n', at), body.size());
    const std::string_view line = body.substr(at, end - at);
    at = end + 1;
    if (line.find("\tst.") != line.npos) batch = 0;
    if (line.find(load) == line.npos) continue;
    longest = std::max(longest, ++batch);
  }
  return longest;
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

#include "gpu_daemon/control/testing/test_peer.h"

#include <chrono>
#include <utility>

#include "fmt/format.h"

namespace carillon::gpud {
namespace {

constexpr char kProgram[] = "gpu_daemon/control/testing/control_test_peer";

}  // namespace

std::string ToHex(const std::string& bytes) {
  std::string hex;
  for (const char c : bytes) {
    hex += fmt::format("{:02x}", static_cast<unsigned char>(c));
  }
  return hex;
}

TestPeer::TestPeer(const std::string& mode, const std::string& directory,
                   const std::string& argument) {
  auto process =
      LineProcess::Start({.argv = {kProgram, mode, directory, argument}});
  process_.emplace(*std::move(process));
}

std::string TestPeer::ReadLine() {
  return process_->ReadLine(std::chrono::seconds(20)).value_or("");
}

}  // namespace carillon::gpud

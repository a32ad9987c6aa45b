#include "tools/bench/dashboard/idle_devices.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string_view>

#include "base/status.h"
#include "base/subprocess.h"
#include "devices/sdk/edge.h"
#include "fmt/format.h"

namespace carillon::bench {
namespace {

constexpr std::string_view kRole = "--play-idle-devices";

absl::Status Hold(const std::string& testbed, size_t first, size_t count) {
  std::vector<std::unique_ptr<edge::Device>> devices;
  for (size_t i = first; i < first + count; ++i) {
    ASSIGN_OR_RETURN(auto device,
                     edge::Device::Attach({.testbed_directory = testbed,
                                           .name = fmt::format("idle{}", i),
                                           .kind = "bench",
                                           .submission_bytes = 64 << 10,
                                           .completion_bytes = 64 << 10,
                                           .counter_names = {"rx", "tx"}}));
    edge::EventSpec spec{.max_in_flight = 8};
    spec.kernel = "null_event";
    spec.parameters = {edge::Writable("token")};
    RETURN_IF_ERROR(edge::edgeRegisterEvent(*device, spec).status());
    devices.push_back(std::move(device));
  }
  std::puts("ready");
  std::fflush(stdout);
  char end;
  while (read(STDIN_FILENO, &end, 1) > 0) {
  }
  return absl::OkStatus();
}

}  // namespace

std::vector<std::string> IdleDevicesArguments(const std::string& testbed,
                                              size_t first, size_t count) {
  return {OwnProgram(), std::string(kRole), testbed, std::to_string(first),
          std::to_string(count)};
}

std::optional<int> PlayIdleDevices(int argc, char** argv) {
  if (argc != 5 || argv[1] != kRole) return std::nullopt;
  const absl::Status status = Hold(argv[2], std::strtoul(argv[3], nullptr, 10),
                                   std::strtoul(argv[4], nullptr, 10));
  if (status.ok()) return 0;
  fmt::print(stderr, "idle devices: {}\n", std::string(status.message()));
  return 1;
}

}  // namespace carillon::bench

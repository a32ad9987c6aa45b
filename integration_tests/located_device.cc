// A device for tests that says where kernels find its buffer, and stays until it
// is killed. Its kernel is 'where' of user_ptx_test.cc.
#include <unistd.h>

#include <chrono>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "devices/sdk/edge.h"

namespace edge = carillon::edge;

template <class T>
T Must(absl::StatusOr<T> result) {
  if (result.ok()) return *std::move(result);
  std::fprintf(stderr, "%s\n", result.status().ToString().c_str());
  std::exit(1);
}

int main() {
  const auto device = Must(edge::Device::Attach({.kind = "test"}));
  const auto buffer = Must(device->AllocateBuffer(edge::Place::kOutput, 4096));
  auto* const queue = Must(edgeRegisterEvent(
      *device, {.kernel = "where", .parameters = {edge::Fixed("at", buffer)}}));
  queue->RingDoorbell();
  if (Must(queue->Wait(std::chrono::seconds(60))).state !=
      edge::EventState::kDone) {
    return 1;
  }
  uint64_t address = 0;
  std::memcpy(&address, buffer.bytes.data(), sizeof(address));
  std::printf("located at %" PRIu64 "\n", address);
  std::fflush(stdout);
  pause();
}

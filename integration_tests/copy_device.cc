// A device for tests that copies without end, until it is killed: `in` to GPU
// memory, `out` from there.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <utility>

#include "devices/sdk/edge.h"

namespace edge = carillon::edge;

template <class T>
T Must(absl::StatusOr<T> result) {
  if (result.ok()) return *std::move(result);
  std::fprintf(stderr, "%s\n", result.status().ToString().c_str());
  std::exit(1);
}

int main(int argc, char** argv) {
  constexpr uint64_t kBytes = 64 << 20;
  const bool in = std::string_view(argv[argc - 1]) == "in";
  const auto device = Must(edge::Device::Attach({.kind = "test"}));
  const auto host = Must(device->AllocateBuffer(
      in ? edge::Place::kInput : edge::Place::kOutput, kBytes));
  const auto gpu =
      Must(device->AllocateBuffer(edge::Place::kGpuMemory, kBytes));
  while (true) {
    Must(device->Copy(
        {.from = in ? host : gpu, .to = in ? gpu : host, .bytes = kBytes}));
  }
}

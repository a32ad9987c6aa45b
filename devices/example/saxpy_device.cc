// A device for a kernel of one's own: by each doorbell, saxpy.cu's kernel adds
// 2 x to y. See docs/your_own.md.
//   saxpy_device [LAUNCH_PATH [NAME OF THE KERNEL]]
#include <cstdio>
#include <cstdlib>

#include "devices/sdk/edge.h"

namespace edge = carillon::edge;

constexpr uint32_t kFloats = 256, kThreads = 128;
constexpr uint64_t kBytes = kFloats * sizeof(float);
constexpr uint32_t kEvents = 100;

template <class T>
T Must(absl::StatusOr<T> result) {
  if (result.ok()) return *std::move(result);
  std::fprintf(stderr, "saxpy0: %s\n", result.status().ToString().c_str());
  std::exit(1);
}

int main(int argc, char** argv) {
  // Joins the testbed in $CARILLON_TESTBED_DIR.
  auto device =
      Must(edge::Device::Attach({.name = "saxpy0", .kind = "example"}));
  auto x = Must(device->AllocateBuffer(edge::Place::kInput, kBytes));
  auto y = Must(device->AllocateBuffer(edge::Place::kOutput, kBytes));
  auto* in = reinterpret_cast<float*>(x.bytes.data());
  for (uint32_t i = 0; i < kFloats; ++i) in[i] = static_cast<float>(i);
  // No parameter is written with an event: so it runs by launch path edge on
  // every back-end.
  auto* queue = Must(edgeRegisterEvent(
      *device, {.kernel = argc > 2 ? argv[2] : "saxpy",
                .grid = {kFloats / kThreads, 1, 1},
                .block = {kThreads, 1, 1},
                .max_in_flight = 4,
                .launch_path = argc > 1 ? argv[1] : "",
                .parameters = {edge::Fixed("x", x), edge::Fixed("y", y),
                               edge::ConstantFloat("a", 2),
                               edge::Constant("n", kFloats)}}));
  for (uint32_t event = 1; event <= kEvents; ++event) {
    queue->RingDoorbell();
    const auto end = Must(queue->Wait(std::chrono::seconds(30)));
    if (end.state != edge::EventState::kDone) {
      Must<int>(absl::InternalError("the event failed"));
    }
    queue->Free();
    const auto* sum = reinterpret_cast<const float*>(y.bytes.data());
    for (uint32_t i = 0; i < kFloats; ++i) {
      if (sum[i] != 2 * static_cast<float>(event) * in[i]) {
        Must<int>(absl::DataLossError("wrong sum"));
      }
    }
  }
  std::printf("%u events by launch path %s, all sums right\n", kEvents,
              std::string(queue->launch_path()).c_str());
}

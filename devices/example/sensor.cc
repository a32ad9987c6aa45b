// A device in under 60 lines: a sensor that has the GPU checksum its messages,
// 32 an event, and compares every checksum with its own. See docs/your_own.md.
#include <boost/crc.hpp>
#include <cstdio>
#include <cstdlib>
#include <random>

#include "devices/sdk/edge.h"

namespace edge = carillon::edge;

constexpr uint32_t kMessageBytes = 64;
constexpr uint32_t kMessages = 32;                   // one warp
constexpr uint64_t kIn = kMessages * kMessageBytes;  // bytes an event
constexpr uint64_t kOut = kMessages * sizeof(uint32_t);
constexpr uint32_t kSlots = 8, kEvents = 1000;

template <class T>
T Must(absl::StatusOr<T> result) {
  if (result.ok()) return *std::move(result);
  std::fprintf(stderr, "sensor0: %s\n", result.status().ToString().c_str());
  std::exit(1);
}

int main() {
  // Joins the testbed in $CARILLON_TESTBED_DIR.
  auto device =
      Must(edge::Device::Attach({.name = "sensor0", .kind = "sensor"}));
  // One input and one output area for each slot of the ring.
  auto in = Must(device->AllocateBuffer(edge::Place::kInput, kSlots * kIn));
  auto out = Must(device->AllocateBuffer(edge::Place::kOutput, kSlots * kOut));
  auto* queue = Must(edgeRegisterEvent(
      *device,
      {.kernel = "crc32",
       .block = {kMessages, 1, 1},
       .max_in_flight = kSlots,
       .parameters = {
           edge::Fixed("messages", in, {.length = kIn, .slot_stride = kIn}),
           edge::Constant("message_bytes", kMessageBytes),
           edge::Fixed("crcs", out, {.length = kOut, .slot_stride = kOut})}}));

  std::mt19937 noise;
  for (uint32_t event = 0; event < kEvents; ++event) {
    const uint32_t slot = queue->next_slot();
    const auto messages = in.bytes.subspan(slot * kIn, kIn);
    for (auto& byte : messages) byte = std::byte(noise());
    queue->RingDoorbell();
    Must(queue->Wait(std::chrono::seconds(5)));
    const auto* crcs = (const uint32_t*)(out.bytes.data() + slot * kOut);
    for (uint32_t i = 0; i < kMessages; ++i) {
      boost::crc_32_type own;
      own.process_bytes(&messages[i * kMessageBytes], kMessageBytes);
      if (crcs[i] != own.checksum()) Must<int>(absl::DataLossError("bad CRC"));
    }
    queue->Free();
  }
  std::printf("%u events, all checksums right\n", kEvents);
}

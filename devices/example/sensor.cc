// A device in under 60 lines: a sensor that has the GPU checksum its messages,
// 32 an event, and compares every checksum with one of its own. README.md walks
// through it.
#include <boost/crc.hpp>
#include <cstdio>
#include <random>

#include "devices/sdk/edge.h"

namespace edge = carillon::edge;

constexpr uint32_t kMessageBytes = 64;
constexpr uint32_t kMessages = 32;  // one warp
constexpr uint32_t kSlots = 8;

absl::Status Run(uint32_t events) {
  // Joins the testbed in $CARILLON_TESTBED_DIR.
  auto device = edge::Device::Attach({.name = "sensor0", .kind = "sensor"});
  if (!device.ok()) return device.status();
  // One input and one output area for each slot of the ring.
  auto input = (*device)->AllocateBuffer(edge::Place::kInput,
                                         kSlots * kMessages * kMessageBytes);
  if (!input.ok()) return input.status();
  auto output =
      (*device)->AllocateBuffer(edge::Place::kOutput, kSlots * kMessages * 4);
  if (!output.ok()) return output.status();
  const uint64_t in = kMessages * kMessageBytes, out = kMessages * 4;
  auto queue = edgeRegisterEvent(
      **device,
      {.kernel = "crc32",
       .block = {kMessages, 1, 1},
       .max_in_flight = kSlots,
       .parameters = {
           edge::Fixed("messages", *input, {.length = in, .slot_stride = in}),
           edge::Constant("message_bytes", kMessageBytes),
           edge::Fixed("crcs", *output, {.length = out, .slot_stride = out})}});
  if (!queue.ok()) return queue.status();

  std::mt19937 noise;
  for (uint32_t event = 0; event < events; ++event) {
    const auto messages = input->bytes.subspan((*queue)->next_slot() * in, in);
    for (auto& byte : messages) byte = std::byte(noise());
    const auto sequence = (*queue)->RingDoorbell();
    auto done = (*queue)->Wait(std::chrono::seconds(5));
    if (!done.ok()) return done.status();
    const auto* crcs = reinterpret_cast<const uint32_t*>(
        output->bytes.data() + (*queue)->SlotOf(sequence) * out);
    for (uint32_t i = 0; i < kMessages; ++i) {
      boost::crc_32_type own;
      own.process_bytes(messages.data() + i * kMessageBytes, kMessageBytes);
      if (crcs[i] != own.checksum())
        return absl::DataLossError("wrong checksum");
    }
    (*queue)->Free();
  }
  std::printf("%u events, %u checksums, all right\n", events,
              events * kMessages);
  return absl::OkStatus();
}

int main() {
  const absl::Status status = Run(1000);
  if (!status.ok())
    std::fprintf(stderr, "sensor0: %s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}

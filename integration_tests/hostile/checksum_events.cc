#include "integration_tests/hostile/checksum_events.h"

#include <cstring>
#include <span>

#include "base/status.h"
#include "fmt/format.h"
#include "integration_tests/testbed_process.h"

namespace carillon::testing {
namespace {

using edge::Fixed;
using edge::Place;

uint32_t Crc32(std::span<const std::byte> bytes) {
  uint32_t crc = ~0u;
  for (const std::byte byte : bytes) {
    crc ^= static_cast<uint32_t>(byte);
    for (int bit = 0; bit < 8; ++bit) {
      crc = crc >> 1 ^ (crc & 1 ? 0xedb88320u : 0);
    }
  }
  return ~crc;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Checksums>> Checksums::Register(
    edge::Device& device, uint32_t threads) {
  ASSIGN_OR_RETURN(auto in,
                   device.AllocateBuffer(Place::kInput, kRing * kBytes));
  ASSIGN_OR_RETURN(auto out, device.AllocateBuffer(Place::kOutput,
                                                   kRing * sizeof(uint32_t)));
  ASSIGN_OR_RETURN(
      auto queue,
      edge::edgeRegisterEvent(
          device,
          {.kernel = "crc32",
           .block = {threads, 1, 1},
           .max_in_flight = kRing,
           .parameters = {
               Fixed("messages", in, {.length = kBytes, .slot_stride = kBytes}),
               edge::Constant("message_bytes", kBytes),
               Fixed("crcs", out,
                     {.length = sizeof(uint32_t),
                      .slot_stride = sizeof(uint32_t)})}}));
  return std::unique_ptr<Checksums>(new Checksums(in, out, queue));
}

void Checksums::RingDoorbell() {
  while (queue_->free_slots() > 0) {
    const uint32_t slot = queue_->next_slot();
    const auto message = in_.bytes.subspan(slot * kBytes, kBytes);
    for (std::byte& byte : message) byte = std::byte(random_());
    expected_[slot] = Crc32(message);
    queue_->RingDoorbell();
  }
}

absl::Status Checksums::Take() {
  ASSIGN_OR_RETURN(const auto done, queue_->Wait(kBound));
  const uint32_t slot = queue_->SlotOf(done.sequence);
  uint32_t crc = 0;
  std::memcpy(&crc, out_.bytes.data() + slot * sizeof(crc), sizeof(crc));
  if (done.state != edge::EventState::kDone || crc != expected_[slot]) {
    return absl::DataLossError(
        fmt::format("event {}: state {}, status {}, checksum {:#x}, not {:#x}",
                    done.sequence.value(), static_cast<int>(done.state),
                    done.status, crc, expected_[slot]));
  }
  queue_->Free();
  return absl::OkStatus();
}

bool Neighbour::GoesOn(uint64_t events) const {
  const uint64_t goal = this->events() + events;
  return Eventually([&] { return this->events() >= goal || ended_; }) &&
         !ended_;
}

absl::Status Neighbour::Stop() {
  stop_ = true;
  if (thread_.joinable()) thread_.join();
  return status_;
}

void Neighbour::Work() {
  status_ = TryWork();
  ended_ = true;
}

absl::Status Neighbour::TryWork() {
  ASSIGN_OR_RETURN(auto quick, Checksums::Register(*device_, 32));
  ASSIGN_OR_RETURN(auto queued, Checksums::Register(*device_, 64));
  while (!stop_) {
    for (Checksums* one : {quick.get(), queued.get()}) {
      one->RingDoorbell();
      for (uint32_t i = 0; i < Checksums::kRing; ++i) {
        RETURN_IF_ERROR(one->Take());
        events_.fetch_add(1, std::memory_order_relaxed);
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace carillon::testing

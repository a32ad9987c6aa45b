#include "devices/router/forwarding_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>

#include "base/status.h"

namespace carillon::router {
namespace {

constexpr uint64_t kChunkWords =
    ForwardingTable::kSubmissionBytes / sizeof(uint32_t);
constexpr std::chrono::seconds kWriteTime{10};

}  // namespace

absl::StatusOr<std::unique_ptr<ForwardingTable>> ForwardingTable::Make(
    edge::Device* device, uint32_t groups, uint32_t first_bits,
    const std::string& label) {
  const uint64_t bytes = forwarding::TableBytes(groups, first_bits);
  std::unique_ptr<ForwardingTable> table(
      new ForwardingTable(bytes / sizeof(uint32_t)));
  ASSIGN_OR_RETURN(table->table_,
                   device->AllocateBuffer(edge::Place::kGpuMemory, bytes));
  ASSIGN_OR_RETURN(table->chunk_, device->AllocateBuffer(edge::Place::kInput,
                                                         kSubmissionBytes));
  ASSIGN_OR_RETURN(
      table->queue_,
      edge::edgeRegisterEvent(
          *device,
          {.kernel = "fib_write",
           .grid = {8, 1, 1},
           .block = {256, 1, 1},
           .max_in_flight = 1,
           .label = label,
           .parameters = {edge::Fixed("words", table->chunk_),
                          edge::Fixed("table", table->table_),
                          edge::Writable("first"), edge::Writable("count")}}));
  ASSIGN_OR_RETURN(table->first_offset_,
                   table->queue_->ParameterOffset("first"));
  ASSIGN_OR_RETURN(table->count_offset_,
                   table->queue_->ParameterOffset("count"));
  return table;
}

absl::Status ForwardingTable::Write(std::span<const uint32_t> words,
                                    uint64_t first) {
  while (!words.empty()) {
    const auto part =
        words.first(std::min<uint64_t>(words.size(), kChunkWords));
    std::memcpy(chunk_.bytes.data(), part.data(), part.size_bytes());
    queue_->Set<uint64_t>(first_offset_, first);
    queue_->Set<uint32_t>(count_offset_, static_cast<uint32_t>(part.size()));
    queue_->RingDoorbell();
    ASSIGN_OR_RETURN(const edge::Completion done, queue_->Wait(kWriteTime));
    queue_->Free();
    if (done.state != edge::EventState::kDone) {
      return absl::InternalError(
          fmt::format("the table was not written: status {}", done.status));
    }
    first += part.size();
    words = words.subspan(part.size());
  }
  return absl::OkStatus();
}

absl::Status ForwardingTable::Publish(const forwarding::Fib& fib) {
  const uint32_t half = 1 - active_;
  for (const auto& range : fib.ChangesSince(versions_[half])) {
    RETURN_IF_ERROR(Write(fib.words().subspan(range.first, range.count),
                          forwarding::HalfBegin(words_, half) + range.first));
  }
  versions_[half] = fib.version();
  RETURN_IF_ERROR(Write({&half, 1}, 0));
  active_ = half;
  return absl::OkStatus();
}

absl::Status ForwardingTable::StartAnew() {
  while (queue_->in_flight() > 0) {
    RETURN_IF_ERROR(queue_->Wait(kWriteTime).status());
    queue_->Free();
  }
  versions_[0] = versions_[1] = 0;
  return absl::OkStatus();
}

void ForwardingTable::TakeCompletions() {
  while (queue_->Poll()) queue_->Free();
}

}  // namespace carillon::router

#include "gpu_daemon/backends/cuda/paths/pagoda/spawn_link.h"

#include <sched.h>

#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "gpu_daemon/event/backend.h"

namespace carillon::gpud::cuda {
namespace {

// A driver that takes longer for a copy has lost it.
constexpr Nanoseconds kLongestCopyNs = 2'000'000'000;

}  // namespace

absl::Status SpawnLink::Prepare(uint32_t entries) {
  const Driver& driver = gpu_.driver();
  ASSIGN_OR_RETURN(stream_, gpu_.MakeStream(SmSet::kRest, kPriorities - 1));
  const uint64_t bytes = uint64_t{entries} * sizeof(TaskEntry);
  ASSIGN_OR_RETURN(table_, DeviceBytes::Make(driver, bytes));
  ASSIGN_OR_RETURN(
      staged_, PinnedBytes::Make(driver, uint64_t{entries} * sizeof(Staged)));
  ASSIGN_OR_RETURN(back_, PinnedBytes::Make(driver, bytes));
  return absl::OkStatus();
}

void SpawnLink::Free() {
  stream_.Reset();
  table_ = DeviceBytes();
  staged_ = PinnedBytes();
  back_ = PinnedBytes();
}

void SpawnLink::Abandon() {
  stream_.Abandon();
  table_.Abandon();
  staged_.Abandon();
  back_.Abandon();
}

absl::Status SpawnLink::Clear() {
  const std::vector<std::byte> zeros(table_.size());
  const CUresult result =
      table_.Write(gpu_.driver(), zeros.data(), zeros.size());
  gpu_.Check(result);
  return ToStatus(gpu_.driver(), result, "clear the TaskTable");
}

bool SpawnLink::IsIdle() const {
  const CUresult result = gpu_.driver().cuStreamQuery(stream_.get());
  if (result != CUDA_ERROR_NOT_READY) gpu_.Check(result);
  return result == CUDA_SUCCESS;
}

absl::Status SpawnLink::CopyEntry(uint32_t entry, const TaskEntry& from) {
  TaskEntry& staged = staged_.as<Staged>()[entry].entry;
  staged = from;
  const CUresult result = gpu_.driver().cuMemcpyHtoDAsync(
      table_.address() + uint64_t{entry} * sizeof(TaskEntry), &staged,
      sizeof(staged), stream_.get());
  gpu_.Check(result);
  return ToStatus(gpu_.driver(), result, "copy a task to the TaskTable");
}

absl::Status SpawnLink::CopyState(uint32_t entry, TaskState state) {
  TaskState& staged = staged_.as<Staged>()[entry].state;
  staged = state;
  const CUresult result = gpu_.driver().cuMemcpyHtoDAsync(
      table_.address() + uint64_t{entry} * sizeof(TaskEntry) +
          offsetof(TaskEntry, state),
      &staged, sizeof(staged), stream_.get());
  gpu_.Check(result);
  return ToStatus(gpu_.driver(), result, "copy a state to the TaskTable");
}

absl::Status SpawnLink::StoreEntry(uint32_t, const TaskEntry&) {
  return absl::UnimplementedError(
      "a CPU cannot store to the TaskTable in GPU memory, which CUDA maps for "
      "no CPU: entries are copied");
}

// From the first state to the last one: of one entry its state alone, of more what
// lies between them, too.
absl::Status SpawnLink::CopyBack(uint32_t first, std::span<TaskState> states) {
  static_assert(offsetof(TaskEntry, state) == 0);
  if (states.empty()) return absl::OkStatus();
  const Driver& driver = gpu_.driver();
  TaskEntry* const back = back_.as<TaskEntry>() + first;
  CUresult result = driver.cuMemcpyDtoHAsync(
      back, table_.address() + uint64_t{first} * sizeof(TaskEntry),
      (states.size() - 1) * sizeof(TaskEntry) + sizeof(TaskState),
      stream_.get());
  const Nanoseconds start = NowNs();
  while (result == CUDA_SUCCESS) {
    // Before the look: this process may have stood still meanwhile.
    const bool late = NowNs() - start > kLongestCopyNs;
    result = driver.cuStreamQuery(stream_.get());
    if (result != CUDA_ERROR_NOT_READY) break;
    if (late) {
      gpu_.StopEverything();
      return absl::DeadlineExceededError(
          "a copy of the TaskTable's states does not end");
    }
    result = CUDA_SUCCESS;
    sched_yield();
  }
  gpu_.Check(result);
  RETURN_IF_ERROR(ToStatus(driver, result, "copy the TaskTable's states"));
  for (size_t i = 0; i < states.size(); ++i) states[i] = back[i].state;
  return absl::OkStatus();
}

}  // namespace carillon::gpud::cuda

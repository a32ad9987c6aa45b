#include "gpu_daemon/backends/cuda/pagoda/task_spawner.h"

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

namespace carillon::gpud {
namespace {

constexpr uint64_t kFirstId = 2;

}  // namespace

absl::Status CheckTask(const TaskShape& shape, size_t args_bytes,
                       uint32_t executors) {
  if (shape.blocks == 0 || shape.blocks > kTaskMaxBlocks) {
    return absl::InvalidArgumentError(
        absl::StrCat("a task of ", shape.blocks,
                     " thread blocks: it must have 1 to ", kTaskMaxBlocks));
  }
  const uint32_t most = executors * simt::kWarpSize;
  if (shape.threads == 0 || shape.threads > most) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a task with thread blocks of ", shape.threads,
        " threads: all warps of a block run in one MTB, which has ", executors,
        " executor warps, so a block must have 1 to ", most,
        " threads; launch larger ones as kernels"));
  }
  if (shape.shared_bytes > kTaskSharedBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("a task with ", shape.shared_bytes,
                     " bytes of shared memory a thread block: an MTB has ",
                     kTaskSharedBytes, "; launch it as a kernel"));
  }
  if (args_bytes > kTaskMaxArgs) {
    return absl::InvalidArgumentError(
        absl::StrCat("a task with arguments of ", args_bytes,
                     " bytes: an entry of the TaskTable has ", kTaskMaxArgs,
                     "; pass a pointer to the rest"));
  }
  return absl::OkStatus();
}

TaskSpawner::TaskSpawner(TaskLink* link, uint32_t columns, uint32_t rows,
                         uint32_t executors, TaskSpawnerOptions options)
    : link_(*link),
      columns_(columns),
      rows_(rows),
      executors_(executors),
      options_(std::move(options)),
      table_(columns * rows) {}

absl::StatusOr<TaskId> TaskSpawner::Spawn(const TaskShape& shape,
                                          uint64_t kernel,
                                          std::span<const std::byte> args) {
  if (absl::Status status = CheckThread(); !status.ok()) return status;
  if (absl::Status status = CheckTask(shape, args.size(), executors_);
      !status.ok()) {
    return status;
  }
  if (not_waited_for_.size() >= kMaxNotWaitedFor) {
    return absl::ResourceExhaustedError(absl::StrCat(
        kMaxNotWaitedFor,
        " tasks were spawned that nobody has waited for: call waitAll"));
  }
  absl::StatusOr<uint32_t> entry = AwaitFreeEntry();
  if (!entry.ok()) return entry.status();

  TaskEntry task = {};
  task.kernel = kernel;
  task.blocks = shape.blocks;
  task.threads = shape.threads;
  task.shared_bytes = shape.shared_bytes;
  task.sync = shape.sync ? 1 : 0;
  task.args_bytes = static_cast<uint32_t>(args.size());
  if (!args.empty()) std::memcpy(task.args, args.data(), args.size());
  if (options_.write == TaskWrite::kMapped) {
    task.state = TaskState::kReleased;
    if (absl::Status status = link_.StoreEntry(*entry, task); !status.ok()) {
      return status;
    }
  } else {
    task.state = last_ == kNone ? TaskState::kCopied : BehindEntry(last_);
    if (absl::Status status = link_.CopyEntry(*entry, task); !status.ok()) {
      return status;
    }
    last_ = *entry;
  }
  Row& row = table_[*entry];
  const auto id =
      static_cast<TaskId>(row.uses * table_.size() + *entry + kFirstId);
  row.busy = true;
  ++row.uses;
  row.looked_at = last_spawn_ = options_.now();
  not_waited_for_.insert(static_cast<uint64_t>(id));
  ++figures_.spawned;
  return id;
}

absl::Status TaskSpawner::Wait(TaskId id, Nanoseconds bound) {
  if (absl::Status status = CheckThread(); !status.ok()) return status;
  if (absl::Status status = CheckId(id); !status.ok()) return status;
  const uint32_t entry = EntryOf(id);
  const Nanoseconds start = options_.now();
  while (!HasEnded(id)) {
    const Nanoseconds now = options_.now();
    // This thread spawns no successor while it waits.
    absl::Status status = last_ == entry ? EmptyUpdate() : AdvanceAt(now);
    if (!status.ok()) return status;
    const bool last_look = now - start >= bound;
    if (last_look ||
        now - table_[entry].looked_at >= options_.copy_back_after) {
      if (status = CopyBack(entry, 1); !status.ok()) return status;
      if (HasEnded(id)) break;
    }
    if (last_look) {
      return absl::DeadlineExceededError(absl::StrCat(
          "task ", static_cast<uint64_t>(id), " has not ended within ",
          bound / 1'000'000,
          " ms; a task that never ends can be stopped only with all others of "
          "its context"));
    }
    options_.pause();
  }
  not_waited_for_.erase(static_cast<uint64_t>(id));
  return absl::OkStatus();
}

absl::StatusOr<bool> TaskSpawner::Check(TaskId id) {
  if (absl::Status status = CheckThread(); !status.ok()) return status;
  if (absl::Status status = CheckId(id); !status.ok()) return status;
  if (HasEnded(id)) return true;
  const Nanoseconds now = options_.now();
  if (absl::Status status = AdvanceAt(now); !status.ok()) return status;
  const uint32_t entry = EntryOf(id);
  if (now - table_[entry].looked_at >= options_.copy_back_after) {
    if (absl::Status status = CopyBack(entry, 1); !status.ok()) return status;
  }
  return HasEnded(id);
}

absl::Status TaskSpawner::WaitAll(Nanoseconds bound) {
  if (absl::Status status = CheckThread(); !status.ok()) return status;
  const Nanoseconds start = options_.now();
  Nanoseconds looked_at = start;
  while (!AllEnded()) {
    if (absl::Status status = EmptyUpdate(); !status.ok()) return status;
    const Nanoseconds now = options_.now();
    const bool last_look = now - start >= bound;
    if (last_look || now - looked_at >= options_.copy_back_after) {
      looked_at = now;
      if (absl::Status status =
              CopyBack(0, static_cast<uint32_t>(table_.size()));
          !status.ok()) {
        return status;
      }
      if (AllEnded()) break;
    }
    if (last_look) {
      size_t busy = 0;
      for (const Row& row : table_) busy += row.busy;
      return absl::DeadlineExceededError(absl::StrCat(
          busy, " tasks have not ended within ", bound / 1'000'000, " ms"));
    }
    options_.pause();
  }
  not_waited_for_.clear();
  return absl::OkStatus();
}

absl::Status TaskSpawner::Advance() {
  if (absl::Status status = CheckThread(); !status.ok()) return status;
  return AdvanceAt(options_.now());
}

absl::Status TaskSpawner::CheckThread() {
  std::thread::id owner;
  const std::thread::id self = std::this_thread::get_id();
  if (owner_.compare_exchange_strong(owner, self) || owner == self) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(
      "this TaskTable belongs to another thread: one thread spawns tasks and "
      "waits for them");
}

absl::Status TaskSpawner::CheckId(TaskId id) const {
  const auto number = static_cast<uint64_t>(id);
  if (number < kFirstId ||
      (number - kFirstId) / table_.size() >= table_[EntryOf(id)].uses) {
    return absl::NotFoundError(
        absl::StrCat("no task ", number, " was ever spawned"));
  }
  if (not_waited_for_.count(number) == 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("task ", number, " has ended, and was waited for before"));
  }
  return absl::OkStatus();
}

uint32_t TaskSpawner::EntryOf(TaskId id) const {
  return static_cast<uint32_t>((static_cast<uint64_t>(id) - kFirstId) %
                               table_.size());
}

bool TaskSpawner::HasEnded(TaskId id) const {
  const Row& row = table_[EntryOf(id)];
  const uint64_t use = (static_cast<uint64_t>(id) - kFirstId) / table_.size();
  return use + 1 < row.uses || !row.busy;
}

uint32_t TaskSpawner::FreeEntry() {
  const auto entries = static_cast<uint32_t>(table_.size());
  for (uint32_t i = 0; i < entries; ++i) {
    const uint32_t place = (next_ + i) % entries;
    const uint32_t entry = place % columns_ * rows_ + place / columns_;
    if (table_[entry].busy) continue;
    next_ = (place + 1) % entries;
    return entry;
  }
  return kNone;
}

absl::StatusOr<uint32_t> TaskSpawner::AwaitFreeEntry() {
  uint32_t entry = FreeEntry();
  if (entry != kNone) return entry;
  const Nanoseconds start = options_.now();
  for (;;) {
    const bool last_look = options_.now() - start >= options_.longest_full;
    if (absl::Status status = CopyBack(0, static_cast<uint32_t>(table_.size()));
        !status.ok()) {
      return status;
    }
    if (entry = FreeEntry(); entry != kNone) return entry;
    // Its successor is what waits here.
    if (absl::Status status = EmptyUpdate(); !status.ok()) return status;
    if (last_look) {
      return absl::ResourceExhaustedError(absl::StrCat(
          "none of the ", table_.size(),
          " entries of the TaskTable became free within ",
          options_.longest_full / 1'000'000, " ms: all hold tasks that run"));
    }
    options_.pause();
  }
}

absl::Status TaskSpawner::CopyBack(uint32_t first, uint32_t count) {
  std::vector<TaskState> states(count);
  if (absl::Status status = link_.CopyBack(first, states); !status.ok()) {
    return status;
  }
  ++figures_.copies_back;
  const Nanoseconds now = options_.now();
  for (uint32_t i = 0; i < count; ++i) {
    Row& row = table_[first + i];
    row.busy = row.busy && states[i] != TaskState::kFree;
    row.looked_at = now;
  }
  return absl::OkStatus();
}

// Releases the last task in its successor's place, unless its scheduler has not
// come to it yet: then it is too early. The next task begins a chain: if it named
// this one, it would wait for ever for (-1, 0).
absl::Status TaskSpawner::EmptyUpdate() {
  if (last_ == kNone) return absl::OkStatus();
  TaskState state = TaskState::kFree;
  if (absl::Status status = link_.CopyBack(last_, {&state, 1}); !status.ok()) {
    return status;
  }
  ++figures_.copies_back;
  if (state != TaskState::kCopied) return absl::OkStatus();
  if (absl::Status status = link_.CopyState(last_, TaskState::kReleased);
      !status.ok()) {
    return status;
  }
  ++figures_.empty_updates;
  last_ = kNone;
  return absl::OkStatus();
}

absl::Status TaskSpawner::AdvanceAt(Nanoseconds now) {
  if (now - last_spawn_ < options_.empty_update_after) return absl::OkStatus();
  return EmptyUpdate();
}

bool TaskSpawner::AllEnded() const {
  for (const Row& row : table_) {
    if (row.busy) return false;
  }
  return true;
}

}  // namespace carillon::gpud

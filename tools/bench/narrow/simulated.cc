#include "tools/bench/narrow/simulated.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <span>
#include <utility>

#include "base/status.h"
#include "gpu_daemon/backends/cuda/pagoda/task_link.h"
#include "gpu_daemon/backends/cuda/pagoda/task_spawner.h"
#include "gpu_daemon/backends/cuda/pagoda/task_table.h"
#include "sim/timing/gpu.h"
#include "tools/bench/narrow/narrow_tasks.h"
#include "tools/bench/narrow/record.h"
#include "tools/bench/narrow/simulated_ring.h"
#include "tools/bench/narrow/simulated_run.h"

namespace carillon::bench {
namespace {

using gpud::TaskEntry;
using gpud::TaskState;

constexpr Nanoseconds kLongestFull = 10'000'000'000;

Nanoseconds NsOf(double us) {
  return static_cast<Nanoseconds>(std::llround(us * 1000));
}

// A launch for each task. HyperQ: a stream for each, and a KDU of 32 entries;
// `edge`: the same, but a doorbell is rung in place of the driver's call.
class LaunchRun : public SimulatedRun {
 public:
  LaunchRun(const NarrowWorkload& workload, const SimulatedOptions& options,
            bool doorbells)
      : SimulatedRun(workload, options), doorbells_(doorbells) {}

 private:
  absl::Status RunTasks() override {
    while (!order_.all_ended()) {
      const size_t task = order_.Next();
      if (task == NarrowOrder::kNone) {
        RETURN_IF_ERROR(AwaitEnd());
        continue;
      }
      const Cycle arrived = CopyInput(task);
      AdvanceTo(host_ + (doorbells_ ? Store() : Call()));
      // A doorbell is rung when the input is there, by who had it copied.
      ASSIGN_OR_RETURN(auto launch, LaunchOf(task));
      ASSIGN_OR_RETURN(const auto grid,
                       gpu_->Submit(std::move(launch),
                                    {.not_before = std::max(host_, arrived),
                                     .event = doorbells_}));
      ++launches_;
      running_[grid] = task;
      RETURN_IF_ERROR(error_);
    }
    return absl::OkStatus();
  }
  void GridEnded(const sim::timing::GridResult& grid) override {
    const auto found = running_.find(grid.id);
    if (found == running_.end()) return;
    TaskEnded(found->second, grid.completed);
    running_.erase(found);
    Stop();
  }
  absl::StatusOr<sim::Launch> LaunchOf(size_t index) {
    const NarrowUnit& task = Task(index);
    const std::string name = fmt::format("carillon_{}", task.kernel->name);
    auto& program = programs_[name];
    if (program == nullptr) {
      ASSIGN_OR_RETURN(program, LoadOwnKernel(name, &memory_));
    }
    sim::Launch launch{
        .program = program.get(),
        .kernel = program->FindEntry(name),
        .grid = {1, 1, 1},
        .block = {task.threads, 1, 1},
        .dynamic_shared_bytes = task.kernel->static_shared_bytes};
    launch.parameters = NarrowWorkload::ArgumentsOf(task, data_);
    const size_t at = (launch.parameters.size() + 7) / 8 * 8;
    launch.parameters.resize(at + sizeof(uint64_t));
    const uint64_t status = StatusOf(index);
    std::memcpy(&launch.parameters[at], &status, sizeof(status));
    return launch;
  }

  const bool doorbells_;
  std::map<std::string, std::shared_ptr<const sim::Program>> programs_;
  std::map<GridId, size_t> running_;
};

// Launches of many tasks, a block each: as many as there are (static fusion), or
// batches, of which the next begins when the last one has ended (GeMTC).
class FusedRun : public SimulatedRun {
 public:
  FusedRun(const NarrowWorkload& workload, const SimulatedOptions& options,
           size_t most)
      : SimulatedRun(workload, options), most_(most) {}

 private:
  absl::Status RunTasks() override {
    ASSIGN_OR_RETURN(records_, memory_.Allocate(workload_.tasks().size() *
                                                    sizeof(NarrowRecord),
                                                "tasks"));
    size_t first = 0;
    while (!order_.all_begun()) {
      std::vector<NarrowRecord> records;
      Cycle arrived = 0;
      const Cycle begun = host_;
      while (records.size() < most_) {
        const size_t task = order_.Next();
        if (task == NarrowOrder::kNone) break;
        arrived = std::max(arrived, CopyInput(task));
        times_[task].begun = begun;
        records.push_back(RecordOf(task));
        batch_.push_back(task);
      }
      RETURN_IF_ERROR(Launch(records, first, arrived));
      first += records.size();
      RETURN_IF_ERROR(AwaitEnd());
    }
    return absl::OkStatus();
  }
  absl::Status Launch(const std::vector<NarrowRecord>& records, size_t first,
                      Cycle arrived) {
    const uint64_t at = records_ + first * sizeof(NarrowRecord);
    ASSIGN_OR_RETURN(
        const auto to,
        memory_.At(at, records.size() * sizeof(NarrowRecord), true));
    std::memcpy(to.data(), records.data(), to.size());
    const FusedLaunch fused = FusedLaunchOf(records);
    auto& program = programs_[fused.kernel];
    if (program == nullptr) {
      ASSIGN_OR_RETURN(program, LoadNarrowKernel(fused.kernel, &memory_));
    }
    sim::Launch launch{.program = program.get(),
                       .kernel = program->FindEntry(fused.kernel),
                       .grid = {static_cast<uint32_t>(records.size()), 1, 1},
                       .block = {fused.threads, 1, 1}};
    launch.parameters.resize(sizeof(at));
    std::memcpy(launch.parameters.data(), &at, sizeof(at));
    AdvanceTo(host_ + Call());
    ++launches_;
    return gpu_
        ->Submit(std::move(launch), {.not_before = std::max(host_, arrived)})
        .status();
  }
  // All tasks of a launch are known to have ended when it has.
  void GridEnded(const sim::timing::GridResult& grid) override {
    for (const size_t task : std::exchange(batch_, {})) {
      TaskEnded(task, grid.completed);
    }
    Stop();
  }

  const size_t most_;
  sim::DeviceAddress records_ = 0;
  std::map<std::string, std::shared_ptr<const sim::Program>> programs_;
  std::vector<size_t> batch_;
};

// Pagoda: tasks spawned into the table of a MasterKernel.
class PagodaRun : public SimulatedRun, private gpud::TaskLink {
 public:
  // `most`: tasks of a batch, as with FusedRun.
  PagodaRun(const NarrowWorkload& workload, const SimulatedOptions& options,
            gpud::TaskWrite write, size_t most)
      : SimulatedRun(workload, options),
        write_(write),
        most_(most),
        back_(options.config) {}

 private:
  absl::Status RunTasks() override {
    RETURN_IF_ERROR(Start());
    // The MasterKernel has been there for ever: its launch does not count.
    AdvanceTo(Cycles(20));
    const Cycle begun = host_;
    looks_ = true;
    Look();
    gpud::TaskSpawner spawner(
        this, columns_, gpud::kTaskMaxRows, gpud::kTaskMaxExecutors,
        {.write = write_,
         .empty_update_after = NsOf(options_.empty_update_us),
         .copy_back_after = NsOf(options_.copy_back_us),
         .longest_full = kLongestFull,
         .now = [this] { return static_cast<Nanoseconds>(HostNs()); },
         .pause = [this] { AdvanceTo(host_ + kWaitCycles); }});
    spawner_ = &spawner;
    while (!order_.all_begun() || !open_.empty() || !copied_.empty()) {
      RETURN_IF_ERROR(error_);
      RETURN_IF_ERROR(options_.may_go_on());
      RETURN_IF_ERROR(SpawnSome());
      RETURN_IF_ERROR(spawner.Advance());
    }
    // What the last look has not seen.
    AdvanceTo(host_ + 2 * kLook);
    for (Times& times : times_) {
      times.begun -= begun;
      times.ended -= begun;
    }
    const uint32_t leave = static_cast<uint32_t>(gpud::TaskCommand::kLeave);
    std::memcpy(command_.data(), &leave, sizeof(leave));
    looks_ = false;
    return AwaitEnd();
  }

  absl::Status Start() {
    constexpr char kName[] = "narrow_master";
    ASSIGN_OR_RETURN(program_, LoadNarrowKernel(kName, &memory_));
    const sim::ProgramFunction* const kernel = program_->FindEntry(kName);
    ASSIGN_OR_RETURN(columns_, MtbsFor(workload_, options_.config,
                                       kernel->static_shared_bytes));
    const uint64_t entries = uint64_t{columns_} * gpud::kTaskMaxRows;
    ASSIGN_OR_RETURN(
        const auto entries_at,
        memory_.Allocate(entries * sizeof(TaskEntry), "TaskTable"));
    ASSIGN_OR_RETURN(const auto bytes,
                     memory_.At(entries_at, entries * sizeof(TaskEntry), true));
    entries_ = {reinterpret_cast<TaskEntry*>(bytes.data()), entries};
    in_entry_.resize(entries, kNobody);
    ASSIGN_OR_RETURN(const auto command_at,
                     memory_.Allocate(sizeof(uint32_t), "command"));
    ASSIGN_OR_RETURN(command_, memory_.At(command_at, sizeof(uint32_t), true));
    const gpud::TaskTable table{
        .entries = reinterpret_cast<TaskEntry*>(entries_at),
        .command = reinterpret_cast<const uint32_t*>(command_at),
        .columns = columns_,
        .rows = gpud::kTaskMaxRows,
        .executors = gpud::kTaskMaxExecutors};
    sim::Launch launch{.program = program_.get(),
                       .kernel = kernel,
                       .grid = {columns_, 1, 1},
                       .block = {kMtbThreads, 1, 1}};
    launch.parameters.resize(sizeof(table));
    std::memcpy(launch.parameters.data(), &table, sizeof(table));
    ++launches_;
    return gpu_->Submit(std::move(launch), {.registers = kMtbRegisters})
        .status();
  }

  // A step of the host's thread.
  absl::Status SpawnSome() {
    if (in_batch_ < most_ && copied_.size() < kCopiesAhead) {
      const size_t task = order_.Next();
      if (task != NarrowOrder::kNone) {
        ++in_batch_;
        copied_.emplace_back(CopyInput(task), task);
        if (write_ == gpud::TaskWrite::kCopy) return Spawn();
      }
    }
    // An entry's copy follows its input's; a store must wait for that.
    while (!copied_.empty() && copied_.front().first <= host_) {
      RETURN_IF_ERROR(Spawn());
    }
    const bool may_begin = !order_.all_begun() && in_batch_ < most_;
    if (may_begin && order_.may_begin() && copied_.size() < kCopiesAhead) {
      return absl::OkStatus();
    }
    if (!copied_.empty()) {
      AdvanceTo(copied_.front().first);
      return absl::OkStatus();
    }
    return LookForEnds();
  }
  absl::Status Spawn() {
    const size_t task = copied_.front().second;
    copied_.pop_front();
    spawning_ = task;
    const NarrowRecord record = RecordOf(task);
    const simt::KernelInfo& kernel = *Task(task).kernel;
    ASSIGN_OR_RETURN(
        const auto id,
        spawner_->Spawn({.blocks = 1,
                         .threads = record.threads,
                         .shared_bytes = kernel.static_shared_bytes,
                         .sync = kernel.uses_barriers},
                        record.kernel, std::as_bytes(std::span(&record, 1))));
    open_.emplace_back(task, id);
    return absl::OkStatus();
  }
  // The host learns which tasks have ended: it copies the whole table back (the
  // lazy aggregate update, Pagoda 4.2.2).
  absl::Status LookForEnds() {
    AdvanceTo(host_ + kWaitCycles);
    const absl::Status all = spawner_->WaitAll(/*bound=*/0);
    if (!all.ok() && !absl::IsDeadlineExceeded(all)) return all;
    std::erase_if(open_, [&](const auto& one) {
      if (!all.ok()) {
        // It was looked at just now: nothing is copied.
        const auto ended = spawner_->Check(one.second);
        error_.Update(ended.status());
        if (!ended.ok() || !*ended) return false;
        spawner_->Forget(one.second);
      }
      order_.Ended(one.first);
      return true;
    });
    if (open_.empty()) in_batch_ = 0;
    return absl::OkStatus();
  }

  // The measurement: when entries became free.
  void Look() {
    std::erase_if(busy_, [&](uint32_t entry) {
      if (entries_[entry].state != TaskState::kFree) return false;
      times_[in_entry_[entry]].ended = gpu_->cycle();
      return true;
    });
    if (looks_) gpu_->CallAt(gpu_->cycle() + kLook, [this] { Look(); });
  }
  void Entered(uint32_t entry) {
    if (std::ranges::find(busy_, entry) != busy_.end()) {
      times_[in_entry_[entry]].ended = gpu_->cycle();
    } else {
      busy_.push_back(entry);
    }
  }

  // --- TaskLink

  absl::Status CopyEntry(uint32_t entry, const TaskEntry& from) override {
    const size_t task = spawning_;
    Arrive(sizeof(from), [this, entry, from, task] {
      Entered(entry);
      in_entry_[entry] = task;
      entries_[entry] = from;
    });
    return absl::OkStatus();
  }
  absl::Status CopyState(uint32_t entry, TaskState state) override {
    Arrive(sizeof(state),
           [this, entry, state] { entries_[entry].state = state; });
    return absl::OkStatus();
  }
  absl::Status StoreEntry(uint32_t entry, const TaskEntry& from) override {
    AdvanceTo(host_ + Store());
    Entered(entry);
    in_entry_[entry] = spawning_;
    entries_[entry] = from;
    return absl::OkStatus();
  }
  absl::Status CopyBack(uint32_t first, std::span<TaskState> states) override {
    AdvanceTo(host_ + Call());
    // Behind all entries that were copied before.
    AdvanceTo(arrived_);
    AdvanceTo(back_.Copy(host_, states.size() * sizeof(TaskEntry)));
    for (size_t i = 0; i < states.size(); ++i) {
      states[i] = entries_[first + i].state;
    }
    return absl::OkStatus();
  }
  void Arrive(uint64_t bytes, std::function<void()> store) {
    arrived_ = in_.Copy(host_, bytes);
    gpu_->CallAt(arrived_, std::move(store));
    AdvanceTo(host_ + Call());
  }

  void GridEnded(const sim::timing::GridResult&) override { Stop(); }
  uint64_t HostNs() const { return gpu_->NanosecondsAt(host_); }

  static constexpr size_t kNobody = ~size_t{0};
  const gpud::TaskWrite write_;
  const size_t most_;
  std::shared_ptr<const sim::Program> program_;
  uint32_t columns_ = 0;
  std::span<TaskEntry> entries_;
  std::span<std::byte> command_;
  gpud::TaskSpawner* spawner_ = nullptr;
  // Tasks whose input is on its way, with its arrival.
  std::deque<std::pair<Cycle, size_t>> copied_;
  size_t spawning_ = 0;
  size_t in_batch_ = 0;
  // Spawned, and not known to have ended.
  std::vector<std::pair<size_t, gpud::TaskId>> open_;
  std::vector<size_t> in_entry_;  // the task
  std::vector<uint32_t> busy_;    // entries
  bool looks_ = false;
  // Copies of the table back, which are small beside outputs and go between them.
  Link back_;
  Cycle arrived_ = 0;  // the last entry's copy
};

}  // namespace

const std::vector<std::string>& SimulatedPaths() {
  static const auto* const paths = new std::vector<std::string>{
      "baseline",    "edge",   "pagoda",  "pagoda_copy",
      "pagoda_ring", "fusion", "batches", "pagoda_batches"};
  return *paths;
}

absl::StatusOr<sim::timing::Config> LoadSimulatedGpu(
    const std::string& timing) {
  return sim::timing::LoadConfig(timing);
}

absl::StatusOr<NarrowOutcome> RunSimulated(const NarrowWorkload& workload,
                                           std::string_view path,
                                           const SimulatedOptions& options) {
  constexpr size_t kAll = ~size_t{0};
  using gpud::TaskWrite;
  std::unique_ptr<SimulatedRun> run;
  if (path == "baseline" || path == "edge") {
    run = std::make_unique<LaunchRun>(workload, options, path == "edge");
  } else if (path == "fusion") {
    run = std::make_unique<FusedRun>(workload, options, kAll);
  } else if (path == "batches") {
    run = std::make_unique<FusedRun>(workload, options, options.batch);
  } else if (path == "pagoda") {
    run = std::make_unique<PagodaRun>(workload, options, TaskWrite::kMapped,
                                      kAll);
  } else if (path == "pagoda_copy") {
    run =
        std::make_unique<PagodaRun>(workload, options, TaskWrite::kCopy, kAll);
  } else if (path == "pagoda_ring") {
    run = MakeRingRun(workload, options);
  } else if (path == "pagoda_batches") {
    run = std::make_unique<PagodaRun>(workload, options, TaskWrite::kMapped,
                                      options.batch);
  } else {
    return absl::NotFoundError(
        fmt::format("a simulated GPU has no path '{}': it has {}", path,
                    fmt::join(SimulatedPaths(), ", ")));
  }
  return run->Execute();
}

}  // namespace carillon::bench

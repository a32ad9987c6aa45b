#include "tools/bench/narrow/simulated_ring.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/status.h"
#include "gpu_daemon/backends/cuda/pagoda/pagoda_ring.h"
#include "gpu_daemon/backends/cuda/pagoda/task_table.h"
#include "gpu_daemon/event/argument_steps.h"
#include "shm/layout.h"
#include "tools/bench/narrow/narrow_tasks.h"

namespace carillon::bench {
namespace {

using gpud::PagodaRing;

// As events.cc has it: what a device keeps in flight of one event kernel.
constexpr uint32_t kSlots = 1024;
constexpr uint32_t kGeneration = 1;
constexpr uint32_t kEntryBytes =
    (sizeof(shm::EsqEntryHeader) + sizeof(NarrowRecord) + 63) / 64 * 64;
static_assert(sizeof(NarrowRecord) <= gpud::kTaskMaxArgs);

// Memory of the GPU as both see it.
template <class T>
struct Piece {
  uint64_t at = 0;
  std::span<T> items;

  T* gpu() const { return reinterpret_cast<T*>(at); }
};

class RingRun : public SimulatedRun {
 public:
  using SimulatedRun::SimulatedRun;

 private:
  // Event kernels differ by their kernel and its threads, as on a gpud.
  using Key = std::pair<uint32_t, uint32_t>;
  struct Ring {
    Piece<std::byte> esq;
    Piece<shm::EcqEntry> ecq;
    Piece<uint64_t> ended;
    uint64_t rung = 0;
    std::deque<bool> in_flight;  // the oldest first; whether it has ended
    uint64_t consumed = 0;       // all of them, in order
  };
  struct Flight {
    size_t ring;
    uint64_t sequence;
    size_t task;
  };

  absl::Status RunTasks() override {
    RETURN_IF_ERROR(Start());
    // The MasterKernel has been there for ever: its launch does not count.
    AdvanceTo(Cycles(20));
    while (report_.items[0].up == 0) {
      RETURN_IF_ERROR(error_);
      RETURN_IF_ERROR(options_.may_go_on());
      AdvanceTo(host_ + kWaitCycles);
    }
    const Cycle begun = host_;
    looks_ = true;
    Look();
    while (!order_.all_ended()) {
      RETURN_IF_ERROR(error_);
      RETURN_IF_ERROR(options_.may_go_on());
      RingSome();
    }
    for (Times& times : times_) {
      times.begun -= begun;
      times.ended -= begun;
    }
    looks_ = false;
    control_.items[0].command = gpud::kPagodaLeave;
    RETURN_IF_ERROR(AwaitEnd());
    return CheckLeft();
  }

  template <class T>
  absl::StatusOr<Piece<T>> Take(uint64_t count, const char* name) {
    ASSIGN_OR_RETURN(const auto at, memory_.Allocate(count * sizeof(T), name));
    ASSIGN_OR_RETURN(const auto bytes, memory_.At(at, count * sizeof(T), true));
    std::ranges::fill(bytes, std::byte{0});
    return Piece<T>{at, {reinterpret_cast<T*>(bytes.data()), count}};
  }

  absl::Status Start() {
    constexpr char kName[] = "narrow_ring_master";
    ASSIGN_OR_RETURN(program_, LoadNarrowKernel(kName, &memory_));
    const sim::ProgramFunction* const kernel = program_->FindEntry(kName);
    ASSIGN_OR_RETURN(
        const uint32_t columns,
        MtbsFor(workload_, options_.config, kernel->static_shared_bytes));
    RETURN_IF_ERROR(MakeRings());
    const uint64_t entries = uint64_t{columns} * gpud::kTaskMaxRows;
    ASSIGN_OR_RETURN(const auto tasks,
                     Take<gpud::TaskEntry>(entries, "TaskTable"));
    ASSIGN_OR_RETURN(const auto records,
                     Take<gpud::RingTask>(entries, "RingTasks"));
    ASSIGN_OR_RETURN(words_, Take<gpud::PagodaWords>(1, "PagodaWords"));
    ASSIGN_OR_RETURN(control_, Take<gpud::PagodaControl>(1, "PagodaControl"));
    ASSIGN_OR_RETURN(report_, Take<gpud::PagodaReport>(1, "PagodaReport"));
    const gpud::PagodaRingTable table{
        .tasks = {.entries = tasks.gpu(),
                  .command = nullptr,
                  .columns = columns,
                  .rows = gpud::kTaskMaxRows,
                  .executors = gpud::kTaskMaxExecutors},
        .records = records.gpu(),
        .rings = gpu_rings_.gpu(),
        .words = words_.gpu(),
        .control = control_.gpu(),
        .report = report_.gpu(),
        .ring_count = static_cast<uint32_t>(rings_.size())};
    // Half of a read's time each way.
    const auto way_ns =
        static_cast<uint32_t>(std::llround(options_.host_read_us * 500));
    sim::Launch launch{.program = program_.get(),
                       .kernel = kernel,
                       .grid = {columns, 1, 1},
                       .block = {kMtbThreads, 1, 1}};
    launch.parameters.resize(sizeof(table) + sizeof(way_ns));
    std::memcpy(launch.parameters.data(), &table, sizeof(table));
    std::memcpy(&launch.parameters[sizeof(table)], &way_ns, sizeof(way_ns));
    ++launches_;
    return gpu_->Submit(std::move(launch), {.registers = kMtbRegisters})
        .status();
  }

  absl::Status MakeRings() {
    std::map<Key, size_t> found;
    std::vector<size_t> first;  // a task of each
    for (size_t task = 0; task < workload_.tasks().size(); ++task) {
      const NarrowRecord record = RecordOf(task);
      const auto [at, is_new] =
          found.try_emplace(Key{record.kernel, record.threads}, first.size());
      if (is_new) first.push_back(task);
      ring_of_.push_back(at->second);
    }
    if (first.size() > gpud::kPagodaMaxRings) {
      return absl::ResourceExhaustedError(fmt::format(
          "{} has {} event kernels, of a kernel and its threads each: "
          "scheduler warps look at {}",
          workload_.name(), first.size(), gpud::kPagodaMaxRings));
    }
    entries_ = static_cast<uint32_t>(
        std::bit_ceil(std::min<size_t>(kSlots, workload_.tasks().size())));
    ASSIGN_OR_RETURN(gpu_rings_, Take<PagodaRing>(first.size(), "rings"));
    ASSIGN_OR_RETURN(doorbells_, Take<uint32_t>(first.size(), "doorbells"));
    rings_.resize(first.size());
    for (size_t i = 0; i < first.size(); ++i) {
      RETURN_IF_ERROR(MakeRing(i, first[i]));
    }
    return absl::OkStatus();
  }
  absl::Status MakeRing(size_t index, size_t task) {
    Ring& ring = rings_[index];
    ASSIGN_OR_RETURN(ring.esq,
                     Take<std::byte>(uint64_t{entries_} * kEntryBytes, "ESQ"));
    ASSIGN_OR_RETURN(ring.ecq, Take<shm::EcqEntry>(entries_, "ECQ"));
    ASSIGN_OR_RETURN(ring.ended, Take<uint64_t>(entries_, "ended"));
    for (uint32_t slot = 0; slot < entries_; ++slot) {
      ring.ended.items[slot] = gpud::FirstSlotEnded(1, slot, entries_);
    }
    // All of a record is the device's to write.
    const std::vector<std::byte> image(sizeof(NarrowRecord));
    std::vector<gpud::WritableValue> values;
    for (uint32_t at = 0; at < sizeof(NarrowRecord); at += sizeof(uint64_t)) {
      values.push_back(
          {.args_offset = at, .entry_offset = at, .bytes = sizeof(uint64_t)});
    }
    const auto steps =
        gpud::PackArgumentSteps(image, {}, values, {}, sizeof(NarrowRecord));
    ASSIGN_OR_RETURN(const auto arguments,
                     Take<std::byte>(steps.size(), "arguments"));
    std::ranges::copy(steps, arguments.items.begin());
    const simt::KernelInfo& kernel = *Task(task).kernel;
    PagodaRing& gpu = gpu_rings_.items[index];
    gpu.entry.esq = ring.esq.gpu();
    gpu.entry.ecq = ring.ecq.gpu();
    gpu.entry.ended = ring.ended.gpu();
    gpu.entry.arguments =
        reinterpret_cast<const gpud::ArgumentSteps*>(arguments.at);
    gpu.entry.entries = entries_;
    gpu.entry.entry_bytes = kEntryBytes;
    gpu.entry.parameter_offset = sizeof(shm::EsqEntryHeader);
    gpu.entry.parameter_bytes = sizeof(NarrowRecord);
    gpu.entry.generation = kGeneration;
    gpu.entry.launch_slots = entries_;
    gpu.doorbell = doorbells_.gpu() + index;
    gpu.kernel = RecordOf(task).kernel;
    gpu.static_shared_bytes = kernel.static_shared_bytes;
    gpu.sync = kernel.uses_barriers ? 1 : 0;
    gpu.grid = {1, 1, 1};
    gpu.block = {Task(task).threads, 1, 1};
    gpu.shared_bytes = kernel.static_shared_bytes;
    gpu.head = 1;
    return absl::OkStatus();
  }

  // A step of the device's thread.
  void RingSome() {
    if (copied_.size() < kCopiesAhead) {
      const size_t task = order_.Next();
      if (task != NarrowOrder::kNone) {
        copied_.emplace_back(CopyInput(task), task);
      }
    }
    while (!copied_.empty() && copied_.front().first <= host_ &&
           HasSlot(copied_.front().second)) {
      RingFor(copied_.front().second);
      copied_.pop_front();
    }
    if (order_.may_begin() && copied_.size() < kCopiesAhead) return;
    if (!copied_.empty() && copied_.front().first > host_) {
      AdvanceTo(copied_.front().first);
      return;
    }
    AdvanceTo(host_ + kWaitCycles);
    TakeEnds();
  }
  bool HasSlot(size_t task) const {
    const Ring& ring = rings_[ring_of_[task]];
    return ring.rung - ring.consumed < entries_;
  }
  void RingFor(size_t task) {
    AdvanceTo(host_ + Store());
    const size_t index = ring_of_[task];
    Ring& ring = rings_[index];
    const uint64_t sequence = ++ring.rung;
    const NarrowRecord record = RecordOf(task);
    const shm::EsqEntryHeader header{.sequence = sequence,
                                     .generation = kGeneration};
    std::byte* const entry =
        &ring.esq.items[(sequence & (entries_ - 1)) * kEntryBytes];
    std::memcpy(entry, &header, sizeof(header));
    std::memcpy(entry + sizeof(header), &record, sizeof(record));
    doorbells_.items[index] = static_cast<uint32_t>(sequence);
    ring.in_flight.push_back(false);
    open_.push_back({index, sequence, task});
  }
  // What the device's queues show it.
  void TakeEnds() {
    for (const Flight& flight : std::exchange(ended_, {})) {
      Ring& ring = rings_[flight.ring];
      ring.in_flight[flight.sequence - ring.consumed - 1] = true;
      order_.Ended(flight.task);
      for (; !ring.in_flight.empty() && ring.in_flight.front();
           ++ring.consumed) {
        ring.in_flight.pop_front();
      }
    }
  }

  // The measurement, and what a device finds when it polls: completions.
  void Look() {
    std::erase_if(open_, [&](const Flight& flight) {
      const shm::EcqEntry& end =
          rings_[flight.ring].ecq.items[flight.sequence & (entries_ - 1)];
      if (end.sequence != flight.sequence) return false;
      times_[flight.task].ended = gpu_->cycle();
      if (end.state != shm::EventState::kDone) {
        error_.Update(absl::InternalError(fmt::format(
            "{}: task {} ended in state {}, status {}", workload_.name(),
            flight.task, static_cast<uint32_t>(end.state), end.status)));
      }
      ended_.push_back(flight);
      return true;
    });
    if (looks_) gpu_->CallAt(gpu_->cycle() + kLook, [this] { Look(); });
  }
  // Each task was taken once and has ended once, as the GPU counts them.
  absl::Status CheckLeft() const {
    for (size_t i = 0; i < rings_.size(); ++i) {
      const PagodaRing& gpu = gpu_rings_.items[i];
      const uint64_t rung = rings_[i].rung;
      if (gpu.head == rung + 1 && gpu.totals.done == rung &&
          gpu.totals.failed == 0) {
        continue;
      }
      return absl::InternalError(fmt::format(
          "{}: of {} tasks of a ring {} were taken, {} done and {} failed",
          workload_.name(), rung, gpu.head - 1, gpu.totals.done,
          gpu.totals.failed));
    }
    const uint64_t begun = words_.items[0].tasks;
    if (begun == workload_.tasks().size()) return absl::OkStatus();
    return absl::InternalError(fmt::format("{}: of {} tasks {} were begun",
                                           workload_.name(),
                                           workload_.tasks().size(), begun));
  }

  void GridEnded(const sim::timing::GridResult&) override { Stop(); }

  std::shared_ptr<const sim::Program> program_;
  std::vector<size_t> ring_of_;  // a task's
  std::vector<Ring> rings_;
  uint32_t entries_ = 0;  // of each
  Piece<PagodaRing> gpu_rings_;
  Piece<uint32_t> doorbells_;
  Piece<gpud::PagodaWords> words_;
  Piece<gpud::PagodaControl> control_;
  Piece<gpud::PagodaReport> report_;
  // Tasks whose input is on its way, with its arrival.
  std::deque<std::pair<Cycle, size_t>> copied_;
  std::vector<Flight> open_;   // rung, and not seen to have ended
  std::vector<Flight> ended_;  // that the device has not taken yet
  bool looks_ = false;
};

}  // namespace

std::unique_ptr<SimulatedRun> MakeRingRun(const NarrowWorkload& workload,
                                          const SimulatedOptions& options) {
  return std::make_unique<RingRun>(workload, options);
}

}  // namespace carillon::bench

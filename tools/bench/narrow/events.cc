#include "tools/bench/narrow/events.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "tools/bench/narrow/order.h"

namespace carillon::bench {
namespace {

// Events of a kernel in flight, at most.
constexpr uint32_t kSlots = 1024;
// None ends for so long: something is broken.
constexpr Nanoseconds kPatienceNs = 30'000'000'000;
constexpr std::chrono::milliseconds kGlance{100};
// Copies between the host's memory and the GPU's.
constexpr std::string_view kCopyKernel = "echo";
constexpr uint32_t kCopyThreads = 128;  // as a task has

}  // namespace

absl::StatusOr<std::unique_ptr<NarrowEvents>> NarrowEvents::Open(
    edge::Device* device, const NarrowWorkload* workload) {
  std::unique_ptr<NarrowEvents> events(new NarrowEvents(device, workload));
  for (const auto& [buffer, place] :
       {std::pair(&events->input_, edge::Place::kInput),
        std::pair(&events->data_, edge::Place::kGpuMemory),
        std::pair(&events->output_, edge::Place::kOutput)}) {
    ASSIGN_OR_RETURN(*buffer, device->AllocateBuffer(place, workload->bytes()));
    events->buffers_.push_back(*buffer);
  }
  std::ranges::copy(workload->initial(), events->input_.bytes.begin());
  return events;
}

NarrowEvents::~NarrowEvents() {
  for (const edge::Buffer& buffer : buffers_) {
    device_.FreeBuffer(buffer).IgnoreError();
  }
}

// One run. Unregisters its event kernels when destroyed.
class NarrowEvents::Runner {
 public:
  Runner(NarrowEvents& events, const NarrowEventsRun& run)
      : events_(events),
        device_(events.device_),
        workload_(events.workload_),
        run_(run),
        most_(run.batch != 0 ? run.batch : ~uint32_t{0}),
        slots_(std::bit_ceil(std::min<uint32_t>(
            kSlots, static_cast<uint32_t>(workload_.tasks().size())))),
        order_(workload_),
        times_(workload_.tasks().size()) {}
  ~Runner() {
    for (auto& [key, queue] : queues_) {
      if (queue.queue == nullptr) continue;
      edge::edgeUnregisterEvent(device_, queue.queue).IgnoreError();
    }
  }

  absl::StatusOr<NarrowOutcome> Run(
      const std::function<absl::Status()>& may_go_on) {
    for (size_t task = 0; task < times_.size(); ++task) {
      for (std::optional<Step> step = FirstOf(task); step.has_value();
           step = After(*step)) {
        RETURN_IF_ERROR(Register(*step));
      }
    }
    const Nanoseconds begun = NowNs();
    const auto now = [&] { return static_cast<uint64_t>(NowNs() - begun); };
    Nanoseconds moved = NowNs();
    while (!all_ended()) {
      bool moves = Ring(now);
      ASSIGN_OR_RETURN(const bool ended, TakeEnds(now));
      moves = moves || ended;
      if (moves) {
        moved = NowNs();
        continue;
      }
      RETURN_IF_ERROR(may_go_on());
      RETURN_IF_ERROR(device_.status());
      if (NowNs() - moved > kPatienceNs) {
        return absl::DeadlineExceededError(
            fmt::format("no task of {} ends", workload_.name()));
      }
      device_.WaitForCompletion([&] { return AnyEnd(); }, kGlance);
    }
    return NarrowOutcome{.tasks = std::move(times_)};
  }

 private:
  enum class Part { kIn, kTask, kOut };
  // A task has up to three events, one after another.
  struct Step {
    size_t task;
    Part part;
  };
  struct Flight {
    shm::Sequence sequence;
    Step step;
    bool ended = false;
  };
  struct Queue {
    edge::EventQueue* queue = nullptr;
    std::vector<uint32_t> places;  // of the arguments in an entry
    std::deque<Flight> in_flight;  // the oldest first, those that ended, too
  };
  // Event kernels differ by the buffers that they are registered with, too.
  using Key = std::tuple<std::string_view, uint32_t, Part>;

  const NarrowUnit& TaskOf(const Step& step) const {
    return workload_.tasks()[step.task];
  }
  Step FirstOf(size_t task) const {
    const bool copies = run_.copies && workload_.tasks()[task].in.bytes != 0;
    return {task, copies ? Part::kIn : Part::kTask};
  }
  std::optional<Step> After(const Step& step) const {
    if (step.part == Part::kIn) return Step{step.task, Part::kTask};
    const bool copies = run_.copies && TaskOf(step).out.bytes != 0;
    if (step.part == Part::kTask && copies) return Step{step.task, Part::kOut};
    return std::nullopt;
  }
  bool all_ended() const { return order_.all_ended() && open_ == 0; }

  Key KeyOf(const Step& step) const {
    if (step.part != Part::kTask) return {kCopyKernel, kCopyThreads, step.part};
    return {TaskOf(step).kernel->name, TaskOf(step).threads, step.part};
  }

  absl::Status Register(const Step& step) {
    Queue& queue = queues_[KeyOf(step)];
    if (queue.queue != nullptr) return absl::OkStatus();
    const auto& [kernel, threads, part] = KeyOf(step);
    edge::EventSpec spec{.kernel = std::string(kernel),
                         .block = {threads, 1, 1},
                         .max_in_flight = slots_,
                         .launch_path = std::string(run_.path)};
    std::vector<std::string> names;
    if (part == Part::kTask) {
      for (const NarrowArgument& argument : TaskOf(step).arguments) {
        names.emplace_back(argument.name);
        spec.parameters.push_back(
            argument.is_buffer
                ? edge::WritableBuffer(names.back(), events_.data_)
                : edge::Writable(names.back()));
      }
    } else {
      const bool in = part == Part::kIn;
      names = {"in", "out"};
      spec.parameters = {
          edge::WritableBuffer("in", in ? events_.input_ : events_.data_),
          edge::WritableBuffer("out", in ? events_.data_ : events_.output_)};
    }
    ASSIGN_OR_RETURN(queue.queue, edge::edgeRegisterEvent(device_, spec));
    for (const std::string& name : names) {
      ASSIGN_OR_RETURN(const auto place, queue.queue->ParameterOffset(name));
      queue.places.push_back(place);
    }
    return absl::OkStatus();
  }

  // What is next: the steps of tasks that have begun before new tasks.
  std::optional<Step> Next() {
    if (!ready_.empty()) {
      const Step step = ready_.front();
      ready_.pop_front();
      return step;
    }
    if (in_batch_ == most_) return std::nullopt;
    const size_t task = order_.Next();
    if (task == NarrowOrder::kNone) return std::nullopt;
    ++in_batch_;
    return FirstOf(task);
  }

  // True: something was rung.
  template <class Now>
  bool Ring(Now now) {
    bool rung = false;
    while (true) {
      if (!next_) next_ = Next();
      if (!next_) break;
      const NarrowUnit& task = TaskOf(*next_);
      Queue& queue = queues_.at(KeyOf(*next_));
      if (queue.queue->free_slots() == 0) break;
      if (next_->part == Part::kTask) {
        for (size_t i = 0; i < task.arguments.size(); ++i) {
          const NarrowArgument& argument = task.arguments[i];
          if (argument.is_buffer) {
            queue.queue->Set(queue.places[i],
                             shm::BufferRef{argument.offset, argument.bytes});
          } else {
            queue.queue->Set(queue.places[i], argument.bits);
          }
        }
      } else {
        // Everything lies at the same place in each memory.
        const NarrowRange& range =
            next_->part == Part::kIn ? task.in : task.out;
        for (const uint32_t place : queue.places) {
          queue.queue->Set(place, shm::BufferRef{range.offset, range.bytes});
        }
      }
      const bool first = next_->part == FirstOf(next_->task).part;
      if (first) {
        times_[next_->task].begun_ns = now();
        ++open_;
      }
      queue.in_flight.push_back({queue.queue->RingDoorbell(), *next_});
      next_.reset();
      rung = true;
    }
    return rung;
  }

  bool AnyEnd() {
    for (auto& [key, queue] : queues_) {
      for (const Flight& flight : queue.in_flight) {
        if (!flight.ended && queue.queue->EndOf(flight.sequence)) return true;
      }
    }
    return false;
  }

  template <class Now>
  absl::StatusOr<bool> TakeEnds(Now now) {
    bool any = false;
    for (auto& [key, queue] : queues_) {
      for (Flight& flight : queue.in_flight) {
        if (flight.ended) continue;
        const auto end = queue.queue->EndOf(flight.sequence);
        if (!end) continue;
        const Step& step = flight.step;
        if (end->state != edge::EventState::kDone) {
          return absl::InternalError(
              fmt::format("{}: task {} ({}) ended in state {} with status {}",
                          workload_.name(), step.task, std::get<0>(key),
                          static_cast<int>(end->state), end->status));
        }
        flight.ended = true;
        any = true;
        // Those that need it read GPU memory, and wait for no copy.
        if (step.part == Part::kTask) order_.Ended(step.task);
        if (const auto after = After(step)) {
          ready_.push_back(*after);
        } else {
          times_[step.task].ended_ns = now();
          --open_;
        }
      }
      // Slots become free in their order.
      while (!queue.in_flight.empty() && queue.in_flight.front().ended) {
        queue.queue->Free();
        queue.in_flight.pop_front();
      }
    }
    if (open_ == 0) in_batch_ = 0;
    return any;
  }

  NarrowEvents& events_;
  edge::Device& device_;
  const NarrowWorkload& workload_;
  const NarrowEventsRun run_;
  const uint32_t most_;
  const uint32_t slots_;
  NarrowOrder order_;
  std::deque<Step> ready_;    // of tasks that have begun
  std::optional<Step> next_;  // taken, and not rung
  uint32_t in_batch_ = 0;
  size_t open_ = 0;  // tasks that have begun and not ended
  std::map<Key, Queue> queues_;
  std::vector<NarrowTimes> times_;
};

absl::Status NarrowEvents::Copy(const edge::Buffer& from,
                                const edge::Buffer& to) {
  const absl::Status status =
      device_.Copy({.from = from, .to = to, .bytes = workload_.bytes()})
          .status();
  // An InvalidArgument of this must not look like a path that refuses.
  return status.ok() ? status
                     : absl::InternalError(fmt::format(
                           "cannot copy the data: {}", status.message()));
}

absl::Status NarrowEvents::HideInputs() {
  for (const NarrowUnit& task : workload_.tasks()) {
    std::ranges::fill(input_.bytes.subspan(task.in.offset, task.in.bytes),
                      std::byte{0});
  }
  RETURN_IF_ERROR(Copy(input_, data_));
  RETURN_IF_ERROR(Copy(data_, output_));
  for (const NarrowUnit& task : workload_.tasks()) {
    const auto in = workload_.initial().subspan(task.in.offset, task.in.bytes);
    std::ranges::copy(
        in, input_.bytes.begin() + static_cast<ptrdiff_t>(task.in.offset));
  }
  return absl::OkStatus();
}

absl::StatusOr<NarrowOutcome> NarrowEvents::Run(
    const NarrowEventsRun& run,
    const std::function<absl::Status()>& may_go_on) {
  RETURN_IF_ERROR(run.copies ? HideInputs() : Copy(input_, data_));
  ASSIGN_OR_RETURN(auto outcome, Runner(*this, run).Run(may_go_on));
  if (!run.copies) RETURN_IF_ERROR(Copy(data_, output_));
  RETURN_IF_ERROR(workload_.Check(output_.bytes));
  return outcome;
}

}  // namespace carillon::bench

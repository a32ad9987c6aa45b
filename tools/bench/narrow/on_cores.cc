#include "tools/bench/narrow/on_cores.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstring>
#include <deque>
#include <iterator>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/status.h"

namespace carillon::bench {
namespace {

// Events of a kernel in flight, at most.
constexpr uint32_t kSlots = 1024;
// None ends for so long: something is broken.
constexpr Nanoseconds kPatienceNs = 30'000'000'000;
constexpr std::chrono::milliseconds kGlance{100};

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
  Runner(NarrowEvents& events, std::string_view path, uint32_t batch)
      : device_(events.device_),
        data_(events.data_),
        workload_(events.workload_),
        path_(path),
        most_(batch != 0 ? batch : ~uint32_t{0}),
        slots_(std::bit_ceil(std::min<uint32_t>(
            kSlots, static_cast<uint32_t>(workload_.tasks().size())))),
        order_(workload_),
        times_(workload_.tasks().size()) {}
  ~Runner() {
    for (auto& [name, queue] : queues_) {
      if (queue.queue == nullptr) continue;
      edge::edgeUnregisterEvent(device_, queue.queue).IgnoreError();
    }
  }

  absl::StatusOr<NarrowOutcome> Run(
      const std::function<absl::Status()>& may_go_on) {
    for (const NarrowUnit& task : workload_.tasks()) {
      RETURN_IF_ERROR(Register(task));
    }
    const Nanoseconds begun = NowNs();
    const auto now = [&] { return static_cast<uint64_t>(NowNs() - begun); };
    Nanoseconds moved = NowNs();
    while (!order_.all_ended()) {
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
  struct Flight {
    shm::Sequence sequence;
    size_t task;
    bool ended = false;
  };
  struct Queue {
    edge::EventQueue* queue = nullptr;
    std::vector<uint32_t> places;  // of the arguments in an entry
    std::deque<Flight> in_flight;  // the oldest first, those that ended, too
  };

  Queue& QueueOf(const NarrowUnit& task) {
    return queues_[{task.kernel->name, task.threads}];
  }

  absl::Status Register(const NarrowUnit& task) {
    Queue& queue = QueueOf(task);
    if (queue.queue != nullptr) return absl::OkStatus();
    edge::EventSpec spec{.kernel = std::string(task.kernel->name),
                         .block = {task.threads, 1, 1},
                         .max_in_flight = slots_,
                         .launch_path = path_};
    for (const NarrowArgument& argument : task.arguments) {
      const std::string name(argument.name);
      spec.parameters.push_back(argument.is_buffer
                                    ? edge::WritableBuffer(name, data_)
                                    : edge::Writable(name));
    }
    ASSIGN_OR_RETURN(queue.queue, edge::edgeRegisterEvent(device_, spec));
    for (const NarrowArgument& argument : task.arguments) {
      ASSIGN_OR_RETURN(const auto place,
                       queue.queue->ParameterOffset(argument.name));
      queue.places.push_back(place);
    }
    return absl::OkStatus();
  }

  // True: something was rung.
  template <class Now>
  bool Ring(Now now) {
    bool rung = false;
    while (in_batch_ < most_) {
      if (next_ == NarrowOrder::kNone) next_ = order_.Next();
      if (next_ == NarrowOrder::kNone) break;
      const NarrowUnit& task = workload_.tasks()[next_];
      Queue& queue = QueueOf(task);
      if (queue.queue->free_slots() == 0) break;
      for (size_t i = 0; i < task.arguments.size(); ++i) {
        const NarrowArgument& argument = task.arguments[i];
        if (argument.is_buffer) {
          queue.queue->Set(queue.places[i],
                           shm::BufferRef{argument.offset, argument.bytes});
        } else {
          queue.queue->Set(queue.places[i], argument.bits);
        }
      }
      times_[next_].begun_ns = now();
      queue.in_flight.push_back({queue.queue->RingDoorbell(), next_});
      ++in_batch_;
      ++open_;
      next_ = NarrowOrder::kNone;
      rung = true;
    }
    return rung;
  }

  bool AnyEnd() {
    for (auto& [name, queue] : queues_) {
      for (const Flight& flight : queue.in_flight) {
        if (!flight.ended && queue.queue->EndOf(flight.sequence)) return true;
      }
    }
    return false;
  }

  template <class Now>
  absl::StatusOr<bool> TakeEnds(Now now) {
    bool any = false;
    for (auto& [name, queue] : queues_) {
      for (Flight& flight : queue.in_flight) {
        if (flight.ended) continue;
        const auto end = queue.queue->EndOf(flight.sequence);
        if (!end) continue;
        if (end->state != edge::EventState::kDone) {
          return absl::InternalError(
              fmt::format("{}: task {} ({}) ended in state {} with status {}",
                          workload_.name(), flight.task, name.first,
                          static_cast<int>(end->state), end->status));
        }
        flight.ended = true;
        times_[flight.task].ended_ns = now();
        order_.Ended(flight.task);
        --open_;
        any = true;
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

  edge::Device& device_;
  const edge::Buffer& data_;
  const NarrowWorkload& workload_;
  const std::string path_;
  const uint32_t most_;
  const uint32_t slots_;
  NarrowOrder order_;
  size_t next_ = NarrowOrder::kNone;  // taken from order_, and not rung
  uint32_t in_batch_ = 0;
  size_t open_ = 0;  // rung, and not ended
  std::map<std::pair<std::string_view, uint32_t>, Queue> queues_;
  std::vector<NarrowTimes> times_;
};

absl::StatusOr<NarrowOutcome> NarrowEvents::Run(
    std::string_view path, uint32_t batch,
    const std::function<absl::Status()>& may_go_on) {
  // An InvalidArgument of this must not look like a path that refuses.
  const auto copy = [&](const edge::Buffer& from, const edge::Buffer& to) {
    const absl::Status status =
        device_.Copy({.from = from, .to = to, .bytes = workload_.bytes()})
            .status();
    return status.ok() ? status
                       : absl::InternalError(fmt::format(
                             "cannot copy the data: {}", status.message()));
  };
  RETURN_IF_ERROR(copy(input_, data_));
  ASSIGN_OR_RETURN(auto outcome, Runner(*this, path, batch).Run(may_go_on));
  RETURN_IF_ERROR(copy(data_, output_));
  RETURN_IF_ERROR(workload_.Check(output_.bytes));
  return outcome;
}

absl::StatusOr<NarrowOutcome> RunByThreads(const NarrowWorkload& workload,
                                           uint32_t threads) {
  std::vector<std::byte> memory(workload.initial().begin(),
                                workload.initial().end());
  NarrowOrder order(workload);
  NarrowOutcome outcome;
  outcome.tasks.resize(workload.tasks().size());
  absl::Status error;
  std::mutex mutex;  // guards the three above
  std::condition_variable changed;
  const Nanoseconds begun = NowNs();
  const auto work = [&] {
    std::vector<std::byte> shared;
    std::unique_lock lock(mutex);
    while (true) {
      changed.wait(lock, [&] {
        return order.may_begin() || order.all_begun() || !error.ok();
      });
      if (order.all_begun() || !error.ok()) return;
      const size_t index = order.Next();
      const NarrowUnit& task = workload.tasks()[index];
      lock.unlock();
      const auto arguments = NarrowWorkload::ArgumentsOf(
          task, reinterpret_cast<uint64_t>(memory.data()));
      shared.resize(task.kernel->static_shared_bytes);
      uint32_t status = 0;
      task.kernel->run_block(
          {.grid = {1, 1, 1},
           .block = {task.threads, 1, 1},
           .block_index = {0, 0, 0},
           .shared_bytes = static_cast<uint32_t>(shared.size()),
           .shared = shared.data(),
           .fail_status = &status},
          arguments.data());
      lock.lock();
      outcome.tasks[index].ended_ns = NowNs() - begun;
      if (status != 0) {
        error.Update(absl::InternalError(
            fmt::format("{}: task {} ({}) failed with status {}",
                        workload.name(), index, task.kernel->name, status)));
      }
      order.Ended(index);
      changed.notify_all();
    }
  };
  std::vector<std::thread> pool;
  for (uint32_t i = 0; i < threads; ++i) pool.emplace_back(work);
  for (std::thread& thread : pool) thread.join();
  RETURN_IF_ERROR(error);
  RETURN_IF_ERROR(workload.Check(memory));
  // A task is there for a thread to take as soon as it may begin.
  std::map<std::pair<uint32_t, uint32_t>, uint64_t> ends;  // by group and phase
  for (size_t i = 0; i < outcome.tasks.size(); ++i) {
    const NarrowUnit& task = workload.tasks()[i];
    uint64_t& end = ends[{task.group, task.phase}];
    end = std::max(end, outcome.tasks[i].ended_ns);
  }
  for (size_t i = 0; i < outcome.tasks.size(); ++i) {
    const NarrowUnit& task = workload.tasks()[i];
    const auto own = ends.find({task.group, task.phase});
    if (own == ends.begin()) continue;
    const auto before = std::prev(own);
    if (before->first.first != task.group) continue;
    outcome.tasks[i].begun_ns = before->second;
  }
  return outcome;
}

}  // namespace carillon::bench

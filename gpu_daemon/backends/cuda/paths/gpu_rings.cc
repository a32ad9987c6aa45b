#include "gpu_daemon/backends/cuda/paths/gpu_rings.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "fmt/format.h"
#include "gpu_daemon/backends/cuda/paths/host_words.h"
#include "gpu_daemon/event/checked_entry.h"
#include "shm/load_shared.h"

namespace carillon::gpud::cuda {

using shm::EventState;
using shm::EventStatus;
using shm::Sequence;

bool Sleeps(const DeviceMemory& device) {
  return shm::LoadShared(
             device.submission().submission_control().completion_armed,
             std::memory_order_seq_cst) != 0;
}

void WakeForCompletion(const EventKernel& event) {
  if (Sleeps(event.memory()) &&
      IsCompleted(event, event.ring().LoadConsumed() + 1)) {
    event.memory().bell().Signal();
  }
}

void RingScheduled(const EventKernel& event) {
  // Writers: the device, and gpud here. Never back: the device may have rung
  // later events, and it stores what it counts. seq_cst, as the device's; the
  // device wrote the entries before it called.
  std::atomic_ref<uint32_t> doorbell(
      event.memory().submission().doorbells()[event.event_id()]);
  const uint32_t scheduled =
      event.cursor().first_ring() + static_cast<uint32_t>(event.scheduled());
  uint32_t shown = doorbell.load();
  while (static_cast<int32_t>(scheduled - shown) > 0 &&
         !doorbell.compare_exchange_weak(shown, scheduled)) {
  }
}

bool IsCompleted(const EventKernel& event, uint64_t sequence) {
  return LoadWord(event.ring().completion_slot(Sequence(sequence))->sequence) ==
         sequence;
}

std::string DoorbellViolation(const EventKernel& event, uint64_t taken) {
  const uint64_t known = std::max(event.gpu_ledger().LastEnded(), taken);
  const auto ahead =
      static_cast<int64_t>(event.gpu_ledger().RungOf(known) - known);
  return fmt::format(
      "doorbell of event {} ('{}') {}", event.event_id(),
      event.kmd().kernel->name,
      ahead < 0 ? "went back" : "jumped beyond the ring's free slots");
}

void Publish(const simt::EventTotals& from, simt::EventTotals& to) {
  // Writer: the launch path; readers: any thread, for the figures. Relaxed:
  // each word stands for itself.
  const auto put = [](uint64_t& word, uint64_t value) {
    std::atomic_ref(word).store(value, std::memory_order_relaxed);
  };
  put(to.launched, from.launched);
  put(to.refused, from.refused);
  put(to.done, from.done);
  put(to.failed, from.failed);
}

uint64_t TakeUnfinishedOf(const std::shared_ptr<EventKernel>& event,
                          simt::EventTotals& totals, simt::EventTotals& shown,
                          uint64_t overdue, const GpuModel& model,
                          LostWork& lost) {
  const uint32_t entries = event->ring().layout().entries;
  // Read once, for the device may change it.
  const uint64_t ended = event->gpu_ledger().LastEnded();
  const uint64_t shown_rung = event->gpu_ledger().RungOf(ended);
  const bool in_ring = shown_rung >= ended && shown_rung - ended <= entries;
  const uint64_t rung = in_ring ? shown_rung : ended;
  const uint64_t taken = LoadWord(shown.launched) + LoadWord(shown.refused);
  const auto complete = [event, &totals, &shown](uint64_t sequence,
                                                 EventState state,
                                                 uint32_t status) {
    // The GPU may have begun it, or an earlier lap's is still there.
    event->ring().life(Sequence(sequence)) = {};
    event->ring().Complete(Sequence(sequence), state, status);
    if (state != EventState::kDone) {
      ++totals.failed;
      --totals.done;
      Publish(totals, shown);
    }
    event->memory().bell().Signal();
  };
  const auto run_of = [&event](uint64_t sequence) {
    return RunId{.device = event->memory().name(),
                 .owner = event->memory().owner(),
                 .event_id = event->event_id(),
                 .sequence = sequence};
  };
  // Counted as done until they turn out otherwise. Which the GPU has ended, nobody
  // knows: what was rung is no evidence.
  event->ledger().LoseCount();
  totals.launched = rung - totals.refused;
  totals.done = rung - totals.failed;
  for (uint64_t s = rung > entries ? rung - entries + 1 : 1; s <= rung; ++s) {
    if (IsCompleted(*event, s)) continue;
    const auto end = [complete, s](EventState state, uint32_t end_status) {
      complete(s, state, end_status);
    };
    const RunId run = run_of(s);
    if (s == overdue) {
      lost.unfinished.push_back({.kmd = event->kmd(),
                                 .args = {},
                                 .end = end,
                                 .run = run,
                                 .overdue = true,
                                 .timed_out = true});
      continue;
    }
    CheckedEntry entry;
    const EventStatus status = CheckEntry(*event, Sequence(s), 0, model, entry);
    if (status != EventStatus::kOk) {
      ++totals.refused;
      --totals.launched;
      // The GPU may have taken another entry than the one that is there now.
      lost.unfinished.push_back({.kmd = event->kmd(),
                                 .args = {},
                                 .end = end,
                                 .run = run,
                                 .ends_as = Unfinished::End{
                                     .state = EventState::kFailed,
                                     .status = static_cast<uint32_t>(status)}});
      continue;
    }
    lost.unfinished.push_back(
        {.kmd = entry.kmd,
         .args = {entry.args.data(),
                  entry.args.data() + entry.kmd.kernel->args_size},
         .end = end,
         .run = run});
  }
  // What the GPU has taken, and the doorbell does not show: nothing completes it,
  // but it may have faulted.
  const auto add_hidden = [&](RunId run, bool is_overdue) {
    lost.unfinished.push_back(
        {.kmd = event->kmd(),
         .args = {},
         .end = [](EventState, uint32_t) {},
         .run = std::move(run),
         .overdue = is_overdue,
         .ends_as =
             Unfinished::End{.state = EventState::kAborted, .status = 0}});
  };
  const uint64_t last = std::min(taken, ended + entries);
  for (uint64_t s = rung + 1; s <= last; ++s) {
    if (!IsCompleted(*event, s)) add_hidden(run_of(s), s == overdue);
  }
  // Nobody knows which, so that nobody else seems to be all that ran.
  if (!in_ring && rung >= last) {
    add_hidden({.device = event->memory().name()}, false);
  }
  Publish(totals, shown);
  return rung;
}

}  // namespace carillon::gpud::cuda

#include "gpu_daemon/backends/cuda/fake/fake_epilogue.h"

#include <atomic>

#include "base/clock.h"
#include "kernels/simt/completion_status.h"

namespace carillon::gpud::cuda {
namespace {

// The 16 bytes that a GPU stores at once: here the sequence goes last.
void StoreCompletion(shm::EcqEntry& entry, uint32_t status, uint64_t sequence) {
  const auto state = status == static_cast<uint32_t>(shm::EventStatus::kOk)
                         ? shm::EventState::kDone
                         : shm::EventState::kFailed;
  std::atomic_ref(entry.state).store(state, std::memory_order_relaxed);
  std::atomic_ref(entry.status).store(status, std::memory_order_relaxed);
  // Reader: the device, which finds state and status once it finds this.
  std::atomic_ref(entry.sequence).store(sequence, std::memory_order_release);
}

}  // namespace

void CompleteEvent(const simt::EventFrame& launched) {
  // As kernels do: with `slot_ended` the frame is its launcher's again.
  const simt::EventFrame frame = launched;
  std::atomic_ref fail_status(frame.scratch->fail_status);
  // The blocks ran in this thread.
  const uint32_t status =
      simt::CompletionStatus(fail_status.load(std::memory_order_relaxed));
  // Before the completion, after which the scratch may be launched with again.
  fail_status.store(0, std::memory_order_relaxed);
  std::atomic_ref(frame.scratch->blocks_ended)
      .store(0, std::memory_order_relaxed);
  if (frame.slot_ended != nullptr) {
    // Reader: the event warp that takes the slot's next event.
    std::atomic_ref(*frame.slot_ended)
        .store(frame.sequence, std::memory_order_release);
  }
  if (frame.launcher_ended != nullptr) {
    // Reader: the dispatcher that launched it.
    std::atomic_ref(*frame.launcher_ended)
        .fetch_add(1, std::memory_order_release);
  }
  if (frame.life != nullptr) {
    std::atomic_ref(frame.life->finished_ns)
        .store(NowNs() + static_cast<uint64_t>(frame.clock_offset_ns),
               std::memory_order_relaxed);
  }
  simt::EventTotals* const totals = frame.totals;
  StoreCompletion(*frame.ecq, status, frame.sequence);
  if (totals != nullptr) {
    // Writers: the kernels of this EKT entry; readers: whoever mirrors them.
    std::atomic_ref(status == 0 ? totals->done : totals->failed)
        .fetch_add(1, std::memory_order_relaxed);
  }
}

}  // namespace carillon::gpud::cuda

// The GPU's end of a ring: a doorbell counter to watch, one head into the ESQ,
// and one store per completion.
#ifndef CARILLON_SHM_GPU_RING_H_
#define CARILLON_SHM_GPU_RING_H_

#include <atomic>
#include <cstring>

#include "shm/aperture.h"
#include "shm/layout.h"
#include "shm/ring_layout.h"
#include "shm/types.h"

namespace carillon::shm {

// Consumer of ESQ entries and producer of ECQ entries. Entry reads belong to
// one thread; Complete() may run on any thread, once per sequence. Everything
// in the submission aperture may change at any time: an entry is copied once,
// and only the copy is used.
class GpuRing {
 public:
  GpuRing(const RingLayout& layout, const Aperture* submission,
          const Aperture* completion)
      : layout_(layout),
        doorbell_(&submission->doorbells()[layout.doorbell.value()]),
        consumed_(&submission->consumed()[layout.doorbell.value()]),
        esq_(submission->At(layout.esq_offset)),
        ecq_(reinterpret_cast<EcqEntry*>(completion->At(layout.ecq_offset))),
        lives_(
            reinterpret_cast<EventLife*>(completion->At(layout.life_offset))) {}

  const RingLayout& layout() const { return layout_; }

  // How often the doorbell was rung, modulo 2^32. Writer: the device. seq_cst:
  // acquires the entries, and is the sleeper's second look (waiting.h).
  uint32_t LoadDoorbell() const {
    return std::atomic_ref<uint32_t>(*doorbell_)
        .load(std::memory_order_seq_cst);
  }
  // The last event that the device says it has consumed; for display only.
  uint64_t LoadConsumed() const {
    return std::atomic_ref<uint64_t>(*consumed_)
        .load(std::memory_order_relaxed);
  }

  // Copies an entry's first `bytes` (at most entry_bytes) to private memory.
  void CopyEntry(Sequence sequence, void* to, uint32_t bytes) const {
    std::memcpy(to,
                esq_ + uint64_t{layout_.SlotOf(sequence)} * layout_.entry_bytes,
                bytes);
    // Keeps the compiler from reading the shared entry a second time in place
    // of the copy.
    asm volatile("" ::: "memory");
  }
  // Tells the core that an entry will be copied soon.
  void Prefetch(Sequence sequence) const {
    __builtin_prefetch(esq_ + uint64_t{layout_.SlotOf(sequence)} *
                                  layout_.entry_bytes);
  }

  // Ends an event: outputs, then state and status, then the sequence. After it,
  // the device may reuse the slot and its buffers. The caller signals a
  // CompletionBell afterwards, once for any number of completions.
  void Complete(Sequence sequence, EventState state, uint32_t status) const {
    EcqEntry& slot = ecq_[layout_.SlotOf(sequence)];
    std::atomic_ref<EventState>(slot.state)
        .store(state, std::memory_order_relaxed);
    std::atomic_ref<uint32_t>(slot.status)
        .store(status, std::memory_order_relaxed);
    // Reader: the device. Release; the Dekker pair with completion_armed is
    // closed by the fence in CompletionBell::Signal.
    std::atomic_ref<uint64_t>(slot.sequence)
        .store(sequence.value(), std::memory_order_release);
  }

  // To be written before Complete() of the same sequence.
  EventLife& life(Sequence sequence) const {
    return lives_[layout_.SlotOf(sequence)];
  }

  // A copy that is torn if the slot's next event ends meanwhile, which its caller
  // must find out. Volatile: one load each. To the sanitizer it is a race.
  __attribute__((no_sanitize("thread"))) EventLife CopyLife(
      Sequence sequence) const {
    const volatile EventLife& from = lives_[layout_.SlotOf(sequence)];
    return {.rung_ns = from.rung_ns,
            .seen_ns = from.seen_ns,
            .queued_ns = from.queued_ns,
            .dispatched_ns = from.dispatched_ns,
            .finished_ns = from.finished_ns,
            .reserved = {}};
  }

  // The sequence that the completion slot holds now, to resume after a crash.
  uint64_t LoadCompletedSequence(uint32_t slot) const {
    return std::atomic_ref<uint64_t>(
               ecq_[slot & (layout_.entries - 1)].sequence)
        .load(std::memory_order_acquire);
  }
  // Where Complete() stores, for a kernel that completes its own event: all 16
  // bytes by one store, or the sequence last.
  EcqEntry* completion_slot(Sequence sequence) const {
    return &ecq_[layout_.SlotOf(sequence)];
  }

 private:
  const RingLayout layout_;
  uint32_t* const doorbell_;
  uint64_t* const consumed_;
  const std::byte* const esq_;
  EcqEntry* const ecq_;
  EventLife* const lives_;
};

}  // namespace carillon::shm

#endif  // CARILLON_SHM_GPU_RING_H_

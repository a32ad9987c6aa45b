// The device's end of a ring (EDGE Fig. 8c): check free, write arguments, mark
// busy, ring, poll completion, free.
#ifndef CARILLON_SHM_DEVICE_RING_H_
#define CARILLON_SHM_DEVICE_RING_H_

#include <atomic>
#include <cstring>
#include <optional>
#include <span>

#include "base/clock.h"
#include "shm/aperture.h"
#include "shm/layout.h"
#include "shm/load_shared.h"
#include "shm/ring_layout.h"
#include "shm/types.h"
#include "shm/waiting.h"

namespace carillon::shm {

struct Completion {
  Sequence sequence;
  EventState state = EventState::kNone;
  uint32_t status = 0;
};

// Single producer of ESQ entries and single consumer of ECQ entries. Not thread
// safe: one thread at a time, which is also what makes a kill harmless. Head,
// tail and geometry are private; shared memory only ever holds copies for the
// other side.
class DeviceRing {
 public:
  // The layout must have passed CheckRingLayout; the apertures must outlive the
  // ring. A doorbell index may have served an earlier ring: its counter goes on
  // from where that one left it (gpud does the same at registration), while
  // sequences start again at 1.
  DeviceRing(const RingLayout& layout, const Aperture* submission,
             const Aperture* completion)
      : layout_(layout),
        submission_(submission),
        completion_(completion),
        doorbell_count_(std::atomic_ref<uint32_t>(doorbell())
                            .load(std::memory_order_relaxed)) {
    std::atomic_ref<uint64_t>(submission_->consumed()[layout_.doorbell.value()])
        .store(0, std::memory_order_relaxed);
  }

  // Goes on in the ring of that layout, which another gpud has made in
  // apertures that have taken these ones' place (Aperture::TakePlaceOf()): the
  // same but for the generation. Two steps. Before the ring is registered, its
  // doorbell must show what was consumed; after it, what was rung and not
  // consumed is rung again, what was committed only stays so. Requires that
  // nothing is left to Poll().
  void PrepareToResume() {
    std::atomic_ref<uint32_t>(doorbell())
        .store(doorbell_count_ - in_flight(), std::memory_order_relaxed);
    StoreConsumed();
  }
  void Resume(const RingLayout& layout) {
    layout_ = layout;
    const uint32_t generation = layout.generation.value();
    for (Sequence s = tail_ + 1; s.value() <= head_.value(); ++s) {
      std::memcpy(entry(s) + offsetof(EsqEntryHeader, generation), &generation,
                  sizeof(generation));
    }
    if (in_flight() > 0) StoreDoorbell();
  }

  const RingLayout& layout() const { return layout_; }
  // Entries that can be prepared now.
  uint32_t free_slots() const {
    return layout_.entries - static_cast<uint32_t>(head_ - tail_);
  }
  // Events rung and not yet consumed.
  uint32_t in_flight() const { return static_cast<uint32_t>(rung_ - tail_); }
  Sequence last_committed() const { return head_; }
  Sequence last_rung() const { return rung_; }
  Sequence last_consumed() const { return tail_; }

  // Parameters of the entry that the next Commit() hands over; written in
  // place. What the slot held the last time round is still there. Requires
  // free_slots() > 0.
  std::byte* parameters() const {
    return entry(head_ + 1) + layout_.parameter_offset;
  }
  // Slot index of that entry: per-slot buffers are found by it.
  uint32_t next_slot() const { return layout_.SlotOf(head_ + 1); }

  // Ends an entry; nobody uses it before RingDoorbell(), but a GPU may read it
  // already. Requires free_slots() > 0.
  Sequence Commit(const KmdOverride* kmd = nullptr, Nanoseconds rung_ns = 0) {
    ++head_;
    std::byte* at = entry(head_);
    const EsqEntryHeader header{.sequence = head_.value(),
                                .generation = layout_.generation.value(),
                                .flags = kmd != nullptr ? kEsqKmdOverride : 0,
                                .rung_ns = rung_ns,
                                .reserved = 0};
    // All but the sequence, which says that the rest is there.
    constexpr size_t kRest = sizeof(header.sequence);
    std::memcpy(at + kRest, reinterpret_cast<const std::byte*>(&header) + kRest,
                sizeof(header) - kRest);
    if (kmd != nullptr) std::memcpy(at + sizeof(header), kmd, sizeof(*kmd));
    if (layout_.stamped()) StoreSequence(at + kEntryStampOffset);
    StoreSequence(at);
    return head_;
  }

  // Rings the doorbell once for every entry committed since the last call, and
  // wakes gpud if it sleeps. One store, whatever the number of entries.
  void RingDoorbell() {
    if (head_ == rung_) return;
    doorbell_count_ += static_cast<uint32_t>(head_ - rung_);
    rung_ = head_;
    StoreDoorbell();
  }

  // Faults on purpose. As RingDoorbell(), but the doorbell does not show it:
  // what was committed is launched with the next ring.
  void LoseRing() {
    doorbell_count_ += static_cast<uint32_t>(head_ - rung_);
    rung_ = head_;
  }
  // As RingDoorbell(), and `more` rings that no entry belongs to.
  void RingWith(uint32_t more) {
    LoseRing();
    doorbell_count_ += more;
    StoreDoorbell();
  }
  // The entry that was committed last.
  std::span<std::byte> last_entry() const {
    return {entry(head_), layout_.entry_bytes};
  }

  // As RingDoorbell(), when the launch has travelled over the control plane
  // (edgeScheduleEvent, up to last_committed()): gpud launches up to the later
  // of the two, and knows this one already.
  void TakeScheduled() {
    doorbell_count_ += static_cast<uint32_t>(head_ - rung_);
    rung_ = head_;
    std::atomic_ref<uint32_t>(doorbell())
        .store(doorbell_count_, std::memory_order_release);
  }

  // The oldest event not yet consumed, if it has ended.
  std::optional<Completion> Poll() const {
    if (tail_ == rung_) return std::nullopt;
    return EndOf(tail_ + 1);
  }
  // The end of any event that was committed and not consumed, if it has one.
  std::optional<Completion> EndOf(Sequence wanted) const {
    auto* slot =
        reinterpret_cast<EcqEntry*>(completion_->At(layout_.ecq_offset)) +
        layout_.SlotOf(wanted);
    // Writer: gpud or a kernel's epilogue. Acquire: state, status and the
    // output buffers were written before the sequence.
    if (std::atomic_ref<uint64_t>(slot->sequence)
            .load(std::memory_order_seq_cst) != wanted.value()) {
      return std::nullopt;
    }
    return Completion{wanted,
                      std::atomic_ref<EventState>(slot->state)
                          .load(std::memory_order_relaxed),
                      std::atomic_ref<uint32_t>(slot->status)
                          .load(std::memory_order_relaxed)};
  }

  // The life of the event that Poll() just returned; zeros when tracing is off.
  EventLife life() const {
    EventLife life;
    std::memcpy(&life,
                completion_->At(layout_.life_offset) +
                    layout_.SlotOf(tail_ + 1) * sizeof(EventLife),
                sizeof(life));
    return life;
  }

  // Frees the event that Poll() returned; its output buffers may be overwritten
  // from now on.
  void Consume() {
    ++tail_;
    StoreConsumed();
  }

 private:
  // Writer: this thread; reader: a GPU that polls entries. Release: what the
  // entry says was written before.
  void StoreSequence(std::byte* at) {
    std::atomic_ref<uint64_t>(*reinterpret_cast<uint64_t*>(at))
        .store(head_.value(), std::memory_order_release);
  }
  void StoreDoorbell() {
    // Writer: this thread. Reader: gpud's front-end. seq_cst: releases the
    // entries, and is the first half of the Dekker pair with gpud_armed
    // (waiting.h).
    std::atomic_ref<uint32_t>(doorbell())
        .store(doorbell_count_, std::memory_order_seq_cst);
    if (LoadShared(completion_->completion_control().gpud_armed,
                   std::memory_order_seq_cst) != 0) {
      BumpAndWake(&submission_->submission_control().summary);
    }
  }
  void StoreConsumed() {
    std::atomic_ref<uint64_t>(submission_->consumed()[layout_.doorbell.value()])
        .store(tail_.value(), std::memory_order_release);
  }
  uint32_t& doorbell() const {
    return submission_->doorbells()[layout_.doorbell.value()];
  }
  std::byte* entry(Sequence sequence) const {
    return submission_->At(layout_.esq_offset) +
           uint64_t{layout_.SlotOf(sequence)} * layout_.entry_bytes;
  }

  RingLayout layout_;
  const Aperture* const submission_;
  const Aperture* const completion_;
  Sequence head_;  // last entry committed
  Sequence rung_;  // last entry rung
  Sequence tail_;  // last event consumed
  // The doorbell's value; only this ring writes it.
  uint32_t doorbell_count_;
};

}  // namespace carillon::shm

#endif  // CARILLON_SHM_DEVICE_RING_H_

// GNoM's receive buffers, GRXBs, as GNoM-KM and GNoM-ND share them (thesis
// 4.1.2; kernels/memcached/gnom_wire.h draws one).
//
//   free        nobody's: neither the network nor the GPU may touch it
//   registered  the network may fill it, in the order of registration; when it
//               has a packet it waits for a batch
//   busy        in a batch that the GPU works on
//
//   free --Register()--> registered --Fill()--Submit()--> busy --Recycle()--> free
//
// Buffers are registered in the order in which they lie in memory, and recycled
// in the order of their batches (an ECQ is in order). So a batch is consecutive
// buffers, which a first one and a count name.
#ifndef CARILLON_DEVICES_NIC_GRXB_RING_H_
#define CARILLON_DEVICES_NIC_GRXB_RING_H_

#include <algorithm>
#include <cstdint>

namespace carillon::nic {

using GrxbIndex = uint32_t;

enum class GrxbState : uint8_t { kFree, kRegistered, kBusy };

// Consecutive buffers; behind the last one of the ring comes the first.
struct GrxbBatch {
  GrxbIndex first = 0;
  uint32_t count = 0;
};

// Not thread safe.
class GrxbRing {
 public:
  // Requires buffers >= 1. All are free.
  explicit GrxbRing(uint32_t buffers) : size_(buffers) {}

  uint32_t size() const { return size_; }
  uint32_t free() const {
    return size_ - static_cast<uint32_t>(registered_ - recycled_);
  }
  // Registered ones without a packet.
  uint32_t empty() const {
    return static_cast<uint32_t>(registered_ - filled_);
  }
  // Registered ones with a packet: they wait for a batch.
  uint32_t filled() const {
    return static_cast<uint32_t>(filled_ - submitted_);
  }
  uint32_t busy() const {
    return static_cast<uint32_t>(submitted_ - recycled_);
  }

  // Registers free buffers until `wanted` are empty, or none is free.
  void Register(uint32_t wanted) {
    const uint32_t more = wanted > empty() ? wanted - empty() : 0;
    registered_ += std::min(more, free());
  }
  // The buffer of the next packet but `ahead`. Requires ahead < empty().
  GrxbIndex Next(uint32_t ahead) const { return IndexOf(filled_ + ahead); }
  // The next `count` buffers have packets. Requires count <= empty().
  void Fill(uint32_t count) { filled_ += count; }
  // Makes a batch of the oldest buffers with packets. Requires count <= filled().
  GrxbBatch Submit(uint32_t count) {
    const GrxbBatch batch = {IndexOf(submitted_), count};
    submitted_ += count;
    return batch;
  }
  // The GPU has done with the batch. Returns false, and changes nothing, if the
  // oldest busy buffers are not these.
  bool Recycle(const GrxbBatch& batch) {
    if (batch.count > busy() || batch.first != IndexOf(recycled_)) return false;
    recycled_ += batch.count;
    return true;
  }

  // Requires index < size().
  GrxbState StateOf(GrxbIndex index) const {
    const uint32_t behind =
        (index + size_ - IndexOf(recycled_)) % size_;  // the oldest busy one
    if (behind < submitted_ - recycled_) return GrxbState::kBusy;
    if (behind < registered_ - recycled_) return GrxbState::kRegistered;
    return GrxbState::kFree;
  }

 private:
  GrxbIndex IndexOf(uint64_t position) const {
    return static_cast<GrxbIndex>(position % size_);
  }

  const uint32_t size_;
  // How many buffers have ever got so far: recycled_ <= submitted_ <= filled_ <=
  // registered_ <= recycled_ + size_.
  uint64_t recycled_ = 0;
  uint64_t submitted_ = 0;
  uint64_t filled_ = 0;
  uint64_t registered_ = 0;
};

}  // namespace carillon::nic

#endif  // CARILLON_DEVICES_NIC_GRXB_RING_H_

#include "gpu_daemon/backends/cuda/paths/slice_sizes.h"

#include <algorithm>

namespace carillon::gpud::cuda {
namespace {

// Shapes whose times are known; then they are measured anew.
constexpr size_t kMostShapes = 256;

}  // namespace

uint64_t SliceSizes::WaveOf(const BlockCost& cost) const {
  return std::max<uint64_t>(SmOccupancy(gpu_).Capacity(cost), 1);
}

uint64_t SliceSizes::First(const KernelMetadata& kmd, uint64_t wave,
                           std::optional<WholeReason> why_whole) {
  const uint64_t blocks = Next(kmd, wave);
  MutexLock lock(mutex_);
  if (waits_.contains(kmd.kernel)) why_whole = WholeReason::kWaits;
  if (kmd.blocks() <= blocks) why_whole = WholeReason::kOneSlice;
  if (why_whole) {
    ++whole_[static_cast<size_t>(*why_whole)];
    return 0;
  }
  ++figures_.sliced;
  return blocks;
}

void SliceSizes::NoteWaits(const simt::KernelInfo& kernel) {
  MutexLock lock(mutex_);
  waits_.insert(&kernel);
}

SliceFigures SliceSizes::figures() const {
  MutexLock lock(mutex_);
  SliceFigures figures = figures_;
  for (size_t i = 0; i < kWholeReasons; ++i) {
    if (whole_[i] == 0) continue;
    figures.whole.push_back({NameOf(static_cast<WholeReason>(i)), whole_[i]});
  }
  return figures;
}

uint64_t SliceSizes::Next(const KernelMetadata& kmd, uint64_t wave) const {
  MutexLock lock(mutex_);
  const auto known = wave_ns_.find(KeyOf(kmd));
  if (known == wave_ns_.end()) return wave;
  return wave * WavesNow(known->second);
}

// So that a slice and the rest of the one before it keep the bound, if a wave can.
uint64_t SliceSizes::WavesNow(Nanoseconds wave_ns) const {
  if (bound_ns_ == 0) return 1;
  const Nanoseconds most_ns =
      std::max(bound_ns_ / 2, bound_ns_ - std::min(kAheadNs, bound_ns_));
  return std::max<uint64_t>(most_ns / wave_ns, 1);
}

std::optional<Nanoseconds> SliceSizes::QueueAfter(const KernelMetadata& kmd,
                                                  uint64_t wave,
                                                  uint64_t blocks) const {
  MutexLock lock(mutex_);
  const auto known = wave_ns_.find(KeyOf(kmd));
  if (known == wave_ns_.end()) return std::nullopt;
  const Nanoseconds wave_ns = known->second;
  const Nanoseconds runs_ns = (blocks + wave - 1) / wave * wave_ns;
  const Nanoseconds ahead_ns = std::min(kAheadNs, runs_ns);
  if (bound_ns_ != 0 && ahead_ns + WavesNow(wave_ns) * wave_ns > bound_ns_) {
    return std::nullopt;
  }
  return runs_ns - ahead_ns;
}

void SliceSizes::Ran(const KernelMetadata& kmd, uint64_t wave, uint64_t blocks,
                     std::optional<Nanoseconds> took_ns) {
  MutexLock lock(mutex_);
  ++figures_.slices;
  if (!took_ns) return;
  const uint64_t waves = (blocks + wave - 1) / wave;
  const Nanoseconds each = std::max<Nanoseconds>(*took_ns / waves, 1);
  if (bound_ns_ != 0 && *took_ns > bound_ns_) ++figures_.over_bound;
  if (wave_ns_.size() >= kMostShapes) wave_ns_.clear();
  const auto [known, fresh] = wave_ns_.emplace(KeyOf(kmd), each);
  if (!fresh) known->second = (3 * known->second + each) / 4;
}

}  // namespace carillon::gpud::cuda

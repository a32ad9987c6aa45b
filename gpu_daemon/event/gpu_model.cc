#include "gpu_daemon/event/gpu_model.h"

#include <algorithm>

namespace carillon::gpud {

BlockCost CostOf(uint32_t threads, uint32_t registers_per_thread,
                 uint32_t shared_bytes) {
  const uint32_t warps = (threads + 31) / 32;
  return {.threads = warps * 32,
          .registers = warps * 32 * registers_per_thread,
          .shared_bytes = shared_bytes};
}

SmOccupancy::SmOccupancy(const GpuModel& model)
    : model_(model), sms_(model.sms) {}

bool SmOccupancy::HasRoom(const Sm& sm, const BlockCost& cost) const {
  return sm.blocks < model_.blocks_per_sm &&
         cost.threads <= model_.threads_per_sm - sm.threads &&
         cost.registers <= model_.registers_per_sm - sm.registers &&
         cost.shared_bytes <= model_.shared_bytes_per_sm - sm.shared_bytes;
}

bool SmOccupancy::Fits(const BlockCost& cost) const {
  return HasRoom(Sm{}, cost);
}

uint64_t SmOccupancy::Capacity(const BlockCost& cost) const {
  uint32_t most = model_.blocks_per_sm;
  const auto limit = [&most](uint32_t has, uint32_t needs) {
    if (needs != 0) most = std::min(most, has / needs);
  };
  limit(model_.threads_per_sm, cost.threads);
  limit(model_.registers_per_sm, cost.registers);
  limit(model_.shared_bytes_per_sm, cost.shared_bytes);
  return uint64_t{most} * model_.sms;
}

std::optional<uint32_t> SmOccupancy::Place(const BlockCost& cost,
                                           const SmRange& sms) {
  std::optional<uint32_t> best;
  const auto end = std::min(sms.end, static_cast<uint32_t>(sms_.size()));
  for (uint32_t i = sms.first; i < end; ++i) {
    if (HasRoom(sms_[i], cost) &&
        (!best || sms_[i].blocks < sms_[*best].blocks))
      best = i;
  }
  if (best) {
    Sm& sm = sms_[*best];
    ++sm.blocks;
    sm.threads += cost.threads;
    sm.registers += cost.registers;
    sm.shared_bytes += cost.shared_bytes;
    ++resident_;
  }
  return best;
}

std::vector<uint32_t> SmOccupancy::blocks_of_sms() const {
  std::vector<uint32_t> blocks;
  for (const Sm& sm : sms_) blocks.push_back(sm.blocks);
  return blocks;
}

void SmOccupancy::Release(uint32_t index, const BlockCost& cost) {
  Sm& sm = sms_[index];
  --sm.blocks;
  sm.threads -= cost.threads;
  sm.registers -= cost.registers;
  sm.shared_bytes -= cost.shared_bytes;
  --resident_;
}

}  // namespace carillon::gpud

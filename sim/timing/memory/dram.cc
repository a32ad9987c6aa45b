#include "sim/timing/memory/dram.h"

#include <algorithm>

namespace carillon::sim::timing {

DramChannel::DramChannel(const Config& config, MemoryCounters* counters)
    : counters_(counters),
      window_limit_(config.dram.window),
      row_bytes_(config.dram.row_bytes),
      bytes_per_cycle_(config.dram.bytes_per_cycle),
      cycle_(TicksOfClock(config, config.clock.dram_mhz, 1)),
      column_(TicksOfClock(config, config.clock.dram_mhz, config.dram.column)),
      activate_(
          TicksOfClock(config, config.clock.dram_mhz, config.dram.activate)),
      precharge_(
          TicksOfClock(config, config.clock.dram_mhz, config.dram.precharge)),
      active_(TicksOfClock(config, config.clock.dram_mhz, config.dram.active)),
      ahead_(column_ + activate_ + precharge_),
      latency_(config.dram.latency),
      banks_(config.dram.banks) {
  window_.reserve(window_limit_ + 1);
}

size_t DramChannel::Choose() {
  for (size_t i = 0; i < window_.size(); ++i) {
    const uint64_t address = window_[i].address;
    if (BankOf(address).row == address / row_bytes_) return i;
  }
  return 0;
}

Ticks DramChannel::Serve(const DramRequest& request, Ticks now) {
  Bank& bank = BankOf(request.address);
  const uint64_t row = request.address / row_bytes_;
  Ticks column = std::max(now, bank.ready);
  if (bank.row == row) {
    ++counters_->dram_row_hits;
  } else {
    ++counters_->dram_row_misses;
    Ticks activate = column;
    if (bank.row != ~uint64_t{0}) {
      activate = std::max(column, bank.activated + active_) + precharge_;
    }
    bank.row = row;
    bank.activated = activate;
    column = activate + activate_;
  }
  const Ticks burst =
      (request.bytes + bytes_per_cycle_ - 1) / bytes_per_cycle_ * cycle_;
  const Ticks data = std::max(column + column_, bus_free_);
  bus_free_ = data + burst;
  bank.ready = bus_free_ - column_;
  ++(request.demand.write ? counters_->dram_writes : counters_->dram_reads);
  counters_->dram_bytes += request.bytes;
  return bus_free_;
}

}  // namespace carillon::sim::timing

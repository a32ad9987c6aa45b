#include "sim/timing/memory/dram.h"

#include <algorithm>

namespace carillon::sim::timing {
namespace {

Ticks DramTicks(const Config& config, uint64_t cycles) {
  return TicksOfClock(config, config.clock.dram_mhz, cycles);
}

}  // namespace

DramChannel::DramChannel(const Config& config, MemoryCounters* counters)
    : counters_(counters),
      row_bytes_(config.dram.row_bytes),
      bank_(config.dram.banks),
      burst_bytes_(config.dram.burst_bytes),
      burst_(DramTicks(config, config.dram.burst_bytes) /
             config.dram.bytes_per_cycle),
      column_{DramTicks(config, config.dram.column),
              DramTicks(config, config.dram.write_column)},
      activate_(DramTicks(config, config.dram.activate)),
      precharge_(DramTicks(config, config.dram.precharge)),
      active_(DramTicks(config, config.dram.active)),
      activate_gap_(DramTicks(config, config.dram.activate_gap)),
      four_activates_(DramTicks(config, config.dram.four_activates)),
      write_recovery_(DramTicks(config, config.dram.write_recovery)),
      write_to_read_(DramTicks(config, config.dram.write_to_read)),
      read_to_write_(DramTicks(config, config.dram.read_to_write)),
      read_to_precharge_(DramTicks(config, config.dram.read_to_precharge)),
      refresh_interval_(DramTicks(config, config.dram.refresh_interval)),
      refresh_(DramTicks(config, config.dram.refresh)),
      ahead_(column_[0] + activate_ + precharge_),
      latency_(config.dram.latency),
      row_hits_(config.dram.row_hits),
      write_high_(config.dram.write_high),
      write_low_(config.dram.write_low),
      write_turn_(config.dram.write_turn),
      banks_(config.dram.banks),
      next_refresh_(refresh_interval_) {
  queues_[0].limit = config.dram.read_queue;
  queues_[1].limit = config.dram.write_queue;
}

void DramChannel::ChooseDirection() {
  const bool reads = !queues_[0].by_age.empty();
  const size_t writes = queues_[1].by_age.size();
  if (writing_) {
    writing_ =
        reads ? writes != 0 && turn_ < write_turn_ : writes >= write_low_;
  } else {
    writing_ = writes >= (reads ? write_high_ : write_low_);
    turn_ = 0;
  }
}

size_t DramChannel::Choose(const Queue& queue) const {
  if (queue.passed == row_hits_) return 0;
  size_t chosen = 0;
  Ticks first = ~Ticks{0};
  for (size_t i = 0; i < queue.by_age.size(); ++i) {
    const Bank& bank = banks_[queue.by_age[i].bank];
    if (bank.row == queue.by_age[i].row) return i;
    if (bank.opens < first) {
      first = bank.opens;
      chosen = i;
    }
  }
  return chosen;
}

DramChannel::Waiting DramChannel::Take(Queue& queue) {
  const size_t chosen = Choose(queue);
  queue.passed = chosen == 0 ? 0 : queue.passed + 1;
  const Waiting waiting = queue.by_age[chosen];
  queue.by_age.erase(queue.by_age.begin() + static_cast<ptrdiff_t>(chosen));
  queue.free.push_back(waiting.request);
  return waiting;
}

// Refreshes were due while nobody asked: only the last one can still be felt.
void DramChannel::Refresh(Ticks now) {
  if (now < next_refresh_) return;
  const uint64_t due = (now - next_refresh_) / refresh_interval_;
  counters_->dram_refreshes += due + 1;
  const Ticks begin = next_refresh_ + due * refresh_interval_;
  next_refresh_ = begin + refresh_interval_;
  const Ticks end = std::max(begin, bus_free_) + refresh_;
  for (Bank& bank : banks_) {
    bank.row = kNoRow;
    bank.opens = end;
  }
}

Ticks DramChannel::Open(Bank& bank, uint64_t row, Ticks now) {
  if (bank.row == row) {
    ++counters_->dram_row_hits;
    return std::max(now, bank.column);
  }
  ++counters_->dram_row_misses;
  // An open row must be closed first.
  Ticks open =
      std::max(bank.row == kNoRow ? now : now + precharge_, bank.opens);
  // The four last ones, in the order in which they were opened.
  if (openings_ != 0) {
    open = std::max(open, opened_[(openings_ - 1) % 4] + activate_gap_);
  }
  if (openings_ >= 4) {
    open = std::max(open, opened_[openings_ % 4] + four_activates_);
  }
  opened_[openings_++ % 4] = open;
  bank.row = row;
  bank.opens = open + active_ + precharge_;
  return open + activate_;
}

Ticks DramChannel::Serve(const Waiting& waiting, const DramRequest& request,
                         Ticks now) {
  const bool write = request.demand.write;
  Bank& bank = banks_[waiting.bank];
  const Ticks column = Open(bank, waiting.row, now) + column_[write];
  Ticks bus = bus_free_;
  if (write != wrote_last_) {
    ++counters_->dram_turns;
    // After a write, a read's command waits; after a read, the bus does.
    bus += write ? read_to_write_ : write_to_read_ + column_[0];
  }
  const uint64_t bursts = (request.bytes + burst_bytes_ - 1) / burst_bytes_;
  bus_free_ = std::max(column, bus) + bursts * burst_;
  wrote_last_ = write;
  turn_ += write ? 1 : 0;
  bank.column = bus_free_ - column_[write];
  const Ticks close =
      write ? bus_free_ + write_recovery_ : bank.column + read_to_precharge_;
  bank.opens = std::max(bank.opens, close + precharge_);
  ++(write ? counters_->dram_writes : counters_->dram_reads);
  counters_->dram_bytes += bursts * burst_bytes_;
  return bus_free_;
}

}  // namespace carillon::sim::timing

// A DRAM channel and its controller: banks with one open row each, a data bus,
// and a queue of reads and one of writes.
//
// Of a queue, the oldest row hit goes first, else the request whose row can be
// opened first (FR-FCFS); after `dram.row_hits` of these have passed the oldest,
// it goes. Reads go until `dram.write_high` writes wait, or until no read does
// and `dram.write_low` writes do. Then writes go: `dram.write_turn` of them if
// reads wait, else until fewer than `dram.write_low` are left. These may stay
// for ever, as nobody waits for a write.
//
// Both queues are bounded; the slices ask HasRoom() before they push. A channel
// with a full queue has something to do, and needs nothing from others for it.
#ifndef CARILLON_SIM_TIMING_MEMORY_DRAM_H_
#define CARILLON_SIM_TIMING_MEMORY_DRAM_H_

#include <array>
#include <cstdint>
#include <vector>

#include "sim/timing/config.h"
#include "sim/timing/divisor.h"
#include "sim/timing/memory/memory_request.h"
#include "sim/timing/statistics.h"

namespace carillon::sim::timing {

struct DramRequest {
  uint64_t address = 0;  // within the channel
  uint32_t bytes = 0;
  uint32_t slice = 0;  // the slice that asks
  L2Demand demand;
};

class DramChannel {
 public:
  DramChannel(const Config& config, MemoryCounters* counters);

  bool HasRoom(bool write) const {
    return queues_[write].by_age.size() < queues_[write].limit;
  }
  void Push(const DramRequest& request) {
    const uint64_t row = row_bytes_.Quotient(request.address);
    const auto bank =
        static_cast<uint32_t>(bank_.Remainder(row + bank_.Quotient(row)));
    queues_[request.demand.write].Push(request, row, bank);
  }

  // Issues the commands that can be issued now. Calls done(request, cycle) with
  // the cycle in which each request has its data; for reads these only grow.
  // Calls feed() whenever it has taken one from a queue. Returns when to ask
  // again; kNever: after a Push().
  template <class Done, class Feed>
  Cycle Advance(Cycle now, Done done, Feed feed) {
    const Ticks ticks = TicksOf(now);
    for (;;) {
      // Commands may run ahead of the data bus by at most their worst latency.
      if (bus_free_ > ticks + ahead_) return CycleAt(bus_free_ - ahead_);
      if (refresh_interval_ != 0) Refresh(ticks);
      ChooseDirection();
      Queue& queue = queues_[writing_];
      if (queue.by_age.empty()) return kNever;
      const Waiting waiting = Take(queue);
      const DramRequest request = queue.requests[waiting.request];
      done(request, CycleAt(Serve(waiting, request, ticks)) + latency_);
      feed();
    }
  }

 private:
  static constexpr uint64_t kNoRow = ~uint64_t{0};

  struct Bank {
    uint64_t row = kNoRow;
    Ticks column = 0;  // when it takes the next command for its row
    Ticks opens = 0;   // when another row may be opened
  };
  // What a choice looks at, apart from all else.
  struct Waiting {
    uint64_t row = 0;
    uint32_t bank = 0;
    uint32_t request = 0;  // its place in Queue::requests
  };
  struct Queue {
    std::vector<Waiting> by_age;
    std::vector<DramRequest> requests;
    std::vector<uint32_t> free;  // places in it
    size_t limit = 1;
    uint32_t passed = 0;  // how many went before the oldest

    void Push(const DramRequest& request, uint64_t row, uint32_t bank) {
      if (free.empty()) {
        free.push_back(static_cast<uint32_t>(requests.size()));
        requests.emplace_back();
      }
      requests[free.back()] = request;
      by_age.push_back({row, bank, free.back()});
      free.pop_back();
    }
  };

  void ChooseDirection();
  size_t Choose(const Queue& queue) const;
  Waiting Take(Queue& queue);
  void Refresh(Ticks now);
  // Opens the row if it must. Returns when the column command can go.
  Ticks Open(Bank& bank, uint64_t row, Ticks now);
  // Returns when the last byte has passed the bus.
  Ticks Serve(const Waiting& waiting, const DramRequest& request, Ticks now);

  MemoryCounters* const counters_;
  const Divisor row_bytes_;
  const Divisor bank_;  // of all
  const uint32_t burst_bytes_;
  const Ticks burst_;
  const std::array<Ticks, 2> column_;  // of a read, of a write
  const Ticks activate_;
  const Ticks precharge_;
  const Ticks active_;
  const Ticks activate_gap_;
  const Ticks four_activates_;
  const Ticks write_recovery_;
  const Ticks write_to_read_;
  const Ticks read_to_write_;
  const Ticks read_to_precharge_;
  const Ticks refresh_interval_;
  const Ticks refresh_;
  const Ticks ahead_;
  const Cycle latency_;
  const uint32_t row_hits_;
  const size_t write_high_;
  const size_t write_low_;
  const uint32_t write_turn_;

  std::vector<Bank> banks_;
  std::array<Queue, 2> queues_;  // reads, writes
  bool writing_ = false;
  uint32_t turn_ = 0;  // writes since the last read
  Ticks bus_free_ = 0;
  bool wrote_last_ = false;
  // When the last rows were opened, the oldest of four first.
  std::array<Ticks, 4> opened_{};
  uint32_t openings_ = 0;
  Ticks next_refresh_ = 0;
};

}  // namespace carillon::sim::timing

#endif  // CARILLON_SIM_TIMING_MEMORY_DRAM_H_

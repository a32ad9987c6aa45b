#include "sim/timing/statistics.h"

#include <nlohmann/json.hpp>

#include "base/json.h"

namespace carillon::sim::timing {
namespace {

constexpr std::array<const char*, kStalls> kStallNames = {
    "Pipeline", "Scoreboard", "Load",        "I$-Miss",
    "Fetch",    "Barrier",    "Mem Barrier", "Sleep"};
constexpr std::array<const char*, kFlushWaits> kFlushWaitNames = {
    "Pipeline", "Scoreboard", "Load", "I$-Miss", "Barrier", "Mem Barrier"};

// Calls f with each counter's name and value.
template <class C, class F>
void ForEach(C& c, F f) {
  f("busy_cycles", c.busy_cycles);
  f("warp_cycles", c.warp_cycles);
  f("instructions", c.instructions);
  f("thread_instructions", c.thread_instructions);
  f("blocks", c.blocks);
  f("flushes", c.flushes);
  f("issue_cycles", c.issue_cycles);
  f("stall_cycles", c.stall_cycles);
  f("idle_cycles", c.idle_cycles);
  f("sp", c.sp);
  f("dp", c.dp);
  f("sfu", c.sfu);
  f("tensor", c.tensor);
  f("memory", c.memory);
  f("control", c.control);
  f("icache_hits", c.icache_hits);
  f("icache_misses", c.icache_misses);
  f("icache_fills", c.icache_fills);
  f("shared_operations", c.shared_operations);
  f("shared_passes", c.shared_passes);
  f("constant_operations", c.constant_operations);
  f("constant_passes", c.constant_passes);
  f("global_operations", c.global_operations);
  f("transactions", c.transactions);
  f("l1_load_hits", c.l1_load_hits);
  f("l1_load_misses", c.l1_load_misses);
  f("l1_load_merges", c.l1_load_merges);
  f("l1_loads_past", c.l1_loads_past);
  f("l1_stores", c.l1_stores);
  f("l1_write_backs", c.l1_write_backs);
  f("l1_atomics", c.l1_atomics);
  f("mshr_full_cycles", c.mshr_full_cycles);
  f("merge_full_cycles", c.merge_full_cycles);
  f("stores_full_cycles", c.stores_full_cycles);
  f("network_full_cycles", c.network_full_cycles);
  f("events_tb_scheduler", c.events_tb_scheduler);
  f("events_free", c.events_free);
  f("events_reserved", c.events_reserved);
  f("events_preempting", c.events_preempting);
  f("preemptions", c.preemptions);
  f("reselections", c.reselections);
  f("barriers_skipped", c.barriers_skipped);
  f("loads_dropped", c.loads_dropped);
  f("loads_replayed", c.loads_replayed);
  f("registers_saved", c.registers_saved);
  f("registers_restored", c.registers_restored);
  f("flush_cycles", c.flush_cycles);
  f("free_context_cycles", c.free_context_cycles);
  f("register_cycles", c.register_cycles);
}

Json Of(const SmCounters& counters) {
  Json json;
  ForEach(counters,
          [&](const char* name, uint64_t value) { json[name] = value; });
  Json& stalls = json["stalls"];
  for (size_t i = 0; i < kStalls; ++i) {
    stalls[kStallNames[i]] = counters.stalls[i];
  }
  Json& waits = json["flush_waits"];
  for (size_t i = 0; i < kFlushWaits; ++i) {
    waits[kFlushWaitNames[i]] = counters.flush_waits[i];
  }
  return json;
}

Json Of(const MemoryCounters& c) {
  return {
      {"request_flits", c.request_flits},
      {"reply_flits", c.reply_flits},
      {"request_stalls", c.request_stalls},
      {"reply_stalls", c.reply_stalls},
      {"l2_load_hits", c.l2_load_hits},
      {"l2_load_misses", c.l2_load_misses},
      {"l2_load_merges", c.l2_load_merges},
      {"l2_stores", c.l2_stores},
      {"l2_atomics", c.l2_atomics},
      {"l2_write_backs", c.l2_write_backs},
      {"l2_blocked", c.l2_blocked},
      {"l2_reply_blocked", c.l2_reply_blocked},
      {"l2_dram_blocked", c.l2_dram_blocked},
      {"dram_reads", c.dram_reads},
      {"dram_writes", c.dram_writes},
      {"dram_bytes", c.dram_bytes},
      {"dram_row_hits", c.dram_row_hits},
      {"dram_row_misses", c.dram_row_misses},
      {"dram_turns", c.dram_turns},
      {"dram_refreshes", c.dram_refreshes},
  };
}

}  // namespace

SmCounters Total(const Statistics& statistics) {
  SmCounters total;
  std::vector<uint64_t*> sums;
  ForEach(total, [&](const char*, uint64_t& value) { sums.push_back(&value); });
  for (const SmCounters& sm : statistics.sms) {
    size_t i = 0;
    ForEach(sm, [&](const char*, uint64_t value) { *sums[i++] += value; });
    for (size_t stall = 0; stall < kStalls; ++stall) {
      total.stalls[stall] += sm.stalls[stall];
    }
    for (size_t wait = 0; wait < kFlushWaits; ++wait) {
      total.flush_waits[wait] += sm.flush_waits[wait];
    }
  }
  return total;
}

std::string ToJson(const Statistics& statistics) {
  Json json;
  json["cycles"] = statistics.cycles;
  json["grids"] = statistics.grids;
  json["total"] = Of(Total(statistics));
  json["memory"] = Of(statistics.memory);
  Json& sms = json["sms"];
  sms = Json::array();
  for (const SmCounters& sm : statistics.sms) sms.push_back(Of(sm));
  return json.dump(2);
}

}  // namespace carillon::sim::timing

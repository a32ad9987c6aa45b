// flush_all, version, verbosity, stats, quit, and what is no command at all.
#ifndef CARILLON_GPU_DAEMON_KERNELS_MEMC_ADMIN_CUH_
#define CARILLON_GPU_DAEMON_KERNELS_MEMC_ADMIN_CUH_

#include <cstdint>

#include "gpu_daemon/kernels/memc_bytes.cuh"
#include "gpu_daemon/kernels/memc_line.cuh"
#include "gpu_daemon/kernels/memc_request.cuh"
#include "gpu_daemon/kernels/memc_retrieve.cuh"
#include "gpu_daemon/kernels/memc_storage.cuh"
#include "gpu_daemon/kernels/memc_table.cuh"
#include "gpu_daemon/kernels/simt.h"
#include "shm/memc_wire.h"

namespace carillon::kernels::memc {

// Clients judge by it what a server can do; libmemcached wants numbers.
#define CARILLON_MEMC_VERSION "1.6.18-carillon"

// flush_all [<delay>] [noreply]
CARILLON_DEVICE shm::MemcOutcome FlushAll(Command& command) {
  Words words;
  ReadWords(command.line, &words);
  if (!command.line.complete()) return shm::MemcOutcome::kDropped;
  if (!words.Between(1, 3)) return command.Say("ERROR\r\n");
  Decimal delay{true, false, 0};
  if (words.count != (words.noreply ? 2u : 1u)) delay = words.number[1];
  if (!FitsSigned(delay)) {
    return command.Say("CLIENT_ERROR invalid exptime argument\r\n",
                       words.noreply);
  }
  Table& table = command.table;
  const uint32_t at = ResolveExptime(delay, table.now());
  if (at <= table.now()) {
    table.FlushNow();
  } else {
    table.FlushAt(at);
  }
  Table::Count(&table.header()->rare.cmd_flush);
  return command.Say("OK\r\n", words.noreply);
}

// verbosity <level> [noreply]: there is nothing to make more verbose.
CARILLON_DEVICE shm::MemcOutcome Verbosity(Command& command) {
  Words words;
  ReadWords(command.line, &words);
  if (!command.line.complete()) return shm::MemcOutcome::kDropped;
  if (!words.Between(2, 3)) return command.Say("ERROR\r\n");
  if (!IsUnsigned(words.number[1], 0xffffffff)) {
    return command.Say("CLIENT_ERROR bad command line format\r\n",
                       words.noreply);
  }
  return command.Say("OK\r\n", words.noreply);
}

CARILLON_MEMC_CALL void PutStat(Command& command, const char* name,
                                uint64_t value) {
  uint32_t length = 0;
  while (name[length] != 0) ++length;
  command.reply.PutText("STAT ");
  command.reply.Put(reinterpret_cast<const uint8_t*>(name), length);
  command.reply.PutText(" ");
  command.reply.PutDecimal(value);
  command.reply.PutText("\r\n");
}

CARILLON_MEMC_CALL uint64_t Sum(const Table& table,
                                uint64_t Counters::*counter) {
  uint64_t sum = 0;
  for (uint32_t i = 0; i < kStripes; ++i) {
    sum += LoadRelaxed(&(table.counters(i)->*counter));
  }
  return sum;
}

// Of what memcached reports, all that a kernel knows: nothing of processes,
// connections and threads.
CARILLON_DEVICE void PutStats(Command& command) {
  Table& table = command.table;
  const RareCounters* rare = &table.header()->rare;
  const uint64_t hits = Sum(table, &Counters::get_hits);
  const uint64_t misses = Sum(table, &Counters::get_misses);
  const uint64_t touch_hits = Sum(table, &Counters::touch_hits);
  const uint64_t touch_misses = LoadRelaxed(&rare->touch_misses);
  // Before `linked`: an item that comes and goes meanwhile must not count below
  // 0.
  const uint64_t unlinked = Sum(table, &Counters::unlinked);
  const uint64_t linked = Sum(table, &Counters::linked);
  PutStat(command, "time", table.now());
  command.reply.PutText("STAT version " CARILLON_MEMC_VERSION "\r\n");
  PutStat(command, "pointer_size", 64);
  PutStat(command, "curr_items", linked - unlinked);
  PutStat(command, "total_items", linked);
  PutStat(command, "bytes", Sum(table, &Counters::bytes));
  PutStat(command, "limit_maxbytes", table.store().capacity());
  PutStat(command, "cmd_get", hits + misses);
  PutStat(command, "cmd_set", Sum(table, &Counters::cmd_set));
  PutStat(command, "cmd_flush", LoadRelaxed(&rare->cmd_flush));
  PutStat(command, "cmd_touch", touch_hits + touch_misses);
  PutStat(command, "get_hits", hits);
  PutStat(command, "get_misses", misses);
  PutStat(command, "delete_misses", LoadRelaxed(&rare->delete_misses));
  PutStat(command, "delete_hits", LoadRelaxed(&rare->delete_hits));
  PutStat(command, "incr_misses", LoadRelaxed(&rare->incr_misses));
  PutStat(command, "incr_hits", LoadRelaxed(&rare->incr_hits));
  PutStat(command, "decr_misses", LoadRelaxed(&rare->decr_misses));
  PutStat(command, "decr_hits", LoadRelaxed(&rare->decr_hits));
  PutStat(command, "cas_misses", LoadRelaxed(&rare->cas_misses));
  PutStat(command, "cas_hits", LoadRelaxed(&rare->cas_hits));
  PutStat(command, "cas_badval", LoadRelaxed(&rare->cas_badval));
  PutStat(command, "touch_hits", touch_hits);
  PutStat(command, "touch_misses", touch_misses);
  PutStat(command, "store_too_large", LoadRelaxed(&rare->store_too_large));
  PutStat(command, "store_no_memory", LoadRelaxed(&rare->store_no_memory));
  PutStat(command, "evictions", Sum(table, &Counters::evictions));
}

// What is in the table stays counted.
CARILLON_DEVICE void ResetStats(const Table& table) {
  for (uint32_t i = 0; i < kStripes; ++i) {
    Counters* count = table.counters(i);
    simt::AtomicExch(&count->get_hits, uint64_t{0});
    simt::AtomicExch(&count->get_misses, uint64_t{0});
    simt::AtomicExch(&count->cmd_set, uint64_t{0});
    simt::AtomicExch(&count->evictions, uint64_t{0});
    simt::AtomicExch(&count->touch_hits, uint64_t{0});
  }
  uint64_t* rare = &table.header()->rare.cmd_flush;
  for (uint32_t i = 0; i < sizeof(RareCounters) / sizeof(uint64_t); ++i) {
    simt::AtomicExch(rare + i, uint64_t{0});
  }
}

// stats [reset | settings | slabs | items]: of the last two there is nothing to
// tell, but their askers wait for END.
CARILLON_DEVICE shm::MemcOutcome Stats(Command& command) {
  enum class Kind : uint8_t { kAll, kReset, kSettings, kEmpty, kNone };
  Kind kind = Kind::kAll;
  Token word = command.line.Next();
  if (!word.none()) {
    kind = word.Is("reset")      ? Kind::kReset
           : word.Is("settings") ? Kind::kSettings
           : word.Is("slabs")    ? Kind::kEmpty
           : word.Is("items")    ? Kind::kEmpty
                                 : Kind::kNone;
  }
  while (!word.none()) word = command.line.Next();
  if (!command.line.complete()) return shm::MemcOutcome::kDropped;
  const Store& store = command.table.store();
  switch (kind) {
    case Kind::kReset:
      ResetStats(command.table);
      return command.Say("RESET\r\n");
    case Kind::kAll:
      PutStats(command);
      break;
    case Kind::kSettings:
      PutStat(command, "maxbytes", store.capacity());
      PutStat(command, "item_size_max", shm::kMemcMaxValueBytes);
      PutStat(command, "hash_sets", command.table.sets());
      PutStat(command, "hash_ways", kWays);
      command.reply.PutText(
          "STAT evictions on\r\nSTAT cas_enabled yes\r\n"
          "STAT flush_enabled yes\r\nSTAT hash_algorithm lookup3\r\n");
      break;
    case Kind::kEmpty:
      break;
    case Kind::kNone:
      return command.Say("ERROR\r\n");
  }
  command.reply.PutText("END\r\n");
  return shm::MemcOutcome::kAnswered;
}

CARILLON_DEVICE shm::MemcOutcome Quit(Command& command) {
  command.flags |= shm::kMemcQuit;
  return shm::MemcOutcome::kSilent;
}

// Any command but a retrieval. `verb` may be none: an empty line.
CARILLON_DEVICE shm::MemcOutcome ExecuteOther(Command& command,
                                              const Token& verb) {
  if (verb.Is("set")) return Storage(command, StoreMode::kSet);
  if (verb.Is("add")) return Storage(command, StoreMode::kAdd);
  if (verb.Is("replace")) return Storage(command, StoreMode::kReplace);
  if (verb.Is("append")) return Storage(command, StoreMode::kAppend);
  if (verb.Is("prepend")) return Storage(command, StoreMode::kPrepend);
  if (verb.Is("cas")) return Storage(command, StoreMode::kCas);
  if (verb.Is("delete")) return Delete(command);
  if (verb.Is("incr")) return IncrementOrDecrement(command, true);
  if (verb.Is("decr")) return IncrementOrDecrement(command, false);
  if (verb.Is("touch")) return Touch(command);
  if (verb.Is("flush_all")) return FlushAll(command);
  if (verb.Is("verbosity")) return Verbosity(command);
  if (verb.Is("stats")) return Stats(command);
  const bool version = verb.Is("version");
  const bool quit = verb.Is("quit");
  // The rest of the line does not matter, its end does.
  bool http = verb.StartsWith("HTTP/");
  for (Token word = command.line.Next(); !word.none();
       word = command.line.Next()) {
    http = word.StartsWith("HTTP/");
  }
  if (!command.line.complete()) return shm::MemcOutcome::kDropped;
  if (version) return command.Say("VERSION " CARILLON_MEMC_VERSION "\r\n");
  // A web browser gets no answer, as from memcached: the line that it would be
  // shown could carry an attack.
  if (quit || http) return Quit(command);
  return command.Say("ERROR\r\n");
}

}  // namespace carillon::kernels::memc

#endif  // CARILLON_GPU_DAEMON_KERNELS_MEMC_ADMIN_CUH_

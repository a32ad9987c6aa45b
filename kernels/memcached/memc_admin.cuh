// flush_all, version, verbosity, stats, quit, and unknown commands.
#ifndef CARILLON_KERNELS_MEMCACHED_MEMC_ADMIN_CUH_
#define CARILLON_KERNELS_MEMCACHED_MEMC_ADMIN_CUH_

#include <cstdint>

#include "kernels/memcached/memc_bytes.cuh"
#include "kernels/memcached/memc_line.cuh"
#include "kernels/memcached/memc_meta.cuh"
#include "kernels/memcached/memc_request.cuh"
#include "kernels/memcached/memc_retrieve.cuh"
#include "kernels/memcached/memc_storage.cuh"
#include "kernels/memcached/memc_table.cuh"
#include "kernels/memcached/wire.h"
#include "kernels/simt/simt.h"

namespace carillon::kernels::memc {

// Clients judge a server's abilities by its version; libmemcached wants
// numbers.
#define CARILLON_MEMC_VERSION "1.6.18-carillon"

// flush_all [<delay>] [noreply]
CARILLON_MEMC_CALL memcached::Outcome FlushAll(Command& command) {
  Words words;
  memcached::Outcome outcome;
  if (!ParseLine(command, 1, 3, &words, &outcome)) return outcome;
  Decimal delay{true, false, 0};
  if (words.count != (command.noreply ? 2u : 1u)) delay = words.number[1];
  if (!FitsSigned(delay)) {
    return command.Say("CLIENT_ERROR invalid exptime argument\r\n");
  }
  Table& table = command.table;
  const uint32_t at = ResolveExptime(delay, table.now());
  if (at <= table.now()) {
    table.FlushNow();
  } else {
    table.FlushAt(at);
  }
  Table::Count(&table.header()->rare.cmd_flush);
  return command.Say("OK\r\n");
}

// verbosity <level> [noreply]: accepted without effect.
CARILLON_MEMC_CALL memcached::Outcome Verbosity(Command& command) {
  Words words;
  memcached::Outcome outcome;
  if (!ParseLine(command, 2, 3, &words, &outcome)) return outcome;
  if (!IsUnsigned(words.number[1], 0xffffffff)) return SayBadLine(command);
  return command.Say("OK\r\n");
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

using StripedCounter = uint64_t Counters::*;
using RareCounter = uint64_t RareCounters::*;

CARILLON_MEMC_CALL uint64_t Sum(const Table& table, StripedCounter counter) {
  uint64_t sum = 0;
  for (uint32_t i = 0; i < kStripes; ++i) {
    sum += LoadRelaxed(&(table.counters(i)->*counter));
  }
  return sum;
}

// A counter in `stats`: the sum of the table's stripes and of the table's own
// word.
struct Stat {
  const char* name;
  StripedCounter striped;  // may be null
  RareCounter rare;        // may be null
};

// Calls visit(stat) for every counter that `stats reset` zeroes, in the order
// in which `stats` shows them.
template <class Visit>
CARILLON_DEVICE void ForEachStat(Visit visit) {
  constexpr Stat kStats[] = {
      {"cmd_set", &Counters::cmd_set, nullptr},
      {"cmd_flush", nullptr, &RareCounters::cmd_flush},
      {"cmd_touch", &Counters::touch_hits, &RareCounters::touch_misses},
      {"cmd_meta", nullptr, &RareCounters::cmd_meta},
      {"get_hits", &Counters::get_hits, nullptr},
      {"get_misses", &Counters::get_misses, nullptr},
      {"delete_misses", nullptr, &RareCounters::delete_misses},
      {"delete_hits", nullptr, &RareCounters::delete_hits},
      {"incr_misses", nullptr, &RareCounters::incr_misses},
      {"incr_hits", nullptr, &RareCounters::incr_hits},
      {"decr_misses", nullptr, &RareCounters::decr_misses},
      {"decr_hits", nullptr, &RareCounters::decr_hits},
      {"cas_misses", nullptr, &RareCounters::cas_misses},
      {"cas_hits", nullptr, &RareCounters::cas_hits},
      {"cas_badval", nullptr, &RareCounters::cas_badval},
      {"touch_hits", &Counters::touch_hits, nullptr},
      {"touch_misses", nullptr, &RareCounters::touch_misses},
      {"store_too_large", nullptr, &RareCounters::store_too_large},
      {"store_no_memory", nullptr, &RareCounters::store_no_memory},
      {"evictions", &Counters::evictions, nullptr},
  };
  for (const Stat& stat : kStats) visit(stat);
}

// What the device says of itself.
CARILLON_MEMC_CALL void PutServerStats(Command& command) {
  if (command.server.size == 0) return;
  const memcached::ServerStats& server = command.server[0];
  const uint64_t now = command.table.now();
  const uint64_t started = LoadRelaxed(&server.started_s);
  PutStat(command, "pid", LoadRelaxed(&server.pid));
  PutStat(command, "uptime", now > started ? now - started : 0);
  PutStat(command, "threads", LoadRelaxed(&server.threads));
  PutStat(command, "max_connections", LoadRelaxed(&server.max_connections));
  PutStat(command, "curr_connections", LoadRelaxed(&server.curr_connections));
  PutStat(command, "total_connections", LoadRelaxed(&server.total_connections));
  PutStat(command, "rejected_connections",
          LoadRelaxed(&server.rejected_connections));
  PutStat(command, "bytes_read", LoadRelaxed(&server.bytes_read));
  PutStat(command, "bytes_written", LoadRelaxed(&server.bytes_written));
}

// Writes what the device and the table count. Other threads may count between
// two lines.
CARILLON_DEVICE void PutStats(Command& command) {
  Table& table = command.table;
  // Read this before `linked`: an item that comes and goes in between must not
  // make the count negative.
  const uint64_t unlinked = Sum(table, &Counters::unlinked);
  const uint64_t linked = Sum(table, &Counters::linked);
  PutServerStats(command);
  PutStat(command, "time", table.now());
  command.reply.PutText("STAT version " CARILLON_MEMC_VERSION "\r\n");
  PutStat(command, "pointer_size", 64);
  PutStat(command, "curr_items", linked - unlinked);
  PutStat(command, "total_items", linked);
  PutStat(command, "bytes", Sum(table, &Counters::bytes));
  PutStat(command, "limit_maxbytes", table.store().capacity());
  PutStat(command, "cmd_get",
          Sum(table, &Counters::get_hits) + Sum(table, &Counters::get_misses));
  ForEachStat([&](const Stat& stat) {
    uint64_t value = 0;
    if (stat.striped != nullptr) value += Sum(table, stat.striped);
    if (stat.rare != nullptr) {
      value += LoadRelaxed(&(table.header()->rare.*stat.rare));
    }
    PutStat(command, stat.name, value);
  });
}

// The counts of what is in the table, and the device's, are not reset.
CARILLON_DEVICE void ResetStats(const Table& table) {
  ForEachStat([&](const Stat& stat) {
    for (uint32_t i = 0; stat.striped != nullptr && i < kStripes; ++i) {
      simt::AtomicExch(&(table.counters(i)->*stat.striped), uint64_t{0});
    }
    if (stat.rare != nullptr) {
      simt::AtomicExch(&(table.header()->rare.*stat.rare), uint64_t{0});
    }
  });
}

// stats [reset | settings | slabs | items]. There is nothing to say of slabs
// and items, but clients that ask wait for END.
CARILLON_MEMC_CALL memcached::Outcome Stats(Command& command) {
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
  if (!command.line.complete()) return memcached::Outcome::kDropped;
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
      PutStat(command, "item_size_max", memcached::kMaxValueBytes);
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
  return memcached::Outcome::kAnswered;
}

CARILLON_DEVICE memcached::Outcome Quit(Command& command) {
  command.flags |= memcached::kQuit;
  return memcached::Outcome::kSilent;
}

// Executes any command except get, gets, gat and gats. `verb` may be none: an empty line.
CARILLON_DEVICE memcached::Outcome ExecuteOther(Command& command,
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
  if (verb.Is("mg")) return MetaGet<Vivify>(command);
  if (verb.Is("ms")) return MetaSet(command);
  if (verb.Is("md")) return MetaDelete(command);
  if (verb.Is("ma")) return MetaArithmetic(command);
  if (verb.Is("me")) return MetaDebug(command);
  if (verb.Is("mn")) return MetaNoOp(command);
  const bool version = verb.Is("version");
  const bool quit = verb.Is("quit");
  // Skip the rest of the line to find its end.
  bool http = verb.StartsWith("HTTP/");
  for (Token word = command.line.Next(); !word.none();
       word = command.line.Next()) {
    http = word.StartsWith("HTTP/");
  }
  if (!command.line.complete()) return memcached::Outcome::kDropped;
  if (version) return command.Say("VERSION " CARILLON_MEMC_VERSION "\r\n");
  // As from memcached, a web browser gets no answer, because the line that it
  // would show could carry an attack.
  if (quit || http) return Quit(command);
  return command.Say("ERROR\r\n");
}

}  // namespace carillon::kernels::memc

#endif  // CARILLON_KERNELS_MEMCACHED_MEMC_ADMIN_CUH_

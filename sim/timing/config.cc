#include "sim/timing/config.h"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <bit>
#include <map>
#include <set>
#include <span>
#include <utility>

#include "base/read_file.h"
#include "base/status.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "sim/timing/presets.h"

namespace carillon::sim::timing {
namespace {

constexpr std::array<std::string_view, kCostClasses> kClassNames = {
    "add", "max", "mul", "mad", "div"};
constexpr std::array<std::string_view, kCostTypes> kTypeNames = {
    "int", "long", "float", "double"};
using Names = std::span<const std::string_view>;
constexpr std::array<std::string_view, 2> kPolicyNames = {"lrr", "gto"};
constexpr std::array<std::string_view, 2> kTurnNames = {"shared", "own"};
constexpr std::array<std::string_view, 2> kPathNames = {"tb_scheduler", "warp"};
constexpr std::array<std::string_view, 5> kVictimNames = {
    "oldest", "newest", "best", "dedicated", "reserved"};
constexpr std::array<std::string_view, 4> kPriorityNames = {"none", "p1", "p2",
                                                            "p3"};
constexpr std::array<std::string_view, 2> kReservationNames = {"static",
                                                               "dynamic"};
constexpr std::array<std::string_view, 2> kRegistersNames = {"free_or_save",
                                                             "save"};
constexpr std::array<std::string_view, 6> kTechniqueNames = {
    "none", "drain", "flush", "switch", "chimera", "pep"};

// Calls number(key, value, least, most) for each number, and choice(key, value,
// names) for each enumerator.
template <class C, class Number, class Choice>
void ForEach(C& c, Number number, Choice choice) {
  constexpr uint32_t kMega = 1 << 20;
  number("clock.core_mhz", c.clock.core_mhz, 1, 100000);
  number("clock.interconnect_mhz", c.clock.interconnect_mhz, 1, 100000);
  number("clock.l2_mhz", c.clock.l2_mhz, 1, 100000);
  number("clock.dram_mhz", c.clock.dram_mhz, 1, 100000);
  number("sm.count", c.sm.count, 1, 256);
  number("sm.warps", c.sm.warps, 1, 64);
  number("sm.blocks", c.sm.blocks, 1, 64);
  number("sm.registers", c.sm.registers, 32, kMega);
  number("sm.register_unit", c.sm.register_unit, 1, 4096);
  number("sm.shared_bytes", c.sm.shared_bytes, 0, kMega);
  number("sm.shared_unit", c.sm.shared_unit, 1, 4096);
  choice("scheduler.policy", c.scheduler.policy, Names(kPolicyNames));
  number("scheduler.count", c.scheduler.count, 1, 8);
  number("scheduler.width", c.scheduler.width, 1, 2);
  number("fetch.latency", c.fetch.latency, 1, 15);
  number("fetch.width", c.fetch.width, 1, 8);
  number("fetch.buffer", c.fetch.buffer, 1, 8);
  number("fetch.operation_bytes", c.fetch.operation_bytes, 4, 32);
  number("operands.latency", c.operands.latency, 0, 64);
  number("operands.banks", c.operands.banks, 1, 64);
  number("units.sp", c.units.sp, 1, 4);
  number("units.dp", c.units.dp, 1, 4);
  number("units.sfu", c.units.sfu, 1, 4);
  number("units.tensor", c.units.tensor, 1, 4);
  const auto cost = [&](const std::string& key, auto& value) {
    number(key + ".latency", value.latency, 1, 900);
    number(key + ".interval", value.interval, 1, 900);
  };
  for (size_t type = 0; type < kCostTypes; ++type) {
    for (size_t i = 0; i < kCostClasses; ++i) {
      cost(fmt::format("costs.{}.{}", kTypeNames[type], kClassNames[i]),
           c.costs[type][i]);
    }
  }
  cost("costs.special", c.special);
  cost("costs.exchange", c.exchange);
  cost("costs.matrix", c.matrix);
  number("lsu.queue", c.lsu.queue, 1, 64);
  number("lsu.banks", c.lsu.banks, 1, 64);
  number("lsu.shared_latency", c.lsu.shared_latency, 1, 900);
  number("lsu.constant_latency", c.lsu.constant_latency, 1, 900);
  number("lsu.stores", c.lsu.stores, 1, 4096);
  number("lsu.operations", c.lsu.operations, 1, 4096);
  const auto cache = [&](const std::string& key, auto& value) {
    number(key + ".bytes", value.bytes, 128, 256 * kMega);
    number(key + ".line_bytes", value.line_bytes, 32, 256);
    number(key + ".sector_bytes", value.sector_bytes, 32, 256);
    number(key + ".ways", value.ways, 1, 64);
    number(key + ".mshrs", value.mshrs, 1, 65536);
  };
  const auto data_cache = [&](const std::string& key, auto& value) {
    cache(key, value);
    number(key + ".latency", value.latency, 1, 900);
    number(key + ".merges", value.merges, 1, 4096);
  };
  cache("icache", c.icache);
  data_cache("l1", c.l1);
  number("l1.global_loads", c.l1_global_loads, 0, 1);
  data_cache("l2", c.l2);
  number("l2.slices", c.l2_slices, 1, 256);
  number("l2.interval", c.l2_interval, 1, 64);
  number("l2.atomic_interval", c.l2_atomic_interval, 1, 64);
  number("l2.data_bytes", c.l2_data_bytes, 1, 1024);
  number("l2.queue", c.l2_queue, 1, 4096);
  number("l2.dram_queue", c.l2_dram_queue, 1, 4096);
  number("interconnect.latency", c.interconnect.latency, 0, 900);
  number("interconnect.request_bytes", c.interconnect.request_bytes, 1, 1024);
  number("interconnect.reply_bytes", c.interconnect.reply_bytes, 1, 1024);
  number("interconnect.slice_bytes", c.interconnect.slice_bytes, 1, 1024);
  number("interconnect.header_bytes", c.interconnect.header_bytes, 1, 64);
  number("interconnect.sm_queue", c.interconnect.sm_queue, 1, 4096);
  number("interconnect.slice_replies", c.interconnect.slice_replies, 1, 4096);
  number("interconnect.sm_replies", c.interconnect.sm_replies, 1, 4096);
  number("pcie.megabytes_per_second", c.pcie.megabytes_per_second, 1, 1000000);
  number("pcie.chunk_ns", c.pcie.chunk_ns, 0, 1000000);
  number("dram.channels", c.dram.channels, 1, 64);
  number("dram.banks", c.dram.banks, 1, 64);
  number("dram.row_bytes", c.dram.row_bytes, 256, 65536);
  number("dram.interleave_bytes", c.dram.interleave_bytes, 128, 65536);
  number("dram.bytes_per_cycle", c.dram.bytes_per_cycle, 1, 4096);
  number("dram.burst_bytes", c.dram.burst_bytes, 1, 1024);
  number("dram.read_queue", c.dram.read_queue, 1, 256);
  number("dram.write_queue", c.dram.write_queue, 1, 256);
  number("dram.write_high", c.dram.write_high, 1, 256);
  number("dram.write_low", c.dram.write_low, 1, 256);
  number("dram.write_turn", c.dram.write_turn, 1, 256);
  number("dram.row_hits", c.dram.row_hits, 0, 65536);
  number("dram.latency", c.dram.latency, 0, 2000);
  number("dram.column", c.dram.column, 1, 900);
  number("dram.write_column", c.dram.write_column, 1, 900);
  number("dram.activate", c.dram.activate, 1, 900);
  number("dram.precharge", c.dram.precharge, 1, 900);
  number("dram.active", c.dram.active, 1, 900);
  number("dram.activate_gap", c.dram.activate_gap, 0, 900);
  number("dram.four_activates", c.dram.four_activates, 0, 900);
  number("dram.read_to_precharge", c.dram.read_to_precharge, 0, 900);
  number("dram.write_recovery", c.dram.write_recovery, 0, 900);
  number("dram.write_to_read", c.dram.write_to_read, 0, 900);
  number("dram.read_to_write", c.dram.read_to_write, 0, 900);
  number("dram.refresh_interval", c.dram.refresh_interval, 0, 1 << 20);
  number("dram.refresh", c.dram.refresh, 0, 1 << 20);
  number("dispatch.grids", c.dispatch.grids, 1, 1024);
  number("dispatch.host_cycles", c.dispatch.host_cycles, 0, 1 << 24);
  number("dispatch.device_cycles", c.dispatch.device_cycles, 0, 1 << 24);
  number("dispatch.blocks_per_cycle", c.dispatch.blocks_per_cycle, 1, 64);
  choice("dispatch.event_turn", c.dispatch.event_turn, Names(kTurnNames));
  number("edge.ekt", c.edge.ekt, 1, 1024);
  choice("edge.path", c.edge.path, Names(kPathNames));
  number("edge.event_warps", c.edge.event_warps, 1, 64);
  choice("edge.victim", c.edge.victim, Names(kVictimNames));
  number("edge.victim_priority", c.edge.victim_priority, 0, 1);
  number("edge.flush_i_buffer", c.edge.flush_i_buffer, 0, 1);
  number("edge.skip_barriers", c.edge.skip_barriers, 0, 1);
  number("edge.replay_loads", c.edge.replay_loads, 0, 1);
  choice("edge.registers", c.edge.registers, Names(kRegistersNames));
  number("edge.several_victims", c.edge.several_victims, 0, 1);
  number("edge.larger_events", c.edge.larger_events, 0, 1);
  choice("edge.event_priority", c.edge.event_priority, Names(kPriorityNames));
  choice("edge.reservation", c.edge.reservation, Names(kReservationNames));
  number("edge.reserve_sms", c.edge.reserve_sms, 0, 255);
  number("edge.reserve_blocks", c.edge.reserve_blocks, 0, 63);
  number("edge.reserve_registers", c.edge.reserve_registers, 0, 255);
  number("edge.reserve_window", c.edge.reserve_window, 1, 1 << 24);
  number("edge.reserve_load", c.edge.reserve_load, 1, 4096);
  number("edge.reserve_hold", c.edge.reserve_hold, 1, 4096);
  number("edge.interrupt_cycles", c.edge.interrupt_cycles, 0, 1 << 20);
  number("edge.registers_latency", c.edge.registers_latency, 1, 4096);
  number("edge.reserve_icache_lines", c.edge.reserve_icache_lines, 0, 1024);
  constexpr uint32_t kSecond = 1'000'000'000;
  choice("preemption.technique", c.preemption.technique,
         Names(kTechniqueNames));
  number("preemption.dirty", c.preemption.dirty, 0, 1);
  number("preemption.in_place", c.preemption.in_place, 0, 1);
  number("preemption.flush", c.preemption.flush, 0, 1);
  number("preemption.sms", c.preemption.sms, 0, 256);
  number("preemption.deadline_ns", c.preemption.deadline_ns, 0, kSecond);
  number("preemption.predicted_ns", c.preemption.predicted_ns, 0, kSecond);
  number("preemption.trap_ns", c.preemption.trap_ns, 0, kSecond);
  number("preemption.timeout_ns", c.preemption.timeout_ns, 1, kSecond);
  number("preemption.new_block_instructions",
         c.preemption.new_block_instructions, 1, kMega);
  number("preemption.control_lines", c.preemption.control_lines, 0, 64);
  number("preemption.shared_lines", c.preemption.shared_lines, 0, 1);
  number("preemption.in_place_cycles", c.preemption.in_place_cycles, 0, 1024);
  number("preemption.whole_sm", c.preemption.whole_sm, 0, 1);
  number("preemption.switch_blocks", c.preemption.switch_blocks, 0, 64);
  number("preemption.quantum_ns", c.preemption.quantum_ns, 0, kSecond);
}

struct Entry {
  std::string value;
  int line = 0;
};

absl::Status Wrong(const std::string& file, int line, std::string_view what) {
  return absl::InvalidArgumentError(
      line > 0 ? fmt::format("{}:{}: {}", file, line, what)
               : fmt::format("{}: {}", file, what));
}

// A key has at most so many parts ("costs.int.add.latency"), and a file so many
// keys: aliases can make endless ones.
constexpr int kParts = 4;
constexpr size_t kMostKeys = 1000;

absl::Status Flatten(const YAML::Node& node, const std::string& prefix,
                     const std::string& file,
                     std::map<std::string, Entry>& entries) {
  for (const auto& child : node) {
    const std::string key = prefix + child.first.as<std::string>();
    const int line = child.first.Mark().line + 1;
    if (child.second.IsMap()) {
      if (std::ranges::count(key, '.') + 1 == kParts) {
        return Wrong(file, line, key + ": must be a number or a name");
      }
      RETURN_IF_ERROR(Flatten(child.second, key + ".", file, entries));
      continue;
    }
    if (!child.second.IsScalar()) {
      return Wrong(file, line, key + ": must be a number or a name");
    }
    if (entries.size() == kMostKeys) {
      return Wrong(file, line, key + ": there are too many keys before it");
    }
    if (!entries.emplace(key, Entry{child.second.as<std::string>(), line})
             .second) {
      return Wrong(file, line, key + ": is there twice");
    }
  }
  return absl::OkStatus();
}

// A cycle of another clock has ticks enough to be counted in them.
constexpr uint64_t kMaxClockRatio = kTicksPerCycle / 16;

// Finds contradictions between keys.
std::string Contradiction(const Config& c) {
  const auto cache = [](std::string_view name, const CacheConfig& value) {
    if (!std::has_single_bit(value.line_bytes) ||
        !std::has_single_bit(value.sector_bytes) ||
        value.sector_bytes > value.line_bytes ||
        value.line_bytes / value.sector_bytes > 8) {
      return fmt::format(
          "{}: lines of {} bytes and sectors of {}: must be powers of two, "
          "with "
          "1 to 8 sectors in a line",
          name, value.line_bytes, value.sector_bytes);
    }
    if (value.bytes % (value.line_bytes * value.ways) != 0 ||
        !std::has_single_bit(value.sets())) {
      return fmt::format(
          "{}: {} bytes in lines of {} and {} ways: the number of sets must be "
          "a power of two",
          name, value.bytes, value.line_bytes, value.ways);
    }
    return std::string();
  };
  for (const auto& [name, mhz] :
       {std::pair("interconnect", c.clock.interconnect_mhz),
        {"l2", c.clock.l2_mhz},
        {"dram", c.clock.dram_mhz}}) {
    if (mhz <= kMaxClockRatio * c.clock.core_mhz) continue;
    return fmt::format("clock.{}_mhz: {}: at most {} times clock.core_mhz, {}",
                       name, mhz, kMaxClockRatio, c.clock.core_mhz);
  }
  if (auto wrong = cache("icache", c.icache); !wrong.empty()) return wrong;
  if (auto wrong = cache("l1", c.l1); !wrong.empty()) return wrong;
  CacheConfig slice = c.l2;
  if (c.l2.bytes % c.l2_slices != 0) {
    return fmt::format("l2.bytes: {}: must be a multiple of l2.slices, {}",
                       c.l2.bytes, c.l2_slices);
  }
  slice.bytes /= c.l2_slices;
  if (auto wrong = cache("l2 (a slice)", slice); !wrong.empty()) return wrong;
  if (c.l1.line_bytes != c.l2.line_bytes ||
      c.icache.line_bytes > c.l2.line_bytes ||
      c.l1.sector_bytes < c.l2.sector_bytes) {
    return fmt::format(
        "l1.line_bytes {} and l2.line_bytes {} must be equal, "
        "icache.line_bytes {} no more, and l1.sector_bytes {} no less than "
        "l2.sector_bytes {}",
        c.l1.line_bytes, c.l2.line_bytes, c.icache.line_bytes,
        c.l1.sector_bytes, c.l2.sector_bytes);
  }
  if (c.l2.mshrs < c.l2_slices) {
    return fmt::format("l2.mshrs: {}: each of {} slices needs one", c.l2.mshrs,
                       c.l2_slices);
  }
  if (c.l2_slices % c.dram.channels != 0) {
    return fmt::format("l2.slices: {}: must be a multiple of dram.channels, {}",
                       c.l2_slices, c.dram.channels);
  }
  if (!std::has_single_bit(c.dram.interleave_bytes) ||
      c.dram.interleave_bytes < c.l2.line_bytes ||
      !std::has_single_bit(c.dram.row_bytes) ||
      c.dram.row_bytes < c.l2.line_bytes) {
    return fmt::format(
        "dram.interleave_bytes {} and dram.row_bytes {}: must be powers of two "
        "and no less than l2.line_bytes, {}",
        c.dram.interleave_bytes, c.dram.row_bytes, c.l2.line_bytes);
  }
  if (c.dram.write_high > c.dram.write_queue ||
      c.dram.write_low > c.dram.write_high) {
    return fmt::format(
        "dram.write_low {}, dram.write_high {} and dram.write_queue {}: none "
        "must be more than the next, or writes may wait for ever",
        c.dram.write_low, c.dram.write_high, c.dram.write_queue);
  }
  if (c.dram.refresh_interval != 0 &&
      c.dram.refresh >= c.dram.refresh_interval) {
    return fmt::format(
        "dram.refresh: {}: must be less than dram.refresh_interval, {}",
        c.dram.refresh, c.dram.refresh_interval);
  }
  if (c.fetch.operation_bytes * c.fetch.width > c.icache.line_bytes) {
    return "fetch.width: more than a line of the i-cache";
  }
  if (c.icache.line_bytes % c.fetch.operation_bytes != 0) {
    return fmt::format(
        "fetch.operation_bytes: {}: must divide icache.line_bytes, {}",
        c.fetch.operation_bytes, c.icache.line_bytes);
  }
  if (c.scheduler.count > c.sm.warps) {
    return fmt::format("scheduler.count: {}: more than sm.warps, {}",
                       c.scheduler.count, c.sm.warps);
  }
  if (c.edge.replay_loads != 0 && c.edge.flush_i_buffer == 0) {
    return "edge.replay_loads: 1: needs edge.flush_i_buffer: 1, as what "
           "follows "
           "a dropped load must not be issued";
  }
  if (c.edge.reserve_sms >= c.sm.count && c.edge.reserve_sms != 0) {
    return fmt::format(
        "edge.reserve_sms: {}: must leave one of sm.count, {}, to others",
        c.edge.reserve_sms, c.sm.count);
  }
  if (c.edge.reserve_blocks >= std::min(c.sm.blocks, c.sm.warps)) {
    return fmt::format(
        "edge.reserve_blocks: {}: must leave one of sm.blocks, {}, and of "
        "sm.warps, {}, to others",
        c.edge.reserve_blocks, c.sm.blocks, c.sm.warps);
  }
  const auto& preemption = c.preemption;
  if (preemption.in_place != 0 &&
      preemption.technique != PreemptionTechnique::kPep) {
    return "preemption.in_place: 1: needs preemption.technique: pep, as only "
           "incremental checkpoints are kept in place";
  }
  if (preemption.flush != 0 &&
      preemption.technique != PreemptionTechnique::kChimera) {
    return "preemption.flush: 1: needs preemption.technique: chimera, which "
           "may then flush; the technique flush always does";
  }
  if (preemption.quantum_ns != 0 &&
      preemption.technique == PreemptionTechnique::kNone) {
    return fmt::format(
        "preemption.quantum_ns: {}: needs a preemption.technique, by which "
        "grids make room for each other",
        preemption.quantum_ns);
  }
  return "";
}

}  // namespace

absl::StatusOr<Config> ParseConfig(const std::string& text, std::string file) {
  std::map<std::string, Entry> entries;
  try {
    const YAML::Node root = YAML::Load(text);
    if (!root.IsMap()) return Wrong(file, 0, "is no map of keys to values");
    RETURN_IF_ERROR(Flatten(root, "", file, entries));
  } catch (const YAML::Exception& e) {
    return Wrong(file, e.mark.line + 1, e.msg);
  }
  Config config;
  config.name = file;
  absl::Status status;
  const auto fail = [&](int line, std::string_view key, std::string what) {
    if (status.ok())
      status = Wrong(file, line, fmt::format("{}: {}", key, what));
  };
  std::set<std::string, std::less<>> known;
  const auto find = [&](std::string_view key) -> const Entry* {
    known.emplace(key);
    const auto found = entries.find(std::string(key));
    if (found == entries.end()) fail(0, key, "is missing");
    return found == entries.end() ? nullptr : &found->second;
  };
  ForEach(
      config,
      [&](std::string_view key, uint32_t& value, uint32_t least,
          uint32_t most) {
        const Entry* const entry = find(key);
        if (entry == nullptr) return;
        const std::string& digits = entry->value;
        uint64_t number = 0;
        bool good = !digits.empty() && digits.size() <= 10;
        for (const char c : digits) {
          good = good && c >= '0' && c <= '9';
          number = number * 10 + static_cast<uint64_t>(c - '0');
        }
        if (!good || number < least || number > most) {
          fail(entry->line, key,
               fmt::format("'{}': must be a whole number from {} to {}", digits,
                           least, most));
          return;
        }
        value = static_cast<uint32_t>(number);
      },
      [&]<class Enum>(std::string_view key, Enum& value, Names names) {
        const Entry* const entry = find(key);
        if (entry == nullptr) return;
        const auto at = std::find(names.begin(), names.end(), entry->value);
        if (at == names.end()) {
          fail(entry->line, key,
               fmt::format("'{}': must be one of {}", entry->value,
                           fmt::join(names, ", ")));
          return;
        }
        value = static_cast<Enum>(at - names.begin());
      });
  for (const auto& [key, entry] : entries) {
    if (!known.contains(key)) fail(entry.line, key, "is no known key");
  }
  if (!status.ok()) return status;
  if (auto what = Contradiction(config); !what.empty()) {
    return Wrong(file, 0, what);
  }
  return config;
}

absl::StatusOr<Config> LoadConfig(std::string_view name_or_path) {
  for (const Preset& preset : kPresets) {
    if (preset.name == name_or_path) {
      return ParseConfig(std::string(preset.text), std::string(preset.name));
    }
  }
  const std::string path(name_or_path);
  if (path.find('/') == std::string::npos && !path.ends_with(".yaml")) {
    return absl::NotFoundError(fmt::format(
        "'{}' is no preset ({}); a file's path has a '/' or ends in "
        ".yaml",
        path, fmt::join(PresetNames(), ", ")));
  }
  ASSIGN_OR_RETURN(const auto text, ReadFile(path, "GPU's description"));
  return ParseConfig(text, path);
}

std::vector<std::string_view> PresetNames() {
  std::vector<std::string_view> names;
  for (const Preset& preset : kPresets) names.push_back(preset.name);
  return names;
}

std::vector<std::pair<std::string, std::string>> Values(const Config& config) {
  std::vector<std::pair<std::string, std::string>> values;
  ForEach(
      config,
      [&](std::string_view key, uint32_t value, uint32_t, uint32_t) {
        values.emplace_back(key, std::to_string(value));
      },
      [&](std::string_view key, auto value, Names names) {
        values.emplace_back(key, names[static_cast<size_t>(value)]);
      });
  return values;
}

}  // namespace carillon::sim::timing

#include "tools/hash_sim/figures.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

namespace carillon::hash_sim {
namespace {

constexpr uint32_t kMillion = 1'000'000;
constexpr std::array<uint32_t, 4> kMillionsOfEntries = {2, 4, 8, 16};
constexpr std::array<uint32_t, 5> kWays = {1, 2, 4, 8, 16};
constexpr std::array<std::string_view, 3> kDistributions = {"Zipf", "latest",
                                                            "uniform"};

struct TableKind {
  std::string_view name;
  std::unique_ptr<HashTable> (*make)(uint32_t entries, uint32_t keys);
};
constexpr std::array<TableKind, 5> kTables = {{
    {"chaining", MakeChaining},
    {"hopscotch",
     [](uint32_t entries, uint32_t) { return MakeHopscotch(entries); }},
    {"strided probe",
     [](uint32_t entries, uint32_t) { return MakeStridedProbe(entries); }},
    {"16-way sets", [](uint32_t entries,
                       uint32_t) { return MakeSetAssociative(entries, 16); }},
    {"cuckoo", [](uint32_t entries, uint32_t) { return MakeCuckoo(entries); }},
}};

// The traces of one figure, and how far it is.
class Traces {
 public:
  Traces(const FigureOptions& options, int runs)
      : options_(options),
        unit_(options.quick ? kMillion / 100 : kMillion),
        runs_(runs),
        // A trace of new keys has as many as it has SETs, less than a tenth.
        hashes_(HashKeys(keys() + requests() / 10)) {}

  uint32_t entries(uint32_t millions) const { return millions * unit_; }
  uint32_t keys() const { return 10 * unit_; }
  uint32_t requests() const { return 10 * unit_; }
  uint32_t all_keys() const { return static_cast<uint32_t>(hashes_.size()); }

  void Draw(Distribution distribution) {
    trace_ = DrawRequests(distribution, keys(), requests(), options_.seed);
  }
  double HitRateOf(const std::string& name, HashTable& table) {
    if (options_.progress) options_.progress(done_, runs_, name);
    ++done_;
    return HitRate(table, keys(), trace_, hashes_);
  }

  Json Conditions() const {
    return {fmt::format("{} keys are set in order, then come {} requests, "
                        "95 % GET and 5 % SET; a GET that misses is followed "
                        "by a SET",
                        keys(), requests()),
            "Zipf: YCSB's ScrambledZipfian (exponent 0.99, ranks of 10^10 "
            "hashed to keys); latest: its SkewedLatest, where a SET adds a "
            "key; all others update"};
  }

 private:
  const FigureOptions& options_;
  const uint32_t unit_;
  const int runs_;
  const std::vector<uint32_t> hashes_;
  std::vector<Request> trace_;
  int done_ = 0;
};

double Rounded(double value) { return std::round(value * 100) / 100; }

std::string SizeName(uint32_t millions, bool quick) {
  return fmt::format("{} {}", millions * (quick ? 10 : 1), quick ? "k" : "M");
}

}  // namespace

double HitRate(HashTable& table, uint32_t keys,
               std::span<const Request> requests,
               std::span<const uint32_t> hashes) {
  for (Key key = 0; key < keys; ++key) table.Set(key, hashes[key]);
  uint64_t gets = 0;
  uint64_t hits = 0;
  for (const Request& request : requests) {
    const uint32_t hash = hashes[request.key];
    if (!request.set) {
      ++gets;
      if (table.Get(request.key, hash)) {
        ++hits;
        continue;
      }
    }
    table.Set(request.key, hash);
  }
  return static_cast<double>(hits) / static_cast<double>(gets);
}

Json HitRatesByTable(const FigureOptions& options) {
  Traces traces(options,
                static_cast<int>(kDistributions.size() *
                                 kMillionsOfEntries.size() * kTables.size()));
  Json columns = {"distribution", "entries"};
  for (const TableKind& kind : kTables) columns.push_back(kind.name);
  Json rows = Json::array();
  Json panels = Json::array();
  // Of the rates to chaining's, where the table is smaller than the trace's keys.
  std::array<double, kTables.size()> ratios{};
  int smaller = 0;
  for (size_t d = 0; d < kDistributions.size(); ++d) {
    traces.Draw(static_cast<Distribution>(d));
    Json groups = Json::array();
    Json bars = Json::array();
    for (const TableKind& kind : kTables) {
      bars.push_back({{"label", kind.name}, {"values", Json::array()}});
    }
    for (const uint32_t millions : kMillionsOfEntries) {
      Json row = {kDistributions[d], SizeName(millions, options.quick)};
      groups.push_back(SizeName(millions, options.quick));
      const bool counts = traces.entries(millions) < traces.keys();
      if (counts) ++smaller;
      double chaining = 0;
      for (size_t t = 0; t < kTables.size(); ++t) {
        const auto table =
            kTables[t].make(traces.entries(millions), traces.all_keys());
        const double rate = traces.HitRateOf(
            fmt::format("{}, {}, {}", kDistributions[d],
                        SizeName(millions, options.quick), kTables[t].name),
            *table);
        if (t == 0) chaining = rate;
        if (counts) ratios[t] += rate / chaining;
        row.push_back(Rounded(100 * rate));
        bars[t]["values"].push_back(Rounded(100 * rate));
      }
      rows.push_back(std::move(row));
    }
    panels.push_back(
        {{"title", fmt::format("{}: GETs that hit, %", kDistributions[d])},
         {"groups", std::move(groups)},
         {"bars", std::move(bars)}});
  }
  // The thesis says "over 99 %" of three, and "over 97 %" of cuckoo hashing.
  Json summary = Json::array();
  for (size_t t = 1; t < kTables.size(); ++t) {
    summary.push_back(
        {{"what", fmt::format("{}: of chaining's hit rate, mean of all sizes "
                              "below the trace's",
                              kTables[t].name)},
         {"paper", kTables[t].name == "cuckoo" ? 97 : 99},
         {"ours", Rounded(100 * ratios[t] / smaller)},
         {"unit", "%"},
         {"median", nullptr},
         {"geometric_mean", nullptr}});
  }
  return {{"figure", "4.7"},
          {"title", "hit rates of hash tables"},
          {"conditions", traces.Conditions()},
          {"tables",
           {{{"title", "GETs that hit, %"},
             {"columns", std::move(columns)},
             {"rows", std::move(rows)}}}},
          {"summary", std::move(summary)},
          {"panels", std::move(panels)}};
}

Json MissesByAssociativity(const FigureOptions& options) {
  Traces traces(options, static_cast<int>(kMillionsOfEntries.size() *
                                          (kWays.size() + 1)));
  traces.Draw(Distribution::kZipf);
  Json columns = {"entries"};
  for (const uint32_t ways : kWays) {
    columns.push_back(fmt::format("{}-way", ways));
  }
  columns.push_back("chaining");
  Json rows = Json::array();
  Json groups = Json::array();
  Json bars = Json::array();
  for (size_t i = 1; i < columns.size(); ++i) {
    bars.push_back({{"label", columns[i]}, {"values", Json::array()}});
  }
  Json summary = Json::array();
  for (const uint32_t millions : kMillionsOfEntries) {
    const std::string size = SizeName(millions, options.quick);
    groups.push_back(size);
    Json row = {size};
    for (size_t i = 0; i <= kWays.size(); ++i) {
      const uint32_t entries = traces.entries(millions);
      const auto table = i < kWays.size()
                             ? MakeSetAssociative(entries, kWays[i])
                             : MakeChaining(entries, traces.all_keys());
      const std::string name = columns[i + 1].get<std::string>();
      const double misses =
          Rounded(100 - 100 * traces.HitRateOf(
                                  fmt::format("{}, {}", size, name), *table));
      row.push_back(misses);
      bars[i]["values"].push_back(misses);
      if (millions == 8 && (name == "1-way" || name == "16-way")) {
        summary.push_back(
            {{"what",
              fmt::format("GETs that miss, {} entries, {}", size, name)},
             {"paper", name == "1-way" ? 21.2 : 10.4},
             {"ours", misses},
             {"unit", "%"},
             {"median", nullptr},
             {"geometric_mean", nullptr}});
      }
    }
    rows.push_back(std::move(row));
  }
  return {{"figure", "4.8"},
          {"title", "misses by associativity, Zipf"},
          {"conditions", traces.Conditions()},
          {"tables",
           {{{"title", "GETs that miss, %"},
             {"columns", std::move(columns)},
             {"rows", std::move(rows)}}}},
          {"summary", std::move(summary)},
          {"panels",
           {{{"title", "GETs that miss, %"},
             {"groups", std::move(groups)},
             {"bars", std::move(bars)}}}}};
}

}  // namespace carillon::hash_sim

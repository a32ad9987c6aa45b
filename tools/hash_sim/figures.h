// The thesis' Figs. 4.7 and 4.8: how many GETs of a trace hit, by hash table and size.
#ifndef CARILLON_TOOLS_HASH_SIM_FIGURES_H_
#define CARILLON_TOOLS_HASH_SIM_FIGURES_H_

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "base/json.h"
#include "tools/hash_sim/hash_table.h"
#include "tools/hash_sim/requests.h"

namespace carillon::hash_sim {

// A GET that misses is followed by a SET of its key, as memcached's clients do.
// Sets the first `keys` keys, plays the requests, and returns the part of the GETs that
// hit. `hashes` has one for each key.
double HitRate(HashTable& table, uint32_t keys,
               std::span<const Request> requests,
               std::span<const uint32_t> hashes);

struct FigureOptions {
  bool quick = false;  // a hundredth of keys, entries and requests
  uint64_t seed = 1;
  // Called before each run: how many are done, of how many, and what comes next.
  std::function<void(int done, int total, const std::string& next)> progress;
};

// Documents for tools/plots/plot_sim_figure.py: title, conditions, tables, panels, and
// `summary`, the thesis' numbers beside ours.
Json HitRatesByTable(const FigureOptions& options);        // Fig. 4.7
Json MissesByAssociativity(const FigureOptions& options);  // Fig. 4.8

}  // namespace carillon::hash_sim

#endif  // CARILLON_TOOLS_HASH_SIM_FIGURES_H_

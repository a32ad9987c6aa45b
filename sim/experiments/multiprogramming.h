// Runs of whole backgrounds beside streams of events, of which Fig. 13 and what
// goes beyond it are made.
#ifndef CARILLON_SIM_EXPERIMENTS_MULTIPROGRAMMING_H_
#define CARILLON_SIM_EXPERIMENTS_MULTIPROGRAMMING_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/experiments/figures.h"

namespace carillon::sim::figures {

struct Rate {
  const char* name;
  Arrivals short_events, long_events;  // IPv4, IPv6; MemC, IPSec
};
inline constexpr Rate kRates[] = {
    {"low", {1015, 1015, 2}, {12000, 12000, 2}},
    {"high", {150, 150, 32}, {1500, 1500, 16}},
};
inline constexpr const char* kRatesCondition =
    "low: at most 2 events at once, a tick every 1,015 cycles (IPv4, IPv6) or "
    "12,000 (MemC, IPSec); high: at most 32, every 150, or 16, every 1,500; a "
    "tick that finds all of them under way waits for one's end";
inline constexpr const char* kSlowdownCondition =
    "slowdown: mean cycles over those alone, the wait for a place included; "
    "one run of the background; averages over pairs of event and background";
inline constexpr const char* kOwnSmsCondition =
    "on SMs of its own a background is the same with 28 and with 32 registers, "
    "so static reservation is run once";

// How events get to run.
struct Way {
  const char* name;
  const char* path;
  uint32_t reserve_sms = 0;
  // The TB scheduler spreads single events evenly (dispatch.event_turn: own).
  bool spread = false;
  uint32_t dynamic_load = 0;  // edge.reserve_load; 0: a static reservation

  // Whether blocks of the background and events may be on the same SM.
  bool shares_sms() const { return reserve_sms == 0 || dynamic_load != 0; }
};
inline constexpr Way kDraining{"draining", "tb_scheduler"};
inline constexpr Way kReservation{"reservation", "tb_scheduler", 8};
inline constexpr Way kSpreadReservation{"reservation, spread", "tb_scheduler",
                                        8, true};
inline constexpr Way kPreemption{"preemption", "warp"};

// One run of a background with events.
struct Mix {
  const Rate& rate;
  Beside beside;
  std::string_view event;
  const Way& way;
  // 0: the options' own; others also begin at another time.
  uint32_t more_seed = 0;
};
// The mix with so many registers for CONV1 and MM. Where the background has SMs
// of its own they make no difference, so there is only one.
Mix MixAt(const Rate& rate, std::string_view background, std::string_view event,
          const Way& way, uint32_t layer_registers, uint32_t more_seed = 0);
// Adds the mix's job and those of its background and its event alone.
void AddJobs(const Mix& mix, const ExperimentOptions& options,
             std::vector<Job>* jobs);

struct MixOutcome {
  double events = 0;
  std::optional<double> event_cycles;  // mean, from arrival to end
  std::optional<double> event_slowdown;
  double background_cycles = 0;
  double background_slowdown = 0;
  std::optional<double> antt;  // none without events
};
MixOutcome OutcomeOf(const Results& results, const Mix& mix);

}  // namespace carillon::sim::figures

#endif  // CARILLON_SIM_EXPERIMENTS_MULTIPROGRAMMING_H_

// What `bench sharing` measures, part by part: sharing_run.cc has the events beside
// a background, gpes_figures.cc the figures of GPES, sharing_summary.cc what was
// hoped for.
#ifndef CARILLON_TOOLS_BENCH_SHARING_MEASUREMENT_H_
#define CARILLON_TOOLS_BENCH_SHARING_MEASUREMENT_H_

#include <algorithm>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/clock.h"
#include "base/json.h"
#include "tools/bench/sharing/arrivals.h"
#include "tools/bench/sharing/metrics.h"
#include "tools/bench/sharing/sharing_run.h"
#include "tools/bench/sharing/testbed.h"

namespace carillon::bench {

// Everything below was fixed before the first run.
inline constexpr uint32_t kSms = 4;  // each holds one block at a time
inline constexpr uint32_t kEventThreads = 64;
inline constexpr uint32_t kThreads = 32;  // of a background's block
inline constexpr Nanoseconds kEventBlockNs = 10'000;
// What GPES calls a deadline: ten times a block.
inline constexpr Nanoseconds kDeadlineNs = 10 * kEventBlockNs;
inline constexpr uint32_t kEventPriority = 5;
inline constexpr Nanoseconds kUs = 1000;
inline constexpr Nanoseconds kMs = 1'000'000;

// How much of all places events want.
struct Rate {
  const char* name;
  double share;
};
inline constexpr Rate kRates[] = {{"low", 0.025}, {"high", 0.25}};
// In the order of their names.
enum class Shape { kClosed, kPoisson, kTraced, kUniform };
inline constexpr Shape kShapes[] = {Shape::kUniform, Shape::kPoisson,
                                    Shape::kClosed, Shape::kTraced};
std::string_view NameOf(Shape shape);

// A background's work: launches of kernels, one after the other, whose blocks all
// take as long.
struct Work {
  Nanoseconds block_ns = 0;
  uint64_t waves = 0;  // of a kernel: how often it fills the GPU
  uint64_t launches = 0;

  Nanoseconds kernel_ns() const { return block_ns * waves; }
  auto key() const { return std::tuple(block_ns, waves, launches); }
};
// One that takes about so long alone.
inline Work WorkOf(Nanoseconds block_ns, uint64_t waves, Nanoseconds all_ns) {
  return {block_ns, waves, std::max<uint64_t>(1, all_ns / (block_ns * waves))};
}

struct Load {
  Shape shape;
  Rate rate;
};

// Four significant digits.
double Rounded(double value);
double MeanOf(std::span<const double> values);
std::vector<Served> ServedOf(const Json& events);
// When the last launch ended.
double EndOf(const Json& background);
// What was hoped for before the first run, beside what a document has of it: rows
// of {"what", "hoped", "is", "met"}.
Json SharingSummary(const Json& document, uint32_t preempt_us);

class SharingMeasurement {
 public:
  explicit SharingMeasurement(const SharingOptions& options)
      : options_(options), rounds_(options.quick ? 1 : options.rounds) {}

  absl::StatusOr<Json> All();

 private:
  bool simulated() const { return options_.backend == "sim"; }
  bool on_gpu() const { return options_.backend == "cuda" && driver_.empty(); }
  // What is measured alone is measured under this one.
  std::string AlonePolicy() const {
    return options_.backend == "cuda" ? "priority" : "first_come";
  }
  // Of an event: half of a GPU.
  uint64_t event_blocks() const { return std::max<uint64_t>(2, places_ / 2); }
  // In simulated time only another seed makes another run.
  uint32_t RoundsOf(const Load& load) const {
    return simulated() && load.shape != Shape::kPoisson ? 1 : rounds_;
  }
  SharingGpud Gpud(const std::vector<std::string>& more = {}) const;
  absl::StatusOr<std::vector<Json>> RunDevices(
      const SharingGpud& gpud, const std::vector<SharingDevicePlan>& plans) {
    return testbed_.Run(gpud, plans);
  }
  absl::Status Calibrate();
  // The shortest of three.
  absl::StatusOr<double> LaunchNs(uint64_t blocks, uint32_t threads,
                                  uint64_t iterations);
  uint64_t IterationsOf(Nanoseconds ns, uint32_t threads) const {
    const double each = ns_per_iteration_.at(threads);
    return std::max<uint64_t>(
        1, static_cast<uint64_t>(static_cast<double>(ns) / each));
  }
  Nanoseconds GapOf(const Rate& rate) const {
    return static_cast<Nanoseconds>(
        static_cast<double>(event_blocks() * kEventBlockNs) /
        (static_cast<double>(places_) * rate.share));
  }
  SharingDevicePlan BackgroundPlan(std::string name, const Work& work,
                                   std::string_view policy) const;
  SharingDevicePlan EventPlan(std::string_view policy, uint64_t blocks,
                              Nanoseconds block_ns) const;
  SharingDevicePlan LoadPlan(const Load& load, std::string_view policy,
                             Nanoseconds end, uint32_t round) const;

  // Why the back-end cannot do it; empty: it can.
  absl::StatusOr<std::string> Refusal(const std::string& policy);
  // {"status", "reason"} where it cannot; empty where it can.
  absl::StatusOr<Json> Refused(const std::string& policy);
  // Whether a part of GPES's has rows of the policy: it is chosen, and the back-end
  // has it. Where it lacks one, the cells and Conditions() say so, and no row does.
  absl::StatusOr<bool> Has(const std::string& policy);
  // Of each round.
  absl::StatusOr<std::vector<double>> WorkAlone(const Work& work);
  // The mean of all rounds.
  absl::StatusOr<double> ResponseAlone(const Load& load);
  // What events and a background took beside each other, in all rounds, in ns.
  struct Together {
    // Of events that came before the background's end: the others had the GPU to
    // themselves.
    std::vector<double> responses, preemptions, pending, tardiness, jitter;
    std::vector<double> ends;  // the background's
    bool outlived_events = false;
  };
  // Events come until `end`.
  absl::StatusOr<Together> RunTogether(const std::string& policy,
                                       const Load& load, const Work& work,
                                       Nanoseconds end);
  absl::StatusOr<Json> Cell(std::string_view part, const std::string& policy,
                            const Load& load, const Work& work);
  absl::Status AddCells(Json& cells);
  absl::StatusOr<Json> Pending();
  absl::StatusOr<Json> Losses();
  absl::StatusOr<Json> Copies();
  absl::StatusOr<Json> Video();
  absl::StatusOr<Json> Orders();
  absl::StatusOr<Json> Floods();
  Json Conditions() const;
  bool Chosen(std::string_view policy) const {
    return std::ranges::find(options_.policies, policy) !=
           options_.policies.end();
  }
  bool HasPart(std::string_view part) const {
    return std::ranges::find(options_.parts, part) != options_.parts.end();
  }

  const SharingOptions options_;
  const uint32_t rounds_;
  SharingTestbed testbed_;
  Arrivals trace_;
  uint64_t places_ = kSms;                       // blocks that run at once
  uint32_t workers_ = kSms;                      // cpu
  std::map<uint32_t, double> ns_per_iteration_;  // by threads of a block
  std::map<std::tuple<Nanoseconds, uint64_t, uint64_t>, std::vector<double>>
      alone_;
  struct EventAlone {
    double response = 0;
    double running = 0;  // from its launch to its end
  };
  std::map<std::pair<Shape, double>, EventAlone> alone_events_;
  std::map<std::string, std::string> refusals_;  // by policy
  std::string driver_;  // of a cuda back-end that is not NVIDIA's (DriverOf())
};

}  // namespace carillon::bench

#endif  // CARILLON_TOOLS_BENCH_SHARING_MEASUREMENT_H_

#include "tools/bench/sharing/sharing_run.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <thread>
#include <tuple>
#include <utility>

#include "base/status.h"
#include "fmt/format.h"
#include "tools/bench/sharing/arrivals.h"
#include "tools/bench/sharing/metrics.h"
#include "tools/bench/sharing/testbed.h"

namespace carillon::bench {
namespace {

// Everything below was fixed before the first run.
constexpr uint32_t kSms = 4;  // each holds one block at a time
// An H100's 132 SMs with 32 blocks each.
constexpr uint64_t kCudaPlaces = 4224;
constexpr uint32_t kEventThreads = 64;
constexpr uint32_t kThreads = 32;  // of a background's block
constexpr Nanoseconds kEventBlockNs = 10'000;
// What GPES calls a deadline: ten times a block.
constexpr Nanoseconds kDeadlineNs = 10 * kEventBlockNs;
constexpr uint32_t kEventPriority = 5;
constexpr Nanoseconds kUs = 1000;
constexpr Nanoseconds kMs = 1'000'000;

// How much of all places events want.
struct Rate {
  const char* name;
  double share;
};
constexpr Rate kRates[] = {{"low", 0.025}, {"high", 0.25}};
constexpr const char* kShapes[] = {"uniform", "poisson", "closed", "traced"};

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
Work WorkOf(Nanoseconds block_ns, uint64_t waves, Nanoseconds all_ns) {
  return {block_ns, waves, std::max<uint64_t>(1, all_ns / (block_ns * waves))};
}

struct Load {
  std::string shape;
  Rate rate;
};

Json SpreadToJson(const std::vector<double>& ns) {
  const Spread spread = SpreadOf(ns);
  const auto us = [](double value) { return std::round(value) / 1000; };
  return {{"samples", spread.samples},
          {"mean", us(spread.mean)},
          {"p50", us(spread.p50)},
          {"p99", us(spread.p99)},
          {"max", us(spread.max)}};
}

double MeanOf(std::span<const double> values) {
  return SpreadOf({values.begin(), values.end()}).mean;
}

// Four significant digits.
double Rounded(double value) {
  if (value == 0 || !std::isfinite(value)) return 0;
  const double scale =
      std::pow(10, 3 - std::floor(std::log10(std::abs(value))));
  return std::round(value * scale) / scale;
}

class Run {
 public:
  explicit Run(const SharingOptions& options)
      : options_(options), rounds_(options.quick ? 1 : options.rounds) {}

  absl::StatusOr<Json> All();

 private:
  bool simulated() const { return options_.backend == "sim"; }
  // What is measured alone is measured under this one.
  std::string AlonePolicy() const {
    return options_.backend == "cuda" ? "priority" : "first_come";
  }
  // Of an event: half of a GPU.
  uint64_t event_blocks() const { return std::max<uint64_t>(2, places_ / 2); }
  // In simulated time only another seed makes another run.
  uint32_t RoundsOf(const Load& load) const {
    return simulated() && load.shape != "poisson" ? 1 : rounds_;
  }
  SharingGpud Gpud(const std::vector<std::string>& more = {}) const;
  absl::Status Calibrate();
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
  // Of each round.
  absl::StatusOr<std::vector<double>> WorkAlone(const Work& work);
  // The mean of all rounds.
  absl::StatusOr<double> ResponseAlone(const Load& load);
  absl::StatusOr<Json> Cell(std::string_view part, const std::string& policy,
                            const Load& load, const Work& work);
  absl::Status AddCells(Json& cells);
  absl::StatusOr<Json> Pending();
  absl::StatusOr<Json> Losses();
  absl::StatusOr<Json> Copies();
  Json Conditions() const;
  Json Summary(const Json& document) const;
  bool Chosen(std::string_view policy) const {
    return std::ranges::find(options_.policies, policy) !=
           options_.policies.end();
  }
  // Progress, for people.
  void Say(const std::string& what) const { fmt::print(stderr, "{}\n", what); }

  const SharingOptions options_;
  const uint32_t rounds_;
  Arrivals trace_;
  uint64_t places_ = kSms;                       // blocks that run at once
  uint32_t workers_ = kSms;                      // cpu
  std::map<uint32_t, double> ns_per_iteration_;  // by threads of a block
  std::map<std::tuple<Nanoseconds, uint64_t, uint64_t>, std::vector<double>>
      alone_;
  std::map<std::pair<std::string, double>, double> responses_;
  std::map<std::string, std::string> refusals_;  // by policy
};

SharingGpud Run::Gpud(const std::vector<std::string>& more) const {
  SharingGpud gpud{.program = options_.gpud,
                   .flags = {"--backend", options_.backend},
                   .simulated = simulated()};
  const auto add = [&gpud](const std::vector<std::string>& flags) {
    gpud.flags.insert(gpud.flags.end(), flags.begin(), flags.end());
  };
  if (simulated()) add({"--timing", options_.timing});
  if (options_.backend == "cpu") {
    add({"--sms", std::to_string(kSms), "--blocks-per-sm", "1", "--workers",
         std::to_string(workers_)});
  }
  add(more);
  return gpud;
}

// How long an iteration of the kernel takes in a block of so many threads.
absl::Status Run::Calibrate() {
  const uint64_t iterations = options_.backend == "cpu" ? 20'000 : 2'000;
  for (const uint32_t threads : {kThreads, kEventThreads}) {
    ASSIGN_OR_RETURN(const auto saw,
                     RunDevices(Gpud(), {{"calibration",
                                          {{"do", "background"},
                                           {"iterations", iterations},
                                           {"blocks", 1},
                                           {"threads", threads},
                                           {"launches", 3}}}}));
    // The first one warms up.
    std::vector<double> ns;
    for (const Json& launch : saw[0]["launches"]) {
      ns.push_back(launch[2].get<double>() - launch[1].get<double>());
    }
    ns_per_iteration_[threads] =
        std::max(0.01, std::ranges::min(ns) / static_cast<double>(iterations));
  }
  return absl::OkStatus();
}

SharingDevicePlan Run::BackgroundPlan(std::string name, const Work& work,
                                      std::string_view policy) const {
  return {std::move(name),
          {{"do", "background"},
           {"policy", policy},
           {"iterations", IterationsOf(work.block_ns, kThreads)},
           {"blocks", work.waves * places_},
           {"threads", kThreads},
           {"launches", work.launches}}};
}

SharingDevicePlan Run::EventPlan(std::string_view policy, uint64_t blocks,
                                 Nanoseconds block_ns) const {
  return {"events",
          {{"do", "events"},
           {"policy", policy},
           // On cuda, whose policies do not see what the GPU itself launches.
           {"launch_path", options_.backend == "cuda" ? "baseline_flag" : ""},
           {"iterations", IterationsOf(block_ns, kEventThreads)},
           {"blocks", blocks},
           {"threads", kEventThreads},
           {"priority", kEventPriority}}};
}

SharingDevicePlan Run::LoadPlan(const Load& load, std::string_view policy,
                                Nanoseconds end, uint32_t round) const {
  SharingDevicePlan plan = EventPlan(policy, event_blocks(), kEventBlockNs);
  const Nanoseconds gap = GapOf(load.rate);
  if (load.shape == "closed") {
    plan.plan["gap"] = gap;
    plan.plan["end"] = end;
  } else if (load.shape == "uniform") {
    plan.plan["due"] = UniformArrivals(gap, end);
  } else if (load.shape == "traced") {
    plan.plan["due"] = TracedArrivals(trace_, gap, end);
  } else {
    plan.plan["due"] = PoissonArrivals(gap, end, options_.seed + round);
  }
  return plan;
}

std::vector<Served> ServedOf(const Json& events) {
  std::vector<Served> served;
  for (const Json& one : events) {
    served.push_back({one[0].get<Nanoseconds>(), one[1].get<Nanoseconds>(),
                      one[2].get<Nanoseconds>()});
  }
  return served;
}

// When the last launch ended.
double EndOf(const Json& background) {
  return background["launches"].back()[2].get<double>();
}

absl::StatusOr<std::string> Run::Refusal(const std::string& policy) {
  const auto known = refusals_.find(policy);
  if (known != refusals_.end()) return known->second;
  SharingDevicePlan plan = EventPlan(policy, 1, kEventBlockNs);
  plan.plan["due"] = Json::array();
  ASSIGN_OR_RETURN(const auto saw, RunDevices(Gpud(), {plan}));
  return refusals_[policy] = saw[0].value("refused", "");
}

absl::StatusOr<Json> Run::Refused(const std::string& policy) {
  ASSIGN_OR_RETURN(const auto reason, Refusal(policy));
  if (reason.empty()) return Json::object();
  return Json{{"status", "refused"}, {"reason", reason}};
}

absl::StatusOr<std::vector<double>> Run::WorkAlone(const Work& work) {
  std::vector<double>& alone = alone_[work.key()];
  // In simulated time all rounds are the same.
  while (alone.size() < (simulated() ? 1 : rounds_)) {
    ASSIGN_OR_RETURN(const auto saw,
                     RunDevices(Gpud(), {BackgroundPlan("background", work,
                                                        AlonePolicy())}));
    alone.push_back(EndOf(saw[0]));
  }
  return alone;
}

absl::StatusOr<double> Run::ResponseAlone(const Load& load) {
  const Nanoseconds end = (options_.quick ? 4 : 16) * kMs;
  double& response = responses_[{load.shape, load.rate.share}];
  if (response != 0) return response;
  std::vector<double> all;
  for (uint32_t round = 0; round < RoundsOf(load); ++round) {
    ASSIGN_OR_RETURN(
        const auto saw,
        RunDevices(Gpud(), {LoadPlan(load, AlonePolicy(), end, round)}));
    std::ranges::copy(ResponsesOf(ServedOf(saw[0]["served"])),
                      std::back_inserter(all));
  }
  response = MeanOf(all);
  return response;
}

absl::StatusOr<Json> Run::Cell(std::string_view part, const std::string& policy,
                               const Load& load, const Work& work) {
  Json cell = {{"part", part},
               {"policy", policy},
               {"load", load.shape},
               {"rate", load.rate.name},
               {"gap_us", static_cast<double>(GapOf(load.rate)) / 1000},
               {"block_us", work.block_ns / kUs},
               {"kernel_us", work.kernel_ns() / kUs},
               {"launches", work.launches}};
  ASSIGN_OR_RETURN(const auto refused, Refused(policy));
  cell.update(refused);
  if (!refused.empty()) return cell;
  ASSIGN_OR_RETURN(const auto alone, WorkAlone(work));
  const double work_alone = MeanOf(alone);
  // Events come for twice the time that the background takes alone.
  const auto end = static_cast<Nanoseconds>(2 * work_alone);
  ASSIGN_OR_RETURN(const double response_alone, ResponseAlone(load));
  std::vector<double> responses, preemptions, pending, tardiness, jitter, kept;
  std::vector<double> ends;
  bool beyond = false;
  for (uint32_t round = 0; round < RoundsOf(load); ++round) {
    ASSIGN_OR_RETURN(
        const auto saw,
        RunDevices(Gpud(), {LoadPlan(load, policy, end, round),
                            BackgroundPlan("background", work, policy)}));
    ends.push_back(EndOf(saw[1]));
    beyond |= ends.back() > static_cast<double>(end);
    // Those that came behind its end had the GPU to themselves.
    std::vector<Served> events = ServedOf(saw[0]["served"]);
    std::erase_if(events, [&](const Served& event) {
      return static_cast<double>(event.due) >= ends.back();
    });
    const auto append = [](std::vector<double>& to,
                           const std::vector<double>& from) {
      to.insert(to.end(), from.begin(), from.end());
    };
    append(responses, ResponsesOf(events));
    append(preemptions, PreemptionsOf(events));
    append(pending, PendingOf(events, response_alone));
    append(tardiness, TardinessOf(events, kDeadlineNs));
    if (load.shape == "uniform") {
      append(jitter, JitterOf(events, GapOf(load.rate)));
    }
  }
  if (responses.empty()) {
    return absl::FailedPreconditionError(fmt::format(
        "no event came within {:.3f} ms: the background is too short",
        static_cast<double>(end) / 1e6));
  }
  const double work_together = MeanOf(ends);
  const Program programs[] = {{response_alone, MeanOf(responses)},
                              {work_alone, work_together}};
  const auto late =
      std::ranges::count_if(tardiness, [](double by) { return by > 0; });
  cell["status"] = "measured";
  cell["response_us"] = SpreadToJson(responses);
  cell["response_alone_us"] = std::round(response_alone) / 1000;
  cell["preemption_us"] = SpreadToJson(preemptions);
  cell["pending_us"] = SpreadToJson(pending);
  cell["tardiness_us"] = SpreadToJson(tardiness);
  cell["late_percent"] = Rounded(100.0 * static_cast<double>(late) /
                                 static_cast<double>(tardiness.size()));
  cell["jitter_us"] = jitter.empty() ? Json() : SpreadToJson(jitter);
  cell["background_alone_us"] = Rounded(work_alone / 1000);
  cell["background_us"] = Rounded(work_together / 1000);
  cell["background_pending_us"] =
      Rounded(std::max(0.0, work_together - work_alone) / 1000);
  cell["background_kept"] = Rounded(work_alone / work_together);
  // The rest of it ran without events, so beside them it keeps less than that.
  cell["outlived_events"] = beyond;
  cell["antt"] = Rounded(Antt(programs));
  cell["stp"] = Rounded(Stp(programs));
  return cell;
}

absl::Status Run::AddCells(Json& cells) {
  const Nanoseconds all = (options_.quick ? 1 : 8) * kMs;
  const Work plain = WorkOf(100 * kUs, 10, all);
  const Load poisson{"poisson", options_.quick ? kRates[1] : kRates[0]};
  std::vector<std::tuple<std::string, Load, Work>> measured;
  if (options_.quick) {
    measured.emplace_back("load", poisson, plain);
  } else {
    for (const char* shape : kShapes) {
      for (const Rate& rate : kRates) {
        measured.emplace_back("load", Load{shape, rate}, plain);
      }
    }
    for (const Nanoseconds block : {10 * kUs, 100 * kUs, 1 * kMs, 10 * kMs}) {
      // Of the same length but for the longest blocks.
      const uint64_t waves = std::max<uint64_t>(2, 8 * kMs / block);
      measured.emplace_back("block length", poisson, WorkOf(block, waves, all));
    }
    for (const uint64_t waves : {1, 10, 80}) {
      measured.emplace_back("kernel length", poisson,
                            WorkOf(100 * kUs, waves, all));
    }
  }
  for (const auto& [part, load, work] : measured) {
    for (const std::string& policy : options_.policies) {
      ASSIGN_OR_RETURN(auto cell, Cell(part, policy, load, work));
      Say(fmt::format("{}, {} {}, blocks of {} us, kernels of {} us, {}: {}",
                      part, load.shape, load.rate.name, work.block_ns / kUs,
                      work.kernel_ns() / kUs, policy,
                      cell["status"].get<std::string>()));
      cells.push_back(std::move(cell));
    }
  }
  return absl::OkStatus();
}

// GPES's Fig. 8: an urgent kernel comes while two background kernels are queued.
absl::StatusOr<Json> Run::Pending() {
  const Nanoseconds length = (options_.quick ? 1 : 3) * 3'200 * kUs / 3;
  constexpr double kComes[] = {0.01, 0.26, 0.51, 0.76};
  const auto comes = std::span(kComes).first(options_.quick ? 1 : 4);
  struct Way {
    const char* policy;
    uint64_t waves;
  };
  constexpr Way kWays[] = {
      {"first_come", 32}, {"exclusive", 32}, {"priority", 32}, {"priority", 2},
      {"gpes", 2},        {"gpes", 8},       {"gpes", 32}};
  Json rows = Json::array();
  for (const Way& way : kWays) {
    if (!Chosen(way.policy)) continue;
    const Work work{length / way.waves, way.waves, 1};
    Json row = {{"policy", way.policy},
                {"waves", way.waves},
                {"block_us", static_cast<double>(work.block_ns) / 1000}};
    ASSIGN_OR_RETURN(const auto refused, Refused(way.policy));
    if (!refused.empty()) {
      row.update(refused);
      rows.push_back(std::move(row));
      continue;
    }
    ASSIGN_OR_RETURN(const auto alone, WorkAlone(work));
    const double kernel = MeanOf(alone);
    // It fills the GPU once, with blocks as long as the shortest here.
    SharingDevicePlan event = EventPlan(way.policy, places_, length / 32);
    event.plan["due"] = {Nanoseconds{0}};
    ASSIGN_OR_RETURN(const auto by_itself, RunDevices(Gpud(), {event}));
    std::vector<double> pending;
    for (const double share : comes) {
      event.plan["due"] = {static_cast<Nanoseconds>(share * kernel)};
      ASSIGN_OR_RETURN(
          const auto saw,
          RunDevices(Gpud(),
                     {event, BackgroundPlan("background0", work, way.policy),
                      BackgroundPlan("background1", work, way.policy)}));
      pending.push_back(
          PendingOf(ServedOf(saw[0]["served"]),
                    ServedOf(by_itself[0]["served"])[0].response())[0] /
          kernel);
    }
    row["status"] = "measured";
    row["pending"] = Json::array();
    for (const double one : pending) row["pending"].push_back(Rounded(one));
    row["worst"] = Rounded(std::ranges::max(pending));
    row["mean"] = Rounded(MeanOf(pending));
    rows.push_back(std::move(row));
  }
  return rows;
}

// What a background alone loses to slices of one wave each: with blocks that are
// alike, and with a picture's, of which most end at once.
absl::StatusOr<Json> Run::Losses() {
  std::vector<std::pair<Json, SharingDevicePlan>> backgrounds;
  for (const Nanoseconds block : {10 * kUs, 100 * kUs, 1 * kMs}) {
    if (options_.quick && block == kMs) continue;
    constexpr uint64_t kWaves = 8;
    backgrounds.emplace_back(
        Json{{"kernel", "busy"}, {"block_us", block / kUs}, {"waves", kWaves}},
        BackgroundPlan("background", {block, kWaves, 1}, AlonePolicy()));
  }
  const uint64_t side = options_.quick ? 32 : 128;
  const uint64_t blocks = side * side / kThreads;
  backgrounds.emplace_back(Json{{"kernel", "mandelbrot"},
                                {"waves", (blocks + places_ - 1) / places_}},
                           SharingDevicePlan{"background",
                                             {{"do", "background"},
                                              {"policy", AlonePolicy()},
                                              {"mandelbrot", side},
                                              {"blocks", blocks},
                                              {"threads", kThreads},
                                              {"launches", 1}}});
  Json rows = Json::array();
  if (!Chosen("gpes")) return rows;
  ASSIGN_OR_RETURN(const auto refused, Refused("gpes"));
  for (auto& [row, plan] : backgrounds) {
    row.update(refused);
    if (!refused.empty()) {
      rows.push_back(std::move(row));
      continue;
    }
    std::vector<double> whole, sliced;
    for (uint32_t round = 0; round < (simulated() ? 1 : rounds_); ++round) {
      plan.plan["policy"] = AlonePolicy();
      ASSIGN_OR_RETURN(const auto alone, RunDevices(Gpud(), {plan}));
      plan.plan["policy"] = "gpes";
      ASSIGN_OR_RETURN(const auto saw, RunDevices(Gpud(), {plan}));
      whole.push_back(EndOf(alone[0]));
      sliced.push_back(EndOf(saw[0]));
    }
    row["status"] = "measured";
    row["loss_percent"] = Rounded(100 * (MeanOf(sliced) / MeanOf(whole) - 1));
    rows.push_back(std::move(row));
  }
  return rows;
}

// GPES's Figs. 6 and 9: a large copy to GPU memory in chunks, alone, and an
// urgent small one that comes after a tenth of it.
absl::StatusOr<Json> Run::Copies() {
  const uint64_t bytes = options_.quick ? 4 << 20 : 128 << 20;
  constexpr uint64_t kUrgentBytes = 256 << 10;
  const auto plan = [](uint64_t size, uint32_t priority, double due) {
    return Json{{"do", "copies"},
                {"bytes", size},
                {"priority", priority},
                {"due", {static_cast<Nanoseconds>(due)}}};
  };
  Json rows = Json::array();
  double one_chunk = 0;
  for (const uint64_t chunks : {1, 4, 32, 256, 1024}) {
    const SharingGpud gpud =
        Gpud({"--copy-in-chunk", std::to_string(bytes / chunks), "--memory",
              "1GiB"});
    ASSIGN_OR_RETURN(const auto alone,
                     RunDevices(gpud, {{"large", plan(bytes, 0, 0)}}));
    const double took = ServedOf(alone[0]["copies"])[0].response();
    if (chunks == 1) one_chunk = took;
    ASSIGN_OR_RETURN(
        const auto both,
        RunDevices(
            gpud, {{"large", plan(bytes, 0, 0)},
                   {"urgent", plan(kUrgentBytes, kEventPriority, took / 10)}}));
    const Served urgent = ServedOf(both[1]["copies"])[0];
    rows.push_back(
        {{"bytes", bytes},
         {"chunks", chunks},
         {"took_us", Rounded(took / 1000)},
         {"slower_percent", Rounded(100 * (took / one_chunk - 1))},
         {"urgent_pending",
          Rounded(static_cast<double>(urgent.dispatched - urgent.due) /
                  took)}});
  }
  return rows;
}

Json Run::Conditions() const {
  Json conditions = {
      fmt::format("places for blocks: {}; events of {} blocks of {} us and {} "
                  "threads at priority {}, backgrounds of {} threads a block "
                  "at priority 0; all blocks of a kernel are alike",
                  places_, event_blocks(), kEventBlockNs / kUs, kEventThreads,
                  kEventPriority, kThreads),
      fmt::format("low: events want {} % of all places, high: {} %; deadline: "
                  "{} us after an event came",
                  100 * kRates[0].share, 100 * kRates[1].share,
                  kDeadlineNs / kUs),
      fmt::format("events come for twice the time that the background takes "
                  "alone, and those before its end count; {} rounds, Poisson's "
                  "with seeds from {} on",
                  rounds_, options_.seed),
      fmt::format("alone: under {}", AlonePolicy())};
  if (options_.backend == "cpu") {
    conditions.push_back(
        "cpu back-end: for function; a policy's cost there says nothing of a "
        "GPU");
  }
  return conditions;
}

// The numbers that were hoped for, whatever they are.
Json Run::Summary(const Json& document) const {
  Json summary = Json::array();
  const auto add = [&](std::string what, const Json& value, double bound,
                       bool at_most) {
    const double number = value.get<double>();
    summary.push_back(
        {{"what", std::move(what)},
         {"hoped", fmt::format("{} {}", at_most ? "<=" : ">=", bound)},
         {"is", value},
         {"met", at_most ? number <= bound : number >= bound}});
  };
  for (const Json& row : document["pending"]) {
    const auto policy = row["policy"].get<std::string>();
    if (row["status"] != "measured" || row["waves"] != 32 ||
        policy == "priority") {
      continue;
    }
    const bool sliced = policy == "gpes";
    add(fmt::format("pending of an urgent kernel beside two of 32 waves, over "
                    "one's time alone, worst: {}",
                    policy),
        row["worst"], sliced ? 0.05 : 0.9, sliced);
  }
  for (const Json& row : document["losses"]) {
    if (row["status"] != "measured") continue;
    const std::string of =
        row.contains("block_us")
            ? fmt::format("blocks of {} us", row["block_us"].get<uint64_t>())
            : row["kernel"].get<std::string>();
    add(fmt::format("background alone loses to slices, {}, %", of),
        row["loss_percent"], 5, true);
  }
  for (const Json& row : document["copies"]) {
    if (row["chunks"] != 256) continue;
    add("a copy in 256 chunks is slower, %", row["slower_percent"], 7, true);
  }
  for (const Json& cell : document["cells"]) {
    if (cell["policy"] != "gpes" || cell["status"] != "measured" ||
        cell["rate"] != "low" || cell["part"] != "block length") {
      continue;
    }
    const double block = cell["block_us"].get<double>();
    add(fmt::format("p99 wait of an event under gpes, blocks of {} us, in "
                    "blocks (a slice and a block: 2)",
                    block),
        Rounded(cell["preemption_us"]["p99"].get<double>() / block), 2, true);
  }
  return summary;
}

absl::StatusOr<Json> Run::All() {
  ASSIGN_OR_RETURN(trace_, ReadTrace(options_.trace));
  if (options_.backend == "cpu") {
    workers_ =
        std::clamp(std::thread::hardware_concurrency(), 2u, kSms + 1) - 1;
    places_ = workers_;
  } else if (options_.backend == "cuda") {
    places_ = kCudaPlaces;
  }
  RETURN_IF_ERROR(Calibrate());
  Json document = {{"bench", "sharing"},      {"backend", options_.backend},
                   {"quick", options_.quick}, {"seed", options_.seed},
                   {"rounds", rounds_},       {"conditions", Conditions()}};
  document["cells"] = Json::array();
  RETURN_IF_ERROR(AddCells(document["cells"]));
  ASSIGN_OR_RETURN(document["pending"], Pending());
  ASSIGN_OR_RETURN(document["losses"], Losses());
  ASSIGN_OR_RETURN(document["copies"], Copies());
  document["summary"] = Summary(document);
  document["not_compared"] =
      "MPS and XSched share a GPU between programs of the driver's: there is "
      "none here";
  return document;
}

}  // namespace

absl::StatusOr<Json> RunSharing(const SharingOptions& options) {
  if (options.gpud.empty()) {
    return absl::UnavailableError("no gpud; name it with --gpud");
  }
  return Run(options).All();
}

}  // namespace carillon::bench

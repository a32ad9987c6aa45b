#include "tools/bench/sharing/sharing_run.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>

#include "base/status.h"
#include "base/subprocess.h"
#include "fmt/format.h"
#include "tools/bench/machine.h"
#include "tools/bench/sharing/arrivals.h"
#include "tools/bench/sharing/measurement.h"
#include "tools/bench/sharing/metrics.h"
#include "tools/bench/sharing/testbed.h"
#include "tools/bench/stats.h"

namespace carillon::bench {
namespace {

// What else shares a GPU between programs: whether it is here.
Json Others() {
  const bool gpu = std::filesystem::exists("/dev/nvidiactl");
  Json others = Json::array();
  for (const auto& [name, program] :
       {std::pair("MPS", "nvidia-cuda-mps-control"), {"XSched", "xcli"}}) {
    const bool installed = FindProgram(program).ok();
    others.push_back(
        {{"name", name},
         {"installed", installed},
         {"gpu", gpu},
         {"status", "not measured"},
         {"reason",
          fmt::format("{} is {}on PATH, and this machine has {} NVIDIA GPU; it "
                      "shares one between programs that launch by themselves, "
                      "as no device here does",
                      program, installed ? "" : "not ", gpu ? "an" : "no")}});
  }
  return others;
}

Json SpreadToJson(const std::vector<double>& ns) {
  const Percentiles spread = PercentilesOf(ns);
  const auto us = [](double value) { return std::round(value) / 1000; };
  return {{"samples", spread.samples},
          {"mean", us(spread.mean)},
          {"p50", us(spread.p50)},
          {"p99", us(spread.p99)},
          {"max", us(spread.max)}};
}

// Progress, for people.
void Say(const std::string& what) { fmt::print(stderr, "{}\n", what); }

}  // namespace

double MeanOf(std::span<const double> values) {
  return PercentilesOf(std::vector(values.begin(), values.end())).mean;
}

double Rounded(double value) {
  if (value == 0 || !std::isfinite(value)) return 0;
  const double scale =
      std::pow(10, 3 - std::floor(std::log10(std::abs(value))));
  return std::round(value * scale) / scale;
}

std::string_view NameOf(Shape shape) {
  switch (shape) {
    case Shape::kClosed:
      return "closed";
    case Shape::kPoisson:
      return "poisson";
    case Shape::kTraced:
      return "traced";
    case Shape::kUniform:
      return "uniform";
  }
  return {};
}

std::vector<Served> ServedOf(const Json& events) {
  std::vector<Served> served;
  for (const Json& one : events) {
    served.push_back({one[0].get<Nanoseconds>(), one[1].get<Nanoseconds>(),
                      one[2].get<Nanoseconds>()});
  }
  return served;
}

double EndOf(const Json& background) {
  return background["launches"].back()[2].get<double>();
}

SharingGpud SharingMeasurement::Gpud(
    const std::vector<std::string>& more) const {
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
  if (options_.preempt_us != 0) {
    add({"--preempt-us", std::to_string(options_.preempt_us)});
  }
  if (options_.reserve_sms != 0) {
    add({"--reserve-sms", std::to_string(options_.reserve_sms)});
  }
  add(more);
  return gpud;
}

absl::StatusOr<double> SharingMeasurement::LaunchNs(uint64_t blocks,
                                                    uint32_t threads,
                                                    uint64_t iterations) {
  const SharingDevicePlan plan{"calibration",
                               {{"do", "background"},
                                {"iterations", iterations},
                                {"blocks", blocks},
                                {"threads", threads},
                                {"launches", 3}}};
  ASSIGN_OR_RETURN(const auto saw, RunDevices(Gpud(), {plan}));
  // The first one warms up.
  std::vector<double> ns;
  for (const Json& launch : saw[0]["launches"]) {
    ns.push_back(launch[2].get<double>() - launch[1].get<double>());
  }
  return std::ranges::min(ns);
}

// How long an iteration of the kernel takes in a block of so many threads: on a GPU
// where as many others run as will, since blocks of one SM share its units, and
// without what a launch takes.
absl::Status SharingMeasurement::Calibrate() {
  const bool cuda = options_.backend == "cuda";
  if (cuda) {
    SharingDevicePlan plan{"calibration",
                           {{"do", "background"},
                            {"describe", true},
                            {"iterations", 1},
                            {"blocks", 1},
                            {"threads", kEventThreads},
                            {"launches", 1}}};
    ASSIGN_OR_RETURN(const auto saw, RunDevices(Gpud(), {plan}));
    const Json& about = saw[0]["about"];
    driver_ = DriverOf(about["description"].get<std::string>());
    places_ = about["places"];
  }
  const uint64_t iterations = options_.backend == "cpu" ? 20'000 : 2'000;
  for (const uint32_t threads : {kThreads, kEventThreads}) {
    const uint64_t blocks = !on_gpu()             ? 1
                            : threads == kThreads ? places_
                                                  : event_blocks();
    ASSIGN_OR_RETURN(const double ns, LaunchNs(blocks, threads, iterations));
    double each = ns / static_cast<double>(iterations);
    if (cuda) {
      constexpr uint64_t kMore = 11;
      ASSIGN_OR_RETURN(const double longer,
                       LaunchNs(blocks, threads, kMore * iterations));
      // Unless the machine was busy meanwhile.
      if (longer > ns) {
        each = (longer - ns) / static_cast<double>((kMore - 1) * iterations);
      }
    }
    ns_per_iteration_[threads] = std::max(0.01, each);
  }
  return absl::OkStatus();
}

SharingDevicePlan SharingMeasurement::BackgroundPlan(
    std::string name, const Work& work, std::string_view policy) const {
  return {std::move(name),
          {{"do", "background"},
           {"policy", policy},
           {"iterations", IterationsOf(work.block_ns, kThreads)},
           {"blocks", work.waves * places_},
           {"threads", kThreads},
           {"launches", work.launches}}};
}

SharingDevicePlan SharingMeasurement::EventPlan(std::string_view policy,
                                                uint64_t blocks,
                                                Nanoseconds block_ns) const {
  return {"events",
          {{"do", "events"},
           {"policy", policy},
           // On cuda, whose policies do not see what the GPU itself launches.
           {"launch_path", options_.backend == "cuda" ? "baseline_flag" : ""},
           {"spins", on_gpu()},
           {"iterations", IterationsOf(block_ns, kEventThreads)},
           {"blocks", blocks},
           {"threads", kEventThreads},
           {"priority", kEventPriority}}};
}

SharingDevicePlan SharingMeasurement::LoadPlan(const Load& load,
                                               std::string_view policy,
                                               Nanoseconds end,
                                               uint32_t round) const {
  SharingDevicePlan plan = EventPlan(policy, event_blocks(), kEventBlockNs);
  const Nanoseconds gap = GapOf(load.rate);
  switch (load.shape) {
    case Shape::kClosed:
      plan.plan["gap"] = gap;
      plan.plan["end"] = end;
      break;
    case Shape::kPoisson:
      plan.plan["due"] = PoissonArrivals(gap, end, options_.seed + round);
      break;
    case Shape::kTraced:
      plan.plan["due"] = TracedArrivals(trace_, gap, end);
      break;
    case Shape::kUniform:
      plan.plan["due"] = UniformArrivals(gap, end);
      break;
  }
  return plan;
}

absl::StatusOr<std::string> SharingMeasurement::Refusal(
    const std::string& policy) {
  const auto known = refusals_.find(policy);
  if (known != refusals_.end()) return known->second;
  SharingDevicePlan plan = EventPlan(policy, 1, kEventBlockNs);
  plan.plan["due"] = Json::array();
  ASSIGN_OR_RETURN(const auto saw, RunDevices(Gpud(), {plan}));
  return refusals_[policy] = saw[0].value("refused", "");
}

absl::StatusOr<Json> SharingMeasurement::Refused(const std::string& policy) {
  ASSIGN_OR_RETURN(const auto reason, Refusal(policy));
  if (reason.empty()) return Json::object();
  return Json{{"status", "refused"}, {"reason", reason}};
}

absl::StatusOr<bool> SharingMeasurement::Has(const std::string& policy) {
  if (!Chosen(policy)) return false;
  ASSIGN_OR_RETURN(const auto reason, Refusal(policy));
  return reason.empty();
}

absl::StatusOr<std::vector<double>> SharingMeasurement::WorkAlone(
    const Work& work) {
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

absl::StatusOr<double> SharingMeasurement::ResponseAlone(const Load& load) {
  const Nanoseconds end = (options_.quick ? 4 : 16) * kMs;
  EventAlone& event = alone_events_[{load.shape, load.rate.share}];
  if (event.response != 0) return event.response;
  std::vector<double> all, running;
  for (uint32_t round = 0; round < RoundsOf(load); ++round) {
    ASSIGN_OR_RETURN(
        const auto saw,
        RunDevices(Gpud(), {LoadPlan(load, AlonePolicy(), end, round)}));
    for (const Served& served : ServedOf(saw[0]["served"])) {
      all.push_back(served.response());
      running.push_back(
          static_cast<double>(served.finished - served.dispatched));
    }
  }
  event = {.response = MeanOf(all), .running = MeanOf(running)};
  return event.response;
}

absl::StatusOr<SharingMeasurement::Together> SharingMeasurement::RunTogether(
    const std::string& policy, const Load& load, const Work& work,
    Nanoseconds end) {
  ASSIGN_OR_RETURN(const double response_alone, ResponseAlone(load));
  Together together;
  for (uint32_t round = 0; round < RoundsOf(load); ++round) {
    ASSIGN_OR_RETURN(
        const auto saw,
        RunDevices(Gpud(), {LoadPlan(load, policy, end, round),
                            BackgroundPlan("background", work, policy)}));
    const double ended = EndOf(saw[1]);
    together.ends.push_back(ended);
    together.outlived_events |= ended > static_cast<double>(end);
    std::vector<Served> events = ServedOf(saw[0]["served"]);
    std::erase_if(events, [&](const Served& event) {
      return static_cast<double>(event.due) >= ended;
    });
    const auto append = [](std::vector<double>& to,
                           const std::vector<double>& from) {
      to.insert(to.end(), from.begin(), from.end());
    };
    append(together.responses, ResponsesOf(events));
    append(together.preemptions, PreemptionsOf(events));
    append(together.pending, PendingOf(events, response_alone));
    append(together.tardiness, TardinessOf(events, kDeadlineNs));
    if (load.shape == Shape::kUniform) {
      append(together.jitter, JitterOf(events, GapOf(load.rate)));
    }
  }
  if (!together.responses.empty()) return together;
  return absl::FailedPreconditionError(
      fmt::format("no event came within {:.3f} ms: the background is too short",
                  static_cast<double>(end) / 1e6));
}

absl::StatusOr<Json> SharingMeasurement::Cell(std::string_view part,
                                              const std::string& policy,
                                              const Load& load,
                                              const Work& work) {
  Json cell = {{"part", part},
               {"policy", policy},
               {"load", NameOf(load.shape)},
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
  ASSIGN_OR_RETURN(const double response_alone, ResponseAlone(load));
  // Events come for twice the time that the background takes alone.
  ASSIGN_OR_RETURN(const Together together,
                   RunTogether(policy, load, work,
                               static_cast<Nanoseconds>(2 * work_alone)));
  const double work_together = MeanOf(together.ends);
  const Program programs[] = {{response_alone, MeanOf(together.responses)},
                              {work_alone, work_together}};
  const auto late = std::ranges::count_if(together.tardiness,
                                          [](double by) { return by > 0; });
  cell["status"] = "measured";
  cell["response_us"] = SpreadToJson(together.responses);
  cell["response_alone_us"] = std::round(response_alone) / 1000;
  cell["preemption_us"] = SpreadToJson(together.preemptions);
  cell["pending_us"] = SpreadToJson(together.pending);
  cell["tardiness_us"] = SpreadToJson(together.tardiness);
  cell["late_percent"] =
      Rounded(100.0 * static_cast<double>(late) /
              static_cast<double>(together.tardiness.size()));
  cell["jitter_us"] =
      together.jitter.empty() ? Json() : SpreadToJson(together.jitter);
  cell["background_alone_us"] = Rounded(work_alone / 1000);
  cell["background_us"] = Rounded(work_together / 1000);
  cell["background_pending_us"] =
      Rounded(std::max(0.0, work_together - work_alone) / 1000);
  cell["background_kept"] = Rounded(work_alone / work_together);
  // The rest of it ran without events, so beside them it keeps less than that.
  cell["outlived_events"] = together.outlived_events;
  cell["antt"] = Rounded(Antt(programs));
  cell["stp"] = Rounded(Stp(programs));
  return cell;
}

absl::Status SharingMeasurement::AddCells(Json& cells) {
  const Nanoseconds all = (options_.quick ? 1 : 8) * kMs;
  const Work plain = WorkOf(100 * kUs, 10, all);
  const Load poisson{Shape::kPoisson, options_.quick ? kRates[1] : kRates[0]};
  std::vector<std::tuple<std::string, Load, Work>> measured;
  if (HasPart("load")) {
    for (const Shape shape : kShapes) {
      for (const Rate& rate : kRates) {
        if (options_.quick &&
            (shape != poisson.shape || rate.share != poisson.rate.share)) {
          continue;
        }
        measured.emplace_back("load", Load{shape, rate}, plain);
      }
    }
  }
  if (HasPart("block_length") && !options_.quick) {
    for (const Nanoseconds block : {10 * kUs, 100 * kUs, 1 * kMs, 10 * kMs}) {
      // Of the same length but for the longest blocks.
      const uint64_t waves = std::max<uint64_t>(2, 8 * kMs / block);
      measured.emplace_back("block length", poisson, WorkOf(block, waves, all));
    }
  }
  if (HasPart("kernel_length") && !options_.quick) {
    for (const uint64_t waves : {1, 10, 80}) {
      measured.emplace_back("kernel length", poisson,
                            WorkOf(100 * kUs, waves, all));
    }
  }
  for (const auto& [part, load, work] : measured) {
    for (const std::string& policy : options_.policies) {
      ASSIGN_OR_RETURN(auto cell, Cell(part, policy, load, work));
      Say(fmt::format("{}, {} {}, blocks of {} us, kernels of {} us, {}: {}",
                      part, NameOf(load.shape), load.rate.name,
                      work.block_ns / kUs, work.kernel_ns() / kUs, policy,
                      cell["status"].get<std::string>()));
      cells.push_back(std::move(cell));
    }
  }
  return absl::OkStatus();
}

Json SharingMeasurement::Conditions() const {
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
  if (on_gpu()) {
    conditions.push_back(
        "a block takes as long as that where the GPU is full of blocks like "
        "it");
  }
  for (const auto& [load, event] : alone_events_) {
    const auto& [shape, share] = load;
    const Rate& rate = *std::ranges::find(kRates, share, &Rate::share);
    const double gap = static_cast<double>(GapOf(rate));
    if (event.running <= gap) continue;
    conditions.push_back(fmt::format(
        "{}, {}: an event alone runs for {:.4g} us, and one comes every {:.4g} "
        "us: where one has the GPU, or all of a part, to itself, they wait for "
        "each other without end",
        NameOf(shape), rate.name, event.running / 1000, gap / 1000));
  }
  for (const auto& [policy, reason] : refusals_) {
    if (!reason.empty()) {
      conditions.push_back(fmt::format("not measured: {}", reason));
    }
  }
  if (!driver_.empty()) conditions.push_back(driver_);
  if (options_.preempt_us != 0) {
    conditions.push_back(
        fmt::format("slices of gpes: at most {} us, where a wave is no longer",
                    options_.preempt_us));
  }
  if (options_.reserve_sms != 0) {
    conditions.push_back(
        fmt::format("{} SMs reserved for events", options_.reserve_sms));
  }
  if (options_.backend == "cpu") {
    conditions.push_back(
        "cpu back-end: for function; a policy's cost there says nothing of a "
        "GPU");
  }
  return conditions;
}

absl::StatusOr<Json> SharingMeasurement::All() {
  ASSIGN_OR_RETURN(trace_, ReadTrace(options_.trace));
  if (options_.backend == "cpu") {
    workers_ =
        std::clamp(std::thread::hardware_concurrency(), 2u, kSms + 1) - 1;
    places_ = workers_;
  }
  RETURN_IF_ERROR(Calibrate());
  Json document = {{"bench", "sharing"},
                   {"backend", options_.backend},
                   {"quick", options_.quick},
                   {"seed", options_.seed},
                   {"rounds", rounds_}};
  if (!driver_.empty()) document["driver"] = driver_;
  document["cells"] = Json::array();
  RETURN_IF_ERROR(AddCells(document["cells"]));
  constexpr std::pair<const char*,
                      absl::StatusOr<Json> (SharingMeasurement::*)()>
      kParts[] = {{"pending", &SharingMeasurement::Pending},
                  {"losses", &SharingMeasurement::Losses},
                  {"copies", &SharingMeasurement::Copies},
                  {"video", &SharingMeasurement::Video},
                  {"orders", &SharingMeasurement::Orders},
                  {"floods", &SharingMeasurement::Floods}};
  for (const auto& [part, measure] : kParts) {
    document[part] = Json::array();
    if (!HasPart(part)) continue;
    ASSIGN_OR_RETURN(document[part], (this->*measure)());
    Say(fmt::format("{}: {} rows", part, document[part].size()));
  }
  document["conditions"] = Conditions();
  // Of a driver that has no GPU nothing is hoped.
  document["summary"] = driver_.empty()
                            ? SharingSummary(document, options_.preempt_us)
                            : Json::array();
  document["others"] = Others();
  return document;
}

absl::StatusOr<Json> RunSharing(const SharingOptions& options) {
  if (options.gpud.empty()) {
    return absl::UnavailableError("no gpud; name it with --gpud");
  }
  return SharingMeasurement(options).All();
}

}  // namespace carillon::bench

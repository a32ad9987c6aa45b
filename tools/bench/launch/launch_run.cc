#include "tools/bench/launch/launch_run.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "base/status.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "tools/bench/launch/co_runner.h"
#include "tools/bench/launch/interrupt.h"
#include "tools/bench/launch/launch_summary.h"
#include "tools/bench/machine.h"
#include "tools/bench/quiet.h"
#include "tools/bench/stats.h"

namespace carillon::bench {
namespace {

using std::chrono::milliseconds;

// The workload of the parts that measure other work beside it, which EDGE is
// for.
constexpr const char* kLoad = "warp";
constexpr const char* kNoWorkload = "-";
constexpr const char* kNoPath = "none";  // no event kernel is registered
constexpr double kLoadShare = 0.8;       // of the peak rate

// 8 Gbps of 64-byte frames, with preamble and gap 84 bytes each (EDGE Fig. 5).
constexpr double kEightGigabits = 8e9 / (84 * 8);
// A rate that a CPU back-end can reach.
constexpr double kCpuPackets = 1e6;

constexpr milliseconds kMinBackground{2};
constexpr std::array<uint32_t, 6> kBackgroundSizes = {64,  128,  256,
                                                      512, 1024, 2048};
// Each failure may cost a long wait.
constexpr int kFailuresOfAPath = 3;
constexpr size_t kRoundsOfOthers = 2;  // the rarer effects are large

Json Command(const char* what, milliseconds time) {
  return {{"do", what}, {"ms", time.count()}};
}

Json OpenCommand(const std::string& path, const std::string& workload) {
  return {{"do", "open"}, {"path", path}, {"kernel", workload}};
}

// Whether a launch path has refused the workload; all other errors are
// failures.
bool IsRefusal(const absl::Status& status) {
  return absl::IsInvalidArgument(status) || absl::IsUnimplemented(status) ||
         absl::IsFailedPrecondition(status);
}

std::vector<LaunchCell> CellsOf(const std::vector<std::string>& paths,
                                const std::vector<std::string>& workloads) {
  std::vector<LaunchCell> cells;
  for (const std::string& path : paths) {
    for (const std::string& workload : workloads) {
      cells.push_back({.path = path, .workload = workload});
    }
  }
  return cells;
}

}  // namespace

const std::vector<std::string>& LaunchParts() {
  static const auto* const parts = new std::vector<std::string>{
      "latency", "idle", "co_runner", "background", "breakdown", "power"};
  return *parts;
}

constexpr std::pair<const char*, uint64_t LaunchRun::Ledger::*>
    LaunchRun::Ledger::kCounts[] = {{"rung", &Ledger::rung},
                                    {"done", &Ledger::done},
                                    {"failed", &Ledger::failed},
                                    {"aborted", &Ledger::aborted},
                                    {"refused", &Ledger::refused},
                                    {"device_rung", &Ledger::device_rung},
                                    {"device_done", &Ledger::device_done}};

bool LaunchRun::Ledger::Balanced() const {
  return lost == 0 && rung == done && failed == 0 && aborted == 0 &&
         rung == device_rung && done == device_done;
}

Json LaunchRun::Ledger::ToJson() const {
  Json json;
  for (const auto& [name, count] : kCounts) json[name] = this->*count;
  json["testbeds"] = testbeds;
  json["testbeds_lost"] = lost;
  json["balanced"] = Balanced();
  return json;
}

LaunchRun::LaunchRun(const BenchRun& run, const LaunchOptions& options)
    : run_(run),
      options_(options),
      times_(run.quick ? Times{.latency = milliseconds(30),
                               .rate = milliseconds(30),
                               .load = milliseconds(30),
                               .idle = milliseconds(50),
                               .co_runner = milliseconds(30),
                               .background = milliseconds(50),
                               .batch = milliseconds(20),
                               .power = milliseconds(200)}
                       : Times{.latency = milliseconds(250),
                               .rate = milliseconds(250),
                               .load = milliseconds(300),
                               .idle = milliseconds(400),
                               .co_runner = milliseconds(200),
                               .background = milliseconds(300),
                               .batch = milliseconds(150),
                               .power = milliseconds(2000)}) {}

bool LaunchRun::Wants(std::string_view part) const {
  return options_.parts.empty() ||
         std::ranges::find(options_.parts, part) != options_.parts.end();
}

absl::Status LaunchRun::StartTestbed() {
  ASSIGN_OR_RETURN(testbed_,
                   LaunchTestbed::Start({.gpud = run_.session.gpud,
                                         .backend = options_.backend,
                                         .reserved_sms = options_.reserved_sms,
                                         .realtime = run_.session.realtime}));
  ++ledger_.testbeds;
  return absl::OkStatus();
}

absl::Status LaunchRun::EndTestbed() {
  if (testbed_ == nullptr) return absl::OkStatus();
  const auto ledger = testbed_->device().Call({{"do", "ledger"}});
  testbed_.reset();
  if (absl::IsCancelled(ledger.status())) return ledger.status();
  if (!ledger.ok()) {
    ++ledger_.lost;
    return absl::OkStatus();
  }
  for (const auto& [name, count] : Ledger::kCounts) {
    ledger_.*count += (*ledger)[name].get<uint64_t>();
  }
  return absl::OkStatus();
}

absl::Status LaunchRun::ChoosePaths() {
  about_ = testbed_->device().about();
  std::vector<std::string> known;
  for (const Json& path : about_["paths"]) known.push_back(path["name"]);
  for (const std::string& path : options_.paths) {
    if (std::ranges::find(known, path) != known.end()) continue;
    return absl::NotFoundError(fmt::format(
        "the {} back-end has no launch path '{}'; there are: {}",
        about_["backend"].get<std::string>(), path, fmt::join(known, ", ")));
  }
  paths_ = options_.paths.empty() ? known : options_.paths;
  packets_per_second_ = options_.packets_per_second > 0
                            ? options_.packets_per_second
                        : about_["backend"] == "cpu" ? kCpuPackets
                                                     : kEightGigabits;
  return absl::OkStatus();
}

uint64_t LaunchRun::MeasuredCpuNs() const {
  return testbed_->CpuNs() + (others_cpu_ns_ ? others_cpu_ns_() : 0);
}

absl::StatusOr<Json> LaunchRun::MeasureOnce(const Json& open,
                                            const Measure& measure,
                                            std::string* refused) {
  LaunchDeviceProcess& device = testbed_->device();
  if (!open.is_null()) {
    const auto opened = device.Call(open);
    if (IsRefusal(opened.status())) {
      *refused = std::string(opened.status().message());
      return Json();
    }
    if (!opened.ok()) return opened.status();
  }
  ForeignMeter foreign;
  foreign.Start(MeasuredCpuNs());
  auto result = measure(device);
  if (!result.ok()) return result;
  const double share = foreign.Stop(MeasuredCpuNs());
  (*result)["foreign_share"] = share;
  (*result)["disturbed"] = share > run_.session.max_foreign;
  if (!open.is_null()) {
    ASSIGN_OR_RETURN(const auto closed, device.Call({{"do", "close"}}));
  }
  return result;
}

absl::Status LaunchRun::AfterFailure(LaunchCell& cell,
                                     const absl::Status& why) {
  if (absl::IsCancelled(why)) return why;
  ++failures_[cell.path];
  cell.failed = std::string(testbed_->WithLog(why).message());
  violated_ |= absl::IsDataLoss(why);
  fmt::print(stderr, "  {} {}: FAILED: {}\n", cell.path, cell.workload,
             cell.failed);
  RETURN_IF_ERROR(EndTestbed());
  return StartTestbed();
}

absl::Status LaunchRun::MeasureCell(LaunchCell& cell, size_t round,
                                    const Json& open, const Measure& measure,
                                    const Json& alone) {
  RETURN_IF_ERROR(CheckInterrupt());
  if (!cell.over() && failures_[cell.path] >= kFailuresOfAPath) {
    cell.failed =
        fmt::format("given up: the path has failed {} times", kFailuresOfAPath);
  }
  for (size_t attempt = 1; !cell.over(); ++attempt) {
    WaitForQuiet(run_.session.max_foreign, run_.session.patience);
    auto result = MeasureOnce(open, measure, &cell.refused);
    if (!result.ok()) return AfterFailure(cell, result.status());
    if (!cell.refused.empty()) {
      fmt::print(stderr, "  {} {}: refused: {}\n", cell.path, cell.workload,
                 cell.refused);
      break;
    }
    (*result)["round"] = round + 1;
    if (!alone.is_null()) (*result)["alone"] = alone;
    fmt::print(stderr, "  round {} {:<14} {:<9}{}\n", round + 1, cell.path,
               cell.workload, DescribeRun(*result));
    const bool good =
        !(*result)["disturbed"] || attempt >= run_.session.attempts;
    cell.runs.push_back(*std::move(result));
    if (good) break;
  }
  return absl::OkStatus();
}

absl::Status LaunchRun::InRounds(
    size_t rounds,
    const std::function<absl::Status(size_t path, size_t round)>& body) {
  for (size_t round = 0; round < rounds; ++round) {
    for (const size_t path : RoundOrder(paths_.size(), round)) {
      RETURN_IF_ERROR(body(path, round));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<Json> LaunchRun::LatencyAndRate(LaunchDeviceProcess& device) {
  const uint64_t cpu_0 = testbed_->GpudCpuNs();
  ASSIGN_OR_RETURN(auto trips,
                   device.Call(Command("round_trips", times_.latency)));
  const uint64_t cpu_1 = testbed_->GpudCpuNs();
  ASSIGN_OR_RETURN(auto rate, device.Call(Command("pipeline", times_.rate)));
  const uint64_t cpu_2 = testbed_->GpudCpuNs();
  Json load = Command("open_loop", times_.load);
  load["per_second"] = rate["per_second"].get<double>() * kLoadShare;
  ASSIGN_OR_RETURN(auto loaded, device.Call(load));
  ASSIGN_OR_RETURN(const auto short_path, device.Call({{"do", "short_path"}}));
  const auto per_event = [](uint64_t from, uint64_t to, const Json& result) {
    return static_cast<double>(to - from) / result["launched"].get<double>();
  };
  return Json{{"gpud_cpu_ns_per_event",
               {{"one_in_flight", per_event(cpu_0, cpu_1, trips)},
                {"pipelined", per_event(cpu_1, cpu_2, rate)}}},
              {"round_trips", std::move(trips)},
              {"pipelined", std::move(rate)},
              {"load_80", std::move(loaded)},
              {"short_path", short_path["short_path"]}};
}

absl::Status LaunchRun::MeasureLatency() {
  fmt::print(stderr, "latency and rate\n");
  const auto workloads = LaunchWorkloads();
  std::vector<std::string> names;
  for (const Workload& workload : workloads) names.push_back(workload.name);
  latency_ = CellsOf(paths_, names);
  for (size_t round = 0; round < run_.session.rounds; ++round) {
    for (size_t i = 0; i < names.size(); ++i) {
      for (const size_t path : RoundOrder(paths_.size(), round)) {
        LaunchCell& cell = latency_[path * names.size() + i];
        RETURN_IF_ERROR(MeasureCell(
            cell, round, OpenCommand(cell.path, cell.workload),
            [this](LaunchDeviceProcess& d) { return LatencyAndRate(d); }));
      }
    }
  }
  return absl::OkStatus();
}

absl::Status LaunchRun::MeasureIdle() {
  fmt::print(stderr, "gpud idle\n");
  idle_ = CellsOf(paths_, {kLoad});
  idle_.insert(idle_.begin(), {.path = kNoPath, .workload = kNoWorkload});
  for (size_t round = 0; round < run_.session.rounds; ++round) {
    for (const size_t i : RoundOrder(idle_.size(), round)) {
      LaunchCell& cell = idle_[i];
      const auto status = MeasureCell(
          cell, round,
          cell.path == kNoPath ? Json() : OpenCommand(cell.path, kLoad),
          [this](LaunchDeviceProcess&) -> absl::StatusOr<Json> {
            const uint64_t cpu = testbed_->GpudCpuNs();
            const auto start = std::chrono::steady_clock::now();
            RETURN_IF_ERROR(Sleep(times_.idle));
            const std::chrono::duration<double, std::nano> took =
                std::chrono::steady_clock::now() - start;
            return Json{{"gpud_cpu_percent",
                         static_cast<double>(testbed_->GpudCpuNs() - cpu) *
                             100 / took.count()}};
          });
      if (!status.ok()) return status;
    }
  }
  return absl::OkStatus();
}

absl::Status LaunchRun::MeasureCoRunners() {
  fmt::print(stderr, "with and without co-runners on the CPUs\n");
  co_runner_ = CellsOf(paths_, {kLoad});
  const milliseconds time = times_.co_runner;
  std::vector<std::pair<std::string, CoRunners>> kinds;
  for (const CoRunnerKind kind :
       {CoRunnerKind::kCompute, CoRunnerKind::kMemory}) {
    ASSIGN_OR_RETURN(auto runners,
                     CoRunners::Start(kind, testbed_->cpus().gpud));
    kinds.emplace_back(NameOf(kind), std::move(runners));
  }
  using Load = std::pair<const char*, const char*>;
  static constexpr std::array<Load, 3> kLoads = {
      Load("idle", nullptr), Load("round_trips", "round_trips"),
      Load("pipelined", "pipeline")};
  others_cpu_ns_ = [&] {
    uint64_t sum = 0;
    for (const auto& [name, runners] : kinds) sum += runners.CpuNs();
    return sum;
  };
  const absl::Cleanup forget = [&] { others_cpu_ns_ = nullptr; };
  // Measures what the co-runners achieve while `command` runs (null: nothing
  // runs).
  const auto together = [&](CoRunners& runners, LaunchDeviceProcess& device,
                            const char* command) -> absl::StatusOr<Json> {
    RETURN_IF_ERROR(runners.Run(time));
    Json result = Json::object();
    if (command != nullptr) {
      ASSIGN_OR_RETURN(result, device.Call(Command(command, time)));
    }
    ASSIGN_OR_RETURN(result["steps_per_second"], runners.StepsPerSecond());
    return result;
  };
  const auto measure =
      [&](LaunchDeviceProcess& device) -> absl::StatusOr<Json> {
    Json result = Json::object();
    Json& without = result["without"];
    ASSIGN_OR_RETURN(without["round_trips"],
                     device.Call(Command("round_trips", time)));
    ASSIGN_OR_RETURN(without["pipelined"],
                     device.Call(Command("pipeline", time)));
    for (auto& [name, runners] : kinds) {
      for (const auto& [key, command] : kLoads) {
        ASSIGN_OR_RETURN(result[name][key], together(runners, device, command));
      }
    }
    return result;
  };
  return InRounds(
      std::min(run_.session.rounds, kRoundsOfOthers),
      [&](size_t path, size_t round) -> absl::Status {
        LaunchCell& cell = co_runner_[path];
        if (cell.over()) return absl::OkStatus();
        Json alone = Json::object();
        for (auto& [name, runners] : kinds) {
          ASSIGN_OR_RETURN(auto one,
                           together(runners, testbed_->device(), nullptr));
          alone[name] = one["steps_per_second"];
        }
        return MeasureCell(cell, round, OpenCommand(cell.path, kLoad), measure,
                           alone);
      });
}

absl::Status LaunchRun::MeasureBackground() {
  fmt::print(stderr, "a background kernel beside the paths\n");
  background_ = CellsOf(paths_, {kLoad});
  std::optional<LaunchDeviceProcess> other;
  // The testbed that these counts belong to: after a failure there is another
  // one.
  uint64_t of = 0;
  const auto background_ns = [&](milliseconds time, LaunchDeviceProcess* device,
                                 Json* load) -> absl::StatusOr<Json> {
    Json command = Command("background", time);
    command["size"] = background_size_;
    RETURN_IF_ERROR(other->Send(command));
    if (device != nullptr) {
      ASSIGN_OR_RETURN(*load, device->Call(Command("pipeline", time)));
    }
    ASSIGN_OR_RETURN(const auto ran, other->Receive());
    return ran["kernel_ns"];
  };
  const auto prepare = [&]() -> absl::Status {
    if (of == ledger_.testbeds) return absl::OkStatus();
    other.reset();
    ASSIGN_OR_RETURN(auto added, testbed_->AddDevice("background"));
    other.emplace(std::move(added));
    of = ledger_.testbeds;
    for (const uint32_t size : kBackgroundSizes) {
      if (background_size_ > size) continue;
      background_size_ = size;
      ASSIGN_OR_RETURN(const auto ns,
                       background_ns(milliseconds(1), nullptr, nullptr));
      const auto longest = std::chrono::nanoseconds(kMinBackground);
      if (ns["min"].get<double>() >= static_cast<double>(longest.count())) {
        break;
      }
    }
    return absl::OkStatus();
  };
  const auto measure =
      [&](LaunchDeviceProcess& device) -> absl::StatusOr<Json> {
    ASSIGN_OR_RETURN(auto idle,
                     background_ns(times_.background, nullptr, nullptr));
    Json load;
    ASSIGN_OR_RETURN(auto loaded,
                     background_ns(times_.background, &device, &load));
    return Json{{"idle", std::move(idle)},
                {"under_load", std::move(loaded)},
                {"load", std::move(load)}};
  };
  return InRounds(
      std::min(run_.session.rounds, kRoundsOfOthers),
      [&](size_t path, size_t round) -> absl::Status {
        LaunchCell& cell = background_[path];
        if (cell.over()) return absl::OkStatus();
        RETURN_IF_ERROR(prepare());
        auto alone = background_ns(times_.background, nullptr, nullptr);
        if (!alone.ok()) return AfterFailure(cell, alone.status());
        return MeasureCell(cell, round, OpenCommand(cell.path, kLoad), measure,
                           *alone);
      });
}

absl::Status LaunchRun::MeasureBreakdown() {
  fmt::print(stderr, "where the time goes, by packets of an event\n");
  const std::vector<uint32_t> sizes =
      run_.quick ? std::vector<uint32_t>{1, 32, 1024}
                 : std::vector<uint32_t>{1, 8, 32, 128, 512, 2048, 8192};
  std::vector<std::string> names;
  for (const uint32_t size : sizes) names.push_back(std::to_string(size));
  breakdown_ = CellsOf(paths_, names);
  for (size_t i = 0; i < sizes.size(); ++i) {
    const auto measure =
        [&](LaunchDeviceProcess& device) -> absl::StatusOr<Json> {
      auto traced = device.Call({{"do", "trace"}, {"on", true}});
      if (!traced.ok()) return traced;
      Json command = Command("batches", times_.batch);
      command["packets"] = sizes[i];
      command["packets_per_second"] = packets_per_second_;
      auto result = device.Call(command);
      traced = device.Call({{"do", "trace"}, {"on", false}});
      return result.ok() && !traced.ok() ? traced : result;
    };
    RETURN_IF_ERROR(InRounds(1, [&](size_t path, size_t round) {
      LaunchCell& cell = breakdown_[path * sizes.size() + i];
      return MeasureCell(
          cell, round,
          {{"do", "open"}, {"path", cell.path}, {"packets", sizes[i]}},
          measure);
    }));
  }
  return absl::OkStatus();
}

absl::StatusOr<double> LaunchRun::MeanWatts(LaunchDeviceProcess& device,
                                            const Json& command, Json* result) {
  PowerMeter meter(nvml_.get());
  const auto end = std::chrono::steady_clock::now() + times_.power;
  if (!command.is_null()) {
    RETURN_IF_ERROR(device.Send(command));
  }
  while (std::chrono::steady_clock::now() < end) {
    RETURN_IF_ERROR(Sleep(milliseconds(20)));
    meter.Sample();
  }
  const auto mean = meter.Mean();
  if (!command.is_null()) {
    ASSIGN_OR_RETURN(*result, device.Receive());
  }
  if (!mean.ok()) return mean.status();
  return mean->watts;
}

absl::Status LaunchRun::MeasurePower() {
  if (about_["backend"] == "cpu") {
    no_power_ = "the cpu back-end uses no GPU";
  }
  if (nvml_ == nullptr || !no_power_.empty()) {
    fmt::print(stderr, "power: not measured ({})\n", no_power_);
    return absl::OkStatus();
  }
  fmt::print(stderr, "power\n");
  power_ = {{.path = kNoPath, .workload = kNoWorkload}};
  const auto cells = CellsOf(paths_, {"tb2", "tb120"});
  power_.insert(power_.end(), cells.begin(), cells.end());
  // Measured only once, since the power meter needs seconds.
  for (LaunchCell& cell : power_) {
    const bool none = cell.path == kNoPath;
    const auto status = MeasureCell(
        cell, 0, none ? Json() : OpenCommand(cell.path, cell.workload),
        [&](LaunchDeviceProcess& device) -> absl::StatusOr<Json> {
          Json result = Json::object();
          ASSIGN_OR_RETURN(result["idle_watts"],
                           MeanWatts(device, Json(), nullptr));
          if (none) return result;
          // This tells the pipeline how long an event takes.
          RETURN_IF_ERROR(
              device.Call(Command("round_trips", milliseconds(20))).status());
          Json answer;
          ASSIGN_OR_RETURN(
              result["load_watts"],
              MeanWatts(device, Command("pipeline", times_.power), &answer));
          result["load_per_second"] = answer["per_second"];
          return result;
        });
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::StatusOr<BenchResult> LaunchRun::Run() {
  CatchInterrupts();
  if (run_.session.gpud.empty()) {
    return absl::FailedPreconditionError(
        "gpud is neither among this program's runfiles nor beside it: say "
        "where it is with --gpud, or set CARILLON_BIN_DIR");
  }
  if (auto nvml = Nvml::Load(); nvml.ok()) {
    nvml_ = *std::move(nvml);
  } else {
    no_power_ = std::string(nvml.status().message());
  }
  RETURN_IF_ERROR(StartTestbed());
  RETURN_IF_ERROR(ChoosePaths());
  fmt::print(stderr, "{} back-end ({}), launch paths {}\n",
             about_["backend"].get<std::string>(),
             about_["description"].get<std::string>(), fmt::join(paths_, ", "));
  const std::pair<const char*, absl::Status (LaunchRun::*)()> parts[] = {
      {"latency", &LaunchRun::MeasureLatency},
      {"idle", &LaunchRun::MeasureIdle},
      {"co_runner", &LaunchRun::MeasureCoRunners},
      {"background", &LaunchRun::MeasureBackground},
      {"breakdown", &LaunchRun::MeasureBreakdown},
      {"power", &LaunchRun::MeasurePower}};
  for (const auto& [name, part] : parts) {
    if (!Wants(name)) continue;
    RETURN_IF_ERROR((this->*part)());
  }
  RETURN_IF_ERROR(EndTestbed());
  return Summarize();
}

absl::Status LaunchRun::Verdict() const {
  if (violated_) return absl::DataLossError("a launch path gave wrong results");
  std::vector<std::string> failed;
  for (const auto* cells :
       {&latency_, &idle_, &co_runner_, &background_, &breakdown_, &power_}) {
    for (const LaunchCell& cell : *cells) {
      if (!cell.failed.empty()) {
        failed.push_back(fmt::format("{} {}", cell.path, cell.workload));
      }
    }
  }
  if (!failed.empty()) {
    return absl::InternalError(
        fmt::format("not everything could be measured: "
                    "{} failed; see above",
                    fmt::join(failed, ", ")));
  }
  if (!ledger_.Balanced()) {
    return absl::DataLossError(
        fmt::format("the ledger does not add up: {}", ledger_.ToJson().dump()));
  }
  return absl::OkStatus();
}

Json LaunchRun::Describe() const {
  Json json = {{"name", about_["backend"]},
               {"description", about_["description"]},
               {"workers", about_["workers"]}};
  json["gpu"] = nvml_ != nullptr ? Json(nvml_->gpu()) : Json();
  json["driver"] = nvml_ != nullptr ? Json(nvml_->driver()) : Json();
  return json;
}

BenchResult LaunchRun::Summarize() {
  const CpuShares cpus = ShareCpus();
  BenchResult result;
  Json& extra = result.extra;
  extra["backend"] = Describe();
  extra["launch_paths"] = about_["paths"];
  extra["cpus"] = {{"separate", cpus.separate()},
                   {"device", cpus.device},
                   {"gpud", cpus.gpud}};
  extra["workloads"] = DescribeWorkloads();
  if (Wants("latency")) extra["latency"] = SummarizeLatency(latency_);
  if (Wants("idle")) extra["idle"] = SummarizeIdle(idle_);
  if (Wants("co_runner")) extra["co_runner"] = SummarizeCoRunner(co_runner_);
  if (Wants("background")) {
    extra["background"] = SummarizeBackground(background_);
    extra["background_kernel"] = {{"kernel", "matmul"},
                                  {"n", background_size_}};
  }
  if (Wants("breakdown")) {
    extra["breakdown"] = SummarizeBreakdown(breakdown_);
    extra["breakdown_packets_per_second"] = packets_per_second_;
  }
  if (Wants("power")) extra["power"] = SummarizePower(power_, no_power_);
  extra["ledger"] = ledger_.ToJson();
  const std::string driver =
      about_["backend"] == "cuda"
          ? DriverOf(about_["description"].get<std::string>())
          : "";
  if (driver.empty()) {
    result.figures =
        LaunchFigures(latency_, background_, about_["backend"] == "cuda");
  } else {
    extra["driver"] = driver;  // and no figures
  }
  result.extra_table = LaunchTables(extra);
  result.status = Verdict();
  return result;
}

}  // namespace carillon::bench

#include "tools/bench/dashboard/dashboard_run.h"

#include <signal.h>
#include <stdlib.h>

#include <chrono>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/line_process.h"
#include "base/status.h"
#include "base/subprocess.h"
#include "base/temp_directory.h"
#include "base/testbed_paths.h"
#include "fmt/format.h"
#include "tools/bench/dashboard/idle_devices.h"
#include "tools/bench/dashboard/page_reader.h"
#include "tools/bench/launch/interrupt.h"
#include "tools/bench/launch/testbed.h"
#include "tools/bench/quiet.h"
#include "tools/bench/stats.h"
#include "tools/testbed/perfetto/full_recorders.h"

namespace carillon::bench {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr milliseconds kEventTime{1500};
constexpr milliseconds kStreamTime{2000};
constexpr milliseconds kQuickTime{200};
// Past the first, whole picture, and for what was open before to end.
constexpr milliseconds kSettle{700};
constexpr seconds kAnswer{60};
constexpr size_t kProcesses = 2;  // gpud takes at most 63 devices of a process
constexpr size_t kDevices = 64;

double LoadAverage() {
  double load = 0;
  return getloadavg(&load, 1) == 1 ? load : 0;
}

// A dashboard of a testbed's directory.
class Gateway {
 public:
  static absl::StatusOr<Gateway> Start(const std::string& program,
                                       const std::string& directory) {
    ASSIGN_OR_RETURN(auto process,
                     LineProcess::Start({.argv = {program, "--dir", directory,
                                                  "--testbed", "bench"}}));
    ASSIGN_OR_RETURN(const auto line, AwaitLine(process, kAnswer));
    ASSIGN_OR_RETURN(auto link, DashboardLink::Read(line));
    return Gateway(std::move(process), std::move(link));
  }

  const DashboardLink& link() const { return link_; }
  uint64_t CpuNs() const { return process_.CpuNs(); }
  // The most that it has held so far.
  double PeakMib() const {
    std::ifstream status(fmt::format("/proc/{}/status", process_.pid()));
    for (std::string word; status >> word;) {
      double kib = 0;
      if (word == "VmHWM:" && status >> kib) return kib / 1024;
    }
    return 0;
  }

 private:
  Gateway(LineProcess process, DashboardLink link)
      : process_(std::move(process)), link_(std::move(link)) {}

  LineProcess process_;
  DashboardLink link_;
};

class DashboardRun {
 public:
  DashboardRun(const BenchRun& run, const DashboardPrograms& programs)
      : run_(run), programs_(programs) {}

  absl::StatusOr<BenchResult> Run() {
    result_.extra["load"] = {{"before", LoadAverage()}};
    RETURN_IF_ERROR(MeasureEvents());
    RETURN_IF_ERROR(MeasureStream());
    RETURN_IF_ERROR(MeasureTrace());
    result_.extra["load"]["after"] = LoadAverage();
    return std::move(result_);
  }

 private:
  using Wish = Figure::Wish;
  // The values of each contender, by round.
  using Values = std::map<std::string, std::vector<RoundValues>>;

  milliseconds Span(milliseconds usual) const {
    return run_.quick ? kQuickTime : usual;
  }
  void Add(std::string name, std::string what, std::string unit, Range value,
           Wish wish = Wish::kNone, double target = 0) {
    result_.figures.push_back({std::move(name), std::move(what),
                               std::move(unit), value, wish, target});
  }
  absl::StatusOr<std::unique_ptr<LaunchTestbed>> StartTestbed() const {
    return LaunchTestbed::Start({.gpud = run_.session.gpud,
                                 .backend = "cpu",
                                 .realtime = run_.session.realtime,
                                 .gpud_arguments = {"--ekt-entries", "128"}});
  }
  // Calls `measure` for each contender, there and back in every round, and keeps
  // what it gives as JSON below `part`.
  absl::Status Rounds(
      const std::string& part, const std::vector<std::string>& contenders,
      const std::function<absl::StatusOr<Json>(const std::string&)>& measure);
  // Per round, the numbers of that name.
  std::vector<RoundValues> ValuesOf(const std::string& part,
                                    const std::string& contender,
                                    const char* number) const;
  // Per round: the mean of one contender less that of another.
  std::vector<double> Differences(const std::string& part,
                                  const std::string& of, const std::string& to,
                                  const char* number) const;
  Range All(const std::string& part, const std::string& contender,
            const char* number) const;

  absl::Status MeasureEvents();
  absl::Status MeasureStream();
  absl::Status MeasureTrace();

  const BenchRun& run_;
  const DashboardPrograms& programs_;
  BenchResult result_;
};

absl::Status DashboardRun::Rounds(
    const std::string& part, const std::vector<std::string>& contenders,
    const std::function<absl::StatusOr<Json>(const std::string&)>& measure) {
  Json& all = result_.extra["measurements"][part] = Json::array();
  for (size_t round = 0; round < run_.session.rounds; ++round) {
    for (const size_t index : RoundOrder(contenders.size(), round)) {
      RETURN_IF_ERROR(CheckInterrupt());
      const std::string& name = contenders[index];
      ASSIGN_OR_RETURN(auto one, measure(name));
      one["contender"] = name;
      one["round"] = round;
      fmt::print(stderr, "  {} round {}: {}\n", part, round + 1, one.dump());
      all.push_back(std::move(one));
    }
  }
  return absl::OkStatus();
}

std::vector<RoundValues> DashboardRun::ValuesOf(const std::string& part,
                                                const std::string& contender,
                                                const char* number) const {
  std::vector<RoundValues> values(run_.session.rounds);
  for (const Json& one : result_.extra["measurements"][part]) {
    if (one["contender"] != contender || !one.contains(number)) continue;
    values[one["round"].get<size_t>()].push_back(one[number].get<double>());
  }
  return values;
}

std::vector<double> DashboardRun::Differences(const std::string& part,
                                              const std::string& of,
                                              const std::string& to,
                                              const char* number) const {
  const auto mean = [](const RoundValues& values) {
    double sum = 0;
    for (const double value : values) sum += value;
    return sum / static_cast<double>(values.size());
  };
  const auto more = ValuesOf(part, of, number);
  const auto less = ValuesOf(part, to, number);
  std::vector<double> differences;
  for (size_t i = 0; i < more.size(); ++i) {
    differences.push_back(mean(more[i]) - mean(less[i]));
  }
  return differences;
}

Range DashboardRun::All(const std::string& part, const std::string& contender,
                        const char* number) const {
  std::vector<double> all;
  for (const RoundValues& round : ValuesOf(part, contender, number)) {
    all.insert(all.end(), round.begin(), round.end());
  }
  return RangeOf(std::move(all));
}

absl::Status DashboardRun::MeasureEvents() {
  constexpr char kNumber[] = "cpu_ns_per_event";
  ASSIGN_OR_RETURN(const auto testbed, StartTestbed());
  ASSIGN_OR_RETURN(const auto gateway,
                   Gateway::Start(programs_.dashboard, testbed->testbed()));
  RETURN_IF_ERROR(
      testbed->device()
          .Call({{"do", "open"}, {"path", "edge"}, {"kernel", "empty"}})
          .status());
  const auto measure = [&](const std::string& name) -> absl::StatusOr<Json> {
    std::unique_ptr<OpenPage> page;
    if (name == "open") {
      ASSIGN_OR_RETURN(page, OpenPage::Open(gateway.link()));
    }
    RETURN_IF_ERROR(Sleep(kSettle));
    const uint64_t before = testbed->CpuNs();
    ForeignMeter foreign;
    foreign.Start(before + gateway.CpuNs());
    ASSIGN_OR_RETURN(const auto ran, testbed->device().Call(
                                         {{"do", "pipeline"},
                                          {"ms", Span(kEventTime).count()}}));
    const uint64_t after = testbed->CpuNs();
    const double events = ran["events"].get<double>();
    return Json{{kNumber, static_cast<double>(after - before) / events},
                {"events_per_second", ran["per_second"]},
                {"pictures", page == nullptr ? 0 : page->pictures()},
                {"foreign", foreign.Stop(after + gateway.CpuNs())}};
  };
  RETURN_IF_ERROR(
      Rounds("events", {"closed", "open", "closed_again"}, measure));
  const auto percent = [&](const char* of) {
    std::vector<double> ratios = PairRatios(
        ValuesOf("events", of, kNumber), ValuesOf("events", "closed", kNumber));
    for (double& ratio : ratios) ratio = (ratio - 1) * 100;
    return RangeOf(std::move(ratios));
  };
  Add("event_cpu_ns", "CPU time of a null event, no page (gpud and device)",
      "ns", All("events", "closed", kNumber));
  Add("event_cpu_control", "control: no page twice, difference", "%",
      percent("closed_again"));
  Add("event_cpu_open", "CPU time of a null event: open page over none", "%",
      percent("open"), Wish::kAtMost, 1);
  return absl::OkStatus();
}

absl::Status DashboardRun::MeasureStream() {
  ASSIGN_OR_RETURN(const auto testbed, StartTestbed());
  std::vector<LineProcess> idle;
  for (size_t i = 0; i < kProcesses; ++i) {
    const size_t count = kDevices / kProcesses;
    ASSIGN_OR_RETURN(
        auto process,
        LineProcess::Start({.argv = IdleDevicesArguments(testbed->testbed(),
                                                         i * count, count)}));
    idle.push_back(std::move(process));
    if (const auto line = AwaitLine(idle.back(), kAnswer); !line.ok()) {
      return testbed->WithLog(line.status());
    }
  }
  std::vector<double> first_data, peaks;
  const auto measure = [&](const std::string& name) -> absl::StatusOr<Json> {
    std::optional<Gateway> gateway;
    std::unique_ptr<OpenPage> page;
    if (!name.starts_with("none")) {
      ASSIGN_OR_RETURN(auto started,
                       Gateway::Start(programs_.dashboard, testbed->testbed()));
      gateway.emplace(std::move(started));
      RETURN_IF_ERROR(Sleep(kSettle));
    }
    if (name == "open") {
      ASSIGN_OR_RETURN(page, OpenPage::Open(gateway->link()));
      first_data.push_back(page->first_data_ms());
    }
    RETURN_IF_ERROR(Sleep(kSettle));
    const auto of_gateway = [&] { return gateway ? gateway->CpuNs() : 0; };
    const uint64_t gpud = testbed->GpudCpuNs();
    const uint64_t its = of_gateway();
    const Nanoseconds start = NowNs();
    ForeignMeter foreign;
    foreign.Start(gpud + its);
    RETURN_IF_ERROR(Sleep(Span(kStreamTime)));
    const uint64_t gpud_after = testbed->GpudCpuNs();
    const uint64_t its_after = of_gateway();
    const double span = static_cast<double>(NowNs() - start);
    Json one = {
        {"gpud_percent", static_cast<double>(gpud_after - gpud) / span * 100},
        {"foreign", foreign.Stop(gpud_after + its_after)}};
    if (gateway) {
      one["gateway_percent"] =
          static_cast<double>(its_after - its) / span * 100;
      peaks.push_back(gateway->PeakMib());
    }
    return one;
  };
  RETURN_IF_ERROR(
      Rounds("stream", {"none", "closed", "open", "none_again"}, measure));
  const auto more = [&](const char* of, const char* to) {
    return RangeOf(Differences("stream", of, to, "gpud_percent"));
  };
  Add("stream_control", "control: gpud without a dashboard twice, difference",
      "% of a core", more("none_again", "none"));
  Add("stream_gpud", "gpud: open page over no dashboard, 64 idle devices",
      "% of a core", more("open", "none"), Wish::kAtMost, 1);
  Add("closed_gpud", "gpud: dashboard without a page over none", "% of a core",
      more("closed", "none"));
  Add("gateway", "the dashboard, one page", "% of a core",
      All("stream", "open", "gateway_percent"), Wish::kAtMost, 5);
  Add("gateway_closed", "the dashboard, no page", "% of a core",
      All("stream", "closed", "gateway_percent"));
  Add("gateway_peak", "the dashboard's memory, its peak", "MiB",
      RangeOf(std::move(peaks)), Wish::kAtMost, 96);
  Add("first_data", "frame, history and first picture of an opened page", "ms",
      RangeOf(std::move(first_data)), Wish::kAtMost, 1000);
  return absl::OkStatus();
}

absl::Status DashboardRun::MeasureTrace() {
  ASSIGN_OR_RETURN(const auto folder, TempDirectory::Make());
  RETURN_IF_ERROR(perfetto::FillRecorders(
      TestbedPaths(folder.path()).recorder_directory()));
  ASSIGN_OR_RETURN(const auto gateway,
                   Gateway::Start(programs_.dashboard, folder.path()));
  std::vector<double> by_command, by_route;
  uint64_t bytes = 0;
  for (size_t round = 0; round < run_.session.rounds; ++round) {
    RETURN_IF_ERROR(CheckInterrupt());
    Nanoseconds start = NowNs();
    ASSIGN_OR_RETURN(
        auto exported,
        Subprocess::Start(
            {.argv = {programs_.carillon, "trace", "export", "--dir",
                      folder.path(), "--out", folder.path() + "/trace"},
             .out = SpawnOptions::kNothing}));
    if (const ExitReport ended = exported.Reap(); !ended.ok()) {
      return absl::FailedPreconditionError(
          fmt::format("trace export failed ({})", ended.ToString()));
    }
    by_command.push_back(static_cast<double>(NowNs() - start) / 1e9);
    start = NowNs();
    ASSIGN_OR_RETURN(bytes,
                     Get(gateway.link(), "/api/v1/trace.pftrace?last=600"));
    by_route.push_back(static_cast<double>(NowNs() - start) / 1e9);
  }
  Add("trace_export", "trace export, 65,536 records a process, five processes",
      "s", RangeOf(std::move(by_command)), Wish::kAtMost, 2);
  Add("trace_route", "the same through the dashboard", "s",
      RangeOf(std::move(by_route)));
  Add("trace_bytes", "size of that trace", "MiB",
      RangeOf({static_cast<double>(bytes) / (1 << 20)}));
  Add("trace_peak", "the dashboard's memory after it, its peak", "MiB",
      RangeOf({gateway.PeakMib()}), Wish::kAtMost, 96);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<BenchResult> RunDashboard(const BenchRun& run,
                                         const DashboardPrograms& programs) {
  return DashboardRun(run, programs).Run();
}

}  // namespace carillon::bench

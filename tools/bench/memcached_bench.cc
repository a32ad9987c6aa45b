// Carillon's NIC with its event kernels beside Debian's memcached: the same
// client, the same machine, in turn (A B B A), over loopback UDP.
#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/clock.h"
#include "base/line_process.h"
#include "base/status.h"
#include "base/temp_directory.h"
#include "base/testbed_paths.h"
#include "base/unique_fd.h"
#include "tools/bench/bench_main.h"
#include "tools/bench/quiet.h"
#include "tools/cli/ui/table.h"
#include "tools/plots/document.h"

namespace carillon::bench {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr std::array<int, 3> kWindows = {1, 32, 128};
constexpr seconds kStartTime{20};
constexpr milliseconds kIdleTime{5000};
constexpr milliseconds kQuickIdleTime{100};

sockaddr_in Loopback(uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

// A port that is free for TCP and UDP now, and hopefully in a moment.
absl::StatusOr<uint16_t> FreePort() {
  for (int attempt = 0; attempt < 100; ++attempt) {
    const UniqueFd tcp(socket(AF_INET, SOCK_STREAM, 0));
    const UniqueFd udp(socket(AF_INET, SOCK_DGRAM, 0));
    sockaddr_in address = Loopback(0);
    socklen_t size = sizeof(address);
    auto* any = reinterpret_cast<sockaddr*>(&address);
    if (bind(tcp.get(), any, size) == 0 &&
        getsockname(tcp.get(), any, &size) == 0 &&
        bind(udp.get(), any, size) == 0) {
      return ntohs(address.sin_port);
    }
  }
  return absl::ResourceExhaustedError("no free port on 127.0.0.1");
}

// Looks until `look` is true; DeadlineExceeded with `what` after kStartTime.
template <class Look>
absl::Status Await(Look look, const std::string& what) {
  const Nanoseconds deadline =
      NowNs() + std::chrono::nanoseconds(kStartTime).count();
  while (!look()) {
    if (NowNs() > deadline) return absl::DeadlineExceededError(what);
    std::this_thread::sleep_for(milliseconds(20));
  }
  return absl::OkStatus();
}

absl::Status WaitForTcp(uint16_t port, std::string_view who) {
  const sockaddr_in address = Loopback(port);
  const auto listens = [&] {
    const UniqueFd probe(socket(AF_INET, SOCK_STREAM, 0));
    return connect(probe.get(), reinterpret_cast<const sockaddr*>(&address),
                   sizeof(address)) == 0;
  };
  return Await(listens,
               fmt::format("{} does not listen on 127.0.0.1:{}", who, port));
}

// A server under test: its processes, the one that is started first ends last.
class Servers {
 public:
  uint16_t port = 0;

  absl::Status Start(SpawnOptions spec) {
    spec.realtime = realtime_;
    ASSIGN_OR_RETURN(auto child, LineProcess::Start(spec));
    children_.push_back(std::move(child));
    return absl::OkStatus();
  }
  explicit Servers(const BenchRun& run) : realtime_(run.session.realtime) {}
  Servers(Servers&&) = default;
  Servers& operator=(Servers&&) = delete;
  ~Servers() {
    while (!children_.empty()) {
      children_.back().End(SIGTERM, seconds(5));
      children_.pop_back();
    }
  }

  std::string Pids() const {
    std::string pids;
    for (const LineProcess& child : children_) {
      pids += fmt::format("{}{}", pids.empty() ? "" : ",", child.pid());
    }
    return pids;
  }
  uint64_t CpuNs() const { return SumCpuNs(children_); }

 private:
  bool realtime_;
  std::vector<LineProcess> children_;
};

absl::StatusOr<Servers> StartMemcached(const TempDirectory& scratch,
                                       const BenchRun& run) {
  ASSIGN_OR_RETURN(const auto port, FreePort());
  Servers servers(run);
  servers.port = port;
  const std::string number = std::to_string(port);
  std::vector<std::string> argv = {
      "/usr/bin/memcached", "-t", "1",    "-m", "64",  "-l",
      "127.0.0.1",          "-p", number, "-U", number};
  if (getuid() == 0) argv.insert(argv.end(), {"-u", "nobody"});
  RETURN_IF_ERROR(
      servers.Start({.argv = argv, .log_path = scratch.path() + "/memcached"}));
  RETURN_IF_ERROR(WaitForTcp(port, "memcached"));
  return servers;
}

absl::StatusOr<Servers> StartNic(const TempDirectory& scratch,
                                 const BenchRun& run) {
  ASSIGN_OR_RETURN(const auto port, FreePort());
  Servers servers(run);
  servers.port = port;
  const std::string testbed = scratch.path() + "/testbed";
  RETURN_IF_ERROR(
      servers.Start({.argv = {run.session.gpud, "--dir", testbed, "--backend",
                              "cpu", "--log-level", "warn"},
                     .log_path = scratch.path() + "/gpud"}));
  // The NIC gives up when there is no testbed; gpud's is there in a moment.
  const std::string gpud = TestbedPaths(testbed).control_socket();
  RETURN_IF_ERROR(Await([&] { return access(gpud.c_str(), F_OK) == 0; },
                        "gpud does not come up"));
  const std::string number = std::to_string(port);
  RETURN_IF_ERROR(
      servers.Start({.argv = {plots::Runfile("devices/nic/nic"), "--dir",
                              testbed, "--name", "nic0", "--udp-port", number,
                              "--tcp-port", number, "--log-level", "warn"},
                     .log_path = scratch.path() + "/nic"}));
  RETURN_IF_ERROR(WaitForTcp(port, "the NIC"));
  return servers;
}

absl::StatusOr<Servers> StartEcho(const TempDirectory& scratch,
                                  const BenchRun& run) {
  ASSIGN_OR_RETURN(const auto port, FreePort());
  Servers servers(run);
  servers.port = port;
  RETURN_IF_ERROR(servers.Start(
      {.argv = {plots::Runfile("tools/bench/udp_echo"), std::to_string(port)},
       .log_path = scratch.path() + "/echo"}));
  return servers;
}

// One run of memc_load: `a` and memcached in turn.
absl::StatusOr<Json> Compare(const Servers& a, bool echo,
                             const Servers& memcached, int window,
                             const BenchRun& run) {
  std::vector<std::string> argv = {
      plots::Runfile("tools/bench/memc_load"),
      fmt::format("127.0.0.1:{}", a.port),
      "--pids=" + a.Pids(),
      fmt::format("--vs=127.0.0.1:{}", memcached.port),
      "--vs-pids=" + memcached.Pids(),
      fmt::format("--window={}", window),
      fmt::format("--vs-tcp-warm={}", memcached.port),
      run.quick ? "--seconds=0.1" : "--seconds=1",
      run.quick ? "--rounds=1" : "--rounds=3"};
  if (run.quick) argv.push_back("--keys=1000");
  argv.push_back(echo ? "--echo" : fmt::format("--tcp-warm={}", a.port));
  ASSIGN_OR_RETURN(
      auto client,
      LineProcess::Start({.argv = argv, .realtime = run.session.realtime}));
  ASSIGN_OR_RETURN(const auto output, client.ReadAll(std::chrono::minutes(3)));
  Json result = Json::parse(output, nullptr, false);
  if (!result.is_object() || !result.contains("a_to_b")) {
    return absl::InternalError("memc_load failed; its message is above");
  }
  return result;
}

double IdlePercent(const Servers& servers, milliseconds time) {
  const uint64_t before = servers.CpuNs();
  const Nanoseconds start = NowNs();
  std::this_thread::sleep_for(time);
  return static_cast<double>(servers.CpuNs() - before) * 100 /
         static_cast<double>(NowNs() - start);
}

struct Runs {
  Json all = Json::array();
  std::vector<double> idle_percent;
};

// Everything once, with servers of its own.
absl::Status RunOnce(const BenchRun& run, size_t round, Runs* runs) {
  std::vector<TempDirectory> scratch;
  for (int i = 0; i < 4; ++i) {
    ASSIGN_OR_RETURN(
        auto directory,
        TempDirectory::Make(std::filesystem::temp_directory_path().string()));
    scratch.push_back(std::move(directory));
  }
  ASSIGN_OR_RETURN(auto nic, StartNic(scratch[0], run));
  ASSIGN_OR_RETURN(auto memcached, StartMemcached(scratch[1], run));
  ASSIGN_OR_RETURN(auto again, StartMemcached(scratch[2], run));
  ASSIGN_OR_RETURN(auto echo, StartEcho(scratch[3], run));
  runs->idle_percent.push_back(
      IdlePercent(nic, run.quick ? kQuickIdleTime : kIdleTime));

  for (const int window : kWindows) {
    for (const auto& [name, servers] :
         {std::pair("nic", &nic), std::pair("memcached_again", &again),
          std::pair("udp_echo", &echo)}) {
      WaitForQuiet(run.session.max_foreign, run.session.patience);
      ASSIGN_OR_RETURN(auto result, Compare(*servers, servers == &echo,
                                            memcached, window, run));
      const auto median = [&](const char* what) {
        const Json::json_pointer at(fmt::format("/a_to_b/{}/median", what));
        return result.value(at, 0.0);
      };
      fmt::print(stderr,
                 "  round {} window {:>3} {:<15} / memcached: {:.2f} x the "
                 "requests, {:.2f} x the p99, {:.2f} x the CPU time\n",
                 round + 1, window, name, median("requests_per_s"),
                 median("p99_latency"), median("server_cpu_per_request"));
      result["round"] = round + 1;
      result["name"] = name;
      runs->all.push_back(std::move(result));
    }
  }
  return absl::OkStatus();
}

// The ratios of `name` to memcached, over all rounds.
Range RatioOf(const Runs& runs, std::string_view name, int window,
              const char* what) {
  std::vector<double> medians, ends;
  for (const Json& run : runs.all) {
    if (run["name"] != name || run["window"] != window) continue;
    const Json& ratios = run["a_to_b"];
    if (!ratios.contains(what)) continue;
    medians.push_back(ratios[what]["median"]);
    ends.push_back(ratios[what]["least"]);
    ends.push_back(ratios[what]["most"]);
  }
  Range range = RangeOf(medians);
  const Range outer = RangeOf(ends);
  range.low = outer.low;
  range.high = outer.high;
  return range;
}

// Medians of the absolute numbers, for people.
std::string AbsoluteTable(const Runs& runs) {
  using cli::Align;
  cli::Table table({{"server", Align::kLeft},
                    {"window", Align::kRight},
                    {"requests/s", Align::kRight},
                    {"p50, us", Align::kRight},
                    {"p99, us", Align::kRight},
                    {"CPU us/request", Align::kRight}});
  for (const int window : kWindows) {
    for (const auto& [name, side, label] :
         {std::tuple("nic", "a", "Carillon (nic + gpud)"),
          std::tuple("nic", "b", "memcached -t 1"),
          std::tuple("udp_echo", "a", "bare UDP echo")}) {
      const auto median = [&](const char* path) {
        std::vector<double> values;
        const Json::json_pointer pointer{std::string("/") + side + path};
        for (const Json& run : runs.all) {
          if (run["name"] == name && run["window"] == window &&
              run.contains(pointer)) {
            values.push_back(run[pointer]);
          }
        }
        return values.empty() ? std::string()
                              : fmt::format("{:.1f}", RangeOf(values).median);
      };
      table.AddRow({label, std::to_string(window),
                    median("/requests_per_s/median"), median("/latency_us/p50"),
                    median("/latency_us/p99"),
                    median("/server_cpu_us_per_request")});
    }
  }
  return table.ToString(false) + "\n";
}

absl::StatusOr<BenchResult> Run(const BenchRun& run) {
  for (const char* program :
       {"devices/nic/nic", "tools/bench/memc_load", "tools/bench/udp_echo"}) {
    if (plots::Runfile(program).empty()) {
      return absl::FailedPreconditionError(fmt::format(
          "{} is not built: bazel build //tools/bench:memcached_bench",
          program));
    }
  }
  Runs runs;
  for (size_t round = 0; round < run.session.rounds; ++round) {
    RETURN_IF_ERROR(RunOnce(run, round, &runs));
  }
  using Wish = Figure::Wish;
  BenchResult result;
  for (const int window : kWindows) {
    const auto add = [&](std::string_view name, const char* key,
                         std::string_view what, Wish wish, double target) {
      result.figures.push_back(
          {fmt::format("{}_{}_window_{}", name, key, window),
           fmt::format("{}, window {}", what, window), "x",
           RatioOf(runs, name, window, key), wish, target});
    };
    add("nic", "requests_per_s", "Carillon / memcached, requests a second",
        Wish::kAtLeast, 1.3);
    add("nic", "p99_latency", "Carillon / memcached, p99", Wish::kAtMost, 1);
    add("nic", "server_cpu_per_request",
        "Carillon / memcached, CPU time a request", Wish::kAtMost, 1);
    add("udp_echo", "requests_per_s", "ceiling: bare echo / memcached",
        Wish::kNone, 0);
    add("memcached_again", "requests_per_s", "control: memcached / memcached",
        Wish::kNone, 0);
  }
  result.figures.push_back({"idle_percent", "gpud and the NIC, idle",
                            "% of a core", RangeOf(runs.idle_percent),
                            Wish::kAtMost, 1});
  double bad = 0;
  for (const Json& one : runs.all) {
    if (one["name"] == "nic") bad += one["a"]["bad"].get<double>();
  }
  result.figures.push_back({"wrong_replies",
                            "wrong replies of Carillon",
                            "",
                            {1, bad, bad, bad},
                            Wish::kAtMost,
                            0});
  result.extra_table = AbsoluteTable(runs);
  result.extra["runs"] = std::move(runs.all);
  return result;
}

}  // namespace
}  // namespace carillon::bench

int main(int argc, char** argv) {
  return carillon::bench::BenchMain(
      argc, argv,
      {.name = "memcached",
       .summary =
           "memcached GETs over loopback UDP: Carillon's NIC and event kernels "
           "beside Debian's memcached -t 1.",
       .run = &carillon::bench::Run});
}

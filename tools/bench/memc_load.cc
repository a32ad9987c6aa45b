// Closed-loop UDP load on one memcached server, or on two in turn (A B B A).
// Prints requests per second, latency and CPU time per request as JSON.
//
//   memc_load 127.0.0.1:11311 --window 32 --pids $(pidof carillon-nic),...
//       --vs 127.0.0.1:11411 --vs-pids $(pidof memcached)
#include <fmt/format.h>
#include <sched.h>
#include <sys/resource.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/host_port.h"
#include "base/json.h"
#include "base/process_cpu.h"
#include "base/status.h"
#include "shm/histogram.h"
#include "tools/bench/stats.h"
#include "tools/testbed/load/memc_client.h"

namespace carillon::bench {
namespace {

struct Interval {
  double requests_per_s = 0;
  double p99_us = 0;
  // CPU time per request of all the target's processes; -1: unknown.
  double cpu_us = -1;
  double foreign_cpu = 0;  // share of one CPU that others used meanwhile
};

struct Target {
  std::string address;
  std::vector<pid_t> pids;
  std::unique_ptr<testbed::MemcClient> client;
  testbed::LoadResult total;
  uint64_t server_cpu_ns = 0;
  uint64_t client_cpu_ns = 0;
  bool cpu_known = true;
  std::vector<Interval> intervals;
};

uint64_t OwnCpuNs() { return ProcessCpuNs(getpid()).value_or(0); }

absl::Status Open(Target* target, const testbed::Workload& workload,
                  int tcp_port, bool warm) {
  const auto server = ReadHostPort(target->address);
  if (!server.ok() || server->port == 0) {
    return absl::InvalidArgumentError(
        fmt::format("'{}': must be HOST:PORT", target->address));
  }
  ASSIGN_OR_RETURN(target->client, testbed::MemcClient::Connect(
                                       server->host, server->port, workload));
  if (!warm) return absl::OkStatus();
  return tcp_port > 0
             ? target->client->WarmByTcp(static_cast<uint16_t>(tcp_port))
             : target->client->WarmByUdp();
}

void Measure(Target* target, std::chrono::nanoseconds duration) {
  // The first replies after a change of sides do not count.
  testbed::LoadResult settling;
  target->client->Run(duration / 10, &settling);
  testbed::LoadResult result;
  const auto server_before = ProcessCpuNs(target->pids);
  const uint64_t own_before = OwnCpuNs();
  const uint64_t machine_before = MachineBusyNs();
  target->client->Run(duration, &result);
  const auto server_after = ProcessCpuNs(target->pids);
  const uint64_t own = OwnCpuNs() - own_before;
  const uint64_t machine = MachineBusyNs() - machine_before;
  result.bad += settling.bad;
  Interval interval;
  const auto seconds = static_cast<double>(result.elapsed_ns) / 1e9;
  interval.requests_per_s = static_cast<double>(result.replies) / seconds;
  interval.p99_us = static_cast<double>(result.latency.Percentile(0.99)) / 1000;
  target->client_cpu_ns += own;
  if (!target->pids.empty() && server_before && server_after &&
      result.replies > 0) {
    const uint64_t server = *server_after - *server_before;
    target->server_cpu_ns += server;
    interval.cpu_us = static_cast<double>(server) / 1000 /
                      static_cast<double>(result.replies);
    interval.foreign_cpu = std::max(
        0.0,
        (static_cast<double>(machine) - static_cast<double>(own + server)) /
            static_cast<double>(result.elapsed_ns));
  } else {
    target->cpu_known = false;
  }
  target->intervals.push_back(interval);
  target->total.Merge(result);
}

Json Spread(const std::vector<double>& values) {
  const Range range = RangeOf(values);
  return {{"median", range.median}, {"least", range.low}, {"most", range.high}};
}

Json Report(const Target& target) {
  const testbed::LoadResult& total = target.total;
  const auto microseconds = [&](double fraction) {
    return static_cast<double>(total.latency.Percentile(fraction)) / 1000;
  };
  std::vector<double> rates, foreign;
  for (const Interval& interval : target.intervals) {
    rates.push_back(interval.requests_per_s);
    foreign.push_back(interval.foreign_cpu);
  }
  const auto per_request = [&](uint64_t ns) {
    return total.replies == 0 ? 0.0
                              : static_cast<double>(ns) / 1000 /
                                    static_cast<double>(total.replies);
  };
  Json report = {
      {"target", target.address},
      {"requests_per_s", Spread(rates)},
      {"latency_us",
       {{"p50", microseconds(0.5)},
        {"p95", microseconds(0.95)},
        {"p99", microseconds(0.99)},
        {"p99.9", microseconds(0.999)}}},
      {"replies", total.replies},
      {"gets", total.gets},
      {"sets", total.sets},
      {"misses", total.misses},
      {"bad", total.bad},
      {"lost", total.lost},
      {"late", total.late},
      {"client_cpu_us_per_request", per_request(target.client_cpu_ns)},
  };
  if (target.cpu_known) {
    report["server_cpu_us_per_request"] = per_request(target.server_cpu_ns);
    report["foreign_cpu_share"] = Spread(foreign);
  }
  return report;
}

// The ratio A : B of each pair of neighbouring intervals.
Json Compare(const Target& a, const Target& b) {
  std::vector<double> rate, p99, cpu;
  for (size_t i = 0; i < a.intervals.size(); ++i) {
    const Interval& x = a.intervals[i];
    const Interval& y = b.intervals[i];
    if (x.requests_per_s == 0 || y.requests_per_s == 0) continue;
    rate.push_back(x.requests_per_s / y.requests_per_s);
    if (y.p99_us > 0) p99.push_back(x.p99_us / y.p99_us);
    if (x.cpu_us >= 0 && y.cpu_us > 0) cpu.push_back(x.cpu_us / y.cpu_us);
  }
  Json ratios = Json::object();
  if (!rate.empty()) ratios["requests_per_s"] = Spread(rate);
  if (!p99.empty()) ratios["p99_latency"] = Spread(p99);
  if (!cpu.empty()) ratios["server_cpu_per_request"] = Spread(cpu);
  return ratios;
}

int Main(int argc, char** argv) {
  testbed::Workload workload;
  Target a, b;
  double seconds = 1;
  int rounds = 3, cpu = -1, tcp_warm = 0, vs_tcp_warm = 0;
  bool no_warm = false, vs_echo = false;
  int64_t timeout_ms = workload.timeout.count();

  CLI::App app{
      "Closed-loop UDP memcached load, every reply checked; JSON on stdout"};
  app.add_option("target", a.address, "server, HOST:PORT")->required();
  app.add_option("--pids", a.pids, "its processes, for CPU per request")
      ->delimiter(',');
  app.add_option("--vs", b.address,
                 "second server, measured in turn (A B B A)");
  app.add_option("--vs-pids", b.pids, "its processes")->delimiter(',');
  app.add_option("--window", workload.window, "requests in flight");
  app.add_option("--burst", workload.burst,
                 "requests per sendmmsg (0: min(window, 32))");
  app.add_option("--seconds", seconds, "of one interval");
  app.add_option("--rounds", rounds, "intervals (with --vs: A B B A each)")
      ->check(CLI::Range(1, 1000));
  app.add_option("--keys", workload.keys);
  app.add_option("--key-bytes", workload.key_bytes);
  app.add_option("--value-bytes", workload.value_bytes);
  app.add_option("--get-share", workload.get_share, "the rest are SETs")
      ->check(CLI::Range(0.0, 1.0));
  app.add_option("--zipf", workload.zipf, "exponent; 0 is uniform")
      ->check(CLI::Range(0.0, 5.0));
  app.add_option("--timeout-ms", timeout_ms, "after which a reply is lost")
      ->check(CLI::Range(1, 60000));
  app.add_option("--seed", workload.seed);
  app.add_option("--tcp-warm", tcp_warm,
                 "store the keys through this TCP port");
  app.add_option("--vs-tcp-warm", vs_tcp_warm, "the same for --vs");
  app.add_flag("--no-warm", no_warm, "store nothing first: the keys are there");
  app.add_flag("--echo", workload.echo, "the target is udp_echo");
  app.add_flag("--vs-echo", vs_echo, "the second target is udp_echo");
  app.add_option("--cpu", cpu, "pin this client to a CPU");
  CLI11_PARSE(app, argc, argv);
  workload.timeout = std::chrono::milliseconds(timeout_ms);

  if (cpu >= 0) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(static_cast<size_t>(cpu), &set);
    if (sched_setaffinity(0, sizeof(set), &set) != 0) {
      std::fprintf(stderr, "memc_load: cannot run on CPU %d\n", cpu);
      return 2;
    }
  }
  absl::Status opened =
      Open(&a, workload, tcp_warm, !no_warm && !workload.echo);
  if (opened.ok() && !b.address.empty()) {
    testbed::Workload second = workload;
    second.echo = vs_echo;
    opened = Open(&b, second, vs_tcp_warm, !no_warm && !vs_echo);
  }
  if (!opened.ok()) {
    std::fprintf(stderr, "memc_load: %s\n",
                 std::string(opened.message()).c_str());
    return absl::IsInvalidArgument(opened) ? 2 : 1;
  }

  const std::chrono::nanoseconds interval(
      static_cast<int64_t>(seconds * 1'000'000'000));
  for (int round = 0; round < rounds; ++round) {
    Measure(&a, interval);
    if (b.client != nullptr) {
      Measure(&b, interval);
      Measure(&b, interval);
      Measure(&a, interval);
    }
  }

  Json report = {{"window", workload.window},
                 {"get_share", workload.get_share},
                 {"zipf", workload.zipf},
                 {"keys", workload.keys},
                 {"key_bytes", workload.key_bytes},
                 {"value_bytes", workload.value_bytes},
                 {"a", Report(a)}};
  if (b.client != nullptr) {
    report["b"] = Report(b);
    report["a_to_b"] = Compare(a, b);
  }
  std::puts(report.dump(2).c_str());
  const bool good = a.total.bad == 0 && b.total.bad == 0 &&
                    a.total.replies > 0 &&
                    (b.client == nullptr || b.total.replies > 0);
  return good ? 0 : 1;
}

}  // namespace
}  // namespace carillon::bench

int main(int argc, char** argv) { return carillon::bench::Main(argc, argv); }

// Probes of graphs that a GPU launches.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <vector>

#include "fmt/format.h"
#include "tools/gpu_check/probes/probe.h"
#include "tools/gpu_check/probes/probe_types.h"

namespace carillon::gpu_check {
namespace {

using gpud::cuda::DeviceBytes;
using gpud::cuda::GraphExec;
using gpud::cuda::PinnedBytes;
using gpud::cuda::Stream;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr uint32_t kMany = 600;
// How many executions relaunch themselves, and how many graphs each launches at
// most. Each launches other graphs, because those of the one before may still
// run.
constexpr uint32_t kTimes = 4;
constexpr uint32_t kShare = kMany / kTimes;

// `kMany` graphs, their handles in device memory.
struct Targets {
  std::vector<GraphExec> execs;
  DeviceBytes handles;
  DeviceBytes count;
};

Targets MakeTargets(const Kit& kit, CUstream stream, uint32_t n = kMany) {
  Targets targets;
  targets.count = kit.Must(DeviceBytes::Make(kit.driver(), 4));
  std::vector<uint64_t> handles;
  for (uint32_t i = 0; i < n; ++i) {
    targets.execs.push_back(kit.Must(kit.DeviceGraph(
        stream, "probe_count", 1, targets.count.as<uint32_t>())));
    handles.push_back(reinterpret_cast<uint64_t>(targets.execs.back().get()));
  }
  kit.Must(kit.driver().cuStreamSynchronize(stream), "upload the graphs");
  targets.handles = kit.Must(
      DeviceBytes::Make(kit.driver(), handles.size() * sizeof(uint64_t)));
  kit.Must(targets.handles.Write(kit.driver(), handles.data(),
                                 handles.size() * sizeof(uint64_t)),
           "write the handles");
  return targets;
}

void Run(const Kit& kit, const GraphExec& graph, const Stream& stream,
         const char* what) {
  kit.Must(kit.driver().cuGraphLaunch(graph.get(), stream.get()), "launch");
  kit.Must(kit.Await(stream.get(), seconds(5)), what);
}

// The first result of a graph that has relaunched itself so often. Its stream may
// say that it is done before it is.
template <class T>
T AwaitExecutions(const Kit& kit, const DeviceBytes& results, uint32_t times) {
  const auto deadline = std::chrono::steady_clock::now() + seconds(2);
  while (true) {
    const T first = ReadBack<T>(kit, results);
    if (first.executions >= times ||
        std::chrono::steady_clock::now() >= deadline) {
      return first;
    }
  }
}

// How many graphs one execution may launch, and whether another execution (by
// the host or by its own tail launch) may launch as many again.
Answer Budget(Kit& kit, uint32_t sibling) {
  const Stream stream = kit.MakeStream();
  const Targets targets = MakeTargets(kit, stream.get());
  nlohmann::json numbers;

  auto result = kit.Must(DeviceBytes::Make(kit.driver(), sizeof(FireResult)));
  auto parent = kit.Must(kit.DeviceGraph(
      stream.get(), "probe_fire", 1,
      static_cast<const uint64_t*>(targets.handles.as<uint64_t>()), kMany,
      sibling, result.as<FireResult>()));
  FireResult by_host[2];
  for (FireResult& one : by_host) {
    Run(kit, parent, stream, "run the launching graph");
    one = ReadBack<FireResult>(kit, result);
  }
  const uint32_t ran = ReadBack<uint32_t>(kit, targets.count);

  auto results = kit.Must(
      DeviceBytes::Make(kit.driver(), (kTimes + 1) * sizeof(FireResult)));
  const uint32_t share = std::clamp(by_host[0].launched, 1u, kShare);
  auto again = kit.Must(kit.DeviceGraph(
      stream.get(), "probe_fire_again", 1,
      static_cast<const uint64_t*>(targets.handles.as<uint64_t>()), share,
      sibling, results.as<FireResult>(), kTimes));
  Run(kit, again, stream, "run the relaunching graph");
  uint32_t of_relaunches = 0;
  const auto first = AwaitExecutions<FireResult>(kit, results, kTimes);
  const uint32_t relaunch_error = first.relaunch_error;
  const uint32_t executions = first.executions;
  uint32_t last_error = 0;
  for (uint32_t i = 1; i < kTimes; ++i) {
    const auto one = ReadBack<FireResult>(kit, results, i);
    of_relaunches += one.launched;
    if (one.error != 0) last_error = one.error;
  }
  numbers = {{"first", by_host[0].launched},
             {"error", ErrorName(kit, by_host[0].error)},
             {"second_by_host", by_host[1].launched},
             {"ran", ran},
             {"tail_executions", executions},
             {"of_tail_relaunches", of_relaunches},
             {"tail_error", ErrorName(kit, last_error)},
             {"relaunch_error", ErrorName(kit, relaunch_error)}};
  const bool resets = of_relaunches >= share * (kTimes - 1);
  return {.text = fmt::format(
              "{}{} launches, then {}; a tail relaunch {}", by_host[0].launched,
              by_host[0].launched == kMany ? "+" : "",
              ErrorName(kit, by_host[0].error),
              resets ? "resets the budget"
                     : fmt::format("does NOT reset it ({} in {} more "
                                   "executions, {})",
                                   of_relaunches, executions - 1,
                                   ErrorName(kit, last_error))),
          .numbers = std::move(numbers),
          // The dispatchers of launch path edge rely on this.
          .bad = sibling == 0 && (by_host[0].launched < 110 || !resets)};
}

Answer LaunchBudget(Kit& kit) { return Budget(kit, 0); }
Answer SiblingBudget(Kit& kit) { return Budget(kit, 1); }

Answer ExecMemory(Kit& kit) {
  const Stream stream = kit.MakeStream();
  const Targets warm = MakeTargets(kit, stream.get(), 8);
  size_t before = 0;
  size_t after = 0;
  size_t total = 0;
  constexpr uint32_t kExecs = 256;
  kit.driver().cuMemGetInfo(&before, &total);
  const auto start = std::chrono::steady_clock::now();
  const Targets targets = MakeTargets(kit, stream.get(), kExecs);
  const double us = MicrosSince(start) / kExecs;
  kit.driver().cuMemGetInfo(&after, &total);
  const double bytes =
      before > after ? static_cast<double>(before - after) / kExecs : 0;
  return {
      .text = fmt::format("{:.0f} bytes each, {:.0f} us to make", bytes, us),
      .numbers = {{"execs", kExecs}, {"bytes", bytes}, {"make_us", us}}};
}

Answer ExecBusy(Kit& kit) {
  const Stream stream = kit.MakeStream();
  const Targets targets = MakeTargets(kit, stream.get(), 1);
  auto result = kit.Must(DeviceBytes::Make(kit.driver(), sizeof(BusyResult)));
  // One less than an execution may make: if refused attempts count, it ends
  // before.
  constexpr uint32_t kLaunches = 119;
  auto parent = kit.Must(kit.DeviceGraph(
      stream.get(), "probe_busy", 1,
      reinterpret_cast<uint64_t>(targets.execs[0].get()),
      targets.count.as<uint32_t>(), kLaunches, result.as<BusyResult>()));
  Run(kit, parent, stream, "run the launching graph");
  const auto busy = ReadBack<BusyResult>(kit, result);
  const uint32_t pairs = busy.launches > 1 ? busy.launches - 1 : 0;
  const double mean = pairs == 0 ? 0 : static_cast<double>(busy.sum_ns) / pairs;
  return {
      .text = fmt::format(
          "{} launches of {} and {} refused attempts in one execution; {} of "
          "{} "
          "relaunches were refused at first; launched again after {:.0f} ns on "
          "average, {} ns at most (error at the end: {})",
          busy.launches, kLaunches, busy.refusals, busy.refused, pairs, mean,
          busy.most_ns, ErrorName(kit, busy.error)),
      .numbers = {{"launches", busy.launches},
                  {"refused", busy.refused},
                  {"refusals", busy.refusals},
                  {"mean_ns", mean},
                  {"most_ns", busy.most_ns},
                  {"error", busy.error}}};
}

Answer TailRelaunch(Kit& kit) {
  const Stream stream = kit.MakeStream();
  auto result = kit.Must(DeviceBytes::Make(kit.driver(), sizeof(TailResult)));
  constexpr uint32_t kRelaunches = 1000;
  auto graph = kit.Must(kit.DeviceGraph(stream.get(), "probe_tail", 1,
                                        result.as<TailResult>(), kRelaunches));
  Run(kit, graph, stream, "run the relaunching graph");
  const auto tail = AwaitExecutions<TailResult>(kit, result, kRelaunches);
  const double mean = tail.executions > 1 ? static_cast<double>(tail.sum_ns) /
                                                (tail.executions - 1)
                                          : 0;
  return {.text = fmt::format(
              "{:.0f} ns from one execution's end to the next one's beginning "
              "({} ns at most, {} executions)",
              mean, tail.most_ns, tail.executions),
          .numbers = {{"mean_ns", mean},
                      {"most_ns", tail.most_ns},
                      {"executions", tail.executions},
                      {"error", ErrorName(kit, tail.error)}},
          .bad = tail.executions != kRelaunches};
}

// While a graph relaunches itself, does its stream ever say that it is done?
Answer StreamQuery(Kit& kit) {
  const Stream stream = kit.MakeStream();
  auto words = kit.Must(PinnedBytes::Make(kit.driver(), 4096));
  auto result = kit.Must(DeviceBytes::Make(kit.driver(), sizeof(TailResult)));
  constexpr uint32_t kRelaunches = 1000;
  const std::atomic_ref<uint32_t> seen(*words.as<uint32_t>());
  auto graph = kit.Must(kit.DeviceGraph(stream.get(), "probe_tail_seen", 1,
                                        result.as<TailResult>(), kRelaunches,
                                        words.as<uint32_t>()));
  kit.Must(kit.driver().cuGraphLaunch(graph.get(), stream.get()), "launch");
  uint64_t looks = 0;
  uint64_t early = 0;
  const auto deadline = std::chrono::steady_clock::now() + seconds(5);
  // Written by the kernel, before each relaunch; the last one before the stream
  // is done.
  while (seen.load(std::memory_order_acquire) != kRelaunches) {
    const CUresult said = kit.driver().cuStreamQuery(stream.get());
    if (said != CUDA_SUCCESS && said != CUDA_ERROR_NOT_READY) {
      kit.Must(said, "run the relaunching graph");
    }
    ++looks;
    // The count is read after the answer, so it is not behind it.
    if (said == CUDA_SUCCESS &&
        seen.load(std::memory_order_acquire) != kRelaunches) {
      ++early;
    }
    if (std::chrono::steady_clock::now() >= deadline) break;
  }
  kit.Must(kit.Await(stream.get(), seconds(5)), "run the relaunching graph");
  const uint32_t executions = seen.load(std::memory_order_acquire);
  return {.text = fmt::format("{} of {} looks during {} executions said that "
                              "it was done",
                              early, looks, executions),
          .numbers = {{"looks", looks},
                      {"early", early},
                      {"executions", executions}},
          // gpud does not take a dispatcher's stream at its word.
          .bad = executions != kRelaunches};
}

// While a graph runs that a graph of the stream has launched, does the stream go
// on?
Answer StreamBehind(Kit& kit) {
  const gpud::cuda::Driver& driver = kit.driver();
  const Stream stream = kit.MakeStream();
  auto words = kit.Must(PinnedBytes::Make(driver, 4096));
  auto* const stop = words.as<uint32_t>();
  auto* const running = words.as<uint32_t>(128);
  auto* const passed = words.as<uint32_t>(256);
  auto child =
      kit.Must(kit.DeviceGraph(stream.get(), "probe_spin", 1,
                               static_cast<const uint32_t*>(stop), running));
  kit.Must(driver.cuStreamSynchronize(stream.get()), "upload the graph");
  const auto handle = reinterpret_cast<uint64_t>(child.get());
  auto handles = kit.Must(DeviceBytes::Make(driver, sizeof(handle)));
  kit.Must(handles.Write(driver, &handle, sizeof(handle)), "write the handle");
  auto result = kit.Must(DeviceBytes::Make(driver, sizeof(FireResult)));
  auto parent = kit.Must(
      kit.DeviceGraph(stream.get(), "probe_fire", 1,
                      static_cast<const uint64_t*>(handles.as<uint64_t>()), 1u,
                      0u, result.as<FireResult>()));
  kit.Must(driver.cuGraphLaunch(parent.get(), stream.get()), "launch");
  kit.Must(driver.cuStreamWriteValue32(
               stream.get(), reinterpret_cast<CUdeviceptr>(passed), 1, 0),
           "write behind it");
  const bool ran = Kit::AwaitWord(running, 1, seconds(2));
  const bool early = Kit::AwaitWord(passed, 1, milliseconds(200));
  std::atomic_ref(*stop).store(1, std::memory_order_release);
  kit.Must(kit.Await(stream.get(), seconds(5)), "end the launched graph");
  return {.text = !ran    ? "the launched graph did not run"
                  : early ? "yes, within 200 ms"
                          : "no, for 200 ms",
          .numbers = {{"ran", ran}, {"early", early}},
          // On stream_wait events of a user's kernel would run side by side.
          .bad = !ran || early};
}

// How many graphs a GPU launches a second, and how long one takes to begin.
Answer LaunchRate(Kit& kit) {
  const Stream stream = kit.MakeStream();
  constexpr uint32_t kLaunches = 104;  // of 120 that an execution has
  constexpr int kRuns = 20;
  const Targets targets = MakeTargets(kit, stream.get(), kLaunches);
  const auto* const handles = targets.handles.as<uint64_t>();
  for (const uint32_t warps : {1u, 4u, 8u}) {
    auto results =
        kit.Must(DeviceBytes::Make(kit.driver(), warps * sizeof(RateResult)));
    auto parent =
        kit.Must(kit.DeviceGraph(stream.get(), "probe_rate", warps * 32,
                                 static_cast<const uint64_t*>(handles),
                                 kLaunches / warps, results.as<RateResult>()));
    uint64_t least_ns = ~uint64_t{0};
    uint32_t launched = 0;
    for (int run = 0; run < kRuns; ++run) {
      Run(kit, parent, stream, "run the launching graph");
      uint64_t first = ~uint64_t{0};
      uint64_t last = 0;
      launched = 0;
      for (uint32_t warp = 0; warp < warps; ++warp) {
        const auto one = ReadBack<RateResult>(kit, results, warp);
        first = std::min(first, one.first_ns);
        last = std::max(last, one.last_ns);
        launched += one.launched;
      }
      least_ns = std::min(least_ns, last - first);
    }
    Note(fmt::format("{}_warps_launched", warps), launched);
    Note(fmt::format("{}_warps_per_second", warps),
         least_ns == 0 ? 0.0 : 1e9 * launched / static_cast<double>(least_ns));
  }
  auto host = kit.Must(PinnedBytes::Make(kit.driver(), 4096));
  auto result = kit.Must(DeviceBytes::Make(kit.driver(), sizeof(StartResult)));
  // As on launch path `edge`: two warps beside it poll the host.
  for (const auto& [beside, threads] :
       {std::pair{"", 1u}, std::pair{"_beside_pollers", 96u}}) {
    auto parent = kit.Must(
        kit.DeviceGraph(stream.get(), "probe_start", threads,
                        reinterpret_cast<uint64_t>(targets.execs[0].get()),
                        targets.count.as<uint32_t>(),
                        static_cast<const uint32_t*>(host.as<uint32_t>()),
                        result.as<StartResult>()));
    std::vector<double> call_ns;
    std::vector<double> seen_ns;
    for (int run = 0; run < 100; ++run) {
      Run(kit, parent, stream, "run the launching graph");
      const auto one = ReadBack<StartResult>(kit, result);
      if (one.error != 0) {
        Note("error", ErrorName(kit, one.error));
        break;
      }
      // The timer may step coarsely; the SM's own clock does not.
      const double ns_per_tick =
          one.ticks == 0
              ? 0
              : static_cast<double>(one.ns) / static_cast<double>(one.ticks);
      call_ns.push_back(static_cast<double>(one.call_ticks) * ns_per_tick);
      seen_ns.push_back(static_cast<double>(one.seen_ticks) * ns_per_tick);
    }
    if (seen_ns.empty()) return {.bad = true};
    std::ranges::sort(call_ns);
    std::ranges::sort(seen_ns);
    Note(fmt::format("call{}_p50_ns", beside), call_ns[call_ns.size() / 2]);
    Note(fmt::format("first_store{}_p50_ns", beside),
         seen_ns[seen_ns.size() / 2]);
    Note(fmt::format("first_store{}_p99_ns", beside),
         seen_ns[seen_ns.size() * 99 / 100]);
  }
  return {};
}

constexpr Probe kProbes[] = {
    {"stream_query",
     "Does a stream say that it is done while its graph relaunches itself?",
     &StreamQuery},
    {"stream_behind",
     "Does a stream go on while a graph runs that one in it has launched?",
     &StreamBehind},
    {"launch_rate",
     "How many graphs does a GPU launch a second from 1, 4 and 8 warps, and "
     "how "
     "long is it to the first store of one?",
     &LaunchRate},
    {"launch_budget",
     "How many fire-and-forget launches has an execution of a graph, with "
     "which error is the next refused, and does a tail relaunch reset it?",
     &LaunchBudget},
    {"sibling_budget", "The same for sibling launches.", &SiblingBudget},
    {"exec_memory", "How much device memory does an uploaded graph take?",
     &ExecMemory},
    {"exec_busy",
     "For how long after its kernel's last store is a graph refused?",
     &ExecBusy},
    {"tail_relaunch", "How long is the gap of a tail relaunch?", &TailRelaunch},
};

}  // namespace

std::span<const Probe> LaunchProbes() { return kProbes; }

}  // namespace carillon::gpu_check

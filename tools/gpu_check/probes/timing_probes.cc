// Probes of what single steps of an event cost, and of clocks.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "fmt/format.h"
#include "tools/gpu_check/probes/probe.h"
#include "tools/gpu_check/probes/probe_types.h"

namespace carillon::gpu_check {
namespace {

using gpud::cuda::DeviceBytes;
using gpud::cuda::PinnedBytes;
using gpud::cuda::Stream;
using std::chrono::milliseconds;
using std::chrono::seconds;

// What one took at least, in ns; what it took on average is in the document only.
void NoteCost(const std::string& name, const CostResult& cost,
              uint32_t rounds) {
  const double ns_per_tick =
      cost.ticks == 0
          ? 0
          : static_cast<double>(cost.ns) / static_cast<double>(cost.ticks);
  Noted()[name + "_mean_ns"] =
      static_cast<double>(cost.sum_ticks) / rounds * ns_per_tick;
  Note(name + "_ns", static_cast<double>(cost.least_ticks) * ns_per_tick);
}

constexpr uint32_t kRounds = 1000;

Answer FenceCost(Kit& kit) {
  const Stream stream = kit.MakeStream();
  auto device = kit.Must(DeviceBytes::Make(kit.driver(), 4096));
  auto host = kit.Must(PinnedBytes::Make(kit.driver(), 4096));
  auto result = kit.Must(DeviceBytes::Make(kit.driver(), sizeof(CostResult)));
  const std::pair<const char*, Fence> fences[] = {
      {"clock", Fence::kNothing},
      {"fence_acq_rel_sys", Fence::kAcqRelSys},
      {"fence_acquire_sys", Fence::kAcquireSys},
      {"store_release_sys", Fence::kStoreReleaseSys},
      {"fence_acq_rel_gpu", Fence::kAcqRelGpu},
      {"load_l2", Fence::kLoadL2},
      {"exchange", Fence::kExchange},
      {"store_host", Fence::kStoreHost}};
  const std::pair<const char*, Outstanding> outstanding[] = {
      {"", Outstanding::kNothing},
      {"_behind_store", Outstanding::kStore},
      {"_behind_add", Outstanding::kAdd},
      {"_behind_host_store", Outstanding::kHostStore}};
  for (const auto& [name, fence] : fences) {
    for (const auto& [before, what] : outstanding) {
      // The clock alone waits for nothing.
      if (fence == Fence::kNothing && what != Outstanding::kNothing) continue;
      kit.Must(kit.Launch(stream.get(), "probe_fence", 1, 1, fence, what,
                          device.as<uint32_t>(), host.as<uint32_t>(), kRounds,
                          result.as<CostResult>()),
               "launch");
      kit.Must(kit.Await(stream.get(), seconds(2)), "measure");
      NoteCost(std::string(name) + before, ReadBack<CostResult>(kit, result),
               kRounds);
    }
  }
  return {};
}

Answer HostReads(Kit& kit) {
  const Stream stream = kit.MakeStream();
  auto host = kit.Must(PinnedBytes::Make(kit.driver(), 16 * 256));
  auto result = kit.Must(DeviceBytes::Make(kit.driver(), sizeof(CostResult)));
  for (const uint32_t lines : {1u, 4u, 16u}) {
    for (const uint32_t bytes : {4u, 32u, 64u, 128u, 256u}) {
      kit.Must(kit.Launch(stream.get(), "probe_host_read", 1, 32,
                          static_cast<const uint32_t*>(host.as<uint32_t>()),
                          bytes, lines, kRounds, result.as<CostResult>()),
               "launch");
      kit.Must(kit.Await(stream.get(), seconds(2)), "measure");
      NoteCost(fmt::format("{}_bytes_of_{}_lines", bytes, lines),
               ReadBack<CostResult>(kit, result), kRounds);
    }
  }
  return {};
}

// Whoever serves an event does so beside warps that poll.
Answer BesidePollers(Kit& kit) {
  const Stream stream = kit.MakeStream();
  auto host = kit.Must(PinnedBytes::Make(kit.driver(), 4096));
  auto result = kit.Must(DeviceBytes::Make(kit.driver(), sizeof(CostResult)));
  const std::pair<const char*, Beside> costs[] = {
      {"store_release_sys", Beside::kStoreReleaseSys},
      {"fence_acq_rel_gpu", Beside::kAcqRelGpu},
      {"read_of_their_sector", Beside::kReadSector},
      {"read_of_their_line", Beside::kReadLine},
      {"read_of_another_line", Beside::kReadOther}};
  const std::pair<const char*, Neighbours> places[] = {
      {"alone", Neighbours::kNone},
      {"beside_two_on_its_sm", Neighbours::kSameSm},
      {"beside_two_on_another", Neighbours::kOtherSm}};
  for (const auto& [name, cost] : costs) {
    for (const auto& [beside, where] : places) {
      // Zero: they read until it says that the warp is done.
      auto device = kit.Must(DeviceBytes::Make(kit.driver(), 4096));
      kit.Must(kit.Launch(stream.get(), "probe_beside", 2, 96, cost, where,
                          static_cast<const uint32_t*>(host.as<uint32_t>()),
                          device.as<uint32_t>(), host.as<uint32_t>(2048),
                          kRounds, result.as<CostResult>()),
               "launch");
      kit.Must(kit.Await(stream.get(), seconds(2)), "measure");
      const auto took = ReadBack<CostResult>(kit, result);
      NoteCost(fmt::format("{}_{}", name, beside), took, kRounds);
    }
  }
  return {};
}

// Copies from pageable memory are asynchronous in their last step, and streams
// like gpud's do not wait for them.
Answer HtodOrder(Kit& kit) {
  const Stream stream = kit.MakeStream();
  auto stale = kit.Must(DeviceBytes::Make(kit.driver(), 64));
  constexpr uint32_t kTimes = 2000;
  uint32_t stale_before = 0;
  for (const uint32_t bytes : {640u, 64u << 10}) {
    auto memory = kit.Must(DeviceBytes::Make(kit.driver(), bytes));
    std::vector<uint32_t> words(bytes / sizeof(uint32_t));
    const auto* const last = memory.as<uint32_t>(bytes - sizeof(uint32_t));
    for (uint32_t i = 1; i <= kTimes; ++i) {
      std::ranges::fill(words, i);
      kit.Must(kit.driver().cuMemcpyHtoD(memory.address(), words.data(), bytes),
               "copy");
      kit.Must(kit.Launch(stream.get(), "probe_compare", 1, 1, last, i,
                          stale.as<uint32_t>()),
               "launch");
      kit.Must(kit.driver().cuStreamSynchronize(stream.get()), "run");
    }
    const auto sum = ReadBack<uint32_t>(kit, stale);
    Note(fmt::format("stale_{}_bytes", bytes), sum - stale_before);
    stale_before = sum;
  }
  Note("of", kTimes);
  return {};
}

// The least time that a question and its answer take, and by how much the GPU's
// clock is ahead of the host's then.
struct Offset {
  uint64_t round_trip_ns = ~uint64_t{0};
  double ns = 0;
};

Offset MeasureOffset(uint32_t* ping, const uint32_t* pong,
                     const uint64_t* stamp, uint32_t first) {
  Offset best;
  for (uint32_t i = first; i < first + 1000; ++i) {
    const Nanoseconds asked = NowNs();
    std::atomic_ref(*ping).store(i, std::memory_order_release);
    if (!Kit::AwaitWord(pong, i, milliseconds(2000))) {
      Kit::Die(fmt::format("no answer to question {}", i));
    }
    const Nanoseconds answered = NowNs();
    // Written before the answer, which was read with acquire.
    const uint64_t gpu = std::atomic_ref(*const_cast<uint64_t*>(stamp))
                             .load(std::memory_order_relaxed);
    const auto round_trip = static_cast<uint64_t>(answered - asked);
    if (round_trip >= best.round_trip_ns) continue;
    best = {round_trip, static_cast<double>(static_cast<int64_t>(gpu) -
                                            static_cast<int64_t>(asked)) -
                            static_cast<double>(round_trip) / 2};
  }
  return best;
}

Answer GlobalTimer(Kit& kit) {
  const Stream stream = kit.MakeStream();
  auto result = kit.Must(DeviceBytes::Make(kit.driver(), sizeof(TimerResult)));
  kit.Must(kit.Launch(stream.get(), "probe_timer", 1, 1, 200'000u,
                      result.as<TimerResult>()),
           "launch");
  kit.Must(kit.Await(stream.get(), seconds(5)), "read the timer");
  const auto timer = ReadBack<TimerResult>(kit, result);
  Note("smallest_step_ns", timer.least_step_ns);
  Note("mean_step_ns", timer.steps == 0 ? 0.0
                                        : static_cast<double>(timer.ns) /
                                              static_cast<double>(timer.steps));
  auto words = kit.Must(PinnedBytes::Make(kit.driver(), 4096));
  auto* const ping = words.as<uint32_t>();
  auto* const pong = words.as<uint32_t>(1024);
  auto* const stamp = words.as<uint64_t>(2048);
  kit.Must(kit.Launch(stream.get(), "probe_clock_pong", 1, 1,
                      static_cast<const uint32_t*>(ping), pong, stamp, 2000u),
           "launch");
  const Nanoseconds began = NowNs();
  const Offset first = MeasureOffset(ping, pong, stamp, 1);
  Note("round_trip_ns", first.round_trip_ns);
  // Drift needs time.
  std::this_thread::sleep_for(seconds(2));
  const Offset second = MeasureOffset(ping, pong, stamp, 1001);
  const auto elapsed = static_cast<double>(NowNs() - began);
  Note("drift_ns_per_second", (second.ns - first.ns) / elapsed * 1e9);
  kit.Must(kit.Await(stream.get(), seconds(5)), "end the clock");
  return {};
}

Answer SmClock(Kit& kit) {
  const Stream stream = kit.MakeStream();
  auto result = kit.Must(DeviceBytes::Make(kit.driver(), sizeof(CostResult)));
  const std::pair<const char*, uint64_t> spins[] = {
      {"idle", 1'000'000}, {"spinning", 100'000'000}, {"after", 1'000'000}};
  for (const auto& [name, ns] : spins) {
    kit.Must(kit.Launch(stream.get(), "probe_clock", 1, 1, ns,
                        result.as<CostResult>()),
             "launch");
    kit.Must(kit.Await(stream.get(), seconds(5)), "spin");
    const auto cost = ReadBack<CostResult>(kit, result);
    Note(fmt::format("{}_mhz", name),
         cost.ns == 0 ? 0.0
                      : std::round(1000.0 * static_cast<double>(cost.ticks) /
                                   static_cast<double>(cost.ns)));
  }
  return {};
}

constexpr Probe kProbes[] = {
    {"fence_cost",
     "What do fences, releases and trips to L2 cost, with nothing and with "
     "something outstanding?",
     &FenceCost},
    {"host_reads",
     "How long does a warp's read of 4 to 256 bytes of 1, 4 and 16 lines of "
     "host memory take?",
     &HostReads},
    {"beside_pollers",
     "What do a release and a read of host memory cost beside warps that poll "
     "there?",
     &BesidePollers},
    {"htod_order",
     "Does a kernel in a non-blocking stream see what was copied before it?",
     &HtodOrder},
    {"globaltimer",
     "How finely does the GPU's timer step, and how does it "
     "drift from CLOCK_MONOTONIC?",
     &GlobalTimer},
    {"sm_clock", "How fast is an SM's clock before and after 100 ms of work?",
     &SmClock},
};

}  // namespace

std::span<const Probe> TimingProbes() { return kProbes; }

}  // namespace carillon::gpu_check

#include "gpu_daemon/backends/cuda/sim_driver/sim_gpu.h"

#include <chrono>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "base/clock.h"

namespace carillon::gpud::cuda {
namespace {

constexpr char kDriversMemory[] = "memory of the driver";

// Turns between two looks at who else wants the GPU.
constexpr int kTurns = 256;
constexpr uint32_t kSms = 132;
constexpr std::chrono::microseconds kPause{20};
constexpr std::chrono::milliseconds kLookForStop{1};

// cudaStreamGraphTailLaunch and cudaStreamGraphFireAndForget
// (driver_types.h): streams that only kernels know.
constexpr uint64_t kTailLaunch = 0x0100000000000000;
constexpr uint64_t kFireAndForget = 0x0200000000000000;

// What CUDA calls the end of a kernel. Names of both APIs have the same numbers.
CUresult FaultOf(const absl::Status& status) {
  const absl::string_view what = status.message();
  if (absl::StrContains(what, ": trapped;")) return CUDA_ERROR_LAUNCH_FAILED;
  if (absl::StrContains(what, "assertion failed")) return CUDA_ERROR_ASSERT;
  if (absl::StrContains(what, "is not a multiple of")) {
    return CUDA_ERROR_MISALIGNED_ADDRESS;
  }
  if (status.code() == absl::StatusCode::kInvalidArgument) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_ERROR_ILLEGAL_ADDRESS;
}

}  // namespace

SimGpu::SimGpu(const Options& options)
    : gpu_(&memory_,
           {.seed = options.seed,
            .shortest_turn = 64,
            .sms = kSms,
            .printed = &printed_,
            .nanoseconds = [] { return static_cast<uint64_t>(NowNs()); },
            .launch_graph =
                [this](const sim::Warp& warp, uint64_t exec, uint64_t stream) {
                  return LaunchGraph(warp, exec, stream);
                }}),
      thread_([this] { Loop(); }) {}

SimGpu::~SimGpu() {
  {
    std::lock_guard lock(mutex_);
    over_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

CUresult SimGpu::Run(KernelCall& call, const sim::Program& program,
                     const sim::ProgramFunction& kernel) {
  const auto params = call.params();
  Running self;
  self.call = &call;
  self.launch = {
      .program = &program,
      .kernel = &kernel,
      .grid = {call.grid().x, call.grid().y, call.grid().z},
      .block = {call.block().x, call.block().y, call.block().z},
      .dynamic_shared_bytes = call.shared_bytes(),
      .parameters = {params.begin(), params.end()},
      .graph_exec = reinterpret_cast<uint64_t>(call.current_graph()),
  };
  std::unique_lock lock(mutex_);
  LookAtMemory(call);
  self.launch.id = ++last_id_;
  running_[self.launch.id] = &self;
  const SmRange sms = call.sms();
  const auto grid = gpu_.Begin(self.launch, -call.priority(),
                               [this, &self](absl::Status status) {
                                 self.status = std::move(status);
                                 self.ended = true;
                                 changed_.notify_all();
                               },
                               {.first = sms.first, .count = sms.count});
  if (!grid.ok()) {
    self.status = grid.status();
    self.ended = true;
  }
  changed_.notify_all();
  while (!self.ended) {
    if (call.stopped()) {
      (void)gpu_.Stop(*grid);  // it is running
      break;
    }
    changed_.wait_for(lock, kLookForStop);
  }
  running_.erase(self.launch.id);
  if (self.status.ok() || absl::IsCancelled(self.status)) return CUDA_SUCCESS;
  std::fprintf(stderr, "simulated GPU: %s\n",
               std::string(self.status.message()).c_str());
  return FaultOf(self.status);
}

void SimGpu::Loop() {
  std::unique_lock lock(mutex_);
  while (!over_) {
    if (running_.empty()) {
      changed_.wait(lock, [&] { return over_ || !running_.empty(); });
      continue;
    }
    bool busy = true;
    for (int i = 0; i < kTurns && busy; ++i) {
      busy = gpu_.Step() == sim::InterleavedGpu::Turn::kRan;
    }
    for (const auto& [id, one] : running_) LookAtMemory(*one->call);
    // A driver prints it on the process's stdout.
    if (!printed_.empty()) {
      std::fputs(printed_.Take().c_str(), stdout);
      std::fflush(stdout);
    }
    // Long enough for others to get the mutex; also while all warps only wait.
    lock.unlock();
    std::this_thread::sleep_for(kPause);
    lock.lock();
  }
}

void SimGpu::LookAtMemory(const KernelCall& call) {
  const uint64_t changes = call.memory_changes();
  if (changes == memory_seen_) return;
  memory_seen_ = changes;
  std::map<const std::byte*, size_t> now;
  const std::vector<std::span<std::byte>> ranges = call.memory();
  for (const auto& range : ranges) now[range.data()] = range.size();
  for (auto old = mapped_.begin(); old != mapped_.end();) {
    const auto begin = reinterpret_cast<sim::DeviceAddress>(old->first);
    // A program's variable may lie there by now. Or one has lain there, and with
    // it went what was mapped, before the driver had this memory again.
    const auto segments = memory_.table();
    const size_t index = segments->Find(begin, 1);
    const bool is_there = index != sim::SegmentTable::kNone &&
                          segments->segment(index).name == kDriversMemory;
    const auto same = now.find(old->first);
    if (is_there && same != now.end() && same->second == old->second) {
      ++old;
      continue;
    }
    if (is_there) (void)memory_.Free(begin);
    old = mapped_.erase(old);
  }
  for (const auto& range : ranges) {
    if (mapped_.contains(range.data())) continue;
    // What is of a program is there already.
    if (memory_.Map(range, /*writable=*/true, kDriversMemory).ok()) {
      mapped_[range.data()] = range.size();
    }
  }
}

uint32_t SimGpu::LaunchGraph(const sim::Warp& warp, uint64_t exec,
                             uint64_t stream) {
  const auto running = running_.find(warp.launch().id);
  if (running == running_.end() ||
      (stream != kTailLaunch && stream != kFireAndForget)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  return running->second->call->Launch(reinterpret_cast<CUgraphExec>(exec),
                                       stream == kTailLaunch
                                           ? DeviceLaunch::kTail
                                           : DeviceLaunch::kFireAndForget);
}

}  // namespace carillon::gpud::cuda

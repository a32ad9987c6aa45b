// What the warps of one dispatcher's block share, and the words by which they
// go through an execution together. For CPU and GPU code.
#ifndef CARILLON_GPU_DAEMON_BACKENDS_CUDA_EDGE_EDGE_BLOCK_H_
#define CARILLON_GPU_DAEMON_BACKENDS_CUDA_EDGE_EDGE_BLOCK_H_

#include <cstddef>
#include <cstdint>

#include "gpu_daemon/backends/cuda/edge/edge_table.h"

// Functions that are templates over a Port: the GPU's own on a GPU, a thread's
// in tests.
#if defined(__CUDACC__)
#define CARILLON_EDGE __device__ inline
#define CARILLON_EDGE_UNROLL _Pragma("unroll")
#else
#define CARILLON_EDGE inline
#define CARILLON_EDGE_UNROLL
#endif

namespace carillon::gpud {

// Requires lanes != 0.
CARILLON_EDGE uint32_t LowestLane(uint32_t lanes) {
#if defined(__CUDA_ARCH__)
  return __ffs(static_cast<int>(lanes)) - 1;
#else
  return static_cast<uint32_t>(__builtin_ctz(lanes));
#endif
}

// How far an execution is. Only grows.
enum class EdgePhase : uint32_t {
  kStandby = 0,     // waits for the token
  kFirstPoll = 1,   // pollers look at all doorbells once
  kServing = 2,     // event warps take events
  kInlineOnly = 3,  // only those that need no launch
  kHalting = 4,     // none any more
};

// What became of a launch.
enum class LaunchOutcome : uint32_t {
  kLaunched,
  kBusy,   // this exec has not retired: another one, or later
  kError,  // anything else, as a spent budget: nothing was launched
};

// Shared memory of a block; zeroed when an execution begins.
struct EdgeBlock {
  // The pollers' copies of the doorbells; writers: that poller's warp, release;
  // readers: event warps, acquire. The cyclic maximum counts.
  uint32_t published[kEdgeMaxPollers][kEdgeMaxLines][kEdgeLanes];
  // How often a poller has published anything: event warps look no further as
  // long as it stays. Writer: that poller, release, behind what it published;
  // readers: event warps, acquire.
  uint32_t changes[kEdgeMaxPollers];
  // EdgePhase. Writer: the lead, release; readers: all warps, acquire.
  uint32_t phase;
  uint32_t tracing;  // EdgeTracing; writer: the lead; readers: event warps
  // Launches made, or about to be tried, by this execution. Writers: event
  // warps; readers: they, and the lead once they launch no more.
  uint32_t taken;
  uint32_t reserved;
  // As in EdgeControl; of use while tracing. Writer: the lead; readers: event
  // warps, which would wait as long for it as for an event's entry.
  uint64_t clock_offset_ns;
  // The phase that a warp has seen between two events. Writer: that warp,
  // release; reader: the lead, acquire.
  uint32_t noted[kEdgeMaxWarps];
  // 1: this event warp has an event and no launch for it. Writer: it; reader:
  // the lead.
  uint32_t asks_relay[kEdgeMaxEventWarps];
  // An EdgeRun of each event warp. Writer: it, the entry last to begin and first
  // to end; reader: the lead.
  EdgeRun runs[kEdgeMaxEventWarps];
  // An event warp's own: the status of the kernel that it runs, its arguments,
  // its copy of an ESQ entry, and what does not change of the ring that it served
  // last.
  uint32_t inline_fail[kEdgeMaxEventWarps];
  alignas(16) std::byte inline_args[kEdgeMaxEventWarps][kEdgeMaxInlineArgs];
  alignas(16) std::byte copies[kEdgeMaxEventWarps][sizeof(shm::EsqEntryHeader) +
                                                   shm::kMaxParameterBytes];
  EdgeEntry entries[kEdgeMaxEventWarps];
  alignas(16) std::byte steps[kEdgeMaxEventWarps][kEdgeMaxSharedSteps];
};
// Static shared memory of a kernel.
static_assert(sizeof(EdgeBlock) <= 48 * 1024);

// A warp's way through the phases.
template <class Port>
class EdgeWarp {
 public:
  CARILLON_EDGE EdgeWarp(Port& port, EdgeBlock& block, uint32_t warp)
      : port_(port), block_(block), warp_(warp) {}

  CARILLON_EDGE EdgePhase phase() {
    return static_cast<EdgePhase>(
        port_.Elect([&] { return port_.LoadBlock(&block_.phase); }));
  }
  // Says that the warp has seen it and is between two events: what the phase
  // forbids, it does not do from now on.
  CARILLON_EDGE void Note(EdgePhase phase) {
    if (phase == noted_) return;
    noted_ = phase;
    port_.Elect([&] {
      port_.StoreBlock(&block_.noted[warp_], static_cast<uint32_t>(phase));
    });
  }
  CARILLON_EDGE EdgePhase Await(EdgePhase wanted) {
    EdgePhase now;
    for (uint32_t round = 0; (now = phase()) < wanted; ++round) {
      port_.Pause(round);
    }
    return now;
  }

 private:
  Port& port_;
  EdgeBlock& block_;
  const uint32_t warp_;
  EdgePhase noted_ = EdgePhase::kStandby;
};

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_BACKENDS_CUDA_EDGE_EDGE_BLOCK_H_

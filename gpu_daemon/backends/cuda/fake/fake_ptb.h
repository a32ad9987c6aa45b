// A launch of persistent blocks on the fake GPU (policy ptb): some of the blocks
// are threads, the second of which watches for the host and runs none.
#ifndef CARILLON_GPU_DAEMON_BACKENDS_CUDA_FAKE_FAKE_PTB_H_
#define CARILLON_GPU_DAEMON_BACKENDS_CUDA_FAKE_FAKE_PTB_H_

#include <cstdint>
#include <functional>

#include "kernels/simt/event_frame.h"

namespace carillon::gpud::cuda {

// Takes and runs blocks, with as many resident blocks, until none is left, the host
// wants them to leave, or `run` returns false, which is a GPU that stops.
// True: all left as a kernel does, and EndPtb() is to follow.
bool RunPtb(const simt::BlockSupply& supply, uint32_t threads,
            const std::function<bool(uint64_t block)>& run);
// What the last of them does.
void EndPtb(const simt::EventFrame& frame, const simt::BlockSupply& supply);

}  // namespace carillon::gpud::cuda

#endif  // CARILLON_GPU_DAEMON_BACKENDS_CUDA_FAKE_FAKE_PTB_H_

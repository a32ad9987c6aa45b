// The end of an event kernel's last thread block on the fake GPU.
#ifndef CARILLON_GPU_DAEMON_BACKENDS_CUDA_FAKE_FAKE_EPILOGUE_H_
#define CARILLON_GPU_DAEMON_BACKENDS_CUDA_FAKE_FAKE_EPILOGUE_H_

#include "kernels/simt/event_frame.h"

namespace carillon::gpud::cuda {

// What the last thread block of an event kernel does, when all blocks ran in
// the calling thread.
void CompleteEvent(const simt::EventFrame& launched);

}  // namespace carillon::gpud::cuda

#endif  // CARILLON_GPU_DAEMON_BACKENDS_CUDA_FAKE_FAKE_EPILOGUE_H_

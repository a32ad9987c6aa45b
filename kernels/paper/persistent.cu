#include "kernels/paper/persistent.h"
#include "kernels/simt/wait_release.cuh"

namespace {

using carillon::kernels::PersistentArgs;
using carillon::kernels::PersistentQueue;

__device__ uint32_t SmId() {
  uint32_t sm;
  asm("mov.u32 %0, %%smid;" : "=r"(sm));
  return sm;
}

// `wait` returns once there may be a task.
template <class Wait>
__device__ void Serve(const PersistentArgs& args, Wait wait) {
  volatile PersistentQueue& queue = args.queues[blockIdx.x];
  if (threadIdx.x == 0) queue.sm = SmId();
  for (uint32_t done = 0; done < args.tasks;) {
    wait(queue, done);
    ++done;
    if (threadIdx.x == 0) queue.done = done;
    __syncthreads();
  }
}

// Looks for a task once, and then waits for a release, again and again. A
// release between the look and the wait is not lost. The kernel passes in
// `available`, its shared memory: nvcc would derive the name of a shared
// variable in here from the file's path.
template <class Wait>
__device__ void WaitForTask(volatile PersistentQueue& queue, uint32_t done,
                            uint32_t& available, Wait wait) {
  for (;;) {
    if (threadIdx.x == 0) available = queue.pushed != done;
    __syncthreads();
    const bool go = available != 0;
    __syncthreads();
    if (go) return;
    wait();
  }
}

}  // namespace

extern "C" __global__ void persistent_poll(PersistentArgs args) {
  Serve(args, [](volatile PersistentQueue& queue, uint32_t done) {
    if (threadIdx.x == 0) {
      while (queue.pushed == done) {
      }
    }
    __syncthreads();
  });
}

extern "C" __global__ void persistent_wait(PersistentArgs args) {
  __shared__ uint32_t available;
  Serve(args, [&](volatile PersistentQueue& queue, uint32_t done) {
    WaitForTask(queue, done, available, [] { __wait_threads(); });
  });
}

extern "C" __global__ void persistent_targeted(PersistentArgs args) {
  __shared__ uint32_t available;
  const uint32_t barrier = 1 + blockIdx.x % args.barriers;
  Serve(args, [&](volatile PersistentQueue& queue, uint32_t done) {
    WaitForTask(queue, done, available, [&] { __wait_threads_on(barrier); });
  });
}

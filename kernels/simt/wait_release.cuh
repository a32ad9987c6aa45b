// EDGE's wait-release barrier (thesis 5.4.3), for kernels on the simulated GPU:
// no other has it, and nvcc only compiles these to PTX (nvcc -ptx).
//
//   while (!work_available) {
//     __wait_threads();          // all warps of the block; until a release
//     if (threadIdx.x == 0) work_available = look_for_work();
//     __syncthreads();
//   }
//
// It is level-sensitive: a release that comes before the wait is not lost.
#ifndef CARILLON_KERNELS_SIMT_WAIT_RELEASE_CUH_
#define CARILLON_KERNELS_SIMT_WAIT_RELEASE_CUH_

// Every live thread of the block must call it.
extern "C" __device__ void __wait_threads();
// Releases the blocks of all kernels on the SM that runs it.
extern "C" __device__ void __release_threads();
// The same for one barrier of 16 (0 to 15; 0 is the one above), so that a
// release wakes only those that wait for it. The thesis leaves this to future
// work.
extern "C" __device__ void __wait_threads_on(unsigned barrier);
extern "C" __device__ void __release_threads_on(unsigned barrier);

#endif  // CARILLON_KERNELS_SIMT_WAIT_RELEASE_CUH_

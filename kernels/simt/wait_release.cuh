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

// Every thread of the block that lives must come here.
extern "C" __device__ void __wait_threads();
// Lets the blocks of the SM that runs it go on, of all kernels.
extern "C" __device__ void __release_threads();
// The same of one barrier of 16 (0 to 15; 0 is the one above), so that a release
// wakes only those that wait for it. The thesis leaves this to future work.
extern "C" __device__ void __wait_threads_on(unsigned barrier);
extern "C" __device__ void __release_threads_on(unsigned barrier);

#endif  // CARILLON_KERNELS_SIMT_WAIT_RELEASE_CUH_

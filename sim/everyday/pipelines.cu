// Asynchronous copies, barriers in shared memory and pipelines of them, for
// pipelines_test.cc. compute_75 does it all by ordinary code.
#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
#include <cuda_awbarrier_primitives.h>
#include <cuda_pipeline.h>

#include <cuda/barrier>
#include <cuda/pipeline>

// A barrier is begun by init().
#pragma nv_diag_suppress static_var_with_dynamic_init

namespace cg = cooperative_groups;
using Barrier = cuda::barrier<cuda::thread_scope_block>;

// Double buffers by __pipeline_*; odd threads copy only 4 of 16 bytes, and zeros
// follow.
extern "C" __global__ void double_buffers(const int4* in, int* out,
                                          long long tiles) {
  __shared__ int4 buffer[2][64];
  const unsigned t = threadIdx.x;
  const auto copy = [&](long long tile) {
    __pipeline_memcpy_async(&buffer[tile & 1][t], in + tile * 64 + t, 16,
                            t % 2 != 0 ? 12 : 0);
  };
  copy(0);
  __pipeline_commit();
  int sum = 0;
  for (long long tile = 0; tile < tiles; ++tile) {
    if (tile + 1 < tiles) copy(tile + 1);
    __pipeline_commit();
    __pipeline_wait_prior(1);
    __syncthreads();
    const int4 x = buffer[tile & 1][63 - t];
    sum += x.x + 2 * x.y + 3 * x.z + 4 * x.w;
    __syncthreads();
  }
  out[t] = sum;
}

// Copies of 4 and 8 bytes.
extern "C" __global__ void small_copies(const int* in, int* out) {
  __shared__ int words[64];
  __shared__ long long longs[64];
  const unsigned t = threadIdx.x;
  __pipeline_memcpy_async(words + t, in + t, 4);
  __pipeline_memcpy_async(longs + t, reinterpret_cast<const long long*>(in) + t,
                          8);
  __pipeline_commit();
  __pipeline_wait_prior(0);
  __syncthreads();
  out[t] = words[63 - t] + static_cast<int>(longs[63 - t] >> 32);
}

// A block's copies by a barrier, whose arrivals have tokens.
extern "C" __global__ void tokens(const int* in, int* out, long long tiles) {
  __shared__ Barrier barrier;
  __shared__ int buffer[128];
  const auto block = cg::this_thread_block();
  if (threadIdx.x == 0) init(&barrier, blockDim.x);
  block.sync();
  int sum = 0;
  for (long long tile = 0; tile < tiles; ++tile) {
    cuda::memcpy_async(block, buffer, in + tile * 128, sizeof(buffer), barrier);
    Barrier::arrival_token token = barrier.arrive();
    sum += static_cast<int>(tile);  // meanwhile
    barrier.wait(std::move(token));
    sum += buffer[127 - threadIdx.x];
    barrier.arrive_and_wait();
  }
  out[threadIdx.x] = sum;
}

// The second half of the block consumes what the first produces.
extern "C" __global__ void two_roles(const int* in, int* out, long long tiles) {
  __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, 2> state;
  __shared__ int buffer[2][64];
  const auto block = cg::this_thread_block();
  const bool produces = threadIdx.x < 64;
  auto pipeline = cuda::make_pipeline(
      block, &state,
      produces ? cuda::pipeline_role::producer : cuda::pipeline_role::consumer);
  int sum = 0;
  for (long long tile = 0; tile < tiles; ++tile) {
    if (produces) {
      pipeline.producer_acquire();
      cuda::memcpy_async(&buffer[tile & 1][threadIdx.x],
                         in + tile * 64 + threadIdx.x, sizeof(int), pipeline);
      pipeline.producer_commit();
    } else {
      pipeline.consumer_wait();
      sum = 3 * sum + buffer[tile & 1][127 - threadIdx.x];
      pipeline.consumer_release();
    }
  }
  out[threadIdx.x] = sum;
}

// All threads fill four stages ahead.
extern "C" __global__ void four_stages(const int* in, int* out,
                                       long long tiles) {
  constexpr int kStages = 4;
  __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, kStages>
      state;
  alignas(16) __shared__ int buffer[kStages][128];
  const auto block = cg::this_thread_block();
  auto pipeline = cuda::make_pipeline(block, &state);
  int sum = 0;
  for (long long next = 0, tile = 0; tile < tiles; ++tile) {
    for (; next < tiles && next < tile + kStages; ++next) {
      pipeline.producer_acquire();
      cuda::memcpy_async(block, buffer[next % kStages], in + next * 128,
                         cuda::aligned_size_t<16>(128 * sizeof(int)), pipeline);
      pipeline.producer_commit();
    }
    pipeline.consumer_wait();
    sum = 3 * sum + buffer[tile % kStages][127 - threadIdx.x];
    pipeline.consumer_release();
  }
  out[threadIdx.x] = sum;
}

// A pipeline of each thread for itself.
extern "C" __global__ void own_pipelines(const int* in, int* out,
                                         long long tiles) {
  __shared__ int buffer[2][64];
  auto pipeline = cuda::make_pipeline();
  const unsigned t = threadIdx.x;
  int sum = 0;
  for (long long next = 0, tile = 0; tile < tiles; ++tile) {
    for (; next < tiles && next < tile + 2; ++next) {
      pipeline.producer_acquire();
      cuda::memcpy_async(&buffer[next & 1][t], in + next * 64 + t, sizeof(int),
                         pipeline);
      pipeline.producer_commit();
    }
    pipeline.consumer_wait();
    sum = 3 * sum + buffer[tile & 1][t];
    pipeline.consumer_release();
  }
  out[t] = sum;
}

// cooperative_groups' copies, of which the first may be waited for alone.
extern "C" __global__ void group_copies(const int* in, int* out) {
  __shared__ int buffer[2][128];
  const auto block = cg::this_thread_block();
  cg::memcpy_async(block, buffer[0], in, sizeof(buffer[0]));
  cg::memcpy_async(block, buffer[1], in + 128, sizeof(buffer[1]));
  cg::wait_prior<1>(block);
  int sum = buffer[0][threadIdx.x ^ 77];
  cg::wait(block);
  out[threadIdx.x] = sum + 5 * buffer[1][threadIdx.x ^ 33];
}

// Some threads leave for good; the others wait by parity.
extern "C" __global__ void dropouts(int* out) {
  __shared__ Barrier barrier;
  __shared__ int values[128];
  if (threadIdx.x == 0) init(&barrier, blockDim.x);
  __syncthreads();
  values[threadIdx.x] = static_cast<int>(threadIdx.x);
  if (threadIdx.x % 32 == 5) {
    barrier.arrive_and_drop();
    return;
  }
  barrier.arrive_and_wait();
  const int other = values[threadIdx.x ^ 1];
  (void)barrier.arrive();
  barrier.wait_parity(true);
  values[threadIdx.x] = other;
  (void)barrier.arrive();
  barrier.wait_parity(false);
  const unsigned next = (threadIdx.x + 1) % 128;
  out[threadIdx.x] = next % 32 == 5 ? -1 : values[next];
}

// One warp waits for what the others do with the primitives of C.
extern "C" __global__ void primitives(const int* in, int* out) {
  __shared__ __mbarrier_t barrier;
  __shared__ int values[128];
  if (threadIdx.x == 0) __mbarrier_init(&barrier, blockDim.x);
  __syncthreads();
  values[threadIdx.x] = in[threadIdx.x];
  const __mbarrier_token_t token = __mbarrier_arrive(&barrier);
  if (threadIdx.x < 32) {
    while (!__mbarrier_test_wait(&barrier, token)) {
    }
    int sum = static_cast<int>(__mbarrier_token_pending_count(token)) * 1000000;
    for (unsigned i = threadIdx.x; i < 128; i += 32) sum += values[i];
    out[threadIdx.x] = sum;
  }
  __syncthreads();
  if (threadIdx.x == 0) __mbarrier_inval(&barrier);
}

// One thread copies in bulk, where the architecture has that.
extern "C" __global__ void one_copies(const int* in, int* out) {
  __shared__ Barrier barrier;
  alignas(128) __shared__ int buffer[256];
  if (threadIdx.x == 0) init(&barrier, blockDim.x);
  __syncthreads();
  if (threadIdx.x == 0) {
    cuda::memcpy_async(buffer, in, cuda::aligned_size_t<16>(sizeof(buffer)),
                       barrier);
  }
  barrier.arrive_and_wait();
  out[threadIdx.x] = buffer[255 - threadIdx.x];
}

#if __CUDA_ARCH__ >= 900
// The bytes are expected together with an arrival.
extern "C" __global__ void transactions(const int* in, int* out) {
  __shared__ Barrier barrier;
  alignas(128) __shared__ int buffer[256];
  if (threadIdx.x == 0) {
    init(&barrier, blockDim.x);
    cuda::ptx::fence_proxy_async(cuda::ptx::space_shared);
  }
  __syncthreads();
  Barrier::arrival_token token;
  if (threadIdx.x == 0) {
    cuda::device::memcpy_async_tx(
        buffer, in, cuda::aligned_size_t<16>(sizeof(buffer)), barrier);
    token = cuda::device::barrier_arrive_tx(barrier, 1, sizeof(buffer));
  } else {
    token = barrier.arrive();
  }
  barrier.wait(std::move(token));
  out[threadIdx.x] = buffer[255 - threadIdx.x];
}
#endif

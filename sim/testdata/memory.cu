// Kernels that do nothing but use memory, for memory_benchmark.
#include <cstdint>

// Follows pointers.
extern "C" __global__ void chase(const uint64_t* first, uint64_t* out,
                                 uint32_t steps) {
  uint64_t at = reinterpret_cast<uint64_t>(first);
  for (uint32_t i = 0; i < steps; ++i) {
    at = *reinterpret_cast<const uint64_t*>(at);
  }
  *out = at;
}

// All threads together go through the words from 0 to count.
extern "C" __global__ void read(const float* in, float* out, uint32_t count) {
  float sum = 0;
  const uint32_t threads = gridDim.x * blockDim.x;
  uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
#pragma unroll 4
  for (; i < count; i += threads) sum += in[i];
  if (sum == -1.0f) *out = sum;
}

extern "C" __global__ void write(float* out, float* unused, uint32_t count) {
  const uint32_t threads = gridDim.x * blockDim.x;
  uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
#pragma unroll 4
  for (; i < count; i += threads) out[i] = 1.0f;
}

extern "C" __global__ void copy(const float* in, float* out, uint32_t count) {
  const uint32_t threads = gridDim.x * blockDim.x;
  uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
#pragma unroll 4
  for (; i < count; i += threads) out[i] = in[i];
}

// Each lane reads a word of its own, `stride` words from the next lane's.
extern "C" __global__ void strided(const float* in, float* out, uint32_t count,
                                   uint32_t stride) {
  float sum = 0;
  const uint32_t threads = gridDim.x * blockDim.x;
  const uint32_t thread = blockIdx.x * blockDim.x + threadIdx.x;
#pragma unroll 4
  for (uint32_t i = thread; i < count / stride; i += threads) {
    sum += in[i * stride];
  }
  if (sum == -1.0f) *out = sum;
}

// The same with places that follow no order; count is a power of two.
extern "C" __global__ void scattered(const float* in, float* out,
                                     uint32_t count, uint32_t each) {
  float sum = 0;
  uint32_t at = (blockIdx.x * blockDim.x + threadIdx.x) * 2654435761u;
#pragma unroll 4
  for (uint32_t i = 0; i < each; ++i) {
    at = at * 1664525u + 1013904223u;
    sum += in[(at >> 4) & (count - 1)];
  }
  if (sum == -1.0f) *out = sum;
}

// All warps read the same line of the L2, past their L1.
extern "C" __global__ void hot(const float* in, float* out, uint32_t each) {
  float sum = 0;
  const volatile float* const word = in + threadIdx.x % 32;
  for (uint32_t i = 0; i < each; ++i) sum += *word;
  if (sum == -1.0f) *out = sum;
}

// All lanes of all warps add to one word.
extern "C" __global__ void add(uint32_t* word, float* unused, uint32_t each) {
  for (uint32_t i = 0; i < each; ++i) atomicAdd(word, threadIdx.x);
}

// Kernels that say where in the grid they are, for sliced_ptx_test.cc.

__device__ unsigned total;

__device__ unsigned BlockNumber() {
  return (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
}

// One dimension, with a loop over all that the grid has not reached yet.
extern "C" __global__ void strides(unsigned* out, unsigned n) {
  const unsigned step = gridDim.x * blockDim.x;
  for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += step) {
    atomicAdd(&out[i], 3 * i + blockIdx.x);
  }
}

// Two dimensions, with its block's tile in shared memory, and dynamic memory
// behind it.
extern "C" __global__ void turned(unsigned* out, unsigned n) {
  __shared__ unsigned tile[64];
  extern __shared__ unsigned more[];
  const unsigned column = blockIdx.x * blockDim.x + threadIdx.x;
  const unsigned row = blockIdx.y;
  tile[threadIdx.x] = row * 1000 + column;
  more[threadIdx.x] = tile[threadIdx.x] ^ gridDim.y;
  __syncthreads();
  const unsigned other = blockDim.x - 1 - threadIdx.x;
  const unsigned at = row * gridDim.x * blockDim.x + column;
  if (at < n) out[at] = tile[other] + more[other];
}

// Three dimensions.
extern "C" __global__ void cells(unsigned* out, unsigned n) {
  const unsigned at = BlockNumber() * blockDim.x + threadIdx.x;
  unsigned value = 1;
  for (unsigned i = 0; i <= blockIdx.z; ++i) value = value * 31 + blockIdx.y;
  if (at < n) out[at] = value + gridDim.z;
}

// Functions that are called, one by the other and one by itself.
__device__ __noinline__ unsigned Leaf(unsigned value) {
  return value * 7 + blockIdx.y + gridDim.x;
}
__device__ __noinline__ unsigned Deeper(unsigned depth, unsigned value) {
  if (depth == 0) return Leaf(value);
  return Deeper(depth - 1, value + blockIdx.x) * 3 + depth;
}
__device__ __noinline__ unsigned NoGrid(unsigned value) {
  return value ^ (threadIdx.x << 8);
}
extern "C" __global__ void calls(unsigned* out, unsigned n) {
  const unsigned at = BlockNumber() * blockDim.x + threadIdx.x;
  const unsigned value = NoGrid(Deeper(blockIdx.z % 3, at));
  if (at < n) out[at] = value;
}

// It calls who reads, and reads nothing itself.
extern "C" __global__ void by_call(unsigned* out, unsigned n) {
  const unsigned value = Leaf(threadIdx.x);
  if (value < n) atomicAdd(&out[value], 1);
}

// The last block to come knows that it is, by the size of the whole grid.
extern "C" __global__ void last_one(unsigned* out, unsigned n) {
  if (threadIdx.x != 0) return;
  atomicAdd(&out[1], BlockNumber() + 1);
  __threadfence();
  const unsigned blocks = gridDim.x * gridDim.y * gridDim.z;
  if (atomicInc(&out[2], blocks - 1) == blocks - 1 && n != 0) {
    out[0] = atomicExch(&out[1], 0);
  }
}

// Without a place in the grid.
extern "C" __global__ void counts(unsigned* out) { atomicAdd(out, threadIdx.x); }

// Not sliced: a failed assertion says which block.
extern "C" __global__ void asserts(unsigned* out, unsigned n) {
  if (blockIdx.x >= n) __trap();
  if (out == nullptr) __assert_fail("out", "grids.cu", 1, "asserts");
}

// Nor this: it changes what other launches see.
extern "C" __global__ void stateful(unsigned* out, unsigned n) {
  if (atomicAdd(&total, 1) == n) out[0] = blockIdx.x;
}

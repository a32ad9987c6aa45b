// A little of everything: divergence, shared and local memory, barriers,
// shuffles, atomics, 64-bit arithmetic. out has a word for each thread, and one
// for the sum.
extern "C" __global__ void mixed(const unsigned* in, unsigned* out, int n) {
  __shared__ unsigned tile[64];
  unsigned own[8];
  const int thread = blockIdx.x * blockDim.x + threadIdx.x;
  const unsigned value = in[thread % n];
  for (int i = 0; i < 8; ++i) own[(i + value) & 7] = value + i;
  tile[threadIdx.x & 63] = own[value & 7];
  __syncthreads();
  unsigned sum = tile[(threadIdx.x + 1) % blockDim.x & 63];
  for (unsigned i = 0; i < (value & 3); ++i) {
    sum += own[(sum + i) & 7] / (i + 1) + in[(sum * 33 + i) % n];
  }
  const unsigned long long wide = value * 0x100000001ull % (sum | 1);
  __syncwarp();
  sum += __shfl_xor_sync(__activemask(), (unsigned)wide, 1);
  out[thread] = sum;
  atomicAdd(out + gridDim.x * blockDim.x, sum);
}

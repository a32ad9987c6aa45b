// Half precision, bfloat16 and whole numbers in pairs and fours, as people use
// them, for halves_test.cc.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

template <class T>
__device__ unsigned BitsOf(T x) {
  if constexpr (sizeof(T) == 2)
    return *reinterpret_cast<unsigned short*>(&x);
  else
    return *reinterpret_cast<unsigned*>(&x);
}

// The headers' names for halves, for bfloat16 too; before compute_80 they have no
// fused multiply-add.
__device__ __nv_bfloat16 __low2half(__nv_bfloat162 x) {
  return __low2bfloat16(x);
}
__device__ __nv_bfloat16 __high2half(__nv_bfloat162 x) {
  return __high2bfloat16(x);
}
__device__ __half2 Fma(__half2 a, __half2 b, __half2 c) {
  return __hfma2(a, b, c);
}
__device__ __nv_bfloat162 Fma(__nv_bfloat162 a, __nv_bfloat162 b,
                              __nv_bfloat162 c) {
#if __CUDA_ARCH__ >= 800
  return __hfma2(a, b, c);
#else
  return __floats2bfloat162_rn(
      fmaf(__low2float(a), __low2float(b), __low2float(c)),
      fmaf(__high2float(a), __high2float(b), __high2float(c)));
#endif
}

constexpr int kArithmetic = 12;
template <class T2>
__device__ void Arithmetic(const T2* a, const T2* b, const T2* c,
                           unsigned* out) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  unsigned* const to = out + kArithmetic * i;
  to[0] = BitsOf(__hadd2(a[i], b[i]));
  to[1] = BitsOf(__hsub2(a[i], b[i]));
  to[2] = BitsOf(__hmul2(a[i], b[i]));
  to[3] = BitsOf(Fma(a[i], b[i], c[i]));
  to[4] = BitsOf(__hadd2_sat(a[i], b[i]));
  to[5] = BitsOf(__hneg2(a[i]));
  to[6] = BitsOf(__habs2(a[i]));
  to[7] = BitsOf(__hmin2(a[i], b[i]));
  to[8] = BitsOf(__hmax2_nan(a[i], b[i]));
  to[9] = BitsOf(__hgt2(a[i], b[i]));
  to[10] = __hleu2_mask(a[i], b[i]);
  to[11] = BitsOf(__hadd(__low2half(a[i]), __high2half(b[i])));
}
extern "C" __global__ void half_arithmetic(const __half2* a, const __half2* b,
                                           const __half2* c, unsigned* out) {
  Arithmetic(a, b, c, out);
}
extern "C" __global__ void bfloat_arithmetic(const __nv_bfloat162* a,
                                             const __nv_bfloat162* b,
                                             const __nv_bfloat162* c,
                                             unsigned* out) {
  Arithmetic(a, b, c, out);
}

extern "C" __global__ void half_relu(const __half2* a, const __half2* b,
                                     const __half2* c, __half2* out) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
#if __CUDA_ARCH__ >= 800
  out[i] = __hfma2_relu(a[i], b[i], c[i]);
#else
  const __half2 x = __hfma2(a[i], b[i], c[i]);
  const __half2 zero = __float2half2_rn(0);
  out[i] = __hgt2_mask(x, zero) == 0xffffffff
               ? x
               : __floats2half2_rn(fmaxf(__low2float(x), 0),
                                   fmaxf(__high2float(x), 0));
#endif
}

extern "C" __global__ void half_conversions(const float* in, unsigned* out) {
  const float x = in[threadIdx.x];
  unsigned* const to = out + 10 * threadIdx.x;
  to[0] = BitsOf(__float2half_rn(x));
  to[1] = BitsOf(__float2half_rz(x));
  to[2] = BitsOf(__float2half_ru(x));
  to[3] = BitsOf(__float2bfloat16_rn(x));
  to[4] = BitsOf(__float2bfloat16_rd(x));
  to[5] = BitsOf(__floats2half2_rn(x, -x));
  to[6] = static_cast<unsigned>(__half2int_rd(__float2half_rn(x)));
  to[7] = BitsOf(__int2half_rn(static_cast<int>(x)));
  to[8] = BitsOf(__ll2bfloat16_rn(static_cast<long long>(x)));
  to[9] = static_cast<unsigned>(__half2char_rz(__float2half_rn(x)));
}

// The sums are exact in any order.
extern "C" __global__ void half_atomics(__half* h, __half2* h2,
                                        __nv_bfloat16* b, __nv_bfloat162* b2) {
  const int bin = static_cast<int>(threadIdx.x % 3);
  const float one = static_cast<float>(threadIdx.x % 4);
  atomicAdd(h + bin, __float2half(one));
  atomicAdd(h2 + bin, __floats2half2_rn(one, -one));
  atomicAdd(b + bin, __float2bfloat16(one / 2));
  atomicAdd(b2 + bin, __floats2bfloat162_rn(1, one));
}

// A dot product of a block: in pairs, then among the lanes, then the warps.
extern "C" __global__ void half_dot(const __half2* a, const __half2* b,
                                    float* out) {
  __shared__ __half2 sums[32];
  __half2 sum = __float2half2_rn(0);
  for (unsigned i = threadIdx.x; i < 512; i += blockDim.x) {
    sum = __hfma2(a[i], b[i], sum);
  }
  for (int step = warpSize / 2; step != 0; step /= 2) {
    sum = __hadd2(sum, __shfl_down_sync(~0u, sum, step));
  }
  if (threadIdx.x % warpSize == 0) sums[threadIdx.x / warpSize] = sum;
  __syncthreads();
  if (threadIdx.x != 0) return;
  for (unsigned w = 1; w < blockDim.x / warpSize; ++w) {
    sum = __hadd2(sum, sums[w]);
  }
  *out = __low2float(sum) + __high2float(sum);
}

extern "C" __global__ void half_functions(const __half* in, float* out) {
  const __half x = in[threadIdx.x];
  float* const to = out + 6 * threadIdx.x;
  to[0] = __half2float(hexp2(x));
  to[1] = __half2float(htanh(x));
  to[2] = __half2float(hsqrt(__habs(x)));
  to[3] = __half2float(hrcp(x));
  to[4] = __half2float(__hdiv(__float2half(1.5f), x));
  to[5] = __bfloat162float(hexp(__float2bfloat16(__half2float(x))));
}

extern "C" __global__ void packed(const unsigned* a, const unsigned* b,
                                  unsigned* out) {
  const unsigned i = threadIdx.x;
  unsigned* const to = out + 14 * i;
  to[0] = __vadd4(a[i], b[i]);
  to[1] = __vsubus4(a[i], b[i]);
  to[2] = __vaddss2(a[i], b[i]);
  to[3] = __vabsdiffu4(a[i], b[i]);
  to[4] = __vabsdiffs2(a[i], b[i]);
  to[5] = __vsadu4(a[i], b[i]);
  to[6] = __vsads2(a[i], b[i]);
  to[7] = __vmaxs2(a[i], b[i]);
  to[8] = __vminu4(a[i], b[i]);
  to[9] = __vavgu4(a[i], b[i]);
  to[10] = __vcmpgts4(a[i], b[i]);
  to[11] = __vabs4(a[i]);
  to[12] = __viaddmax_s16x2(a[i], b[i], 0x00010002);
  to[13] = static_cast<unsigned>(
      __vimax3_s32_relu(static_cast<int>(a[i]), static_cast<int>(b[i]), -5));
}

// The sum of absolute differences of two rows of bytes.
extern "C" __global__ void row_difference(const unsigned* a, const unsigned* b,
                                          unsigned* out) {
  unsigned sum = 0;
  for (unsigned i = threadIdx.x; i < 256; i += blockDim.x) {
    sum += __vsadu4(a[i], b[i]);
  }
  atomicAdd(out, sum);
}

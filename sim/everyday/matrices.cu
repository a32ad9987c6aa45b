// Products of matrices by tensor cores, for matrices_test.cc: nvcuda::wmma as its
// guide shows it, and mma.sync with ldmatrix as libraries write it.
#include <mma.h>

#include <cstdint>
#include <type_traits>

using namespace nvcuda::wmma;

// C = A * B + C in tiles of MxN, one to a warp. A is `m` x `depth`, B is `depth` x
// `n`; each is stored by rows or by columns.
template <int M, int N, int K, class T, class C, class LayoutA, class LayoutB>
__device__ void Product(const void* a, const void* b, void* c, int m, int n,
                        int depth, layout_t layout_c) {
  constexpr bool kTf32 = K == 8;  // compute_75 has no name for the type
  using Stored = std::conditional_t<kTf32, float, T>;
  const int warp = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
  const int row = warp / (n / N) * M;
  const int column = warp % (n / N) * N;
  if (row >= m) return;
  const bool a_by_rows = std::is_same_v<LayoutA, row_major>;
  const bool b_by_rows = std::is_same_v<LayoutB, row_major>;
  const int a_stride = a_by_rows ? depth : m;
  const int b_stride = b_by_rows ? n : depth;
  const int c_stride = layout_c == mem_row_major ? n : m;
  C* const tile = static_cast<C*>(c) + (layout_c == mem_row_major
                                            ? row * c_stride + column
                                            : column * c_stride + row);
  fragment<accumulator, M, N, K, C> of_c;
  load_matrix_sync(of_c, tile, c_stride, layout_c);
  for (int k = 0; k < depth; k += K) {
    fragment<matrix_a, M, N, K, T, LayoutA> of_a;
    fragment<matrix_b, M, N, K, T, LayoutB> of_b;
    const int at_a = a_by_rows ? row * a_stride + k : k * a_stride + row;
    const int at_b = b_by_rows ? k * b_stride + column : column * b_stride + k;
    load_matrix_sync(of_a, static_cast<const Stored*>(a) + at_a, a_stride);
    load_matrix_sync(of_b, static_cast<const Stored*>(b) + at_b, b_stride);
#if __CUDA_ARCH__ >= 800
    if constexpr (kTf32) {
      for (int i = 0; i < of_a.num_elements; ++i) {
        of_a.x[i] = __float_to_tf32(of_a.x[i]);
      }
      for (int i = 0; i < of_b.num_elements; ++i) {
        of_b.x[i] = __float_to_tf32(of_b.x[i]);
      }
    }
#endif
    mma_sync(of_c, of_a, of_b, of_c);
  }
  store_matrix_sync(tile, of_c, c_stride, layout_c);
}

#define PRODUCT(name, M, N, K, T, C, LayoutA, LayoutB, layout_c)               \
  extern "C" __global__ void name(const void* a, const void* b, void* c,       \
                                  long long m, long long n, long long depth) { \
    Product<M, N, K, T, C, LayoutA, LayoutB>(a, b, c, m, n, depth, layout_c);  \
  }

PRODUCT(half_16_rows_columns, 16, 16, 16, half, float, row_major, col_major,
        mem_row_major)
PRODUCT(half_16_columns_rows, 16, 16, 16, half, float, col_major, row_major,
        mem_col_major)
PRODUCT(half_32_rows_rows, 32, 8, 16, half, half, row_major, row_major,
        mem_row_major)
PRODUCT(half_8_columns_columns, 8, 32, 16, half, float, col_major, col_major,
        mem_col_major)
PRODUCT(half_8_rows_columns, 8, 32, 16, half, half, row_major, col_major,
        mem_row_major)
PRODUCT(bytes_16, 16, 16, 16, signed char, int, row_major, col_major,
        mem_row_major)
PRODUCT(bytes_32, 32, 8, 16, unsigned char, int, col_major, row_major,
        mem_col_major)
PRODUCT(bytes_8, 8, 32, 16, signed char, int, row_major, row_major,
        mem_row_major)
#if __CUDA_ARCH__ >= 800
PRODUCT(bfloat_16, 16, 16, 16, __nv_bfloat16, float, row_major, col_major,
        mem_row_major)
PRODUCT(bfloat_32, 32, 8, 16, __nv_bfloat16, float, row_major, row_major,
        mem_col_major)
PRODUCT(bfloat_8, 8, 32, 16, __nv_bfloat16, float, col_major, col_major,
        mem_row_major)
PRODUCT(tf32_16, 16, 16, 8, precision::tf32, float, row_major, col_major,
        mem_row_major)
PRODUCT(tf32_16_turned, 16, 16, 8, precision::tf32, float, col_major, row_major,
        mem_col_major)
PRODUCT(doubles, 8, 8, 4, double, double, row_major, col_major, mem_row_major)
PRODUCT(doubles_turned, 8, 8, 4, double, double, col_major, row_major,
        mem_col_major)
#endif

// D = alpha A B + beta C of 64x64 by a block of four warps. Tiles of A and of B
// pass through shared memory, whose rows are longer than they need to be.
extern "C" __global__ void half_through_shared(const half* a, const half* b,
                                               const float* c, float* d,
                                               long long depth) {
  constexpr int kTile = 64, kStep = 32, kPad = 8;
  __shared__ alignas(32) half of_a[kTile][kStep + kPad];
  __shared__ alignas(32) half of_b[kStep][kTile + kPad];
  __shared__ alignas(32) float of_c[4][16][16];
  const int warp = threadIdx.x / 32;
  fragment<accumulator, 16, 16, 16, float> sums[4];
  for (auto& sum : sums) fill_fragment(sum, 0.f);
  for (int k = 0; k < depth; k += kStep) {
    for (int i = threadIdx.x; i < kTile * kStep; i += blockDim.x) {
      of_a[i / kStep][i % kStep] = a[i / kStep * depth + k + i % kStep];
      of_b[i / kTile][i % kTile] = b[(k + i / kTile) * kTile + i % kTile];
    }
    __syncthreads();
    for (int step = 0; step < kStep; step += 16) {
      fragment<matrix_a, 16, 16, 16, half, row_major> x;
      load_matrix_sync(x, &of_a[16 * warp][step], kStep + kPad);
      for (int j = 0; j < 4; ++j) {
        fragment<matrix_b, 16, 16, 16, half, row_major> y;
        load_matrix_sync(y, &of_b[step][16 * j], kTile + kPad);
        mma_sync(sums[j], x, y, sums[j]);
      }
    }
    __syncthreads();
  }
  for (int j = 0; j < 4; ++j) {
    fragment<accumulator, 16, 16, 16, float> scaled;
    load_matrix_sync(scaled, c + 16 * warp * kTile + 16 * j, kTile,
                     mem_row_major);
    for (int i = 0; i < scaled.num_elements; ++i) {
      scaled.x[i] = 2.f * sums[j].x[i] - 3.f * scaled.x[i];
    }
    store_matrix_sync(&of_c[warp][0][0], scaled, 16, mem_row_major);
    __syncwarp();
    for (int i = threadIdx.x % 32; i < 256; i += 32) {
      d[(16 * warp + i / 16) * kTile + 16 * j + i % 16] =
          of_c[warp][i / 16][i % 16];
    }
    __syncwarp();
  }
}

// --- By mma.sync. Each kernel has one warp, and C has 16 x 8.

__device__ uint32_t Shared(const void* at) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(at));
}
__device__ void LoadFour(uint32_t (&to)[4], const void* row) {
  asm volatile(
      "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
      : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
      : "r"(Shared(row)));
}
__device__ void LoadTwoTransposed(uint32_t (&to)[2], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
               : "=r"(to[0]), "=r"(to[1])
               : "r"(Shared(row)));
}

// A is 16 x depth, B is depth x 8, both by rows.
extern "C" __global__ void half_by_ldmatrix(const half* a, const half* b,
                                            float* c, long long depth) {
  __shared__ alignas(16) half of_a[16][16];
  __shared__ alignas(16) half of_b[16][8];
  const int lane = threadIdx.x;
  const int g = lane / 4, t = lane % 4;
  float sum[4];
  for (int i = 0; i < 4; ++i) {
    sum[i] = c[(g + i / 2 * 8) * 8 + 2 * t + i % 2];
  }
  for (int k = 0; k < depth; k += 16) {
    for (int i = lane; i < 256; i += 32) {
      of_a[i / 16][i % 16] = a[i / 16 * depth + k + i % 16];
    }
    for (int i = lane; i < 128; i += 32) of_b[i / 8][i % 8] = b[k * 8 + i];
    __syncwarp();
    uint32_t x[4], y[2];
    LoadFour(x, &of_a[lane % 16][lane / 16 * 8]);
    LoadTwoTransposed(y, of_b[lane % 16]);
#if __CUDA_ARCH__ >= 800
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, "
        "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(y[0]), "r"(y[1]));
#else
    for (int half = 0; half < 2; ++half) {
      asm volatile(
          "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, "
          "{%4, %5}, {%6}, {%0, %1, %2, %3};"
          : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
          : "r"(x[2 * half]), "r"(x[2 * half + 1]), "r"(y[half]));
    }
#endif
    __syncwarp();
  }
  for (int i = 0; i < 4; ++i) {
    c[(g + i / 2 * 8) * 8 + 2 * t + i % 2] = sum[i];
  }
}

// A by rows, B by columns, of bytes; depth is a multiple of 32.
extern "C" __global__ void bytes_by_words(const int* a, const int* b, int* c,
                                          long long depth) {
  const int lane = threadIdx.x;
  const int g = lane / 4, t = lane % 4;
  const int stride = depth / 4;  // words
  int sum[4];
  for (int i = 0; i < 4; ++i) {
    sum[i] = c[(g + i / 2 * 8) * 8 + 2 * t + i % 2];
  }
  for (int k = 0; k < stride; k += 8) {
#if __CUDA_ARCH__ >= 800
    asm volatile(
        "mma.sync.aligned.m16n8k32.row.col.satfinite.s32.s8.u8.s32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+r"(sum[0]), "+r"(sum[1]), "+r"(sum[2]), "+r"(sum[3])
        : "r"(a[g * stride + k + t]), "r"(a[(g + 8) * stride + k + t]),
          "r"(a[g * stride + k + t + 4]), "r"(a[(g + 8) * stride + k + t + 4]),
          "r"(b[g * stride + k + t]), "r"(b[g * stride + k + t + 4]));
#else
    for (int part = 0; part < 2; ++part) {
      const int at = k + 4 * part + t;
      for (int half = 0; half < 2; ++half) {
        asm volatile(
            "mma.sync.aligned.m8n8k16.row.col.satfinite.s32.s8.u8.s32 "
            "{%0, %1}, {%2}, {%3}, {%0, %1};"
            : "+r"(sum[2 * half]), "+r"(sum[2 * half + 1])
            : "r"(a[(g + 8 * half) * stride + at]), "r"(b[g * stride + at]));
      }
    }
#endif
  }
  for (int i = 0; i < 4; ++i) {
    c[(g + i / 2 * 8) * 8 + 2 * t + i % 2] = sum[i];
  }
}

#if __CUDA_ARCH__ >= 800
// C = A B of 64 x 64 by a block of four warps, each of 32 x 32. cp.async fills two
// stages of shared memory, in whose rows the 16 bytes are permuted so that
// ldmatrix finds them in different banks.
extern "C" __global__ void half_in_stages(const half* a, const half* b,
                                          float* c, long long depth) {
  constexpr int kTile = 64, kStep = 32;
  __shared__ alignas(16) half of_a[2][kTile * kStep];
  __shared__ alignas(16) half of_b[2][kStep * kTile];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int first_row = warp / 2 * 32, first_column = warp % 2 * 32;
  // Where 16 bytes lie, in elements.
  const auto in_a = [](int row, int chunk) {
    return row * kStep + (chunk ^ (row / 2 & 3)) * 8;
  };
  const auto in_b = [](int row, int chunk) {
    return row * kTile + (chunk ^ (row & 7)) * 8;
  };
  const auto copy = [](half* to, const half* from) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(Shared(to)),
                 "l"(from)
                 : "memory");
  };
  const auto fill = [&](int stage, int k) {
    for (int i = threadIdx.x; i < kTile * kStep / 8; i += blockDim.x) {
      copy(&of_a[stage][in_a(i / 4, i % 4)], a + i / 4 * depth + k + i % 4 * 8);
      copy(&of_b[stage][in_b(i / 8, i % 8)],
           b + (k + i / 8) * kTile + i % 8 * 8);
    }
    asm volatile("cp.async.commit_group;");
  };
  float sums[2][4][4] = {};
  fill(0, 0);
  for (int k = 0; k < depth; k += kStep) {
    const int stage = k / kStep % 2;
    if (k + kStep < depth) {
      fill(1 - stage, k + kStep);
      asm volatile("cp.async.wait_group 1;");
    } else {
      asm volatile("cp.async.wait_group 0;");
    }
    __syncthreads();
    for (int step = 0; step < kStep; step += 16) {
      uint32_t x[2][4], y[4][2];
      for (int i = 0; i < 2; ++i) {
        LoadFour(x[i], &of_a[stage][in_a(first_row + 16 * i + lane % 16,
                                         step / 8 + lane / 16)]);
      }
      for (int j = 0; j < 4; ++j) {
        LoadTwoTransposed(
            y[j], &of_b[stage][in_b(step + lane % 16, first_column / 8 + j)]);
      }
      for (int i = 0; i < 2; ++i) {
        for (int j = 0; j < 4; ++j) {
          float(&sum)[4] = sums[i][j];
          asm volatile(
              "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
              "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
              : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
              : "r"(x[i][0]), "r"(x[i][1]), "r"(x[i][2]), "r"(x[i][3]),
                "r"(y[j][0]), "r"(y[j][1]));
        }
      }
    }
    __syncthreads();
  }
  for (int i = 0; i < 2; ++i) {
    for (int j = 0; j < 4; ++j) {
      for (int e = 0; e < 4; ++e) {
        const int row = first_row + 16 * i + lane / 4 + e / 2 * 8;
        const int column = first_column + 8 * j + lane % 4 * 2 + e % 2;
        c[row * kTile + column] = sums[i][j][e];
      }
    }
  }
}

// A by rows, B by columns.
extern "C" __global__ void tf32_by_mma(const float* a, const float* b, float* c,
                                       long long depth) {
  const int lane = threadIdx.x;
  const int g = lane / 4, t = lane % 4;
  float sum[4] = {};
  const auto tf32 = [](float x) {
    uint32_t bits;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(x));
    return bits;
  };
  for (int k = t; k < depth; k += 8) {
    asm volatile(
        "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, "
        "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(tf32(a[g * depth + k])), "r"(tf32(a[(g + 8) * depth + k])),
          "r"(tf32(a[g * depth + k + 4])),
          "r"(tf32(a[(g + 8) * depth + k + 4])), "r"(tf32(b[g * depth + k])),
          "r"(tf32(b[g * depth + k + 4])));
  }
  for (int i = 0; i < 4; ++i) {
    c[(g + i / 2 * 8) * 8 + 2 * t + i % 2] += sum[i];
  }
}
extern "C" __global__ void doubles_by_mma(const double* a, const double* b,
                                          double* c, long long depth) {
  const int lane = threadIdx.x;
  const int g = lane / 4, t = lane % 4;
  for (int half = 0; half < 2; ++half) {
    double* const to = c + (g + 8 * half) * 8 + 2 * t;
    double x = to[0], y = to[1];
    for (int k = t; k < depth; k += 4) {
      asm volatile(
          "mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, "
          "{%3}, {%0, %1};"
          : "+d"(x), "+d"(y)
          : "d"(a[(g + 8 * half) * depth + k]), "d"(b[g * depth + k]));
    }
    to[0] = x;
    to[1] = y;
  }
}
#endif

// Transposes an 8x8 matrix of 16 bits in the registers, and by shared memory.
extern "C" __global__ void transposes(const uint32_t* in, uint32_t* out) {
  const int lane = threadIdx.x;
  uint32_t turned;
  asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;"
               : "=r"(turned)
               : "r"(in[lane]));
  out[lane] = turned;
#if __CUDA_ARCH__ >= 900
  __shared__ alignas(16) uint32_t rows[32];
  asm volatile(
      "stmatrix.sync.aligned.m8n8.x1.trans.shared.b16 [%0], {%1};" ::"r"(
          Shared(&rows[lane % 8 * 4])),
      "r"(in[lane])
      : "memory");
  __syncwarp();
  out[32 + lane] = rows[lane];
#else
  out[32 + lane] = turned;
#endif
}

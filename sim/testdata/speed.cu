// What the simulated GPU's speed depends on, a kernel for each
// (speed_benchmark.cc). Every thread does `n` rounds, but work_queue, whose
// threads have `n` tasks between them. `data` has kWords words; the words of
// `out` behind the first are the threads'.
#include <cstdint>

#define KERNEL(name)                                                   \
  extern "C" __global__ void name(const unsigned* data, unsigned* out, \
                                  unsigned n)

namespace {
constexpr unsigned kWords = 1 << 20;

__device__ unsigned Thread() { return blockIdx.x * blockDim.x + threadIdx.x; }
__device__ unsigned Mixed(unsigned x) {
  x *= 0x9e3779b1u;
  return x ^ x >> 15;
}
}  // namespace

KERNEL(one_address) {
  unsigned seen = 0;
  for (unsigned i = 0; i < n; ++i) seen ^= atomicAdd(out, i);
  out[1 + Thread()] = seen;
}

KERNEL(many_addresses) {
  unsigned at = Thread();
  unsigned* const counts = out + 1 + gridDim.x * blockDim.x;
  for (unsigned i = 0; i < n; ++i) {
    at = Mixed(at + i);
    atomicAdd(counts + at % kWords, 1);
  }
  out[1 + Thread()] = at;
}

KERNEL(division) {
  uint64_t a = data[Thread()] * 0x100000001ull + 1;
  uint64_t b = Thread() + 3;
#pragma unroll 1
  for (unsigned i = 0; i < n; ++i) {
    a = a / b * 0x9e3779b97f4a7c15u + i;
    b = a % (b + i) + 1;
  }
  out[1 + Thread()] = static_cast<unsigned>(a ^ b);
}

KERNEL(work_queue) {
  unsigned done = 0;
  for (;;) {
    const unsigned ticket = atomicAdd(out, 1);
    if (ticket >= n) break;
    unsigned value = data[ticket % kWords];
    const unsigned rounds = 1 + Mixed(ticket) % 16;
#pragma unroll 1
    for (unsigned i = 0; i < rounds; ++i) value = Mixed(value + i);
    done += value;
  }
  out[1 + Thread()] = done;
}

KERNEL(scattered_loads) {
  unsigned sum = 0;
  unsigned at = Thread();
  for (unsigned i = 0; i < n; ++i) {
    at = Mixed(at + i);
    sum += data[at % kWords];
  }
  out[1 + Thread()] = sum;
}

KERNEL(scattered_stores) {
  unsigned at = Thread();
  unsigned* const words = out + 1 + gridDim.x * blockDim.x;
  for (unsigned i = 0; i < n; ++i) {
    at = Mixed(at + i);
    words[at % kWords] = at;
  }
  out[1 + Thread()] = at;
}

// Each thread has its own index, so the words of a warp are in many lines.
KERNEL(local_arrays) {
  unsigned own[64];
  for (unsigned i = 0; i < 64; ++i) own[i] = Thread() + i;
  unsigned at = Thread();
  for (unsigned i = 0; i < n; ++i) {
    at = Mixed(at + i);
    own[at % 64] += own[(at >> 8) % 64];
  }
  unsigned sum = 0;
  for (unsigned i = 0; i < 64; ++i) sum += own[i];
  out[1 + Thread()] = sum;
}

// Two products of 16 x 8 by 8 x 8 numbers less than 2 each round.
KERNEL(matrices) {
  const unsigned a = data[Thread() % kWords] & 0xbfffbfffu;
  const unsigned b = Mixed(a) & 0xbfffbfffu;
  float c[2][4] = {};
  for (unsigned i = 0; i < n; ++i) {
    for (float (&sum)[4] : c) {
      asm volatile(
          "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, "
          "{%4, %5}, {%5}, {%0, %1, %2, %3};"
          : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
          : "r"(a), "r"(b));
    }
  }
  float sum = 0;
  for (const float (&of)[4] : c) sum += of[0] + of[1] + of[2] + of[3];
  out[1 + Thread()] = __float_as_uint(sum);
}

// Bytes for the memcached kernels: copies, searches, decimal numbers, lookup3.
//
// Nothing here depends on alignment, since request texts and keys start
// anywhere.
#ifndef CARILLON_KERNELS_MEMCACHED_MEMC_BYTES_CUH_
#define CARILLON_KERNELS_MEMCACHED_MEMC_BYTES_CUH_

#include <cstdint>
#include <cstring>

#include "kernels/simt/simt.h"

// Marks a device function that a GPU calls rather than inlines. The kernels use
// these in many places, and ptxas would need minutes to inline all of them.
#if defined(__CUDACC__)
#define CARILLON_MEMC_CALL __device__ __noinline__
#else
#define CARILLON_MEMC_CALL inline
#endif

namespace carillon::kernels::memc {

// How far FindDelimiter and HashKey may read past the end of their input. The
// bytes there do not change the result.
inline constexpr uint32_t kReadSlack = 16;

CARILLON_DEVICE uint32_t Load32(const uint8_t* p) {
  uint32_t word;
  memcpy(&word, p, sizeof(word));
  return word;
}

// A GPU loads and stores whole words only where they are aligned, so elsewhere
// this copies byte by byte. It must not use memcpy: nvcc turns that into a
// store of a word, and then merges the two cases.
CARILLON_DEVICE uint64_t Load64(const uint8_t* p) {
#if defined(__CUDACC__)
  if (reinterpret_cast<uintptr_t>(p) % sizeof(uint64_t) == 0) {
    return *reinterpret_cast<const uint64_t*>(p);
  }
  uint64_t word = 0;
  CARILLON_UNROLL
  for (uint32_t i = 0; i < sizeof(word); ++i) {
    word |= static_cast<uint64_t>(p[i]) << (8 * i);
  }
#else
  uint64_t word;
  memcpy(&word, p, sizeof(word));
#endif
  return word;
}

CARILLON_DEVICE void Store64(uint8_t* p, uint64_t word) {
#if defined(__CUDACC__)
  if (reinterpret_cast<uintptr_t>(p) % sizeof(uint64_t) == 0) {
    *reinterpret_cast<uint64_t*>(p) = word;
    return;
  }
  CARILLON_UNROLL
  for (uint32_t i = 0; i < sizeof(word); ++i) {
    p[i] = static_cast<uint8_t>(word >> (8 * i));
  }
#else
  memcpy(p, &word, sizeof(word));
#endif
}

// The number of the lowest set bit; bits must not be 0.
CARILLON_DEVICE uint32_t LowestBit64(uint64_t bits) {
#if defined(__CUDACC__)
  return static_cast<uint32_t>(__ffsll(static_cast<long long>(bits)) - 1);
#else
  return static_cast<uint32_t>(__builtin_ctzll(bits));
#endif
}

// Prefetches a cache line that a later thread of the block will read. Only a
// CPU gains from it, because it runs the threads one after another.
CARILLON_DEVICE void PrefetchForLater([[maybe_unused]] const void* address) {
#if !defined(__CUDACC__)
  __builtin_prefetch(address);
#endif
}

// Loads a word that another block may be overwriting, without an atomic access,
// as the memory may belong to somebody else by now. The caller checks the
// result under a lock.
#if defined(__CUDACC__)
__device__ inline uint32_t LoadGuess(const uint32_t* address) {
  return simt::LoadRelaxed(address);
}
#else
__attribute__((no_sanitize_thread)) inline uint32_t LoadGuess(
    const uint32_t* address) {
  return *static_cast<const volatile uint32_t*>(address);
}
#endif

#if defined(__CUDACC__)
// The copies read memory of the host, a trip over PCIe away, so they ask for all
// of a batch before they use any of it.
inline constexpr uint32_t kBatchWords = 8;
inline constexpr uint32_t kBatchBytes = kBatchWords * sizeof(uint64_t);

// The n (1 to kBatchBytes) bytes from `from` on, and anything behind them. Reads
// each word that has one of them, so also other bytes of the first and the last.
__device__ inline void LoadBatch(uint64_t (&words)[kBatchWords],
                                 const uint8_t* from, uint32_t n) {
  const uint32_t before =
      static_cast<uint32_t>(reinterpret_cast<uintptr_t>(from) % 8);
  const auto* first = reinterpret_cast<const uint64_t*>(from - before);
  uint64_t raw[kBatchWords + 1];
#pragma unroll
  for (uint32_t i = 0; i <= kBatchWords; ++i) {
    raw[i] = i * 8 < before + n ? simt::LoadRelaxed(first + i) : 0;
  }
  const uint32_t bits = before * 8;
#pragma unroll
  for (uint32_t i = 0; i < kBatchWords; ++i) {
    // A shift by 64 would be undefined: in two steps.
    words[i] = raw[i] >> bits | raw[i + 1] << 1 << (63 - bits);
  }
}
#endif

// memcpy without a call for short lengths. A GPU reads whole words of `from`.
CARILLON_MEMC_CALL void CopyBytes(uint8_t* to, const uint8_t* from,
                                  uint64_t n) {
#if defined(__CUDACC__)
  for (uint64_t done = 0; done < n; done += kBatchBytes) {
    const auto part =
        static_cast<uint32_t>(n - done < kBatchBytes ? n - done : kBatchBytes);
    uint64_t words[kBatchWords];
    LoadBatch(words, from + done, part);
    uint64_t rest = 0;
#pragma unroll
    for (uint32_t i = 0; i < kBatchWords; ++i) {
      if (i * 8 + 8 <= part) {
        Store64(to + done + i * 8, words[i]);
      } else if (i * 8 < part) {
        rest = words[i];
      }
    }
    for (uint64_t i = done + part / 8 * 8; i < done + part; ++i, rest >>= 8) {
      to[i] = static_cast<uint8_t>(rest);
    }
  }
#else
  if (n > 128) {
    __builtin_memcpy(to, from, n);
    return;
  }
  if (n >= 8) {
    uint64_t i = 0;
    for (; i + 8 <= n; i += 8) Store64(to + i, Load64(from + i));
    // Copy the rest together with some bytes that are already there.
    if (i != n) Store64(to + n - 8, Load64(from + n - 8));
    return;
  }
  for (uint64_t i = 0; i < n; ++i) to[i] = from[i];
#endif
}

// Copies from memory that another process may change meanwhile. Afterwards only
// the copy is read, whatever the compiler assumes about the source. Reads up to
// 7 bytes more than n where `room` (bytes readable at `from`) allows, a GPU those
// of the words that it reads. `to` is aligned to 8 and has room for whole words.
CARILLON_DEVICE void CopyFromDevice(uint8_t* to, const uint8_t* from,
                                    uint32_t n,
                                    [[maybe_unused]] uint64_t room) {
#if defined(__CUDACC__)
  for (uint32_t done = 0; done < n; done += kBatchBytes) {
    const uint32_t part = n - done < kBatchBytes ? n - done : kBatchBytes;
    uint64_t words[kBatchWords];
    LoadBatch(words, from + done, part);
#pragma unroll
    for (uint32_t i = 0; i < kBatchWords; ++i) {
      if (i * 8 < part) {
        *reinterpret_cast<uint64_t*>(to + done + i * 8) = words[i];
      }
    }
  }
#else
  uint32_t i = 0;
  for (; i < n && i + 8 <= room; i += 8) Store64(to + i, Load64(from + i));
  for (; i < n; ++i) to[i] = from[i];
  asm volatile("" : : "r"(to) : "memory");
#endif
}

CARILLON_MEMC_CALL bool EqualBytes(const uint8_t* a, const uint8_t* b,
                                   uint32_t n) {
  if (n >= 8) {
    uint32_t i = 0;
    for (; i + 8 <= n; i += 8) {
      if (Load64(a + i) != Load64(b + i)) return false;
    }
    return i == n || Load64(a + n - 8) == Load64(b + n - 8);
  }
  for (uint32_t i = 0; i < n; ++i) {
    if (a[i] != b[i]) return false;
  }
  return true;
}

// Returns 0x80 in every byte of `word` that equals `byte`, and perhaps also in
// bytes above the lowest match.
CARILLON_DEVICE uint64_t MatchByte(uint64_t word, uint8_t byte) {
  const uint64_t ones = 0x0101010101010101;
  const uint64_t x = word ^ (ones * byte);
  return (x - ones) & ~x & (ones << 7);
}

// Finds the first ' ' or '
// ' from text[from] on, which must exist.
CARILLON_DEVICE uint32_t FindDelimiter(const uint8_t* text, uint32_t from) {
  for (;; from += 8) {
    const uint64_t word = Load64(text + from);
    const uint64_t hit = MatchByte(word, ' ') | MatchByte(word, '\n');
    if (hit != 0) return from + LowestBit64(hit) / 8;
  }
}

CARILLON_DEVICE uint32_t RotateLeft(uint32_t x, uint32_t bits) {
  return (x << bits) | (x >> (32 - bits));
}

// Bob Jenkins' lookup3 hashlittle() with initval 0. MemcachedGPU uses this
// hash, as memcached once did. Reads up to kReadSlack bytes past the key.
CARILLON_DEVICE uint32_t HashKey(const uint8_t* key, uint32_t length) {
  uint32_t a = 0xdeadbeef + length;
  uint32_t b = a;
  uint32_t c = a;
  if (length == 0) return c;
  while (length > 12) {
    a += Load32(key);
    b += Load32(key + 4);
    c += Load32(key + 8);
    a = (a - c) ^ RotateLeft(c, 4), c += b;
    b = (b - a) ^ RotateLeft(a, 6), a += c;
    c = (c - b) ^ RotateLeft(b, 8), b += a;
    a = (a - c) ^ RotateLeft(c, 16), c += b;
    b = (b - a) ^ RotateLeft(a, 19), a += c;
    c = (c - b) ^ RotateLeft(b, 4), b += a;
    key += 12;
    length -= 12;
  }
  // The last 1..12 bytes, zero-extended.
  uint64_t low = Load64(key);
  uint32_t high = Load32(key + 8);
  if (length <= 8) {
    low &= ~uint64_t{0} >> (64 - 8 * length);
    high = 0;
  } else {
    high &= ~uint32_t{0} >> (96 - 8 * length);
  }
  a += static_cast<uint32_t>(low);
  b += static_cast<uint32_t>(low >> 32);
  c += high;
  c = (c ^ b) - RotateLeft(b, 14);
  a = (a ^ c) - RotateLeft(c, 11);
  b = (b ^ a) - RotateLeft(a, 25);
  c = (c ^ b) - RotateLeft(b, 16);
  a = (a ^ c) - RotateLeft(c, 4);
  b = (b ^ a) - RotateLeft(a, 14);
  c = (c ^ b) - RotateLeft(b, 24);
  return c;
}

inline constexpr uint32_t kMaxDecimalDigits = 20;

// Writes `value` in decimal. Returns its length, at most kMaxDecimalDigits.
CARILLON_MEMC_CALL uint32_t FormatDecimal(uint64_t value, uint8_t* to) {
  if (value < 10) {
    to[0] = static_cast<uint8_t>('0' + value);
    return 1;
  }
  uint32_t digits = 0;
  for (uint64_t rest = value; rest != 0; rest /= 10) ++digits;
  for (uint32_t i = digits; i != 0; value /= 10) {
    to[--i] = static_cast<uint8_t>('0' + value % 10);
  }
  return digits;
}

CARILLON_DEVICE bool IsSpace(uint8_t c) {
  return c == ' ' || (c >= '\t' && c <= '\r');
}

// A decimal number as memcached reads it with strtol: white space, a sign,
// digits, and then the end, white space or a NUL. Anything may follow.
struct Decimal {
  bool ok;  // a number that fits 64 bits
  bool negative;
  uint64_t magnitude;
};

CARILLON_MEMC_CALL Decimal ParseDecimal(const uint8_t* text, uint32_t length) {
  Decimal result{false, false, 0};
  uint32_t i = 0;
  while (i < length && IsSpace(text[i])) ++i;
  if (i < length && (text[i] == '-' || text[i] == '+')) {
    result.negative = text[i] == '-';
    ++i;
  }
  const uint32_t first = i;
  uint64_t value = 0;
  for (; i < length && text[i] >= '0' && text[i] <= '9'; ++i) {
    const uint64_t digit = text[i] - '0';
    if (value > (~uint64_t{0} - digit) / 10) return result;
    value = value * 10 + digit;
  }
  if (i == first) return result;
  if (i < length && !IsSpace(text[i]) && text[i] != 0) return result;
  result.ok = true;
  result.magnitude = value;
  return result;
}

}  // namespace carillon::kernels::memc

#endif  // CARILLON_KERNELS_MEMCACHED_MEMC_BYTES_CUH_

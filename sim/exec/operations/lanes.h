// What the files with the operations' code share. Each file is compiled for
// several instruction sets, in a namespace of its own (CARILLON_SIM_ISA).
// Nothing here or in them may be shared between these: the linker could keep an
// inline function outside of the namespace in the form that this machine cannot
// run.
#ifndef CARILLON_SIM_EXEC_OPERATIONS_LANES_H_
#define CARILLON_SIM_EXEC_OPERATIONS_LANES_H_

#include <cstdint>

#include "sim/exec/operations/handlers.h"
#include "sim/exec/warp.h"

namespace carillon::sim::CARILLON_SIM_ISA {

Handler FindInteger(const Semantics& semantics);
Handler FindBits(const Semantics& semantics);
Handler FindFloat(const Semantics& semantics);
Handler FindHalf(const Semantics& semantics);
Handler FindPacked(const Semantics& semantics);
Handler FindConvert(const Semantics& semantics);
Handler FindCompare(const Semantics& semantics);
Handler FindAccess(const Semantics& semantics);
Handler FindAtomic(const Semantics& semantics);
Handler FindMultiply(const Semantics& semantics);

namespace {

using ptx::Type;

// to[lane] = value(lane) for the lanes of the mask. `value` is called for the
// other lanes as well, so it must have no effects and must not trap. `to` may
// be a source.
template <class T, class F>
[[gnu::always_inline]] inline void ForLanes(LaneMask mask, T* to, F value) {
  if (mask == kAllLanes) {
#pragma GCC ivdep
    for (uint32_t lane = 0; lane < kLanes; ++lane) to[lane] = value(lane);
  } else {
#pragma GCC ivdep
    for (uint32_t lane = 0; lane < kLanes; ++lane) {
      const T result = value(lane);
      to[lane] = (mask >> lane & 1) != 0 ? result : to[lane];
    }
  }
}

template <class F>
[[gnu::always_inline]] inline LaneMask MaskOf(F holds) {
  LaneMask mask = 0;
#pragma GCC ivdep
  for (uint32_t lane = 0; lane < kLanes; ++lane) {
    mask |= static_cast<LaneMask>(holds(lane) ? 1 : 0) << lane;
  }
  return mask;
}

// Applies kF to one, two or three sources of the result's type, as many as it
// takes.
template <class T, auto kF>
void Apply(const Op& op, Warp& warp, LaneMask mask) {
  const T* const a = warp.From<T>(op.operands[1]);
  T* const to = warp.To<T>(op.operands[0]);
  if constexpr (requires(T x) { kF(x); }) {
    ForLanes(mask, to, [=](uint32_t i) { return kF(a[i]); });
  } else {
    const T* const b = warp.From<T>(op.operands[2]);
    if constexpr (requires(T x) { kF(x, x); }) {
      ForLanes(mask, to, [=](uint32_t i) { return kF(a[i], b[i]); });
    } else {
      const T* const c = warp.From<T>(op.operands[3]);
      ForLanes(mask, to, [=](uint32_t i) { return kF(a[i], b[i], c[i]); });
    }
  }
}

// One row of a table of operations: what finds the code for their types.
struct Finder {
  Operation operation;
  Handler (*find)(const Semantics& semantics);
};
template <size_t kCount>
Handler FindIn(const Finder (&table)[kCount], const Semantics& s) {
  for (const Finder& finder : table) {
    if (finder.operation == s.operation) return finder.find(s);
  }
  return nullptr;
}

// Calls f<one>() with the one of kValues that equals `value`.
template <auto... kValues, class V, class F>
Handler ForOneOf(V value, F f) {
  Handler found = nullptr;
  ((value == kValues ? void(found = f.template operator()<kValues>()) : void()),
   ...);
  return found;
}

constexpr bool IsSigned(Type type) {
  return type == Type::kS16 || type == Type::kS32 || type == Type::kS64;
}

// Calls f<T>() with the C++ type that these describe.
template <class F>
Handler ForWholeNumbers(Type type, F f) {
  switch (type) {
    case Type::kU16:
      return f.template operator()<uint16_t>();
    case Type::kS16:
      return f.template operator()<int16_t>();
    case Type::kU32:
      return f.template operator()<uint32_t>();
    case Type::kS32:
      return f.template operator()<int32_t>();
    case Type::kU64:
      return f.template operator()<uint64_t>();
    case Type::kS64:
      return f.template operator()<int64_t>();
    default:
      return nullptr;
  }
}
// Calls f<T>() with a type that depends on the size only.
template <class F>
Handler ForBits(Type type, F f) {
  if (type == Type::kPred) return nullptr;
  switch (ptx::BytesOf(type)) {
    case 2:
      return f.template operator()<uint16_t>();
    case 4:
      return f.template operator()<uint32_t>();
    case 8:
      return f.template operator()<uint64_t>();
    default:
      return nullptr;
  }
}
template <class F>
Handler ForFloats(Type type, F f) {
  switch (type) {
    case Type::kF32:
      return f.template operator()<float>();
    case Type::kF64:
      return f.template operator()<double>();
    default:
      return nullptr;
  }
}

// CUDA's arithmetic gives this one NaN for every NaN in f32; f64 keeps the
// payload.
[[gnu::always_inline]] inline float Canonical(float x) {
  return x == x ? x : __builtin_bit_cast(float, 0x7fffffffu);
}
[[gnu::always_inline]] inline double Canonical(double x) { return x; }
// The same for arithmetic with these sources. In f64 the first source that is a
// NaN counts; the host would give either, depending on the compiler's order.
template <class... T>
[[gnu::always_inline]] inline float CanonicalOf(float result, T...) {
  return Canonical(result);
}
[[gnu::always_inline]] inline double NanOf() {
  return __builtin_bit_cast(double, 0xfff8'0000'0000'0000);
}
template <class... T>
[[gnu::always_inline]] inline double NanOf(double first, T... rest) {
  const uint64_t quiet = __builtin_bit_cast(uint64_t, first) | uint64_t{1}
                                                                   << 51;
  return first == first ? NanOf(rest...) : __builtin_bit_cast(double, quiet);
}
template <class... T>
[[gnu::always_inline]] inline double CanonicalOf(double result, T... sources) {
  return result == result ? result : NanOf(sources...);
}

// .ftz replaces a subnormal by a zero of its sign.
[[gnu::always_inline]] inline float Flushed(float x) {
  const auto bits = __builtin_bit_cast(uint32_t, x);
  return __builtin_bit_cast(
      float, (bits & 0x7f800000u) == 0 ? bits & 0x80000000u : bits);
}
[[gnu::always_inline]] inline double Flushed(double x) { return x; }

// .sat clamps to 0..1 and replaces a NaN by 0.
template <class T>
[[gnu::always_inline]] inline T Saturated(T x) {
  return x > T{0} ? (x < T{1} ? x : T{1}) : T{0};
}

}  // namespace
}  // namespace carillon::sim::CARILLON_SIM_ISA

#endif  // CARILLON_SIM_EXEC_OPERATIONS_LANES_H_

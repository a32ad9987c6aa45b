// Arithmetic that is not rounded to nearest (.rz, .rm, .rp), which is rare: the
// host's own rounding is changed around it. Compiled with -frounding-math.
#include <cfenv>
#include <cmath>

#include "gpu_daemon/backends/sim/exec/lanes.h"

namespace carillon::sim::CARILLON_SIM_ISA {
namespace {

int HostRounding(Rounding rounding) {
  switch (rounding) {
    case Rounding::kZero:
      return FE_TOWARDZERO;
    case Rounding::kDown:
      return FE_DOWNWARD;
    case Rounding::kUp:
      return FE_UPWARD;
    case Rounding::kNearest:
      break;
  }
  return FE_TONEAREST;
}

template <class T>
T Compute(Operation operation, T a, T b, T c) {
  switch (operation) {
    case Operation::kAdd:
      return a + b;
    case Operation::kSub:
      return a - b;
    case Operation::kMul:
      return a * b;
    case Operation::kDiv:
      return a / b;
    case Operation::kFma:
      return std::fma(a, b, c);
    case Operation::kRcp:
      return T{1} / a;
    default:
      return std::sqrt(a);
  }
}

template <class T, Operation kOperation, uint32_t kSources, Rounding kRounding,
          bool kFlush, bool kSaturate>
void Rounded(const Op& op, Warp& warp, LaneMask mask) {
  const T* const a = warp.From<T>(op.operands[1]);
  const T* const b = kSources > 1 ? warp.From<T>(op.operands[2]) : a;
  const T* const c = kSources > 2 ? warp.From<T>(op.operands[3]) : a;
  const auto in = [](T x) { return kFlush ? Flushed(x) : x; };
  // Each result by itself: none may move out of the two changes of rounding.
  volatile T result[kLanes];
  const int before = std::fegetround();
  std::fesetround(HostRounding(kRounding));
  for (uint32_t lane = 0; lane < kLanes; ++lane) {
    const volatile T x = in(a[lane]);
    const volatile T y = in(b[lane]);
    const volatile T z = in(c[lane]);
    result[lane] = Compute<T>(kOperation, x, y, z);
  }
  std::fesetround(before);
  ForLanes(mask, warp.To<T>(op.operands[0]), [&](uint32_t i) {
    T x = static_cast<T>(result[i]);
    x = kSources == 1   ? CanonicalOf(x, a[i])
        : kSources == 2 ? CanonicalOf(x, a[i], b[i])
                        : CanonicalOf(x, a[i], b[i], c[i]);
    if (kSaturate) x = Saturated(x);
    return kFlush ? Flushed(x) : x;
  });
}

template <class T, Operation kOperation, uint32_t kSources, Rounding kRounding>
Handler WithModifiers(const Semantics& s) {
  if constexpr (sizeof(T) == 8) {
    if (s.flush || s.saturate) return nullptr;
    return &Rounded<T, kOperation, kSources, kRounding, false, false>;
  } else {
    if (s.flush && s.saturate) {
      return &Rounded<T, kOperation, kSources, kRounding, true, true>;
    }
    if (s.flush)
      return &Rounded<T, kOperation, kSources, kRounding, true, false>;
    if (s.saturate) {
      return &Rounded<T, kOperation, kSources, kRounding, false, true>;
    }
    return &Rounded<T, kOperation, kSources, kRounding, false, false>;
  }
}
template <class T, Operation kOperation, uint32_t kSources>
Handler InDirection(const Semantics& s) {
  switch (s.rounding) {
    case Rounding::kZero:
      return WithModifiers<T, kOperation, kSources, Rounding::kZero>(s);
    case Rounding::kDown:
      return WithModifiers<T, kOperation, kSources, Rounding::kDown>(s);
    case Rounding::kUp:
      return WithModifiers<T, kOperation, kSources, Rounding::kUp>(s);
    case Rounding::kNearest:
      break;
  }
  return nullptr;
}
template <Operation kOperation, uint32_t kSources>
Handler Of(const Semantics& s) {
  if (s.type == Type::kF32) return InDirection<float, kOperation, kSources>(s);
  if (s.type == Type::kF64) return InDirection<double, kOperation, kSources>(s);
  return nullptr;
}

}  // namespace

Handler FindRounded(const Semantics& s) {
  switch (s.operation) {
    case Operation::kAdd:
      return Of<Operation::kAdd, 2>(s);
    case Operation::kSub:
      return Of<Operation::kSub, 2>(s);
    case Operation::kMul:
      return Of<Operation::kMul, 2>(s);
    case Operation::kDiv:
      return Of<Operation::kDiv, 2>(s);
    case Operation::kFma:
      return Of<Operation::kFma, 3>(s);
    case Operation::kRcp:
      return Of<Operation::kRcp, 1>(s);
    case Operation::kSqrt:
      return Of<Operation::kSqrt, 1>(s);
    default:
      return nullptr;
  }
}

}  // namespace carillon::sim::CARILLON_SIM_ISA

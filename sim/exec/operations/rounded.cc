// Arithmetic that is not rounded to nearest (.rz, .rm, .rp). It is rare, so the
// host's rounding mode is changed around it. Compiled with -frounding-math.
#include <cfenv>
#include <cmath>

#include "sim/exec/operations/lanes.h"

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

template <class T, Operation kOperation, uint32_t kSources>
void Rounded(const Op& op, Warp& warp, LaneMask mask) {
  const T* const a = warp.From<T>(op.operands[1]);
  const T* const b = kSources > 1 ? warp.From<T>(op.operands[2]) : a;
  const T* const c = kSources > 2 ? warp.From<T>(op.operands[3]) : a;
  const auto rounding = static_cast<Rounding>(op.variant & kRoundingBits);
  const bool flush = (op.variant & kFlushBit) != 0;
  const bool saturate = (op.variant & kSaturateBit) != 0;
  const auto in = [=](T x) { return flush ? Flushed(x) : x; };
  // volatile keeps each computation between the two changes of the rounding
  // mode.
  volatile T result[kLanes];
  const int before = std::fegetround();
  std::fesetround(HostRounding(rounding));
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
    if (saturate) x = Saturated(x);
    return flush ? Flushed(x) : x;
  });
}

template <Operation kOperation, uint32_t kSources>
Handler Of(const Semantics& s) {
  if (s.rounding == Rounding::kNearest || s.relu) return nullptr;
  if (s.type == Type::kF32) return &Rounded<float, kOperation, kSources>;
  if (s.type == Type::kF64 && !s.flush && !s.saturate) {
    return &Rounded<double, kOperation, kSources>;
  }
  return nullptr;
}

constexpr Finder kFinders[] = {
    {Operation::kAdd, &Of<Operation::kAdd, 2>},
    {Operation::kSub, &Of<Operation::kSub, 2>},
    {Operation::kMul, &Of<Operation::kMul, 2>},
    {Operation::kDiv, &Of<Operation::kDiv, 2>},
    {Operation::kFma, &Of<Operation::kFma, 3>},
    {Operation::kRcp, &Of<Operation::kRcp, 1>},
    {Operation::kSqrt, &Of<Operation::kSqrt, 1>},
};

}  // namespace

Handler FindRounded(const Semantics& s) { return FindIn(kFinders, s); }

}  // namespace carillon::sim::CARILLON_SIM_ISA

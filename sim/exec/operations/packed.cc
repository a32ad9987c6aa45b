// Two or four whole numbers in a register: .u16x2 and .s16x2 (PTX ISA 9.7.1),
// and SIMD video instructions (9.7.18). Compiled as lanes.h says.
#include "sim/exec/operations/lanes.h"

namespace carillon::sim::CARILLON_SIM_ISA {
namespace {

struct Range {
  int32_t least;
  int32_t most;
};
constexpr Range RangeOf(uint32_t bits, bool is_signed) {
  return is_signed ? Range{-(1 << (bits - 1)), (1 << (bits - 1)) - 1}
                   : Range{0, (1 << bits) - 1};
}

// Part `part` of a word; the upper bits repeat a signed one's sign.
[[gnu::always_inline]] inline int32_t PartOf(uint32_t word, uint32_t part,
                                             uint32_t bits, bool is_signed) {
  const uint32_t top = word >> (part * bits) << (32 - bits);
  return is_signed ? static_cast<int32_t>(top) >> (32 - bits)
                   : static_cast<int32_t>(top >> (32 - bits));
}

constexpr auto kAdd = [](int32_t a, int32_t b) { return a + b; };
constexpr auto kSub = [](int32_t a, int32_t b) { return a - b; };
constexpr auto kMin = [](int32_t a, int32_t b) { return a < b ? a : b; };
constexpr auto kMax = [](int32_t a, int32_t b) { return a > b ? a : b; };
constexpr auto kDifference = [](int32_t a, int32_t b) {
  return a < b ? b - a : a - b;
};
// Rounds away from zero where there is a tie.
constexpr auto kAverage = [](int32_t a, int32_t b) {
  return (a + b + (a + b >= 0 ? 1 : 0)) >> 1;
};

template <auto kF, bool kSigned, bool kRelu>
constexpr auto kOfPairs = [](uint32_t a, uint32_t b) {
  uint32_t result = 0;
  for (uint32_t part = 0; part < 2; ++part) {
    int32_t x = kF(PartOf(a, part, 16, kSigned), PartOf(b, part, 16, kSigned));
    if (kRelu && x < 0) x = 0;
    result |= (static_cast<uint32_t>(x) & 0xffff) << (16 * part);
  }
  return result;
};

template <auto kF>
Handler OfPairs(const Semantics& s) {
  if (s.type == Type::kU16x2 && !s.relu) {
    return &Apply<uint32_t, kOfPairs<kF, false, false>>;
  }
  if (s.type != Type::kS16x2) return nullptr;
  return s.relu ? &Apply<uint32_t, kOfPairs<kF, true, true>>
                : &Apply<uint32_t, kOfPairs<kF, true, false>>;
}

// vop d, a, b, c: each part of a with that of b; `c` counts for .add only, which
// adds all of them to it.
template <auto kF, uint32_t kParts>
void Video(const Op& op, Warp& warp, LaneMask mask) {
  constexpr uint32_t kBits = 32 / kParts;
  const uint32_t* const a = warp.From<uint32_t>(op.operands[1]);
  const uint32_t* const b = warp.From<uint32_t>(op.operands[2]);
  const uint32_t* const c = warp.From<uint32_t>(op.operands[3]);
  const bool signed_a = (op.variant & kVideoSignedA) != 0;
  const bool signed_b = (op.variant & kVideoSignedB) != 0;
  const bool saturate = (op.variant & kVideoSaturate) != 0;
  const bool sum = (op.variant & kVideoSum) != 0;
  const Range range = RangeOf(kBits, (op.variant & kVideoSigned) != 0);
  ForLanes(mask, warp.To<uint32_t>(op.operands[0]), [=](uint32_t i) {
    uint32_t total = c[i];
    uint32_t result = 0;
    for (uint32_t part = 0; part < kParts; ++part) {
      int32_t x = kF(PartOf(a[i], part, kBits, signed_a),
                     PartOf(b[i], part, kBits, signed_b));
      total += static_cast<uint32_t>(x);
      if (saturate) {
        x = x < range.least ? range.least : x > range.most ? range.most : x;
      }
      result |= (static_cast<uint32_t>(x) & (~0u >> (32 - kBits)))
                << (kBits * part);
    }
    return sum ? total : result;
  });
}
template <auto kF>
Handler OfVideo(uint8_t parts) {
  return parts == 2 ? &Video<kF, 2> : &Video<kF, 4>;
}

constexpr auto kEqual = [](int32_t a, int32_t b) { return int32_t{a == b}; };
constexpr auto kUnequal = [](int32_t a, int32_t b) { return int32_t{a != b}; };
constexpr auto kLess = [](int32_t a, int32_t b) { return int32_t{a < b}; };
constexpr auto kUpTo = [](int32_t a, int32_t b) { return int32_t{a <= b}; };
constexpr auto kGreater = [](int32_t a, int32_t b) { return int32_t{a > b}; };
constexpr auto kFrom = [](int32_t a, int32_t b) { return int32_t{a >= b}; };

Handler OfVideoSet(const Semantics& s) {
  switch (s.compare) {
    case Compare::kEq:
      return OfVideo<kEqual>(s.elements);
    case Compare::kNe:
      return OfVideo<kUnequal>(s.elements);
    case Compare::kLt:
      return OfVideo<kLess>(s.elements);
    case Compare::kLe:
      return OfVideo<kUpTo>(s.elements);
    case Compare::kGt:
      return OfVideo<kGreater>(s.elements);
    case Compare::kGe:
      return OfVideo<kFrom>(s.elements);
    default:
      return nullptr;
  }
}

template <auto kF>
Handler OfVideoParts(const Semantics& s) {
  return OfVideo<kF>(s.elements);
}

constexpr Finder kFinders[] = {
    {Operation::kAdd, &OfPairs<kAdd>},
    {Operation::kMin, &OfPairs<kMin>},
    {Operation::kMax, &OfPairs<kMax>},
    {Operation::kVideoAdd, &OfVideoParts<kAdd>},
    {Operation::kVideoSub, &OfVideoParts<kSub>},
    {Operation::kVideoAverage, &OfVideoParts<kAverage>},
    {Operation::kVideoDifference, &OfVideoParts<kDifference>},
    {Operation::kVideoMin, &OfVideoParts<kMin>},
    {Operation::kVideoMax, &OfVideoParts<kMax>},
    {Operation::kVideoSet, &OfVideoSet},
};

}  // namespace

Handler FindPacked(const Semantics& s) {
  if (s.saturate || s.flush) return nullptr;
  return FindIn(kFinders, s);
}

}  // namespace carillon::sim::CARILLON_SIM_ISA

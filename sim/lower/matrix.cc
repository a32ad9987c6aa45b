// Matrices in the registers of a warp: ldmatrix, mma, wmma and their like.
#include <algorithm>
#include <string_view>
#include <utility>

#include "sim/lower/function_lowering.h"

namespace carillon::sim {
namespace {

using ptx::Type;
using Kind = ptx::Operand::Kind;
using enum MatrixType;

std::optional<MatrixType> TakeMatrixType(Suffixes& suffixes) {
  return suffixes.TakeOneOf<MatrixType>({{"f16", kF16},
                                         {"bf16", kBf16},
                                         {"tf32", kTf32},
                                         {"f32", kF32},
                                         {"f64", kF64},
                                         {"s8", kS8},
                                         {"u8", kU8},
                                         {"s4", kS4},
                                         {"u4", kU4},
                                         {"b1", kB1},
                                         {"s32", kS32}});
}

// What the PTX ISA allows for the elements of A and B. kS8 and kS4 stand for kU8
// and kU4 as well.
struct Form {
  MatrixType type;
  MatrixShape shape;
};
constexpr Form kMma[] = {
    {kF16, {"m16n8k8", 16, 8, 8}},    {kF16, {"m16n8k16", 16, 8, 16}},
    {kBf16, {"m16n8k8", 16, 8, 8}},   {kBf16, {"m16n8k16", 16, 8, 16}},
    {kTf32, {"m16n8k4", 16, 8, 4}},   {kTf32, {"m16n8k8", 16, 8, 8}},
    {kF64, {"m8n8k4", 8, 8, 4}},      {kF64, {"m16n8k4", 16, 8, 4}},
    {kF64, {"m16n8k8", 16, 8, 8}},    {kF64, {"m16n8k16", 16, 8, 16}},
    {kS8, {"m8n8k16", 8, 8, 16}},     {kS8, {"m16n8k16", 16, 8, 16}},
    {kS8, {"m16n8k32", 16, 8, 32}},   {kS4, {"m8n8k32", 8, 8, 32}},
    {kS4, {"m16n8k32", 16, 8, 32}},   {kS4, {"m16n8k64", 16, 8, 64}},
    {kB1, {"m8n8k128", 8, 8, 128}},   {kB1, {"m16n8k128", 16, 8, 128}},
    {kB1, {"m16n8k256", 16, 8, 256}},
};
constexpr Form kWmma[] = {
    {kF16, {"m16n16k16", 16, 16, 16}}, {kF16, {"m32n8k16", 32, 8, 16}},
    {kF16, {"m8n32k16", 8, 32, 16}},   {kBf16, {"m16n16k16", 16, 16, 16}},
    {kBf16, {"m32n8k16", 32, 8, 16}},  {kBf16, {"m8n32k16", 8, 32, 16}},
    {kS8, {"m16n16k16", 16, 16, 16}},  {kS8, {"m32n8k16", 32, 8, 16}},
    {kS8, {"m8n32k16", 8, 32, 16}},    {kTf32, {"m16n16k8", 16, 16, 8}},
    {kF64, {"m8n8k4", 8, 8, 4}},
};

MatrixType Signed(MatrixType type) {
  return type == kU8 ? kS8 : type == kU4 ? kS4 : type;
}
bool IsWhole(MatrixType type) {
  return Signed(type) == kS8 || Signed(type) == kS4;
}

// Whether an accumulator of this type goes with A's elements.
bool Accumulates(MatrixType a, MatrixType c) {
  switch (a) {
    case kF16:
      return c == kF16 || c == kF32;
    case kBf16:
    case kTf32:
      return c == kF32;
    case kF64:
      return c == kF64;
    default:
      return c == kS32;
  }
}

// Takes the shape. nullopt if there is none in which matrices of this role have
// elements of this type.
std::optional<MatrixShape> TakeShape(Suffixes& suffixes,
                                     std::span<const Form> forms,
                                     MatrixRole role, MatrixType type) {
  for (const Form& form : forms) {
    const bool fits = role == MatrixRole::kAccumulator
                          ? Accumulates(form.type, type)
                          : form.type == Signed(type);
    if (fits && suffixes.Take(form.shape.name)) return form.shape;
  }
  return std::nullopt;
}

Fragment FragmentOf(MatrixRole role, MatrixType type, const MatrixShape& shape,
                    bool of_wmma) {
  // A word holds 32 elements of a binary matrix.
  const uint32_t k = type == kB1 ? shape.k / 32 : shape.k;
  Fragment fragment;
  fragment.role = role;
  fragment.type = type;
  fragment.rows = role == MatrixRole::kB ? k : shape.m;
  fragment.columns = role == MatrixRole::kA ? k : shape.n;
  const bool repeats =
      of_wmma && type == kF16 && role != MatrixRole::kAccumulator;
  fragment.registers = repeats ? 8
                               : fragment.rows * fragment.columns /
                                     (kLanes * fragment.elements_of_register());
  SetPlaces(fragment);
  return fragment;
}

}  // namespace

void FunctionLowering::TakeFragment(const Operand& operand, bool result,
                                    Fragment& fragment) {
  if (operand.kind != Kind::kVector) {
    return Fail(operand.at, "'{}': a matrix is {{registers}}", operand.name);
  }
  const std::span<const Operand> parts = operand.parts;
  if (parts.size() != fragment.registers) {
    return Fail(operand.at, "{}: the matrix has {} registers, not {}",
                info_.name, fragment.registers, parts.size());
  }
  const bool wide = fragment.type == kF64;
  for (size_t i = 0; i < parts.size(); ++i) {
    // nvcc's inline code may have them in an accumulator, which ptxas allows.
    if (parts[i].kind == Kind::kImmediate &&
        fragment.role != MatrixRole::kAccumulator) {
      return Fail(parts[i].at,
                  "'{}' is a constant: only accumulators may have them",
                  parts[i].name);
    }
    fragment.slots[i] = result
                            ? Result(parts[i], wide ? 8 : 4, Sink::kAllowed)
                            : Source(parts[i], wide ? Type::kB64 : Type::kB32);
  }
}

// ldmatrix.sync.aligned.m8n8.num{.trans}{.shared}.b16 {d}, [address];
// stmatrix.sync.aligned.m8n8.num{.trans}{.shared}.b16 [address], {a};
// movmatrix.sync.aligned.m8n8.trans.b16 d, a.
void FunctionLowering::LowerMoveMatrix(const Instruction& i) {
  Suffixes suffixes(i);
  for (const std::string_view needed : {"sync", "aligned", "m8n8", "b16"}) {
    if (!suffixes.Take(needed)) return Unsupported();
  }
  const bool transposes = suffixes.Take("trans");
  if (i.opcode == "movmatrix") {
    if (!transposes || !suffixes.left().empty()) return Unsupported();
    if (i.operands.size() == 2 && i.operands[1].kind == Kind::kImmediate) {
      return Fail(i.operands[1].at, "'{}' is a constant, not a matrix",
                  i.operands[1].name);
    }
    return Mixed(i, suffixes, Operation::kTranspose, 4, {Type::kB32},
                 Flow::kWholeWarp);
  }
  const auto count =
      suffixes.TakeOneOf<uint8_t>({{"x1", 1}, {"x2", 2}, {"x4", 4}});
  const bool shared = suffixes.Take("shared") || suffixes.Take("shared::cta");
  if (!count || !suffixes.left().empty()) return Unsupported();
  const bool store = i.opcode == "stmatrix";
  s_.operation = store ? Operation::kStoreMatrix : Operation::kLoadMatrix;
  s_.type = Type::kB128;  // a row
  op_.variant = s_.variant = *count | (transposes ? kMatrixTranspose : 0);
  op_.space = shared ? MemorySpace::kShared : MemorySpace::kGeneric;
  if (!OperandCount(i, 2, 2)) return;
  Address(i.operands[store ? 0 : 1], false);
  Fragment registers;
  registers.registers = *count;
  TakeFragment(i.operands[store ? 1 : 0], !store, registers);
  std::copy_n(registers.slots.begin(), *count, op_.operands.begin());
  Finish(suffixes, Flow::kWholeWarp);
}

// mma.sync.aligned.shape.row.col{.satfinite}.d.a.b.c{.xor.popc}{.rn} {d}, {a}, {b},
// {c}.
void FunctionLowering::LowerMma(const Instruction& i) {
  Suffixes suffixes(i);
  for (const std::string_view needed : {"sync", "aligned", "row", "col"}) {
    if (!suffixes.Take(needed)) return Unsupported();
  }
  if (std::ranges::find(i.suffixes, "col") <
      std::ranges::find(i.suffixes, "row")) {
    return Unsupported();
  }
  const auto d = TakeMatrixType(suffixes);
  const auto a = TakeMatrixType(suffixes);
  const auto b = TakeMatrixType(suffixes);
  const auto c = TakeMatrixType(suffixes);
  if (a == kF64) suffixes.Take("rn");
  if (!c || Signed(*a) != Signed(*b) || !Accumulates(*a, *c) || *c != *d) {
    return Unsupported();
  }
  LowerMultiply(i, suffixes, TakeShape(suffixes, kMma, MatrixRole::kA, *a),
                {*d, *a, *b, *c}, false);
}

// wmma.mma.sync.aligned.layout.layout.shape.types{.rn}{.satfinite} {d}, {a}, {b},
// {c};
// wmma.load.which.sync.aligned.layout.shape{.space}.type {d}, [p]{, stride};
// wmma.store.d.sync.aligned.layout.shape{.space}.type [p], {d}{, stride}.
void FunctionLowering::LowerWmma(const Instruction& i) {
  Suffixes suffixes(i);
  if (!suffixes.Take("sync") || !suffixes.Take("aligned")) return Unsupported();
  if (suffixes.Take("mma")) {
    // What the layouts were is forgotten in the fragments.
    for (int n = 0; n < 2; ++n) {
      if (!suffixes.Take("row") && !suffixes.Take("col")) return Unsupported();
    }
    std::vector<MatrixType> types;
    while (const auto type = TakeMatrixType(suffixes)) types.push_back(*type);
    if (types.size() == 2) types = {types[0], kF16, kF16, types[1]};
    if (types.size() != 4 || types[1] != types[2] ||
        !Accumulates(types[1], types[0]) || !Accumulates(types[1], types[3])) {
      return Unsupported();
    }
    if (types[1] == kF64) suffixes.Take("rn");
    return LowerMultiply(i, suffixes,
                         TakeShape(suffixes, kWmma, MatrixRole::kA, types[1]),
                         {types[0], types[1], types[2], types[3]}, true);
  }
  const bool store = suffixes.Take("store");
  if (!store && !suffixes.Take("load")) return Unsupported();
  const auto role =
      store ? suffixes.TakeOneOf<MatrixRole>({{"d", MatrixRole::kAccumulator}})
            : suffixes.TakeOneOf<MatrixRole>({{"a", MatrixRole::kA},
                                              {"b", MatrixRole::kB},
                                              {"c", MatrixRole::kAccumulator}});
  const auto column_major =
      suffixes.TakeOneOf<bool>({{"row", false}, {"col", true}});
  const auto type = TakeMatrixType(suffixes);
  if (!role || !column_major || !type) return Unsupported();
  const auto shape = TakeShape(suffixes, kWmma, *role, *type);
  bool is_param = false;
  op_.space = TakeSpace(suffixes, is_param).value_or(MemorySpace::kGeneric);
  if (!shape || !suffixes.left().empty()) return Unsupported();
  if (op_.space != MemorySpace::kGeneric && op_.space != MemorySpace::kGlobal &&
      op_.space != MemorySpace::kShared) {
    return Fail(i.at, "{}: fragments are for global and shared memory", i.name);
  }
  s_.operation = store ? Operation::kStoreFragment : Operation::kLoadFragment;
  if (!OperandCount(i, 2, 3)) return;
  MatrixOperands matrices;
  matrices.column_major = *column_major;
  matrices.d = FragmentOf(*role, *type, *shape, true);
  TakeFragment(i.operands[store ? 1 : 0], !store, matrices.d);
  Address(i.operands[store ? 0 : 1], false);
  op_.operands[0] =
      i.operands.size() == 3
          ? Source(i.operands[2], Type::kU32)
          : constants_->Value(
                4, *column_major ? matrices.d.rows : matrices.d.columns);
  op_.target = static_cast<Pc>(program_->matrices.size());
  program_->matrices.push_back(std::move(matrices));
  Finish(suffixes, Flow::kWholeWarp);
}

void FunctionLowering::LowerMultiply(const Instruction& i, Suffixes& suffixes,
                                     const std::optional<MatrixShape>& shape,
                                     const std::array<MatrixType, 4>& types,
                                     bool of_wmma) {
  const auto [d, a, b, c] = types;
  MatrixOperands matrices;
  matrices.saturate = IsWhole(a) && suffixes.Take("satfinite");
  if (a == kB1) {
    matrices.exclusive = suffixes.Take("xor");
    if ((!matrices.exclusive && !suffixes.Take("and")) ||
        !suffixes.Take("popc")) {
      return Unsupported();
    }
  }
  if (!shape || !suffixes.left().empty()) return Unsupported();
  s_.operation = Operation::kMultiply;
  if (!OperandCount(i, 4, 4)) return;
  matrices.d = FragmentOf(MatrixRole::kAccumulator, d, *shape, of_wmma);
  matrices.a = FragmentOf(MatrixRole::kA, a, *shape, of_wmma);
  matrices.b = FragmentOf(MatrixRole::kB, b, *shape, of_wmma);
  matrices.c = FragmentOf(MatrixRole::kAccumulator, c, *shape, of_wmma);
  TakeFragment(i.operands[0], true, matrices.d);
  TakeFragment(i.operands[1], false, matrices.a);
  TakeFragment(i.operands[2], false, matrices.b);
  TakeFragment(i.operands[3], false, matrices.c);
  op_.target = static_cast<Pc>(program_->matrices.size());
  program_->matrices.push_back(std::move(matrices));
  Finish(suffixes, Flow::kWholeWarp);
}

}  // namespace carillon::sim

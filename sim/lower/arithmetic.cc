// Arithmetic, logic, comparisons, conversions and moves.
#include <map>

#include "fmt/format.h"
#include "sim/lower/function_lowering.h"

namespace carillon::sim {
namespace {

using ptx::Type;
using Kind = ptx::Operand::Kind;

bool IsFloat(Type type) {
  return type == Type::kF32 || type == Type::kF64 || type == Type::kF16 ||
         type == Type::kF16x2 || type == Type::kBf16 || type == Type::kBf16x2;
}

// The type of numbers with twice the bits.
std::optional<Type> Widened(Type type) {
  switch (type) {
    case Type::kU16:
      return Type::kU32;
    case Type::kS16:
      return Type::kS32;
    case Type::kU32:
      return Type::kU64;
    case Type::kS32:
      return Type::kS64;
    default:
      return std::nullopt;
  }
}

std::optional<bool> TakeHalf(Suffixes& suffixes) {  // true: the high one
  return suffixes.TakeOneOf<bool>({{"lo", false}, {"hi", true}});
}

}  // namespace

void FunctionLowering::LowerAddSub(const Instruction& i) {
  Suffixes suffixes(i);
  TakeType(suffixes);
  const bool add = i.opcode == "add" || i.opcode == "addc";
  const bool carry_in = i.opcode == "addc" || i.opcode == "subc";
  const bool carry_out = suffixes.Take("cc");
  if (carry_in || carry_out) {
    s_.variant = op_.variant = static_cast<uint8_t>(
        (carry_in ? kCarryIn : 0) | (carry_out ? kCarryOut : 0));
    Plain(i, suffixes, add ? Operation::kAddCarry : Operation::kSubCarry, 2);
    return;
  }
  if (IsFloat(s_.type)) {
    s_.rounding = suffixes.TakeRounding().value_or(Rounding::kNearest);
    s_.flush = suffixes.Take("ftz");
  }
  s_.saturate = suffixes.Take("sat");
  Plain(i, suffixes, add ? Operation::kAdd : Operation::kSub, 2);
}

void FunctionLowering::LowerMul(const Instruction& i) {
  Suffixes suffixes(i);
  TakeType(suffixes);
  if (IsFloat(s_.type)) {
    s_.rounding = suffixes.TakeRounding().value_or(Rounding::kNearest);
    s_.flush = suffixes.Take("ftz");
    s_.saturate = suffixes.Take("sat");
    Plain(i, suffixes, Operation::kMul, 2);
    return;
  }
  if (const auto high = TakeHalf(suffixes)) {
    Plain(i, suffixes, *high ? Operation::kMulHigh : Operation::kMulLow, 2);
    return;
  }
  const auto wide = Widened(s_.type);
  if (!suffixes.Take("wide") || !wide) {
    Fail(i.at, fmt::format("{} is neither .lo, .hi nor .wide of 16 or 32 bits",
                           i.name));
    return;
  }
  s_.operation = Operation::kMulWide;
  if (!OperandCount(i, 3, 3)) return;
  op_.operands[0] = Result(i.operands[0], ptx::BytesOf(*wide));
  op_.operands[1] = Source(i.operands[1], s_.type);
  op_.operands[2] = Source(i.operands[2], s_.type);
  Finish(suffixes);
}

void FunctionLowering::LowerMad(const Instruction& i) {
  Suffixes suffixes(i);
  TakeType(suffixes);
  if (IsFloat(s_.type)) {
    s_.rounding = suffixes.TakeRounding().value_or(Rounding::kNearest);
    s_.flush = suffixes.Take("ftz");
    s_.saturate = suffixes.Take("sat");
    Plain(i, suffixes, Operation::kFma, 3);
    return;
  }
  const bool carry_in = i.opcode == "madc";
  const bool carry_out = suffixes.Take("cc");
  if (const auto high = TakeHalf(suffixes)) {
    if (!carry_in && !carry_out) {
      Plain(i, suffixes, *high ? Operation::kMadHigh : Operation::kMadLow, 3);
      return;
    }
    s_.variant = op_.variant = static_cast<uint8_t>(
        (carry_in ? kCarryIn : 0) | (carry_out ? kCarryOut : 0));
    Plain(i, suffixes,
          *high ? Operation::kMadHighCarry : Operation::kMadLowCarry, 3);
    return;
  }
  const auto wide = Widened(s_.type);
  if (!suffixes.Take("wide") || !wide || carry_in || carry_out) {
    Fail(i.at, fmt::format("{} is neither .lo, .hi nor .wide of 16 or 32 bits",
                           i.name));
    return;
  }
  s_.operation = Operation::kMadWide;
  if (!OperandCount(i, 4, 4)) return;
  op_.operands[0] = Result(i.operands[0], ptx::BytesOf(*wide));
  op_.operands[1] = Source(i.operands[1], s_.type);
  op_.operands[2] = Source(i.operands[2], s_.type);
  op_.operands[3] = Source(i.operands[3], *wide);
  Finish(suffixes);
}

void FunctionLowering::LowerMul24(const Instruction& i) {
  Suffixes suffixes(i);
  TakeType(suffixes);
  const auto high = TakeHalf(suffixes);
  if (!high) {
    Fail(i.at, fmt::format("{} is neither .lo nor .hi", i.name));
    return;
  }
  if (i.opcode == "mul24") {
    Plain(i, suffixes, *high ? Operation::kMul24High : Operation::kMul24Low, 2);
  } else {
    Plain(i, suffixes, *high ? Operation::kMad24High : Operation::kMad24Low, 3);
  }
}

void FunctionLowering::LowerDiv(const Instruction& i) {
  Suffixes suffixes(i);
  TakeType(suffixes);
  Operation operation = Operation::kDiv;
  if (IsFloat(s_.type)) {
    s_.flush = suffixes.Take("ftz");
    if (suffixes.Take("approx") || suffixes.Take("full")) {
      operation = Operation::kDivApprox;
    } else {
      s_.rounding = suffixes.TakeRounding().value_or(Rounding::kNearest);
    }
  }
  Plain(i, suffixes, operation, 2);
}

void FunctionLowering::LowerWhole(const Instruction& i) {
  Suffixes suffixes(i);
  TakeType(suffixes);
  if (i.opcode == "rem") {
    Plain(i, suffixes, Operation::kRem, 2);
  } else if (i.opcode == "sad") {
    Plain(i, suffixes, Operation::kSumOfDifferences, 3);
  } else {
    Plain(i, suffixes, Operation::kReverseBits, 1);
  }
}

void FunctionLowering::LowerMinMax(const Instruction& i) {
  Suffixes suffixes(i);
  TakeType(suffixes);
  s_.flush = suffixes.Take("ftz");
  if (i.opcode == "abs" || i.opcode == "neg") {
    Plain(i, suffixes, i.opcode == "abs" ? Operation::kAbs : Operation::kNeg,
          1);
    return;
  }
  s_.keep_nan = suffixes.Take("NaN");
  if (IsFloat(s_.type) ? false : (s_.keep_nan || s_.flush)) {
    Fail(i.at, fmt::format("{}: .NaN and .ftz are of floats", i.name));
    return;
  }
  Plain(i, suffixes, i.opcode == "min" ? Operation::kMin : Operation::kMax, 2);
}

void FunctionLowering::LowerFloat(const Instruction& i) {
  struct Entry {
    Operation operation;
    uint32_t sources;
  };
  static const std::map<std::string_view, Entry> kEntries = {
      {"copysign", {Operation::kCopySign, 2}}, {"cos", {Operation::kCos, 1}},
      {"ex2", {Operation::kExp2, 1}},          {"fma", {Operation::kFma, 3}},
      {"lg2", {Operation::kLog2, 1}},          {"rcp", {Operation::kRcp, 1}},
      {"rsqrt", {Operation::kRsqrt, 1}},       {"sin", {Operation::kSin, 1}},
      {"sqrt", {Operation::kSqrt, 1}},         {"tanh", {Operation::kTanh, 1}},
  };
  Suffixes suffixes(i);
  TakeType(suffixes);
  s_.flush = suffixes.Take("ftz");
  s_.saturate = suffixes.Take("sat");
  if (!suffixes.Take("approx")) {
    s_.rounding = suffixes.TakeRounding().value_or(Rounding::kNearest);
  }
  const Entry& entry = kEntries.at(i.opcode);
  Plain(i, suffixes, entry.operation, entry.sources);
}

void FunctionLowering::LowerLogic(const Instruction& i) {
  Suffixes suffixes(i);
  TakeType(suffixes);
  if (i.opcode == "and") Plain(i, suffixes, Operation::kAnd, 2);
  if (i.opcode == "or") Plain(i, suffixes, Operation::kOr, 2);
  if (i.opcode == "xor") Plain(i, suffixes, Operation::kXor, 2);
  if (i.opcode == "not") Plain(i, suffixes, Operation::kNot, 1);
  if (i.opcode == "cnot") Plain(i, suffixes, Operation::kLogicalNot, 1);
}

void FunctionLowering::LowerShift(const Instruction& i) {
  Suffixes suffixes(i);
  TakeType(suffixes);
  s_.operation =
      i.opcode == "shl" ? Operation::kShiftLeft : Operation::kShiftRight;
  if (!OperandCount(i, 3, 3)) return;
  op_.operands[0] = Result(i.operands[0], ptx::BytesOf(s_.type));
  op_.operands[1] = Source(i.operands[1], s_.type);
  op_.operands[2] = Source(i.operands[2], Type::kU32);
  Finish(suffixes);
}

void FunctionLowering::LowerFunnel(const Instruction& i) {
  Suffixes suffixes(i);
  TakeType(suffixes);
  const auto left = suffixes.TakeOneOf<bool>({{"l", true}, {"r", false}});
  const auto wrap =
      suffixes.TakeOneOf<bool>({{"wrap", true}, {"clamp", false}});
  if (!left || !wrap) {
    Fail(i.at, fmt::format("{}: needs .l or .r, and .wrap or .clamp", i.name));
    return;
  }
  op_.variant = *wrap ? 1 : 0;
  Plain(i, suffixes, *left ? Operation::kFunnelLeft : Operation::kFunnelRight,
        3);
}

void FunctionLowering::LowerPermute(const Instruction& i) {
  Suffixes suffixes(i);
  TakeType(suffixes);
  const auto mode =
      suffixes.TakeOneOf<PermuteMode>({{"f4e", PermuteMode::kF4e},
                                       {"b4e", PermuteMode::kB4e},
                                       {"rc8", PermuteMode::kRc8},
                                       {"ecl", PermuteMode::kEcl},
                                       {"ecr", PermuteMode::kEcr},
                                       {"rc16", PermuteMode::kRc16}});
  op_.variant = static_cast<uint8_t>(mode.value_or(PermuteMode::kSelector));
  Plain(i, suffixes, Operation::kPermute, 3);
}

void FunctionLowering::LowerLogic3(const Instruction& i) {
  Suffixes suffixes(i);
  TakeType(suffixes);
  s_.operation = Operation::kLogic3;
  if (!OperandCount(i, 5, 5)) return;
  op_.operands[0] = Result(i.operands[0], 4);
  for (uint32_t n = 1; n <= 3; ++n) {
    op_.operands[n] = Source(i.operands[n], s_.type);
  }
  const Operand& table = i.operands[4];
  if (table.kind != Kind::kImmediate || table.is_float || table.value > 255) {
    Fail(table.at, "lop3's truth table is a constant from 0 to 255");
    return;
  }
  op_.variant = static_cast<uint8_t>(table.value);
  Finish(suffixes);
}

void FunctionLowering::LowerField(const Instruction& i) {
  Suffixes suffixes(i);
  TakeType(suffixes);
  const bool insert = i.opcode == "bfi";
  s_.operation = insert ? Operation::kInsertField : Operation::kExtractField;
  const uint32_t values = insert ? 2 : 1;  // and then position and length
  if (!OperandCount(i, values + 3, values + 3)) return;
  op_.operands[0] = Result(i.operands[0], ptx::BytesOf(s_.type));
  for (uint32_t n = 1; n <= values; ++n) {
    op_.operands[n] = Source(i.operands[n], s_.type);
  }
  op_.operands[values + 1] = Source(i.operands[values + 1], Type::kU32);
  op_.operands[values + 2] = Source(i.operands[values + 2], Type::kU32);
  Finish(suffixes);
}

void FunctionLowering::LowerCount(const Instruction& i) {
  Suffixes suffixes(i);
  TakeType(suffixes);
  s_.operation = i.opcode == "popc"  ? Operation::kCountBits
                 : i.opcode == "clz" ? Operation::kCountLeadingZeros
                                     : Operation::kFindLeadingBit;
  if (i.opcode == "bfind" && suffixes.Take("shiftamt")) s_.variant = 1;
  if (!OperandCount(i, 2, 2)) return;
  op_.operands[0] = Result(i.operands[0], 4);
  op_.operands[1] = Source(i.operands[1], s_.type);
  Finish(suffixes);
}

void FunctionLowering::LowerSelect(const Instruction& i) {
  Suffixes suffixes(i);
  const bool by_predicate = i.opcode == "selp";
  TakeType(suffixes);
  if (!by_predicate) {
    const auto from = suffixes.TakeType();
    if (!from) {
      Fail(i.at, fmt::format("{} needs two types", i.name));
      return;
    }
    s_.from = *from;
  }
  s_.operation = by_predicate ? Operation::kSelect : Operation::kSelectBySign;
  if (!OperandCount(i, 4, 4)) return;
  op_.operands[0] = Result(i.operands[0], ptx::BytesOf(s_.type));
  op_.operands[1] = Source(i.operands[1], s_.type);
  op_.operands[2] = Source(i.operands[2], s_.type);
  bool negated = false;
  op_.operands[3] = by_predicate ? PredicateSource(i.operands[3], &negated)
                                 : Source(i.operands[3], s_.from);
  // Negating the predicate exchanges the two sources.
  if (negated) std::swap(op_.operands[1], op_.operands[2]);
  Finish(suffixes);
}

void FunctionLowering::LowerCompare(const Instruction& i) {
  Suffixes suffixes(i);
  const bool set = i.opcode == "set";
  s_.operation = set ? Operation::kSet : Operation::kSetPredicate;
  const auto compare = suffixes.TakeOneOf<Compare>({{"eq", Compare::kEq},
                                                    {"ne", Compare::kNe},
                                                    {"lt", Compare::kLt},
                                                    {"le", Compare::kLe},
                                                    {"gt", Compare::kGt},
                                                    {"ge", Compare::kGe},
                                                    {"lo", Compare::kLt},
                                                    {"ls", Compare::kLe},
                                                    {"hi", Compare::kGt},
                                                    {"hs", Compare::kGe},
                                                    {"equ", Compare::kEqu},
                                                    {"neu", Compare::kNeu},
                                                    {"ltu", Compare::kLtu},
                                                    {"leu", Compare::kLeu},
                                                    {"gtu", Compare::kGtu},
                                                    {"geu", Compare::kGeu},
                                                    {"num", Compare::kNumbers},
                                                    {"nan", Compare::kNan}});
  if (!compare) {
    Fail(i.at, fmt::format("{} does not say how it compares", i.name));
    return;
  }
  s_.compare = *compare;
  s_.combine = suffixes
                   .TakeOneOf<Combine>({{"and", Combine::kAnd},
                                        {"or", Combine::kOr},
                                        {"xor", Combine::kXor}})
                   .value_or(Combine::kNone);
  s_.flush = suffixes.Take("ftz");
  TakeType(suffixes);
  Type compared = s_.type;
  if (set) {
    const auto from = suffixes.TakeType();
    if (!from) {
      Fail(i.at, fmt::format("{} needs two types", i.name));
      return;
    }
    s_.from = compared = *from;
  }
  const size_t sources = s_.combine == Combine::kNone ? 2 : 3;
  if (!OperandCount(i, sources + 1, sources + 1)) return;
  if (set) {
    if (s_.type != Type::kU32 && s_.type != Type::kS32 &&
        s_.type != Type::kF32) {
      Fail(i.at, fmt::format("{} gives .u32, .s32 or .f32", i.name));
      return;
    }
    op_.operands[0] = Result(i.operands[0], 4);
  } else if (i.operands[0].kind == Kind::kPair) {
    for (size_t n = 0; n < 2; ++n) {
      op_.operands[n] = PredicateResult(i.operands[0].parts[n], Sink::kAllowed);
    }
  } else {
    op_.operands[0] = PredicateResult(i.operands[0], Sink::kAllowed);
  }
  op_.operands[2] = Source(i.operands[1], compared);
  op_.operands[3] = Source(i.operands[2], compared);
  bool negated = false;
  if (sources == 3) op_.operands[4] = PredicateSource(i.operands[3], &negated);
  op_.variant = static_cast<uint8_t>(static_cast<unsigned>(s_.combine) |
                                     (negated ? 4u : 0) |
                                     (s_.type == Type::kF32 && set ? 8u : 0));
  Finish(suffixes);
}

void FunctionLowering::LowerTestProperty(const Instruction& i) {
  Suffixes suffixes(i);
  TakeType(suffixes);
  const auto property = suffixes.TakeOneOf<FloatProperty>(
      {{"finite", FloatProperty::kFinite},
       {"infinite", FloatProperty::kInfinite},
       {"number", FloatProperty::kNumber},
       {"notanumber", FloatProperty::kNotANumber},
       {"normal", FloatProperty::kNormal},
       {"subnormal", FloatProperty::kSubnormal}});
  if (!property) {
    Fail(i.at, fmt::format("{} does not say what it tests", i.name));
    return;
  }
  s_.operation = Operation::kTestProperty;
  op_.variant = static_cast<uint8_t>(*property);
  if (!OperandCount(i, 2, 2)) return;
  op_.operands[0] = PredicateResult(i.operands[0]);
  op_.operands[1] = Source(i.operands[1], s_.type);
  Finish(suffixes);
}

void FunctionLowering::LowerConvert(const Instruction& i) {
  Suffixes suffixes(i);
  s_.operation = Operation::kConvert;
  TakeType(suffixes);
  const auto from = suffixes.TakeType();
  if (!from) {
    Fail(i.at, fmt::format("{} needs two types", i.name));
    return;
  }
  s_.from = *from;
  s_.flush = suffixes.Take("ftz");
  s_.saturate = suffixes.Take("sat");
  const auto to_whole =
      suffixes.TakeOneOf<Rounding>({{"rni", Rounding::kNearest},
                                    {"rzi", Rounding::kZero},
                                    {"rmi", Rounding::kDown},
                                    {"rpi", Rounding::kUp}});
  const auto rounding = suffixes.TakeRounding();
  const bool from_float = IsFloat(s_.from);
  const bool to_float = IsFloat(s_.type);
  if (to_whole && !from_float) {
    Fail(i.at, fmt::format("{}: whole numbers need no rounding", i.name));
  }
  if (from_float && !to_float && !to_whole) {
    Fail(i.at, fmt::format("{} must say how it rounds (.rni, .rzi, .rmi, .rpi)",
                           i.name));
  }
  s_.rounding = to_whole ? *to_whole : rounding.value_or(Rounding::kNearest);
  s_.integral = to_whole && to_float;
  if (!OperandCount(i, 2, 2)) return;
  for (const Operand& operand : i.operands) {
    if (operand.kind != Kind::kRegister && operand.kind != Kind::kImmediate) {
      Fail(operand.at, fmt::format("'{}' is neither a register nor a constant",
                                   operand.name));
      return;
    }
  }
  // Registers may be wider than the types.
  const auto bytes_of = [&](const Operand& operand, Type type) -> uint32_t {
    if (operand.kind != Kind::kRegister) return ptx::BytesOf(type);
    const uint32_t bytes = BytesOfRegister(operand);
    if (function_.registers[operand.index].type == Type::kPred ||
        bytes < ptx::BytesOf(type) ||
        (IsFloat(type) && bytes != ptx::BytesOf(type))) {
      Fail(operand.at, fmt::format("register '{}' does not hold a .{}",
                                   operand.name, ptx::NameOf(type)));
    }
    return bytes;
  };
  const uint32_t to_bytes = bytes_of(i.operands[0], s_.type);
  const uint32_t from_bytes = bytes_of(i.operands[1], s_.from);
  if (failed()) return;
  op_.operands[0] = Result(i.operands[0], to_bytes);
  op_.operands[1] =
      i.operands[1].kind == Kind::kRegister
          ? SlotOf(i.operands[1].index)
          : constants_->Value(from_bytes, ImmediateAs(i.operands[1], s_.from));
  s_.register_bytes = static_cast<uint8_t>(to_bytes);
  s_.from_bytes = static_cast<uint8_t>(from_bytes);
  op_.variant = ModifierVariant(s_);
  op_.to = ConvertTo(s_);
  op_.from = ConvertFrom(s_);
  Finish(suffixes);
}

void FunctionLowering::LowerConvertAddress(const Instruction& i) {
  Suffixes suffixes(i);
  TakeType(suffixes);
  const bool to_space = suffixes.Take("to");
  bool is_param = false;
  const auto space = TakeSpace(suffixes, is_param);
  if (!space || ptx::BytesOf(s_.type) != 8) {
    Fail(i.at, fmt::format("{} needs a space and 64 bits", i.name));
    return;
  }
  if (!OperandCount(i, 2, 2)) return;
  uint64_t window = 0;
  if (*space == MemorySpace::kShared) window = kSharedWindow;
  if (*space == MemorySpace::kLocal) window = kLocalWindow;
  if (*space == MemorySpace::kKernelParam) window = kParamWindow;
  op_.operands[0] = Result(i.operands[0], 8);
  const Operand& from = i.operands[1];
  if (from.kind == Kind::kVariable) {
    const Location location = Locate(from);
    if (location.in_frame) {
      s_.operation = Operation::kReadSpecial;
      s_.register_bytes = 8;
      op_.variant = static_cast<uint8_t>(Special::kFrameAddress);
      op_.offset =
          static_cast<int64_t>(location.address + window) + from.offset;
    } else {
      s_.operation = Operation::kMove;
      op_.operands[1] = constants_->Value(
          8, location.address + window + static_cast<uint64_t>(from.offset));
    }
    Finish(suffixes);
    return;
  }
  op_.operands[1] = Source(from, s_.type);
  if (window == 0) {
    s_.operation = Operation::kMove;
  } else {
    s_.operation = Operation::kAdd;
    op_.operands[2] = constants_->Value(8, to_space ? 0 - window : window);
  }
  Finish(suffixes);
}

void FunctionLowering::LowerIsInSpace(const Instruction& i) {
  Suffixes suffixes(i);
  bool is_param = false;
  const auto space = TakeSpace(suffixes, is_param);
  if (!space || *space == MemorySpace::kConst) {
    Fail(i.at, fmt::format("{}: that space is not supported", i.name),
         Refusal::kUnsupported);
    return;
  }
  s_.operation = Operation::kIsInSpace;
  op_.variant = static_cast<uint8_t>(*space);
  if (!OperandCount(i, 2, 2)) return;
  op_.operands[0] = PredicateResult(i.operands[0]);
  op_.operands[1] = Source(i.operands[1], Type::kU64);
  Finish(suffixes);
}

void FunctionLowering::LowerMove(const Instruction& i) {
  Suffixes suffixes(i);
  TakeType(suffixes);
  if (!OperandCount(i, 2, 2)) return;
  const Operand& to = i.operands[0];
  const Operand& from = i.operands[1];
  if (to.kind == Kind::kVector || from.kind == Kind::kVector) {
    LowerMoveVector(i, suffixes);
  } else if (from.kind == Kind::kSpecial) {
    LowerMoveSpecial(i, suffixes);
  } else if (from.kind == Kind::kVariable) {
    LowerMoveAddress(i, suffixes);
  } else {
    Plain(i, suffixes, Operation::kMove, 1);
  }
}

void FunctionLowering::LowerMoveVector(const Instruction& i,
                                       Suffixes& suffixes) {
  const bool pack = i.operands[1].kind == Kind::kVector;
  const Operand& vector = i.operands[pack ? 1 : 0];
  const Operand& whole = i.operands[pack ? 0 : 1];
  const auto parts = static_cast<uint32_t>(vector.parts.size());
  const uint32_t bytes = ptx::BytesOf(s_.type);
  if ((parts != 2 && parts != 4) || bytes % parts != 0 || bytes / parts < 2 ||
      bytes > 8) {
    Fail(vector.at,
         fmt::format("{} of {} parts is not supported", i.name, parts),
         Refusal::kUnsupported);
    return;
  }
  s_.operation = pack ? Operation::kPack : Operation::kUnpack;
  s_.elements = static_cast<uint8_t>(parts);
  const Type part_type = bytes / parts == 2 ? Type::kB16 : Type::kB32;
  if (pack) op_.operands[0] = Result(whole, bytes);
  for (uint32_t n = 0; n < parts; ++n) {
    if (pack) {
      op_.operands[1 + n] = Source(vector.parts[n], part_type);
    } else {
      op_.operands[n] = Result(vector.parts[n], bytes / parts, Sink::kAllowed);
    }
  }
  if (!pack) op_.operands[parts] = Source(whole, s_.type);
  Finish(suffixes);
}

void FunctionLowering::LowerMoveSpecial(const Instruction& i,
                                        Suffixes& suffixes) {
  static const std::map<std::string_view, Special> kSpecials = {
      {"%tid.x", Special::kTidX},
      {"%tid.y", Special::kTidY},
      {"%tid.z", Special::kTidZ},
      {"%ntid.x", Special::kNtidX},
      {"%ntid.y", Special::kNtidY},
      {"%ntid.z", Special::kNtidZ},
      {"%ctaid.x", Special::kCtaidX},
      {"%ctaid.y", Special::kCtaidY},
      {"%ctaid.z", Special::kCtaidZ},
      {"%nctaid.x", Special::kNctaidX},
      {"%nctaid.y", Special::kNctaidY},
      {"%nctaid.z", Special::kNctaidZ},
      {"%laneid", Special::kLaneId},
      {"%warpid", Special::kWarpId},
      {"%nwarpid", Special::kNwarpId},
      {"%smid", Special::kSmId},
      {"%nsmid", Special::kNsmId},
      {"%gridid", Special::kGridId},
      {"%lanemask_eq", Special::kLanemaskEq},
      {"%lanemask_le", Special::kLanemaskLe},
      {"%lanemask_lt", Special::kLanemaskLt},
      {"%lanemask_ge", Special::kLanemaskGe},
      {"%lanemask_gt", Special::kLanemaskGt},
      {"%clock", Special::kClock},
      {"%clock_hi", Special::kClockHi},
      {"%clock64", Special::kClock64},
      {"%globaltimer", Special::kGlobalTimer},
      {"%globaltimer_lo", Special::kGlobalTimerLo},
      {"%globaltimer_hi", Special::kGlobalTimerHi},
      {"%dynamic_smem_size", Special::kDynamicSharedBytes},
      {"%total_smem_size", Special::kTotalSharedBytes},
  };
  const Operand& from = i.operands[1];
  const auto special = kSpecials.find(from.name);
  if (special == kSpecials.end()) {
    Fail(from.at,
         fmt::format("special register '{}' is not supported", from.name),
         Refusal::kUnsupported);
    return;
  }
  s_.operation = Operation::kReadSpecial;
  s_.register_bytes = static_cast<uint8_t>(ptx::BytesOf(s_.type));
  op_.variant = static_cast<uint8_t>(special->second);
  op_.operands[0] = Result(i.operands[0], s_.register_bytes);
  // Operations that read a clock must know how far their warp is:
  // Warp::steps().
  const bool time =
      from.name.starts_with("%clock") || from.name.starts_with("%globaltimer");
  Finish(suffixes, time ? Flow::kNextUnlessFault : Flow::kNext);
}

// Lowers the address of a variable in its own space.
void FunctionLowering::LowerMoveAddress(const Instruction& i,
                                        Suffixes& suffixes) {
  const Operand& from = i.operands[1];
  const uint32_t bytes = ptx::BytesOf(s_.type);
  const Location location = Locate(from);
  const uint64_t address =
      location.address + static_cast<uint64_t>(from.offset);
  if (bytes != 8 && (bytes != 4 || address >> 32 != 0)) {
    Fail(from.at, fmt::format("the address of '{}' needs 64 bits", from.name));
    return;
  }
  op_.operands[0] = Result(i.operands[0], bytes);
  if (location.in_frame) {
    s_.operation = Operation::kReadSpecial;
    s_.register_bytes = static_cast<uint8_t>(bytes);
    op_.variant = static_cast<uint8_t>(Special::kFrameAddress);
    op_.offset = static_cast<int64_t>(address);
  } else {
    s_.operation = Operation::kMove;
    op_.operands[1] = constants_->Value(bytes, address);
  }
  Finish(suffixes);
}

}  // namespace carillon::sim

// Arithmetic, logic, comparisons, conversions and moves.
#include <map>

#include "sim/lower/function_lowering.h"

namespace carillon::sim {
namespace {

using ptx::Type;
using Kind = ptx::Operand::Kind;

bool IsPair(Type type) { return type == Type::kF16x2 || type == Type::kBf16x2; }
bool IsHalf(Type type) {
  return type == Type::kF16 || type == Type::kBf16 || IsPair(type);
}
bool IsFloat(Type type) {
  return type == Type::kF32 || type == Type::kF64 || IsHalf(type);
}

// What set gives where the comparison holds, in each value that it compares.
uint64_t TrueOf(Type type) {
  switch (type) {
    case Type::kF32:
      return 0x3f800000;
    case Type::kF16:
    case Type::kF16x2:
      return 0x3c00;
    case Type::kBf16:
    case Type::kBf16x2:
      return 0x3f80;
    default:
      return ~uint64_t{0};
  }
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

// What an instruction does with the carries: a CarryUse.
uint8_t TakeCarry(const ptx::Instruction& i, Suffixes& suffixes) {
  return static_cast<uint8_t>((i.opcode.ends_with('c') ? kCarryIn : 0) |
                              (suffixes.Take("cc") ? kCarryOut : 0));
}

// Opcodes whose result and sources all have the instruction's type.
struct PlainOpcode {
  Operation operation;
  uint32_t sources;
};
const PlainOpcode& PlainOf(std::string_view opcode) {
  static const std::map<std::string_view, PlainOpcode> kOpcodes = {
      {"abs", {Operation::kAbs, 1}},
      {"and", {Operation::kAnd, 2}},
      {"brev", {Operation::kReverseBits, 1}},
      {"cnot", {Operation::kLogicalNot, 1}},
      {"copysign", {Operation::kCopySign, 2}},
      {"cos", {Operation::kCos, 1}},
      {"ex2", {Operation::kExp2, 1}},
      {"fma", {Operation::kFma, 3}},
      {"fns", {Operation::kFindNthBit, 3}},
      {"lg2", {Operation::kLog2, 1}},
      {"max", {Operation::kMax, 2}},
      {"min", {Operation::kMin, 2}},
      {"neg", {Operation::kNeg, 1}},
      {"not", {Operation::kNot, 1}},
      {"or", {Operation::kOr, 2}},
      {"rcp", {Operation::kRcp, 1}},
      {"rem", {Operation::kRem, 2}},
      {"rsqrt", {Operation::kRsqrt, 1}},
      {"sad", {Operation::kSumOfDifferences, 3}},
      {"sin", {Operation::kSin, 1}},
      {"sqrt", {Operation::kSqrt, 1}},
      {"tanh", {Operation::kTanh, 1}},
      {"xor", {Operation::kXor, 2}},
  };
  return kOpcodes.at(opcode);
}

}  // namespace

void FunctionLowering::TakeFloatModifiers(Suffixes& suffixes) {
  s_.rounding = suffixes.TakeRounding().value_or(Rounding::kNearest);
  s_.flush = suffixes.Take("ftz");
  s_.saturate = suffixes.Take("sat");
  op_.variant = ModifierVariant(s_);
}

void FunctionLowering::LowerAddSub(const Instruction& i) {
  Suffixes suffixes(i);
  TakeType(suffixes);
  const bool add = i.opcode.starts_with("add");
  if (const uint8_t carry = TakeCarry(i, suffixes); carry != 0) {
    s_.variant = op_.variant = carry;
    return Plain(i, suffixes, add ? Operation::kAddCarry : Operation::kSubCarry,
                 2);
  }
  if (IsFloat(s_.type)) {
    TakeFloatModifiers(suffixes);
  } else {
    s_.saturate = suffixes.Take("sat");
  }
  Plain(i, suffixes, add ? Operation::kAdd : Operation::kSub, 2);
}

// mul, mad, madc.
void FunctionLowering::LowerMulMad(const Instruction& i) {
  Suffixes suffixes(i);
  TakeType(suffixes);
  const bool mad = i.opcode != "mul";
  if (IsFloat(s_.type)) {
    TakeFloatModifiers(suffixes);
    return Plain(i, suffixes, mad ? Operation::kFma : Operation::kMul,
                 mad ? 3 : 2);
  }
  const uint8_t carry = mad ? TakeCarry(i, suffixes) : 0;
  if (const auto high = TakeHalf(suffixes)) {
    s_.variant = op_.variant = carry;
    const auto either = [&](Operation of_high, Operation of_low) {
      Plain(i, suffixes, *high ? of_high : of_low, mad ? 3 : 2);
    };
    if (!mad) return either(Operation::kMulHigh, Operation::kMulLow);
    if (carry == 0) return either(Operation::kMadHigh, Operation::kMadLow);
    return either(Operation::kMadHighCarry, Operation::kMadLowCarry);
  }
  const auto wide = Widened(s_.type);
  if (!suffixes.Take("wide") || !wide || carry != 0) {
    return Fail(i.at, "{} is neither .lo, .hi nor .wide of 16 or 32 bits",
                i.name);
  }
  std::vector<Type> sources = {s_.type, s_.type};
  if (mad) sources.push_back(*wide);
  Mixed(i, suffixes, mad ? Operation::kMadWide : Operation::kMulWide,
        ptx::BytesOf(*wide), sources);
}

void FunctionLowering::LowerMul24(const Instruction& i) {
  Suffixes suffixes(i);
  TakeType(suffixes);
  const auto high = TakeHalf(suffixes);
  if (!high) return Fail(i.at, "{} is neither .lo nor .hi", i.name);
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
    op_.variant = ModifierVariant(s_);
  }
  Plain(i, suffixes, operation, 2);
}

void FunctionLowering::LowerPlain(const Instruction& i) {
  Suffixes suffixes(i);
  TakeType(suffixes);
  const auto& [operation, sources] = PlainOf(i.opcode);
  Plain(i, suffixes, operation, sources);
}

void FunctionLowering::LowerMinMax(const Instruction& i) {
  Suffixes suffixes(i);
  TakeType(suffixes);
  s_.flush = suffixes.Take("ftz");
  const auto& [operation, sources] = PlainOf(i.opcode);
  if (sources == 2) {
    s_.keep_nan = suffixes.Take("NaN");
    if (!IsFloat(s_.type) && (s_.keep_nan || s_.flush)) {
      return Fail(i.at, "{}: .NaN and .ftz are of floats", i.name);
    }
    s_.relu = suffixes.Take("relu");
    s_.xor_sign = suffixes.Take("xorsign");
    if (s_.xor_sign && !suffixes.Take("abs")) {
      return Fail(i.at, "{}: .xorsign needs .abs", i.name);
    }
  }
  op_.variant = ModifierVariant(s_);
  Plain(i, suffixes, operation, sources);
}

void FunctionLowering::LowerFloat(const Instruction& i) {
  Suffixes suffixes(i);
  TakeType(suffixes);
  if (suffixes.Take("approx")) {
    s_.flush = suffixes.Take("ftz");
    s_.saturate = suffixes.Take("sat");
  } else {
    TakeFloatModifiers(suffixes);
  }
  s_.relu = i.opcode == "fma" && suffixes.Take("relu");
  op_.variant = ModifierVariant(s_);
  const auto& [operation, sources] = PlainOf(i.opcode);
  Plain(i, suffixes, operation, sources);
}

void FunctionLowering::LowerShift(const Instruction& i) {
  Suffixes suffixes(i);
  TakeType(suffixes);
  Mixed(i, suffixes,
        i.opcode == "shl" ? Operation::kShiftLeft : Operation::kShiftRight,
        ptx::BytesOf(s_.type), {s_.type, Type::kU32});
}

void FunctionLowering::LowerFunnel(const Instruction& i) {
  Suffixes suffixes(i);
  TakeType(suffixes);
  const auto left = suffixes.TakeOneOf<bool>({{"l", true}, {"r", false}});
  const auto wrap =
      suffixes.TakeOneOf<bool>({{"wrap", true}, {"clamp", false}});
  if (!left || !wrap) {
    return Fail(i.at, "{}: needs .l or .r, and .wrap or .clamp", i.name);
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

// dp4a.atype.btype d, a, b, c; dp2a.mode.atype.btype d, a, b, c.
void FunctionLowering::LowerDotProduct(const Instruction& i) {
  Suffixes suffixes(i);
  TakeType(suffixes);
  const auto of_b = suffixes.TakeType();
  const bool four = i.opcode == "dp4a";
  const auto upper = four ? std::optional(false) : TakeHalf(suffixes);
  const auto is_word = [](Type type) {
    return type == Type::kU32 || type == Type::kS32;
  };
  if (!of_b || !is_word(s_.type) || !is_word(*of_b) || !upper) {
    return Fail(i.at, "{}: needs {}two types, each .u32 or .s32", i.name,
                four ? "" : ".lo or .hi, and ");
  }
  op_.variant = static_cast<uint8_t>((s_.type == Type::kS32 ? kSignedA : 0) |
                                     (*of_b == Type::kS32 ? kSignedB : 0) |
                                     (*upper ? kUpperB : 0));
  Plain(i, suffixes, four ? Operation::kDotProduct4 : Operation::kDotProduct2,
        3);
}

// vop4.dtype.atype.btype{.sat}{.add} d, a, b, c; vset4.atype.btype.cmp{.add} ...
void FunctionLowering::LowerVideo(const Instruction& i) {
  Suffixes suffixes(i);
  const std::string_view name = i.opcode.substr(0, i.opcode.size() - 1);
  static const std::map<std::string_view, Operation> kOperations = {
      {"vabsdiff", Operation::kVideoDifference},
      {"vadd", Operation::kVideoAdd},
      {"vavrg", Operation::kVideoAverage},
      {"vmax", Operation::kVideoMax},
      {"vmin", Operation::kVideoMin},
      {"vset", Operation::kVideoSet},
      {"vsub", Operation::kVideoSub},
  };
  const Operation operation = kOperations.at(name);
  const bool set = operation == Operation::kVideoSet;
  s_.elements = i.opcode.back() == '2' ? 2 : 4;
  const auto take = [&](uint8_t bit) {
    const auto is_signed =
        suffixes.TakeOneOf<bool>({{"u32", false}, {"s32", true}});
    if (!is_signed) {
      return Fail(i.at, "{} needs {} types, each .u32 or .s32", i.name,
                  set ? "two" : "three");
    }
    if (*is_signed) s_.variant |= bit;
  };
  if (!set) take(kVideoSigned);
  take(kVideoSignedA);
  take(kVideoSignedB);
  if (suffixes.Take("sat")) s_.variant |= kVideoSaturate;
  if (suffixes.Take("add")) {
    // PTX leaves open what is added of a result that a part cannot hold.
    const bool of_one_kind = ((s_.variant & kVideoSignedA) != 0) ==
                             ((s_.variant & kVideoSignedB) != 0);
    const bool fits =
        set || (operation == Operation::kVideoDifference && of_one_kind);
    if (!fits || (s_.variant & kVideoSaturate) != 0) return Unsupported();
    s_.variant |= kVideoSum;
  }
  if (set) {
    const auto compare = suffixes.TakeOneOf<Compare>({{"eq", Compare::kEq},
                                                      {"ne", Compare::kNe},
                                                      {"lt", Compare::kLt},
                                                      {"le", Compare::kLe},
                                                      {"gt", Compare::kGt},
                                                      {"ge", Compare::kGe}});
    if (!compare || (s_.variant & kVideoSaturate) != 0) return Unsupported();
    s_.compare = *compare;
  }
  s_.type = Type::kU32;
  op_.variant = s_.variant;
  Plain(i, suffixes, operation, 3);
}

// bmsk.mode.b32 d, a, b; szext.mode.type d, a, b.
void FunctionLowering::LowerMaskOrExtend(const Instruction& i) {
  Suffixes suffixes(i);
  TakeType(suffixes);
  const auto wrap =
      suffixes.TakeOneOf<bool>({{"wrap", true}, {"clamp", false}});
  if (!wrap) return Fail(i.at, "{}: needs .wrap or .clamp", i.name);
  op_.variant = *wrap ? 1 : 0;
  Plain(i, suffixes,
        i.opcode == "bmsk" ? Operation::kMakeMask : Operation::kExtendBits, 2);
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
    return Fail(table.at, "lop3's truth table is a constant from 0 to 255");
  }
  op_.variant = static_cast<uint8_t>(table.value);
  Finish(suffixes);
}

void FunctionLowering::LowerField(const Instruction& i) {
  Suffixes suffixes(i);
  TakeType(suffixes);
  std::vector<Type> sources = {s_.type, Type::kU32, Type::kU32};
  const bool insert = i.opcode == "bfi";
  if (insert) sources.insert(sources.begin(), s_.type);
  Mixed(i, suffixes,
        insert ? Operation::kInsertField : Operation::kExtractField,
        ptx::BytesOf(s_.type), sources);
}

void FunctionLowering::LowerCount(const Instruction& i) {
  Suffixes suffixes(i);
  TakeType(suffixes);
  if (i.opcode == "bfind" && suffixes.Take("shiftamt")) s_.variant = 1;
  Mixed(i, suffixes,
        i.opcode == "popc"  ? Operation::kCountBits
        : i.opcode == "clz" ? Operation::kCountLeadingZeros
                            : Operation::kFindLeadingBit,
        4, {s_.type});
}

void FunctionLowering::LowerSelect(const Instruction& i) {
  Suffixes suffixes(i);
  const bool by_predicate = i.opcode == "selp";
  TakeType(suffixes);
  if (!by_predicate) {
    const auto from = suffixes.TakeType();
    if (!from) return Fail(i.at, "{} needs two types", i.name);
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
  using enum Compare;
  static constexpr Suffixes::Choice<Compare> kCompares[] = {
      {"eq", kEq},       {"ne", kNe},   {"lt", kLt},   {"le", kLe},
      {"gt", kGt},       {"ge", kGe},   {"lo", kLt},   {"ls", kLe},
      {"hi", kGt},       {"hs", kGe},   {"equ", kEqu}, {"neu", kNeu},
      {"ltu", kLtu},     {"leu", kLeu}, {"gtu", kGtu}, {"geu", kGeu},
      {"num", kNumbers}, {"nan", kNan},
  };
  Suffixes suffixes(i);
  const bool set = i.opcode == "set";
  s_.operation = set ? Operation::kSet : Operation::kSetPredicate;
  const auto compare = suffixes.TakeOneOf<Compare>(kCompares);
  if (!compare) return Fail(i.at, "{} does not say how it compares", i.name);
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
    if (!from) return Fail(i.at, "{} needs two types", i.name);
    s_.from = compared = *from;
  }
  const size_t sources = s_.combine == Combine::kNone ? 2 : 3;
  if (!OperandCount(i, sources + 1, sources + 1)) return;
  if (set) {
    // One result for a pair is 16 bits of 32 for each.
    const bool fits =
        IsPair(compared)
            ? s_.type == compared || s_.type == Type::kU32 ||
                  s_.type == Type::kS32
            : s_.type == Type::kU32 || s_.type == Type::kS32 ||
                  s_.type == Type::kF16 || s_.type == Type::kBf16 ||
                  (IsHalf(compared)
                       ? s_.type == Type::kU16 || s_.type == Type::kS16
                       : s_.type == Type::kF32);
    if (!fits) {
      return Fail(i.at, "{} cannot give .{}", i.name, ptx::NameOf(s_.type));
    }
    const uint32_t bytes = ptx::BytesOf(s_.type);
    op_.operands[0] = Result(i.operands[0], bytes);
    op_.operands[1] =
        constants_->Value(IsPair(compared) ? 2 : bytes, TrueOf(s_.type));
    op_.to.register_bytes = static_cast<uint8_t>(bytes);
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
                                     (negated ? 4u : 0));
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
  if (!property) return Fail(i.at, "{} does not say what it tests", i.name);
  s_.operation = Operation::kTestProperty;
  op_.variant = static_cast<uint8_t>(*property);
  if (!OperandCount(i, 2, 2)) return;
  op_.operands[0] = PredicateResult(i.operands[0]);
  op_.operands[1] = Source(i.operands[1], s_.type);
  Finish(suffixes);
}

void FunctionLowering::LowerConvert(const Instruction& i) {
  Suffixes suffixes(i);
  if (suffixes.Take("tf32")) return LowerToTf32(i, suffixes);
  s_.operation = Operation::kConvert;
  // There are types of which only cvt knows.
  const auto to = suffixes.TakeType();
  const auto from = suffixes.TakeType();
  if (!to || !from) return Unsupported();
  s_.type = *to;
  s_.from = *from;
  s_.flush = suffixes.Take("ftz");
  s_.saturate = suffixes.Take("sat");
  s_.relu = suffixes.Take("relu");
  const auto to_whole =
      suffixes.TakeOneOf<Rounding>({{"rni", Rounding::kNearest},
                                    {"rzi", Rounding::kZero},
                                    {"rmi", Rounding::kDown},
                                    {"rpi", Rounding::kUp}});
  const auto rounding = suffixes.TakeRounding();
  const bool from_float = IsFloat(s_.from);
  const bool to_float = IsFloat(s_.type);
  if (to_whole && !from_float) {
    Fail(i.at, "{}: whole numbers need no rounding", i.name);
  }
  if (from_float && !to_float && !to_whole) {
    Fail(i.at, "{} must say how it rounds (.rni, .rzi, .rmi, .rpi)", i.name);
  }
  s_.rounding = to_whole ? *to_whole : rounding.value_or(Rounding::kNearest);
  s_.integral = to_whole && to_float;
  if (IsPair(s_.type)) {
    op_.variant = ModifierVariant(s_);
    return Mixed(i, suffixes, Operation::kConvert, 4, {s_.from, s_.from});
  }
  if (!OperandCount(i, 2, 2)) return;
  for (const Operand& operand : i.operands) {
    if (operand.kind != Kind::kRegister && operand.kind != Kind::kImmediate) {
      return Fail(operand.at, "'{}' is neither a register nor a constant",
                  operand.name);
    }
  }
  // Registers may be wider than the types.
  const auto bytes_of = [&](const Operand& operand, Type type) -> uint32_t {
    if (operand.kind != Kind::kRegister) return ptx::BytesOf(type);
    const uint32_t bytes = BytesOfRegister(operand);
    if (function_.registers[operand.index].type == Type::kPred ||
        bytes < ptx::BytesOf(type) ||
        (IsFloat(type) && bytes != ptx::BytesOf(type))) {
      Fail(operand.at, "register '{}' does not hold a .{}", operand.name,
           ptx::NameOf(type));
    }
    return bytes;
  };
  const uint32_t to_bytes = bytes_of(i.operands[0], s_.type);
  const uint32_t from_bytes = bytes_of(i.operands[1], s_.from);
  if (failed()) return;
  op_.operands[0] = i.operands[0].kind == Kind::kRegister
                        ? SlotOf(i.operands[0].index)
                        : Result(i.operands[0], to_bytes);
  op_.operands[1] = i.operands[1].kind == Kind::kRegister
                        ? SlotOf(i.operands[1].index)
                        : Immediate(i.operands[1], s_.from, from_bytes);
  s_.register_bytes = static_cast<uint8_t>(to_bytes);
  s_.from_bytes = static_cast<uint8_t>(from_bytes);
  op_.variant = ModifierVariant(s_);
  op_.to = ConvertTo(s_);
  op_.from = ConvertFrom(s_);
  Finish(suffixes);
}

// cvt.{rna, rn, rz}{.relu}.tf32.f32 d, a.
void FunctionLowering::LowerToTf32(const Instruction& i, Suffixes& suffixes) {
  const auto rounding = suffixes.TakeOneOf<ToTf32>({{"rna", ToTf32::kAway},
                                                    {"rn", ToTf32::kNearest},
                                                    {"rz", ToTf32::kZero}});
  if (!rounding || !suffixes.Take("f32")) return Unsupported();
  op_.variant = static_cast<uint8_t>(*rounding);
  if (rounding != ToTf32::kAway && suffixes.Take("relu")) {
    op_.variant |= kReluBit;
  }
  Mixed(i, suffixes, Operation::kToTf32, 4, {Type::kF32});
}

void FunctionLowering::LowerConvertAddress(const Instruction& i) {
  Suffixes suffixes(i);
  TakeType(suffixes);
  const bool to_space = suffixes.Take("to");
  bool is_param = false;
  const auto space = TakeSpace(suffixes, is_param);
  if (!space || ptx::BytesOf(s_.type) != 8) {
    return Fail(i.at, "{} needs a space and 64 bits", i.name);
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
    MoveAddress(location,
                location.address + window + static_cast<uint64_t>(from.offset),
                8);
    return Finish(suffixes);
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
    return Unsupported(i.at, "{}: that space is not supported", i.name);
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
  } else if (from.kind == Kind::kFunction) {
    s_.operation = Operation::kMove;
    op_.operands[0] = Result(to, 8);
    op_.operands[1] = constants_->Value(8, AddressOfFunction(from.index));
    Finish(suffixes);
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
  const bool of_bytes = bytes == 2 && parts == 2;
  if ((parts != 2 && parts != 4) || bytes % parts != 0 ||
      (bytes / parts < 2 && !of_bytes) || (bytes == 16 && parts != 2)) {
    return Unsupported(vector.at, "{} of {} parts is not supported", i.name,
                       parts);
  }
  s_.operation = pack ? Operation::kPack : Operation::kUnpack;
  s_.elements = static_cast<uint8_t>(parts);
  const Type part_type = of_bytes             ? Type::kB8
                         : bytes / parts == 2 ? Type::kB16
                         : bytes / parts == 4 ? Type::kB32
                                              : Type::kB64;
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
      {"%current_graph_exec", Special::kGraphExec},
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
      // The driver's own way to tell of a cooperative launch.
      {"%envreg2", Special::kGridWorkspaceLow},
      {"%envreg1", Special::kGridWorkspaceHigh},
  };
  const Operand& from = i.operands[1];
  const auto special = kSpecials.find(from.name);
  if (special == kSpecials.end()) {
    return Unsupported(from.at, "special register '{}' is not supported",
                       from.name);
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

void FunctionLowering::MoveAddress(const Location& location, uint64_t address,
                                   uint32_t bytes) {
  if (!location.in_frame) {
    s_.operation = Operation::kMove;
    op_.operands[1] = constants_->Value(bytes, address);
    return;
  }
  s_.operation = Operation::kReadSpecial;
  s_.register_bytes = static_cast<uint8_t>(bytes);
  op_.variant = static_cast<uint8_t>(Special::kFrameAddress);
  op_.offset = static_cast<int64_t>(address);
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
    return Fail(from.at, "the address of '{}' needs 64 bits", from.name);
  }
  op_.operands[0] = Result(i.operands[0], bytes);
  MoveAddress(location, address, bytes);
  Finish(suffixes);
}

}  // namespace carillon::sim

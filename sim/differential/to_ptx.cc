#include <array>
#include <string_view>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "sim/differential/random_kernel.h"

namespace carillon::sim::differential {
namespace {

constexpr std::string_view kPrefix[] = {"%p", "%h", "%r", "%d", "%f", "%g"};
constexpr std::string_view kStorage[] = {"pred", "b16", "b32",
                                         "b64",  "f32", "f64"};
constexpr std::string_view kSumNames[] = {"add.u32", "min.u32", "max.u32",
                                          "and.b32", "or.b32",  "xor.b32"};

size_t IndexOf(Type type) { return static_cast<size_t>(type); }
constexpr Type kPred = Type::kPred;
constexpr Type kB32 = Type::kB32;
constexpr Type kB64 = Type::kB64;

// The text of one kernel or function.
class Body {
 public:
  Body(const RandomKernel& kernel, size_t function)
      : kernel_(kernel), function_(function) {
    for (size_t i = 0; i < kVariableCount; ++i)
      variables_[i] = New(kVariables[i]);
  }

  template <class... T>
  void Line(fmt::format_string<T...> format, T&&... values) {
    text_ += "  " + fmt::format(format, std::forward<T>(values)...) + "\n";
  }
  std::string New(Type type) {
    return fmt::format("{}{}", kPrefix[IndexOf(type)],
                       registers_[IndexOf(type)]++);
  }
  std::string NewLabel() { return fmt::format("L{}_{}", function_, labels_++); }
  const std::string& variable(size_t i) const { return variables_[i]; }

  // Variables of other types than the first two's begin as these do.
  void Begin(const std::string& a, const std::string& b) {
    Line("mov.b32 {}, {};", variables_[0], a);
    Line("mov.b32 {}, {};", variables_[1], b);
    Line("xor.b32 {}, {}, {};", variables_[2], a, b);
    Line("mul.wide.s32 {}, {}, {};", variables_[3], a, b);
    Line("cvt.u16.u32 {}, {};", variables_[4], a);
    Line("cvt.rn.f32.s32 {}, {};", variables_[5], a);
    Line("mov.b32 {}, {};", variables_[6], b);
    Line("add.f32 {}, {}, 0f00000000;", variables_[6], variables_[6]);
    Line("cvt.rn.f64.s32 {}, {};", variables_[7], b);
    Line("setp.lt.s32 {}, {}, {};", variables_[8], a, b);
    for (uint32_t i = 0; i < kLocalWords; ++i) {
      Line("st.local.u32 [own_words+{}], {};", 4 * i, a);
    }
  }

  std::string Value(const Expression& e) {
    using enum Expression::Kind;
    switch (e.kind) {
      case kVariable:
        return variables_[e.variable];
      case kConstant:
        return Constant(e);
      case kInput: {
        const std::string index = Masked(Value(e.sources[0]), kInputs - 1);
        const std::string base = New(kB64);
        Line("mov.u64 {}, inputs;", base);
        const std::string at = Address(base, index);
        const std::string to = New(kB32);
        Line("ld.const.u32 {}, [{}];", to, at);
        return to;
      }
      case kLocal: {
        const std::string at = LocalAddress(Value(e.sources[0]));
        const std::string to = New(kB32);
        Line("ld.local.u32 {}, [{}];", to, at);
        return to;
      }
      case kOperation:
        break;
    }
    std::vector<std::string> sources;
    for (const Expression& source : e.sources) sources.push_back(Value(source));
    if (e.operation->tame_divisor) {
      const bool wide = e.type == kB64;
      const std::string tame = New(e.type);
      Line("and.b{} {}, {}, 0x7ffe;", wide ? 64 : 32, tame, sources[1]);
      Line("or.b{0} {1}, {1}, 1;", wide ? 64 : 32, tame);
      sources[1] = tame;
    }
    const std::string to = New(e.type);
    std::string line = fmt::format("{} {}", e.operation->name, to);
    for (const std::string& source : sources) line += ", " + source;
    Line("{}{};", line, e.operation->tail);
    return to;
  }

  // `mask`: the lanes that are here together; empty where a thread is alone.
  void Statements(const std::vector<Statement>& statements,
                  const std::string& mask) {
    for (const Statement& statement : statements) One(statement, mask);
  }

  void StoreResults() {
    for (size_t i = 0; i < kVariableCount; ++i) {
      const std::string wide = New(kB64);
      const std::string& from = variables_[i];
      switch (kVariables[i]) {
        case Type::kPred:
          Line("selp.u64 {}, 1, 0, {};", wide, from);
          break;
        case Type::kB16:
          Line("cvt.u64.u16 {}, {};", wide, from);
          break;
        case Type::kB32:
          Line("cvt.u64.u32 {}, {};", wide, from);
          break;
        case Type::kF32: {
          const std::string bits = New(kB32);
          Line("mov.b32 {}, {};", bits, from);
          Line("cvt.u64.u32 {}, {};", wide, bits);
          break;
        }
        case Type::kB64:
        case Type::kF64:
          Line("mov.b64 {}, {};", wide, from);
      }
      Line("st.global.u64 [%mine+{}], {};", 8 * i, wide);
    }
  }

  std::string Text() const {
    std::string text;
    for (size_t i = 0; i < kTypes; ++i) {
      if (registers_[i] == 0) continue;
      text += fmt::format("  .reg .{} {}<{}>;\n", kStorage[i], kPrefix[i],
                          registers_[i]);
    }
    return text +
           fmt::format("  .local .align 4 .b8 own_words[{}];\n",
                       4 * kLocalWords) +
           text_;
  }

 private:
  std::string Constant(const Expression& e) {
    switch (e.type) {
      case Type::kPred: {
        const std::string to = New(kPred);
        Line("setp.ne.u32 {}, {}, 0;", to, e.constant);
        return to;
      }
      case Type::kF32:
        return fmt::format("0f{:08x}", e.constant);
      case Type::kF64:
        return fmt::format("0d{:016x}", e.constant);
      default: {
        const std::string to = New(e.type);
        Line("mov.{} {}, {:#x};", kStorage[IndexOf(e.type)], to, e.constant);
        return to;
      }
    }
  }
  std::string Masked(const std::string& value, uint32_t mask) {
    const std::string to = New(kB32);
    Line("and.b32 {}, {}, {};", to, value, mask);
    return to;
  }
  std::string Address(std::string_view base, const std::string& index) {
    const std::string at = New(kB64);
    Line("mad.wide.u32 {}, {}, 4, {};", at, index, base);
    return at;
  }
  std::string LocalAddress(const std::string& value) {
    const std::string index = Masked(value, kLocalWords - 1);
    const std::string base = New(kB64);
    Line("mov.u64 {}, own_words;", base);
    return Address(base, index);
  }
  std::string SharedAddress(std::string_view base, const std::string& index) {
    const std::string at = New(kB32);
    Line("mov.u32 {}, {};", at, base);
    Line("mad.lo.u32 {0}, {1}, 4, {0};", at, index);
    return at;
  }
  void Assign(size_t variable, const std::string& value) {
    Line("mov.{} {}, {};", kStorage[IndexOf(kVariables[variable])],
         variables_[variable], value);
  }

  void If(const Statement& s, const std::string& mask) {
    const std::string p = Value(s.a);
    std::string then_mask, else_mask;
    if (!mask.empty()) {
      then_mask = New(kB32);
      else_mask = New(kB32);
      Line("vote.sync.ballot.b32 {}, {}, {};", then_mask, p, mask);
      Line("vote.sync.ballot.b32 {}, !{}, {};", else_mask, p, mask);
    }
    const std::string other = NewLabel();
    const std::string end = NewLabel();
    Line("@!{} bra {};", p, other);
    Statements(s.body, then_mask);
    Line("bra {};", end);
    Line("{}:", other);
    Statements(s.other, else_mask);
    Line("{}:", end);
  }

  void Loop(const Statement& s) {
    const std::string left = Masked(Value(s.a), 3);
    const std::string done = New(kPred);
    const std::string again = NewLabel();
    const std::string end = NewLabel();
    Line("{}:", again);
    Line("setp.eq.u32 {}, {}, 0;", done, left);
    Line("@{} bra {};", done, end);
    Statements(s.body, "");
    Line("sub.u32 {0}, {0}, 1;", left);
    Line("bra.uni {};", again);
    Line("{}:", end);
  }

  void Call(const Statement& s) {
    const std::string a = Value(s.a);
    const std::string b = Value(s.b);
    Line("{{");
    Line(".param .b32 first;\n  .param .b32 second;\n  .param .b32 result;");
    Line("st.param.b32 [first], {};", a);
    Line("st.param.b32 [second], {};", b);
    if (s.by_address) {
      const std::string at = New(kB64);
      const std::string other = New(kB64);
      const std::string prototype = NewLabel();
      Line("mov.u64 {}, f{};", at, s.which);
      Line("mov.u64 {}, f{};", other, s.or_which);
      Line("selp.b64 {0}, {0}, {1}, {2};", at, other,
           variables_[kVariableCount - 1]);
      Line(
          "{}: .callprototype (.param .b32 _) _ (.param .b32 _, .param .b32 "
          "_);",
          prototype);
      Line("call (result), {}, (first, second), {};", at, prototype);
    } else {
      Line("call (result), f{}, (first, second);", s.which);
    }
    Line("ld.param.b32 {}, [result];", variables_[s.variable]);
    Line("}}");
  }

  void SharedSum(const Statement& s) {
    const std::string mine =
        SharedAddress("shared_sums", Masked("%thread", kSums - 1));
    const std::string at =
        SharedAddress("shared_sums", Masked(Value(s.a), kSums - 1));
    const std::string value = Value(s.b);
    Line("st.shared.u32 [{}], 0;", mine);
    Line("bar.sync 0;");
    Line("red.shared.{} [{}], {};", kSumNames[s.which], at, value);
    Line("bar.sync 0;");
    Line("ld.shared.u32 {}, [{}];", variables_[s.variable], mine);
    Line("bar.sync 0;");
  }

  void Exchange(const Statement& s) {
    const std::string value = Value(s.a);
    const std::string mine = SharedAddress("slots", "%thread");
    const std::string other = New(kB32);
    Line("add.u32 {}, %thread, {};", other, s.lane);
    Line("rem.u32 {0}, {0}, {1};", other, kernel_.threads);
    const std::string at = SharedAddress("slots", other);
    Line("st.shared.u32 [{}], {};", mine, value);
    Line("bar.sync 0;");
    Line("ld.shared.u32 {}, [{}];", variables_[s.variable], at);
    Line("bar.sync 0;");
  }

  void Own(const Statement& s) {
    const std::string a = Value(s.a);
    const std::string b = Value(s.b);
    const std::string& to = variables_[s.variable];
    static constexpr std::string_view kNames[] = {
        "exch.b32", "cas.b32", "inc.u32", "dec.u32", "add.u32"};
    if (s.which == static_cast<size_t>(OwnKind::kCompareAndSwap)) {
      Line("atom.global.{} {}, [%cell], {}, {};", kNames[s.which], to, a, b);
    } else {
      Line("atom.global.{} {}, [%cell], {};", kNames[s.which], to, a);
    }
  }

  void First(const Statement& s, const std::string& mask) {
    const std::string value = Value(s.a);
    const std::string here = New(kB32);
    const std::string all = New(kPred);
    Line("setp.eq.u32 {}, 0, 0;", all);
    Line("vote.sync.ballot.b32 {}, {}, {};", here, all, mask);
    Line("brev.b32 {0}, {0};", here);
    Line("clz.b32 {0}, {0};", here);
    Line("shfl.sync.idx.b32 {}, {}, {}, 31, {};", variables_[s.variable], value,
         here, mask);
  }

  void One(const Statement& s, const std::string& mask) {
    using enum Statement::Kind;
    const std::string& to = variables_[s.variable];
    switch (s.kind) {
      case kAssign:
        return Assign(s.variable, Value(s.a));
      case kStoreLocal: {
        const std::string at = LocalAddress(Value(s.a));
        return Line("st.local.u32 [{}], {};", at, Value(s.b));
      }
      case kIf:
        return If(s, mask);
      case kLoop:
        return Loop(s);
      case kCall:
        return Call(s);
      case kSum: {
        const std::string index = Masked(Value(s.a), kSums - 1);
        const std::string at = Address("%sums", index);
        return Line("red.global.{} [{}+{}], {};", kSumNames[s.which], at,
                    4 * kSums * s.which, Value(s.b));
      }
      case kOwn:
        return Own(s);
      case kVote: {
        static constexpr std::string_view kNames[] = {"ballot.b32", "any.pred",
                                                      "all.pred", "uni.pred"};
        return Line("vote.sync.{} {}, {}, {};", kNames[s.which], to, Value(s.a),
                    mask);
      }
      case kMatch:
        return Line("match.any.sync.b32 {}, {}, {};", to, Value(s.a), mask);
      case kReduce:
        return Line("redux.sync.{} {}, {}, {};", kSumNames[s.which], to,
                    Value(s.a), mask);
      case kShuffle: {
        static constexpr std::string_view kNames[] = {"up", "down", "bfly",
                                                      "idx"};
        return Line("shfl.sync.{}.b32 {}|{}, {}, {}, {:#x}, {};",
                    kNames[s.which], to, variables_[kVariableCount - 1],
                    Value(s.a), s.lane, s.clamp, mask);
      }
      case kFirst:
        return First(s, mask);
      case kExchange:
        return Exchange(s);
      case kSharedSum:
        return SharedSum(s);
      case kReturn: {
        const std::string go_on = NewLabel();
        Line("@!{} bra {};", Value(s.a), go_on);
        StoreResults();
        Line("ret;");
        return Line("{}:", go_on);
      }
    }
  }

  const RandomKernel& kernel_;
  const size_t function_;
  std::array<uint32_t, kTypes> registers_{};
  std::array<std::string, kVariableCount> variables_;
  uint32_t labels_ = 0;
  std::string text_;
};

std::string FunctionText(const RandomKernel& kernel, size_t i) {
  const Function& function = kernel.functions[i];
  const std::string head = fmt::format(
      ".func (.param .b32 out) f{}(.param .b32 a, .param .b32 b)\n{{\n", i);
  Body body(kernel, i);
  const std::string a = body.New(kB32);
  const std::string b = body.New(kB32);
  body.Line("ld.param.b32 {}, [a];", a);
  body.Line("ld.param.b32 {}, [b];", b);
  if (function.recursive) {
    const std::string deeper = body.New(kPred);
    const std::string rest = body.New(kB32);
    const std::string label = body.NewLabel();
    body.Line("and.b32 {}, {}, 3;", rest, a);
    body.Line("setp.eq.u32 {}, {}, 0;", deeper, rest);
    body.Line("@{} bra {};", deeper, label);
    body.Line("sub.u32 {0}, {0}, 1;", rest);
    body.Line("{{ .param .b32 first; .param .b32 second; .param .b32 result;");
    body.Line("st.param.b32 [first], {}; st.param.b32 [second], {};", rest, b);
    body.Line("call (result), f{}, (first, second);", i);
    body.Line("ld.param.b32 {}, [result]; }}", b);
    body.Line("{}:", label);
  }
  body.Begin(a, b);
  body.Statements(function.body, "");
  body.Line("st.param.b32 [out], {};", body.variable(0));
  body.Line("ret;");
  return head + body.Text() + "}\n\n";
}

}  // namespace

std::string ToPtx(const RandomKernel& kernel, const Data& data) {
  std::string text =
      ".version 8.0\n.target sm_80\n.address_size 64\n\n"
      ".shared .align 4 .b8 slots[384];\n"
      ".shared .align 4 .b8 shared_sums[64];\n";
  text += fmt::format(".const .align 4 .b32 inputs[{}] = {{{}}};\n\n", kInputs,
                      fmt::join(data.in, ", "));
  for (size_t i = 0; i < kernel.functions.size(); ++i)
    text += FunctionText(kernel, i);
  Body body(kernel, kernel.functions.size());
  body.Line("ld.param.u64 %mine, [out];");
  body.Line("ld.param.u64 %sums, [sums];");
  body.Line("ld.param.u64 %cell, [own];");
  body.Line("mov.u32 %thread, %tid.x;");
  body.Line("mov.u32 %global, %ctaid.x;");
  body.Line("mad.lo.u32 %global, %global, {}, %thread;", kernel.threads);
  body.Line("mad.wide.u32 %mine, %global, {}, %mine;", 8 * kVariableCount);
  body.Line("mad.wide.u32 %cell, %global, 4, %cell;");
  const std::string a = body.New(kB32);
  const std::string b = body.New(kB32);
  body.Line("mul.lo.u32 {}, %global, 0x9e3779b1;", a);
  body.Line("xor.b32 {}, {}, 0x5bd1e995;", b, a);
  body.Line("shr.u32 {0}, {0}, 7;", b);
  body.Begin(a, b);
  body.Statements(kernel.body, "0xffffffff");
  body.StoreResults();
  body.Line("ret;");
  return text +
         ".visible .entry kernel(.param .u64 out, .param .u64 "
         "sums, .param .u64 own)\n{\n"
         "  .reg .b64 %mine, %sums, %cell;\n"
         "  .reg .b32 %thread, %global;\n" +
         body.Text() + "}\n";
}

}  // namespace carillon::sim::differential

#include "sim/exec/op_test_util.h"

#include <gtest/gtest.h>

#include <random>
#include <span>
#include <utility>

#include "base/status.h"
#include "fmt/format.h"
#include "sim/exec/operations/handlers.h"
#include "sim/lower/lower.h"

namespace carillon::sim {
namespace {

constexpr uint32_t kBlock = 2 * kLanes;
constexpr uint64_t kUntouched = 0xa5a5'a5a5'a5a5'a5a5;

uint32_t BitsOf(char letter) {
  return letter == 'p' ? 1 : letter == 'h' ? 16 : letter == 'w' ? 32 : 64;
}
uint64_t Cut(uint64_t value, uint32_t bits) {
  return bits == 64 ? value : value & ((uint64_t{1} << bits) - 1);
}
std::string RegisterType(char letter) {
  return letter == 'p' ? "pred" : fmt::format("b{}", BitsOf(letter));
}
// What lane `tid` of a block has in its registers before the instruction.
uint64_t Untouched(char letter, size_t tid) {
  return letter == 'p' ? tid >> 1 & 1 : Cut(kUntouched, BitsOf(letter));
}

// Replaces "%3" by the register of operand 3. `first` is the register that
// stands for %0.
std::string WithRegisters(std::string_view text, size_t first) {
  std::string to;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool operand = text[i] == '%' && i + 1 < text.size() &&
                         text[i + 1] >= '0' && text[i + 1] <= '9';
    if (!operand) {
      to += text[i];
    } else if (text[++i] == '0') {
      to += fmt::format("%v{}", first);
    } else {
      to += fmt::format("%v{}", text[i]);
    }
  }
  return to;
}

std::string Guarded(const std::string& text) {
  std::string to = "@!%skip ";
  for (size_t i = 0; i < text.size(); ++i) {
    to += text[i];
    if (text[i] == ';' && i + 1 != text.size()) to += " @!%skip ";
  }
  return to;
}

// Writes the kernel `name`, whose thread i executes case i of `count`. Every
// second thread may skip the instructions.
std::string Kernel(std::string_view name, const Form& form, size_t first,
                   size_t count, bool branch, bool guard) {
  const std::string letters = form.results + form.sources;
  std::string text = fmt::format(
      ".visible .entry {}(.param .u64 from, .param .u64 to) {{\n"
      ".reg .b32 %thread, %cta, %i, %bit;\n.reg .b64 %at, %in, %out, "
      "%scratch;\n"
      ".reg .pred %skip, %untouched;\n",
      name);
  for (size_t v = 0; v < letters.size(); ++v) {
    text += fmt::format(".reg .{} %v{};\n", RegisterType(letters[v]), v);
  }
  text += fmt::format(
      "mov.u32 %thread, %tid.x;\nmov.u32 %cta, %ctaid.x;\n"
      "mad.lo.s32 %i, %cta, {}, %thread;\nmul.wide.u32 %at, %i, 8;\n"
      "ld.param.u64 %in, [from];\nadd.s64 %in, %in, %at;\n"
      "ld.param.u64 %out, [to];\nadd.s64 %out, %out, %at;\n"
      "and.b32 %bit, %thread, 2;\nsetp.ne.s32 %untouched, %bit, 0;\n"
      "and.b32 %bit, %thread, 1;\nsetp.ne.s32 %skip, %bit, 0;\n",
      kBlock);
  const size_t results = form.results.size();
  text += fmt::format("add.s64 %scratch, %out, {};\n", results * count * 8);
  for (size_t v = 0; v < letters.size(); ++v) {
    const std::string type = RegisterType(letters[v]);
    const size_t offset = (v - results) * count * 8;
    if (v < results) {
      text += letters[v] == 'p' ? fmt::format("mov.pred %v{}, %untouched;\n", v)
                                : fmt::format("mov.{} %v{}, {:#x};\n", type, v,
                                              Untouched(letters[v], 0));
    } else if (letters[v] == 'p') {
      text += fmt::format(
          "ld.global.b32 %bit, [%in+{}];\nsetp.ne.s32 %v{}, %bit, 0;\n", offset,
          v);
    } else {
      text += fmt::format("ld.global.{} %v{}, [%in+{}];\n", type, v, offset);
    }
  }
  std::string body = WithRegisters(form.text, first);
  if (branch) body = "@%skip bra AFTER;\n" + body + "\nAFTER:";
  text += (guard ? Guarded(body) : body) + "\n";
  for (size_t v = 0; v < results; ++v) {
    const size_t from = v == 0 ? first : v;
    if (letters[v] == 'p') {
      text += fmt::format(
          "selp.b32 %bit, 1, 0, %v{};\nst.global.b32 [%out+{}], %bit;\n", from,
          v * count * 8);
    } else {
      text += fmt::format("st.global.{} [%out+{}], %v{};\n",
                          RegisterType(letters[v]), v * count * 8, from);
    }
  }
  return text + "ret;\n}\n";
}

}  // namespace

absl::Status Bench::Load(std::string_view text, const LowerOptions& lower) {
  ASSIGN_OR_RETURN(
      auto module,
      ptx::ParseModule(
          fmt::format(".version 8.0 .target sm_80 .address_size 64\n{}", text),
          "test.ptx"));
  auto program = Lower(std::make_shared<const ptx::Module>(std::move(module)),
                       &memory_, lower);
  if (!program.ok()) return program.status();
  program_ = *std::move(program);
  for (const ProgramFunction& function : program_->functions) {
    if (!function.refused.empty()) {
      return absl::UnimplementedError(function.refused);
    }
  }
  return absl::OkStatus();
}

void Bench::Use(bool x86_64_v3) {
  // The program was made as a mutable one.
  auto& program = const_cast<Program&>(*program_);
  for (size_t i = 0; i < program.ops.size(); ++i) {
    if (program.ops[i].handler == nullptr) continue;
    const Semantics& semantics = program.info[i].semantics;
    program.ops[i].handler = x86_64_v3 ? x86_64_v3::FindHandler(semantics)
                                       : baseline::FindHandler(semantics);
  }
}

absl::StatusOr<FunctionalGpu::Result> Bench::Run(
    std::string_view kernel, Dim3 grid, Dim3 block,
    const std::vector<uint64_t>& parameters) {
  Launch launch{.program = program_.get(),
                .kernel = program_->FindEntry(kernel),
                .grid = grid,
                .block = block,
                .dynamic_shared_bytes = dynamic_shared_bytes,
                .id = 77};
  if (launch.kernel == nullptr) return absl::NotFoundError(std::string(kernel));
  const auto bytes = std::as_bytes(std::span(parameters));
  launch.parameters.assign(bytes.begin(), bytes.end());
  PrintBuffer buffer;
  options.printed = &buffer;
  const auto result = FunctionalGpu(&memory_, options).Run(launch);
  printed = buffer.Take();
  return result;
}

std::string Refusal(const Form& form) {
  Bench bench;
  return std::string(
      bench.Load(Kernel("k", form, 0, 64, false, false)).message());
}

std::vector<Values> Outputs(const Form& form,
                            const std::vector<Values>& cases) {
  SCOPED_TRACE(form.text);
  const size_t count = (cases.size() + kBlock - 1) / kBlock * kBlock;
  const size_t results = form.results.size();
  struct Mode {
    std::string name;
    bool all = true;  // lanes are active
  };
  std::vector<Mode> modes = {{"all"}, {"branch", false}};
  std::string text = Kernel("all", form, 0, count, false, false) +
                     Kernel("branch", form, 0, count, true, false);
  // Text with declarations or with guards of its own cannot take a guard.
  if (form.text.find('@') == std::string::npos &&
      form.text.find(".reg") == std::string::npos) {
    modes.push_back({"guard", false});
    text += Kernel("guard", form, 0, count, false, true);
  }
  // A later instruction may still want the source.
  const bool single = form.text.find(';') == form.text.size() - 1;
  for (size_t s = 0; s < form.sources.size() && single; ++s) {
    if (form.sources[s] != form.results[0]) continue;
    modes.push_back({fmt::format("over{}", results + s)});
    text += Kernel(modes.back().name, form, results + s, count, false, false);
  }
  Bench bench;
  const absl::Status loaded = bench.Load(text);
  EXPECT_TRUE(loaded.ok()) << loaded;
  std::vector<Values> outputs(cases.size(), Values(results));
  if (!loaded.ok()) return outputs;
  const DeviceAddress in = bench.Allocate(form.sources.size() * count * 8 + 8);
  const DeviceAddress out = bench.Allocate((results + 1) * count * 8);
  const auto sources = bench.At<uint64_t>(in, form.sources.size() * count);
  for (size_t i = 0; i < count; ++i) {
    for (size_t s = 0; s < form.sources.size(); ++s) {
      sources[s * count + i] = cases[i % cases.size()][s];
    }
  }
  bool first = true;
  int wrong = 0;
  for (const bool v3 : {false, true}) {
    if (v3 && !HasX86_64V3()) continue;
    bench.Use(v3);
    for (const Mode& mode : modes) {
      const auto values = bench.At<uint64_t>(out, results * count);
      std::fill(values.begin(), values.end(), 0);
      const auto ran =
          bench.Run(mode.name, {static_cast<uint32_t>(count / kBlock), 1, 1},
                    {kBlock, 1, 1}, {in, out});
      EXPECT_TRUE(ran.ok()) << ran.status();
      for (size_t i = 0; i < cases.size(); ++i) {
        for (size_t r = 0; r < results; ++r) {
          const uint64_t value = values[r * count + i];
          if (first) outputs[i][r] = value;
          const bool active = mode.all || i % 2 == 0;
          const uint64_t expected =
              active ? outputs[i][r] : Untouched(form.results[r], i % kBlock);
          if (value == expected || wrong >= 4) continue;
          ++wrong;
          ADD_FAILURE() << fmt::format(
              "{}, {}: case {} has {:#x} in result {}, not {:#x} as {}",
              v3 ? "x86-64-v3" : "baseline", mode.name, i, value, r, expected,
              active ? "before" : "an inactive lane");
        }
      }
      first = false;
    }
  }
  return outputs;
}

void ExpectOutputs(const Form& form, const std::vector<Values>& cases,
                   const Reference& reference, const Same& same) {
  const std::vector<Values> outputs = Outputs(form, cases);
  int wrong = 0;
  for (size_t i = 0; i < cases.size() && wrong < 4; ++i) {
    const Values expected = reference(cases[i]);
    for (size_t r = 0; r < form.results.size(); ++r) {
      if (same ? same(outputs[i][r], expected[r])
               : outputs[i][r] == expected[r]) {
        continue;
      }
      ++wrong;
      std::string sources;
      for (const uint64_t value : cases[i]) {
        sources += fmt::format(" {:#x}", value);
      }
      ADD_FAILURE() << fmt::format("{} of{}: result {} is {:#x}, not {:#x}",
                                   form.text, sources, r, outputs[i][r],
                                   expected[r]);
    }
  }
}

std::vector<Values> Crossed(const std::vector<Values>& of_sources) {
  std::vector<Values> cases = {{}};
  for (const Values& values : of_sources) {
    std::vector<Values> longer;
    for (const Values& before : cases) {
      for (const uint64_t value : values) {
        longer.push_back(before);
        longer.back().push_back(value);
      }
    }
    cases = std::move(longer);
  }
  return cases;
}

Values IntegerEdges(uint32_t bits) {
  if (bits == 1) return {0, 1};
  Values edges;
  const uint64_t top = uint64_t{1} << (bits - 1);
  for (const uint64_t value : {uint64_t{0},
                               uint64_t{1},
                               uint64_t{2},
                               uint64_t{7},
                               top - 1,
                               top,
                               top + 1,
                               ~uint64_t{0},
                               ~uint64_t{0} - 1,
                               uint64_t{1} << bits / 2,
                               (uint64_t{1} << bits / 2) - 1,
                               (uint64_t{1} << bits / 2) + 1,
                               uint64_t{0x8000},
                               uint64_t{0x7f},
                               uint64_t{0x80},
                               uint64_t{0xff},
                               0 - uint64_t{0x80},
                               0 - uint64_t{0x81},
                               uint64_t{0x800000},
                               uint64_t{31},
                               uint64_t{32},
                               uint64_t{33},
                               uint64_t{63},
                               uint64_t{64}}) {
    edges.push_back(Cut(value, bits));
  }
  return edges;
}

Values FloatEdges(uint32_t bits) {
  const uint32_t digits = bits == 16 ? 10 : bits == 32 ? 23 : 52;
  const uint64_t sign = uint64_t{1} << (bits - 1);
  const uint64_t infinity = Cut(sign - 1, bits) >> digits << digits;
  const uint64_t one = (infinity >> 1) >> digits << digits;
  const uint64_t step = uint64_t{1} << digits;
  Values edges;
  for (const uint64_t value :
       {uint64_t{0}, uint64_t{1}, step - 1, step, step + 1, one, one + 1,
        one - 1, one + step, one - step, one + step / 2, one + step + step / 2,
        one + digits * step, one + (digits + 1) * step + 1, infinity - 1,
        infinity - step, infinity - 2 * step, infinity}) {
    edges.push_back(value);
    edges.push_back(value | sign);
  }
  edges.push_back(infinity | step / 2);             // a NaN
  edges.push_back(infinity | sign | 5 | step / 2);  // one with a payload
  edges.push_back(infinity | 1);                    // one that signals
  return edges;
}

namespace {

std::vector<Values> RandomCases(const std::vector<uint32_t>& bits, size_t count,
                                bool floats) {
  std::vector<Values> cases;
  std::mt19937_64 generator(20);
  for (size_t n = 0; n < count; ++n) {
    Values values;
    const uint64_t exponents = generator();
    for (const uint32_t b : bits) {
      uint64_t value = generator();
      if (floats && n % 2 != 0 && b > 16) {
        // All within a few powers of two.
        const uint32_t digits = b == 32 ? 23 : 52;
        const uint64_t keep = Cut(~uint64_t{0}, b - 3 - digits) << (digits + 2);
        value = (value & ~keep) | (exponents & keep);
      }
      values.push_back(Cut(value, b));
    }
    cases.push_back(std::move(values));
  }
  return cases;
}

std::vector<Values> Cases(const std::vector<uint32_t>& bits, size_t random,
                          bool floats) {
  std::vector<Values> edges;
  for (const uint32_t b : bits) {
    edges.push_back(floats && b != 1 ? FloatEdges(b) : IntegerEdges(b));
  }
  return Joined(Crossed(edges), RandomCases(bits, random, floats));
}

}  // namespace

std::vector<Values> Joined(std::vector<Values> a,
                           const std::vector<Values>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}
std::vector<Values> RandomIntegers(const std::vector<uint32_t>& bits,
                                   size_t count) {
  return RandomCases(bits, count, false);
}
std::vector<Values> IntegerCases(const std::vector<uint32_t>& bits,
                                 size_t random) {
  return Cases(bits, random, false);
}
std::vector<Values> FloatCases(const std::vector<uint32_t>& bits,
                               size_t random) {
  return Cases(bits, random, true);
}

}  // namespace carillon::sim

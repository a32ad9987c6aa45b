#include "sim/ptx/registers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <set>

#include "fmt/format.h"

namespace carillon::sim::ptx {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

// Registers: 0 p, 1 q (predicates), 2..4 h0..h2, 5..12 r0..r7, 13..16 d0..d3.
constexpr char kRegisters[] =
    ".reg .pred p, q; .reg .b16 h<3>; .reg .b32 r<8>; .reg .b64 d<4>;\n";

class RegistersTest : public testing::Test {
 protected:
  const Function& Parse(const std::string& body) {
    auto module = ParseModule(
        ".version 7.5 .target sm_75 .address_size 64 .entry k() {\n" +
            std::string(kRegisters) + body + "}",
        "a.ptx");
    EXPECT_TRUE(module.ok()) << module.status();
    module_ = *std::move(module);
    flow_ = AnalyzeControlFlow(module_.functions[0]);
    plan_ = AllocateRegisters(module_.functions[0], flow_);
    return module_.functions[0];
  }
  RegisterUse Use(const std::string& instruction) {
    return UseOf(Parse(instruction).body[0]);
  }

  Module module_;
  ControlFlow flow_;
  RegisterPlan plan_;
};

TEST_F(RegistersTest, InstructionsReadAndWrite) {
  const struct {
    const char* text;
    std::vector<uint32_t> writes, reads;
  } kUses[] = {
      {"add.s32 r0, r1, r2;", {5}, {6, 7}},
      {"@p add.s32 r0, r1, 4;", {5}, {0, 5, 6}},  // the old value may stay
      {"st.global.u32 [d0+4], r1;", {}, {13, 6}},
      {"ld.global.v2.u32 {r0, r1}, [d1];", {5, 6}, {14}},
      {"ld.global.v2.u32 {_, r1}, [r2];", {6}, {7}},
      {"st.shared.v2.u32 [r2], {r0, r1};", {}, {5, 6, 7}},
      {"atom.global.cas.b32 r0, [d0], r1, r2;", {5}, {6, 7, 13}},
      {"red.global.add.u32 [d0], r1;", {}, {6, 13}},
      {"setp.lt.and.s32 p|q, r0, r1, p;", {0, 1}, {0, 5, 6}},
      {"mov.b64 {r0, r1}, d0;", {5, 6}, {13}},
      {"shfl.sync.up.b32 r0|p, r1, r2, r3, r4;", {0, 5}, {6, 7, 8, 9}},
      {"bar.sync r0, r1;", {}, {5, 6}},
      {"bar.red.popc.u32 r0, r1, !p;", {5}, {0, 6}},
      {"bar.arrive r0, r1;", {}, {5, 6}},
      {"bar.warp.sync r0;", {}, {5}},
      {"@p bra L; L:", {}, {0}},
      {"nanosleep.u32 r0;", {}, {5}},
      {"vote.sync.ballot.b32 r0, p, r1;", {5}, {0, 6}},
      {"prefetch.global.L1 [d0];", {}, {13}},
      {"membar.sys;", {}, {}},
  };
  for (const auto& use : kUses) {
    const RegisterUse found = Use(use.text);
    EXPECT_THAT(found.writes, testing::UnorderedElementsAreArray(use.writes))
        << use.text;
    EXPECT_THAT(std::set<uint32_t>(found.reads.begin(), found.reads.end()),
                testing::UnorderedElementsAreArray(use.reads))
        << use.text;
  }
}

TEST_F(RegistersTest, ARegisterIsLiveUntilItIsReadForTheLastTime) {
  Parse(
      "mov.b32 r0, 1; mov.b32 r1, 2; add.s32 r2, r0, r1;\n"
      "st.global.u32 [d0], r2;");
  EXPECT_THAT(plan_.live[0], UnorderedElementsAre(13));
  EXPECT_THAT(plan_.live[1], UnorderedElementsAre(5, 13));
  EXPECT_THAT(plan_.live[2], UnorderedElementsAre(5, 6, 13));
  EXPECT_THAT(plan_.live[3], UnorderedElementsAre(7, 13));
  EXPECT_EQ(plan_.pressure, 4u);  // d0 is two
}

TEST_F(RegistersTest, PlacesAreUsedAgain) {
  Parse(
      "mov.b32 r0, 1; st.global.u32 [d0], r0; mov.b32 r1, 1;\n"
      "st.global.u32 [d0], r1; mov.b32 r2, 1; st.global.u32 [d0], r2;");
  EXPECT_EQ(plan_.place[5], plan_.place[6]);
  EXPECT_EQ(plan_.place[6], plan_.place[7]);
  EXPECT_THAT(plan_.count, ElementsAre(0, 0, 1, 1, 0));
  Parse("ret;");
  EXPECT_EQ(plan_.pressure, 0u);
  EXPECT_THAT(plan_.live[0], IsEmpty());
}

TEST_F(RegistersTest, WhatALoopReadsIsLiveInAllOfIt) {
  Parse(
      "mov.b32 r0, 1; LOOP: mov.b32 r1, 2; st.global.u32 [d0], r1;\n"
      "@p bra LOOP; st.global.u32 [d0], r0;");
  for (const size_t i : {1, 2, 3, 4}) {
    EXPECT_THAT(plan_.live[i], testing::Contains(5u)) << i;
  }
  EXPECT_NE(plan_.place[5], plan_.place[6]);
}

// --- Random functions, and liveness by its definition: a path leads to an
// instruction that reads the register, and no instruction on it writes the
// register.

std::string RandomBody(std::mt19937& random) {
  const uint32_t count = 5 + random() % 30;
  std::string body;
  const auto r = [&] { return random() % 8; };
  const auto d = [&] { return random() % 4; };
  for (uint32_t i = 0; i < count; ++i) {
    body += fmt::format("L{}: ", i);
    if (random() % 6 == 0) body += random() % 2 == 0 ? "@p " : "@!q ";
    switch (random() % 10) {
      case 0:
        body += fmt::format("bra L{};\n", random() % count);
        break;
      case 1:
        body += fmt::format("st.global.u32 [d{}], r{};\n", d(), r());
        break;
      case 2:
        body += fmt::format("setp.eq.s32 {}, r{}, r{};\n",
                            random() % 2 == 0 ? "p" : "q|p", r(), r());
        break;
      case 3:
        body += fmt::format("mov.b64 {{r{}, r{}}}, d{};\n", r(), r(), d());
        break;
      case 4:
        body += fmt::format("cvt.u64.u16 d{}, h{};\n", d(), random() % 3);
        break;
      case 5:
        body += fmt::format("cvt.u16.u32 h{}, r{};\n", random() % 3, r());
        break;
      case 6:
        body += random() % 3 == 0 ? "ret;\n" : "membar.gl;\n";
        break;
      default:
        body +=
            fmt::format("mad.lo.s32 r{}, r{}, r{}, r{};\n", r(), r(), r(), r());
    }
  }
  return body + "ret;";
}

bool Has(const std::vector<uint32_t>& all, uint32_t one) {
  return std::find(all.begin(), all.end(), one) != all.end();
}

class NaiveLiveness {
 public:
  NaiveLiveness(const Function& function, const ControlFlow& flow) {
    for (const Instruction& instruction : function.body) {
      uses_.push_back(UseOf(instruction));
    }
    for (uint32_t i = 0; i < uses_.size(); ++i) {
      const BasicBlock& block = flow.blocks[flow.block_of[i]];
      next_.emplace_back();
      if (i + 1 < block.end) {
        next_.back().push_back(i + 1);
      } else {
        for (const uint32_t to : block.successors) {
          next_.back().push_back(flow.blocks[to].begin);
        }
      }
    }
  }
  bool LiveBefore(uint32_t reg, uint32_t instruction) const {
    std::set<uint32_t> seen{instruction};
    std::vector<uint32_t> left{instruction};
    while (!left.empty()) {
      const uint32_t i = left.back();
      left.pop_back();
      if (Has(uses_[i].reads, reg)) return true;
      if (Has(uses_[i].writes, reg)) continue;
      for (const uint32_t to : next_[i]) {
        if (seen.insert(to).second) left.push_back(to);
      }
    }
    return false;
  }
  bool LiveAfter(uint32_t reg, uint32_t instruction) const {
    for (const uint32_t to : next_[instruction]) {
      if (LiveBefore(reg, to)) return true;
    }
    return false;
  }
  const RegisterUse& use(uint32_t i) const { return uses_[i]; }

 private:
  std::vector<RegisterUse> uses_;
  std::vector<std::vector<uint32_t>> next_;
};

uint32_t Units(Type type) {
  return type == Type::kPred ? 0 : BytesOf(type) == 8 ? 2 : 1;
}

TEST_F(RegistersTest, LiveRegistersHavePlacesOfTheirOwn) {
  std::mt19937 random(11);
  for (int round = 0; round < 400; ++round) {
    const std::string body = RandomBody(random);
    const Function& function = Parse(body);
    const NaiveLiveness naive(function, flow_);
    uint32_t pressure = 0;
    for (uint32_t i = 0; i < function.body.size(); ++i) {
      std::set<uint32_t> before, after;
      for (uint32_t reg = 0; reg < function.registers.size(); ++reg) {
        if (naive.LiveBefore(reg, i)) before.insert(reg);
        // A result needs its place, even if nobody reads it.
        if (naive.LiveAfter(reg, i) || Has(naive.use(i).writes, reg)) {
          after.insert(reg);
        }
      }
      ASSERT_EQ(std::set<uint32_t>(plan_.live[i].begin(), plan_.live[i].end()),
                before)
          << i << "\n"
          << body;
      // Sources and results conflict, too: a result may be written before all
      // sources are read.
      std::set<uint32_t> both = before;
      both.insert(after.begin(), after.end());
      std::set<std::pair<RegisterClass, uint32_t>> places;
      for (const uint32_t reg : both) {
        const RegisterClass kind = ClassOf(function.registers[reg].type);
        ASSERT_TRUE(places.emplace(kind, plan_.place[reg]).second)
            << "register " << reg << " at " << i << "\n"
            << body;
        ASSERT_LT(plan_.place[reg], plan_.count[static_cast<size_t>(kind)]);
      }
      for (const std::set<uint32_t>* live : {&before, &after}) {
        uint32_t units = 0;
        for (const uint32_t reg : *live) {
          units += Units(function.registers[reg].type);
        }
        pressure = std::max(pressure, units);
      }
    }
    ASSERT_EQ(plan_.pressure, pressure) << body;
  }
}

}  // namespace
}  // namespace carillon::sim::ptx

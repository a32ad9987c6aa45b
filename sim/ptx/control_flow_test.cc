#include "sim/ptx/control_flow.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <set>

#include "fmt/format.h"

namespace carillon::sim::ptx {
namespace {

using testing::ElementsAre;
using testing::UnorderedElementsAre;

class ControlFlowTest : public testing::Test {
 protected:
  const ControlFlow& Analyze(const std::string& body) {
    auto module = ParseModule(
        ".version 7.5 .target sm_75 .address_size 64 .entry k() {\n"
        ".reg .pred p, q; .reg .b32 r; .reg .b32 idx;\n" +
            body + "}",
        "a.ptx");
    EXPECT_TRUE(module.ok()) << module.status();
    module_ = *std::move(module);
    flow_ = AnalyzeControlFlow(module_.functions[0]);
    return flow_;
  }
  std::vector<uint32_t> PostDominators() const {
    std::vector<uint32_t> all;
    for (const BasicBlock& block : flow_.blocks) {
      all.push_back(block.immediate_post_dominator);
    }
    return all;
  }

  Module module_;
  ControlFlow flow_;
};

TEST_F(ControlFlowTest, AFunctionWithoutBranchesIsOneBlock) {
  Analyze("mov.b32 r, 1; mov.b32 r, 2; ret;");
  ASSERT_EQ(flow_.blocks.size(), 1u);
  EXPECT_EQ(flow_.blocks[0].begin, 0u);
  EXPECT_EQ(flow_.blocks[0].end, 3u);
  EXPECT_THAT(PostDominators(), ElementsAre(kNoBlock));
  EXPECT_TRUE(Analyze("").blocks.empty());
}

TEST_F(ControlFlowTest, IfAndElseMeetBehindBoth) {
  Analyze(
      "@p bra THEN; mov.b32 r, 1; bra JOIN; THEN: mov.b32 r, 2;\n"
      "JOIN: ret;");
  EXPECT_THAT(PostDominators(), ElementsAre(3, 3, 3, kNoBlock));
  EXPECT_THAT(flow_.blocks[0].successors, UnorderedElementsAre(1, 2));
  EXPECT_THAT(flow_.blocks[3].predecessors, UnorderedElementsAre(1, 2));
  EXPECT_EQ(flow_.MeetingPoint(0), 4u);  // the instruction
  EXPECT_THAT(flow_.block_of, ElementsAre(0, 1, 1, 2, 3));
}

TEST_F(ControlFlowTest, ALoopIsLeftBehindIt) {
  Analyze("mov.b32 r, 0; LOOP: mov.b32 r, 1; @p bra LOOP; ret;");
  EXPECT_THAT(PostDominators(), ElementsAre(1, 2, kNoBlock));
  EXPECT_THAT(flow_.blocks[1].successors, UnorderedElementsAre(1, 2));
}

TEST_F(ControlFlowTest, LoopsWithinLoops) {
  // 0; OUTER 1: leave to DONE 5; INNER 2: leave to NEXT 4; 3 back to INNER;
  // NEXT back to OUTER.
  Analyze(
      "mov.b32 r, 0; OUTER: @p bra DONE; INNER: @q bra NEXT;\n"
      "mov.b32 r, 1; bra INNER; NEXT: bra OUTER; DONE: ret;");
  EXPECT_THAT(PostDominators(), ElementsAre(1, 5, 4, 2, 1, kNoBlock));
}

TEST_F(ControlFlowTest, AChainLikeASwitchMeetsBehindAllOfIt) {
  Analyze(
      "@p bra A; @q bra B; bra C; A: mov.b32 r, 1; bra END;\n"
      "B: mov.b32 r, 2; C: mov.b32 r, 3; END: ret;");
  // Blocks: 0 @p, 1 @q, 2 bra C, 3 A, 4 B, 5 C, 6 END.
  EXPECT_THAT(PostDominators(), ElementsAre(6, 5, 5, 6, 5, 6, kNoBlock));
}

TEST_F(ControlFlowTest, SeveralReturnsHaveNothingInCommon) {
  Analyze("@p bra A; @q bra B; ret; A: exit; B: mov.b32 r, 1; trap;");
  EXPECT_THAT(PostDominators(),
              ElementsAre(kNoBlock, kNoBlock, kNoBlock, kNoBlock, kNoBlock));
}

TEST_F(ControlFlowTest, AGuardedReturnIsNoEndForTheOthers) {
  Analyze("@p bra A; @q ret; A: mov.b32 r, 1; ret;");
  EXPECT_THAT(PostDominators(), ElementsAre(2, 2, kNoBlock));
}

TEST_F(ControlFlowTest, ALoopWithoutEndHasMeetingPointsOfItsOwn) {
  // 0; LOOP 1: two sides, 2 and 3, meet in 4, which goes back.
  Analyze(
      "mov.b32 r, 0; LOOP: @p bra A; mov.b32 r, 1; bra B;\n"
      "A: mov.b32 r, 2; B: mov.b32 r, 3; bra LOOP;");
  EXPECT_THAT(PostDominators(), ElementsAre(1, 4, 4, 4, kNoBlock));
  // Beside a loop with an exit: blocks that can reach the end meet there.
  Analyze(
      "@p bra STUCK; mov.b32 r, 1; bra DONE; STUCK: bra STUCK;\n"
      "DONE: ret;");
  EXPECT_THAT(PostDominators(), ElementsAre(1, 3, kNoBlock, kNoBlock));
}

TEST_F(ControlFlowTest, ALabelBehindTheLastInstructionIsTheEnd) {
  Analyze("@p bra DONE; mov.b32 r, 1; DONE:");
  EXPECT_THAT(PostDominators(), ElementsAre(1, kNoBlock));
  EXPECT_THAT(flow_.blocks[0].successors, ElementsAre(1));
}

TEST_F(ControlFlowTest, TheDrawingHasBlocksAndEdges) {
  Analyze("@p bra A; mov.b32 r, 1; A: ret;");
  const std::string dot = ToDot(module_, module_.functions[0], flow_);
  EXPECT_THAT(dot, testing::HasSubstr("b0 [label=\"3: @ bra A\\l\"]"));
  EXPECT_THAT(dot, testing::HasSubstr("b0 -> b2;"));
  EXPECT_THAT(dot, testing::HasSubstr("b0 -> b2 [style=dashed"));
}

// --- Random graphs, and post-dominance by its definition.

class Naive {
 public:
  explicit Naive(const ControlFlow& flow) : blocks_(flow.blocks) {
    for (uint32_t b = 0; b < blocks_.size(); ++b) {
      if (blocks_[b].successors.empty()) ends_.insert(b);
    }
    for (;;) {
      uint32_t stuck = kNoBlock;
      for (uint32_t b = 0; b < blocks_.size(); ++b) {
        if (!Reaches(b, kNoBlock)) stuck = b;
      }
      if (stuck == kNoBlock) return;
      // Note only the first such block: others are apart from those that reach
      // a real end.
      for (uint32_t b = 0; b < blocks_.size() && !found_stuck_; ++b) {
        if (!Reaches(b, kNoBlock)) stuck_.insert(b);
      }
      found_stuck_ = true;
      ends_.insert(stuck);
    }
  }
  // Whether a path from here to an end avoids this block.
  bool Reaches(uint32_t from, uint32_t avoided) const {
    std::set<uint32_t> seen{from};
    std::vector<uint32_t> left{from};
    while (!left.empty()) {
      const uint32_t b = left.back();
      left.pop_back();
      if (b == avoided) continue;
      if (ends_.contains(b)) return true;
      for (const uint32_t to : blocks_[b].successors) {
        if (stuck_.contains(to) == stuck_.contains(from) &&
            seen.insert(to).second) {
          left.push_back(to);
        }
      }
    }
    return false;
  }
  // Among the blocks on all paths, the one that comes before all others.
  uint32_t ImmediatePostDominator(uint32_t block) const {
    std::vector<uint32_t> all;
    for (uint32_t b = 0; b < blocks_.size(); ++b) {
      if (b != block && !Reaches(block, b)) all.push_back(b);
    }
    for (const uint32_t candidate : all) {
      bool first = true;
      for (const uint32_t other : all) {
        if (other != candidate && Reaches(candidate, other)) first = false;
      }
      if (first) return candidate;
    }
    return kNoBlock;
  }
  bool HasStuck() const { return found_stuck_; }

 private:
  const std::vector<BasicBlock>& blocks_;
  std::set<uint32_t> ends_;
  std::set<uint32_t> stuck_;
  bool found_stuck_ = false;
};

TEST_F(ControlFlowTest, PostDominatorsAreThoseOfTheDefinition) {
  std::mt19937 random(7);
  int stuck = 0;
  for (int round = 0; round < 2000; ++round) {
    const uint32_t count = 2 + random() % 12;
    std::string body;
    for (uint32_t b = 0; b < count; ++b) {
      body += fmt::format("B{}: mov.b32 r, {};\n", b, b);
      switch (random() % 5) {
        case 0:
          body += fmt::format("bra B{};\n", random() % count);
          break;
        case 1:
        case 2:
          body += fmt::format("@p bra B{};\n", random() % count);
          break;
        case 3:
          if (random() % 3 == 0) body += "ret;\n";
          break;
        default:
          break;
      }
    }
    Analyze(body + "ret;");
    const Naive naive(flow_);
    stuck += naive.HasStuck() ? 1 : 0;
    for (uint32_t b = 0; b < flow_.blocks.size(); ++b) {
      ASSERT_EQ(flow_.blocks[b].immediate_post_dominator,
                naive.ImmediatePostDominator(b))
          << "block " << b << " of\n"
          << body;
    }
  }
  EXPECT_GT(stuck, 100);
}

}  // namespace
}  // namespace carillon::sim::ptx

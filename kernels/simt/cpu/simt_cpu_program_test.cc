// Random programs of barriers, warp operations and early exits, run by a
// barrier kernel and by a reference that keeps all threads in lockstep.
#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <random>
#include <vector>

#include "kernels/simt/kernel_test_util.h"
#include "kernels/simt/simt.h"
#include "kernels/simt/simt_surface.cuh"

namespace carillon::simt {
namespace {

// All threads in lockstep, one operation at a time.
class Reference {
 public:
  explicit Reference(uint32_t threads)
      : live_(threads, true), r_(threads), shared_(threads) {
    for (uint32_t i = 0; i < threads; ++i) {
      r_[i] = Mix(i, 1);
      shared_[i] = i;
    }
  }

  std::vector<uint64_t> Run(const std::vector<Op>& program) {
    for (const Op& op : program) Step(op);
    std::vector<uint64_t> result(r_.size());
    for (uint32_t i = 0; i < r_.size(); ++i) result[i] = live_[i] ? r_[i] : 0;
    return result;
  }

 private:
  // The value that thread i reads from `lane` of its warp among `mask`.
  uint64_t Read(const std::vector<uint64_t>& values, uint32_t i,
                std::optional<uint32_t> lane, uint32_t mask = ~0u) const {
    if (!lane.has_value() || *lane >= 32) return values[i];
    const uint32_t source = i / 32 * 32 + *lane;
    const bool there =
        source < r_.size() && live_[source] && ((mask >> *lane) & 1) != 0;
    return there ? values[source] : values[i];
  }
  // Bits of the live lanes of i's warp that satisfy the predicate.
  template <class Predicate>
  uint32_t Votes(const std::vector<uint64_t>& values, uint32_t i,
                 Predicate predicate) const {
    uint32_t votes = 0;
    for (uint32_t lane = 0; lane < 32; ++lane) {
      const uint32_t j = i / 32 * 32 + lane;
      if (j < r_.size() && live_[j] && predicate(values[j])) {
        votes |= 1u << lane;
      }
    }
    return votes;
  }

  void Step(const Op& op) {
    const std::vector<uint64_t> before = r_;
    const auto threads = static_cast<uint32_t>(r_.size());
    if (op.kind == kRotate) {
      for (uint32_t i = 0; i < threads; ++i) {
        if (live_[i]) shared_[i] = before[i];
      }
    }
    for (uint32_t i = 0; i < threads; ++i) {
      if (!live_[i]) continue;
      const uint32_t lane = i % 32;
      const uint64_t r = before[i];
      const auto all = [](uint64_t) { return true; };
      switch (op.kind) {
        case kMix:
          r_[i] = Mix(r, op.a + i);
          break;
        case kRotate:
          r_[i] = Mix(shared_[(i + op.a) % threads], r);
          break;
        case kShfl:
          r_[i] = Mix(Read(before, i, (lane * op.a + op.b) % 32), r);
          break;
        case kShflDown:
          r_[i] = Mix(Read(before, i, lane + Distance(op, lane)), r);
          break;
        case kShflUp: {
          std::optional<uint32_t> source;
          if (Distance(op, lane) <= lane) source = lane - Distance(op, lane);
          r_[i] = Mix(Read(before, i, source), r);
          break;
        }
        case kShflXor:
          r_[i] = Mix(
              static_cast<uint32_t>(Read(before, i, lane ^ (op.a % 40))), r);
          break;
        case kBallot:
          r_[i] = Mix(r, Votes(before, i, [&](uint64_t v) {
                        return (v >> (op.a % 64) & 1) != 0;
                      }));
          break;
        case kAny:
          r_[i] = Mix(r, Votes(before, i, [&](uint64_t v) {
                           return v % 32 == op.a % 32;
                         }) != 0);
          break;
        case kAll:
          r_[i] = Mix(r, Votes(before, i, [&](uint64_t v) {
                           return v % 32 != op.a % 32;
                         }) == Votes(before, i, all));
          break;
        case kParityShfl: {
          const uint32_t mask = lane % 2 == 0 ? 0x55555555 : 0xaaaaaaaa;
          r_[i] = Mix(Read(before, i, (lane + op.a) % 32, mask), r);
          break;
        }
        case kHalvesDiffer:
          if (lane < 16) {
            r_[i] = Mix(r, Votes(before, i, [](uint64_t v) {
                             return (v & 1) != 0;
                           }) & 0xffff);
          } else {
            r_[i] = Mix(Read(before, i, op.a % 32, 0xffff0000), r);
          }
          break;
      }
    }
    if (op.kind == kExit) {
      const uint32_t modulus = op.a % 7 + 2;
      for (uint32_t i = 0; i < threads; ++i) {
        if (i % modulus == op.b % modulus) live_[i] = false;
      }
    }
  }

  std::vector<bool> live_;
  std::vector<uint64_t> r_;
  std::vector<uint64_t> shared_;
};

TEST(BarrierKernel, RandomProgramsAgreeWithLockstepExecution) {
  std::mt19937 random(20250607);
  const std::vector<uint32_t> sizes{1,  2,  31, 32,  33,  40,  63,
                                    64, 65, 96, 100, 256, 500, 1024};
  for (int round = 0; round < 600; ++round) {
    const uint32_t threads = sizes[random() % sizes.size()];
    std::vector<Op> program(1 + random() % 12);
    for (Op& op : program) {
      op = {static_cast<uint32_t>(random() % kKinds),
            static_cast<uint32_t>(random() % 1000),
            static_cast<uint32_t>(random() % 1000)};
    }
    std::vector<uint64_t> result(threads);
    const GridResult run =
        RunGrid(run_program_info, {}, {threads, 1, 1},
                ProgramArgs{ReadOnly(program), Writable(result)},
                {.extra_shared_bytes = threads * 8});
    ASSERT_EQ(run.status, kFailNone) << run.message;
    ASSERT_EQ(result, Reference(threads).Run(program))
        << "round " << round << ", " << threads << " threads";
  }
}

}  // namespace
}  // namespace carillon::simt

#include "kernels/background/cutcp.cuh"

#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <vector>

#include "kernels/background/references.h"
#include "kernels/simt/kernel_test_util.h"

namespace carillon::kernels {
namespace {

using simt::Dim3;
using simt::ReadOnly;
using simt::RunGrid;
using simt::Writable;

const Dim3 kBlock{8, 8, 2};
constexpr float kSpacing = 0.5f;
constexpr float kSide = kSpacing * kCutcpBin;

// Some places of each bin have an atom.
std::vector<CutcpAtom> RandomAtoms(const Dim3& bins, uint32_t capacity) {
  std::mt19937 random(bins.x + capacity);
  const auto within = [&random](uint32_t bin) {
    return (static_cast<float>(bin) +
            static_cast<float>(random() % 1000) / 1000) *
           kSide;
  };
  std::vector<CutcpAtom> atoms;
  for (uint32_t z = 0; z < bins.z; ++z) {
    for (uint32_t y = 0; y < bins.y; ++y) {
      for (uint32_t x = 0; x < bins.x; ++x) {
        for (uint32_t i = 0; i < capacity; ++i) {
          // Not on a lattice point, where the potential has no limit.
          atoms.push_back({within(x) + 0.1003f, within(y), within(z),
                           static_cast<float>(random() % 5) - 2});
        }
      }
    }
  }
  return atoms;
}

void ExpectPotential(const Dim3& bins, uint32_t capacity, uint32_t reach,
                     float cutoff) {
  const std::vector<CutcpAtom> atoms = RandomAtoms(bins, capacity);
  std::vector<float> potential(bins.count() * 512, -99.0f);
  const CutcpArgs args{ReadOnly(atoms), Writable(potential),
                       bins.x,          bins.y,
                       bins.z,          capacity,
                       reach,           kSpacing,
                       cutoff};
  EXPECT_EQ(cutcp_info.validate({bins, kBlock}, &args), nullptr);
  ASSERT_EQ(RunGrid(cutcp_info, bins, kBlock, args, {.workers = 2}).status,
            simt::kFailNone);
  for (uint32_t i = 0; i < potential.size(); ++i) {
    const uint32_t width = bins.x * 8;
    const uint32_t height = bins.y * 8;
    const double expected = reference::CutoffPotential(
        atoms, kSpacing * (i % width), kSpacing * (i / width % height),
        kSpacing * (i / width / height), cutoff);
    // Large beside an atom.
    ASSERT_NEAR(potential[i], expected, 2e-4 * (1 + std::abs(expected))) << i;
  }
}

TEST(Cutcp, AddsUpTheChargesWithinTheCutoff) {
  ExpectPotential({1, 1, 1}, 5, 1, 3.0f);
  // Just as far as the next bin.
  ExpectPotential({4, 3, 2}, 3, 1, kSide - 0.2f);
  ExpectPotential({5, 2, 3}, 8, 2, 2 * kSide - 0.2f);
}

TEST(Cutcp, ACutoffBeyondEverythingCountsAllCharges) {
  ExpectPotential({3, 3, 2}, 4, 3, 1000.0f);
}

TEST(Cutcp, ArgumentsThatDoNotFitFailAndTouchNothing) {
  const Dim3 bins{2, 2, 1};
  const std::vector<CutcpAtom> atoms = RandomAtoms(bins, 4);
  std::vector<float> potential(4 * 512, -1.0f);
  const CutcpArgs good{
      ReadOnly(atoms), Writable(potential), 2, 2, 1, 4, 1, kSpacing, 3.0f};
  std::vector<CutcpArgs> bad(7, good);
  bad[0].atoms.size -= 1;
  bad[1].potential.size -= 1;
  bad[2].bins_x = 3;
  bad[3].bins_y = 0xffffffff;
  bad[4].bins_z = 1u << 31;
  bad[5].capacity = 129;
  bad[6].reach = 0xffffffff;
  for (size_t i = 0; i < bad.size(); ++i) {
    EXPECT_EQ(RunGrid(cutcp_info, bins, kBlock, bad[i]).status,
              simt::kFailBadArguments)
        << i;
    EXPECT_NE(cutcp_info.validate({bins, kBlock}, &bad[i]), nullptr) << i;
  }
  EXPECT_EQ(RunGrid(cutcp_info, bins, {8, 8, 1}, good).status,
            simt::kFailBadShape);
  EXPECT_NE(cutcp_info.check_shape({bins, {8, 8, 1}}), nullptr);
  EXPECT_NE(cutcp_info.validate({{2, 1, 1}, kBlock}, &good), nullptr);
  EXPECT_EQ(cutcp_info.validate({bins, kBlock}, &good), nullptr);
  EXPECT_EQ(potential, std::vector<float>(4 * 512, -1.0f));
}

}  // namespace
}  // namespace carillon::kernels

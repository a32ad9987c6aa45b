#include "kernels/narrow/tasks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <random>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "kernels/narrow/beamformer.cuh"
#include "kernels/narrow/convolution.cuh"
#include "kernels/narrow/dct.cuh"
#include "kernels/narrow/filter_bank.cuh"
#include "kernels/narrow/mandelbrot.cuh"
#include "kernels/narrow/matmul.cuh"
#include "kernels/narrow/references.h"
#include "kernels/narrow/slud.cuh"
#include "kernels/narrow/triple_des.cuh"
#include "kernels/simt/kernel_test_util.h"

namespace carillon::kernels {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr NarrowKind kKinds[] = {
    NarrowKind::kMb,   NarrowKind::kFb,        NarrowKind::kBf,
    NarrowKind::kSlud, NarrowKind::kTripleDes, NarrowKind::kDct,
    NarrowKind::kConv, NarrowKind::kMm,        NarrowKind::kMpe};

constexpr const simt::KernelInfo* kKernels[] = {
    &mandelbrot_info, &filter_bank_info,  &beam_fir_info,
    &beam_form_info,  &slud_lu0_info,     &slud_fwd_info,
    &slud_bdiv_info,  &slud_bmod_info,    &dct8x8_shared_info,
    &conv_rows_info,  &conv_columns_info, &matmul_shared_info,
    &triple_des_info};

auto Tied(const NarrowTask& task) {
  return std::tie(task.kernel, task.threads, task.width, task.height,
                  task.group, task.phase, task.row, task.column);
}

bool Same(const std::vector<NarrowTask>& a, const std::vector<NarrowTask>& b) {
  return std::ranges::equal(
      a, b, [](const auto& x, const auto& y) { return Tied(x) == Tied(y); });
}

TEST(NarrowTasks, ASeedGivesTheSameTasksAndAnotherSeedOthers) {
  for (const NarrowKind kind : kKinds) {
    const auto tasks = NarrowTasks(kind, 300, 1, NarrowSizes::kIrregular);
    EXPECT_EQ(tasks.size(), 300u);
    EXPECT_TRUE(
        Same(tasks, NarrowTasks(kind, 300, 1, NarrowSizes::kIrregular)));
    EXPECT_FALSE(
        Same(tasks, NarrowTasks(kind, 300, 2, NarrowSizes::kIrregular)));
    // The shorter run is the beginning of the longer one, but for the matrix.
    if (kind == NarrowKind::kSlud) continue;
    auto longer = NarrowTasks(kind, 333, 1, NarrowSizes::kIrregular);
    longer.resize(300);
    EXPECT_TRUE(Same(tasks, longer));
  }
}

TEST(NarrowTasks, PagodasTasksHavePagodasSizes) {
  const std::map<std::string_view, std::pair<uint32_t, uint32_t>> sizes = {
      {"mandelbrot", {64, 64}},   {"filter_bank", {2048, 1}},
      {"beam_form", {1024, 12}},  {"slud_lu0", {32, 32}},
      {"slud_fwd", {32, 32}},     {"slud_bdiv", {32, 32}},
      {"slud_bmod", {32, 32}},    {"dct8x8_shared", {128, 128}},
      {"conv_rows", {128, 128}},  {"conv_columns", {128, 128}},
      {"matmul_shared", {64, 64}}};
  std::set<std::string_view> seen;
  for (const NarrowKind kind : kKinds) {
    for (const NarrowTask& task :
         NarrowTasks(kind, 200, 3, NarrowSizes::kPagoda)) {
      EXPECT_EQ(task.threads, 128u);
      EXPECT_TRUE(std::ranges::any_of(kKernels, [&](const auto* kernel) {
        return kernel->name == task.kernel;
      })) << task.kernel;
      if (task.kernel == "triple_des") continue;
      if (task.kernel == "beam_fir") {
        EXPECT_EQ(task.width, task.phase == 3 ? 1024u : 2048u);
        continue;
      }
      ASSERT_TRUE(sizes.contains(task.kernel)) << task.kernel;
      EXPECT_EQ(std::pair(task.width, task.height), sizes.at(task.kernel));
      seen.insert(task.kernel);
    }
  }
  EXPECT_EQ(seen.size(), sizes.size());
}

TEST(NarrowTasks, PacketsHaveEachOfPagodasLengthsAboutAsOften) {
  std::map<uint32_t, uint32_t> lengths;
  constexpr uint32_t kCount = 31 * 1000;
  for (const NarrowTask& task :
       NarrowTasks(NarrowKind::kTripleDes, kCount, 4, NarrowSizes::kPagoda)) {
    ++lengths[task.width];
  }
  EXPECT_EQ(lengths.size(), 31u);
  EXPECT_EQ(lengths.begin()->first, 2048u);
  EXPECT_EQ(lengths.rbegin()->first, 63'488u);
  for (const auto& [length, count] : lengths) {
    EXPECT_EQ(length % 2048, 0u);
    EXPECT_NEAR(count, 1000, 150) << length;  // more than 4 deviations
  }
}

TEST(NarrowTasks, IrregularTasksStayInTheirBoundsAndUseThem) {
  std::map<std::string_view, std::set<uint32_t>> widths;
  std::set<uint32_t> threads;
  for (const NarrowKind kind : kKinds) {
    for (uint64_t seed = 0; seed < 40; ++seed) {
      for (const NarrowTask& task :
           NarrowTasks(kind, 60, seed, NarrowSizes::kIrregular)) {
        threads.insert(task.threads);
        widths[task.kernel].insert(task.width);
        if (task.kernel == "triple_des") {
          EXPECT_EQ(task.width % 8, 0u);
        }
      }
    }
  }
  EXPECT_THAT(threads, ElementsAre(32, 64, 96, 128, 160, 192, 224, 256));
  const auto range = [&](std::string_view kernel) {
    return std::pair(*widths[kernel].begin(), *widths[kernel].rbegin());
  };
  for (const auto& [kernel, pagoda] :
       {std::pair{"mandelbrot", 64u}, std::pair{"filter_bank", 2048u},
        std::pair{"dct8x8_shared", 128u}, std::pair{"conv_columns", 128u},
        std::pair{"matmul_shared", 64u}}) {
    const auto [least, most] = range(kernel);
    EXPECT_GE(least, pagoda / 4) << kernel;
    EXPECT_LE(most, 2 * pagoda) << kernel;
    EXPECT_LT(least, pagoda / 2) << kernel;
    EXPECT_GT(most, pagoda * 7 / 4) << kernel;
  }
  const auto [least, most] = range("triple_des");
  EXPECT_GE(least, 2048u);
  EXPECT_LE(most, 65'536u);
  EXPECT_GT(widths["slud_bmod"].size(), 10u);
}

TEST(NarrowTasks, AMixHasItsFourKernelsEquallyOften) {
  std::map<std::string_view, uint32_t> kernels;
  for (const NarrowTask& task :
       NarrowTasks(NarrowKind::kMpe, 32'768, 5, NarrowSizes::kPagoda)) {
    ++kernels[task.kernel];
  }
  EXPECT_EQ(kernels,
            (std::map<std::string_view, uint32_t>{{"triple_des", 8192},
                                                  {"mandelbrot", 8192},
                                                  {"filter_bank", 8192},
                                                  {"matmul_shared", 8192}}));
}

TEST(NarrowTasks, DependentTasksComeBehindThoseThatTheyNeed) {
  for (const NarrowKind kind : kKinds) {
    std::map<uint32_t, uint32_t> phases;
    for (const NarrowTask& task :
         NarrowTasks(kind, 500, 6, NarrowSizes::kIrregular)) {
      EXPECT_GE(task.phase, phases[task.group]) << task.kernel;
      phases[task.group] = task.phase;
    }
  }
  const auto conv =
      NarrowTasks(NarrowKind::kConv, 4, 7, NarrowSizes::kIrregular);
  EXPECT_EQ(conv[0].group, conv[1].group);
  EXPECT_NE(conv[1].group, conv[2].group);
  EXPECT_EQ(conv[0].width, conv[1].width);
  EXPECT_EQ(conv[0].height, conv[1].height);
  EXPECT_EQ(conv[1].phase, 1u);
  const auto beams = NarrowTasks(NarrowKind::kBf, 64, 7, NarrowSizes::kPagoda);
  EXPECT_EQ(beams[31].phase, 3u);
  EXPECT_EQ(beams[31].group, 0u);
  EXPECT_EQ(beams[32].group, 1u);
}

TEST(NarrowTasks, AMatrixHasAboutAsManyTasksAsPagodas) {
  // The paper says 273K.
  const uint32_t blocks = SludBlocks(273'000);
  EXPECT_EQ(blocks, 147u);
  EXPECT_EQ(
      NarrowTasks(NarrowKind::kSlud, 273'000, 1, NarrowSizes::kPagoda).size(),
      273'000u);
  EXPECT_EQ(SludBlocks(1), 1u);
  EXPECT_EQ(NarrowTasks(NarrowKind::kSlud, 1, 1, NarrowSizes::kPagoda).size(),
            1u);
  for (const NarrowKind kind : kKinds) {
    EXPECT_THAT(NarrowTasks(kind, 0, 1, NarrowSizes::kPagoda), IsEmpty());
  }
}

// Runs a whole matrix of 13 x 13 blocks phase by phase, each phase backwards: no
// task needs another of its phase.
TEST(NarrowTasks, TheTasksOfAMatrixDecomposeItInAnyOrderWithinAPhase) {
  constexpr uint32_t kBlocks = 13;
  uint32_t count = 0;
  while (SludBlocks(count + 1) <= kBlocks) ++count;
  std::vector<NarrowTask> tasks =
      NarrowTasks(NarrowKind::kSlud, count, 8, NarrowSizes::kIrregular);
  const uint32_t n = tasks[0].width;
  const uint32_t side = kBlocks * n;
  std::mt19937 random(8);
  std::vector<std::vector<float>> blocks(kBlocks * kBlocks,
                                         std::vector<float>(n * n, 0.0f));
  std::vector<double> expected(side * side);
  for (uint32_t row = 0; row < side; ++row) {
    for (uint32_t column = 0; column < side; ++column) {
      if (!SludHasBlock(row / n, column / n)) continue;
      float value = static_cast<float>(random() % 2001) / 1000.0f - 1.0f;
      if (row == column) value += static_cast<float>(side);
      blocks[row / n * kBlocks + column / n][row % n * n + column % n] = value;
      expected[row * side + column] = value;
    }
  }
  reference::Decompose(&expected, side);
  std::ranges::reverse(tasks);
  std::ranges::stable_sort(tasks, {}, &NarrowTask::phase);
  const auto block = [&](uint32_t row, uint32_t column) -> auto& {
    return blocks[row * kBlocks + column];
  };
  const auto read = [&](uint32_t row, uint32_t column) {
    return simt::ReadOnly(block(row, column));
  };
  for (const NarrowTask& task : tasks) {
    const uint32_t k = task.phase / 3;
    const auto own = simt::Writable(block(task.row, task.column));
    const simt::Dim3 threads{task.threads, 1, 1};
    simt::GridResult result;
    if (task.kernel == "slud_lu0") {
      result = RunGrid(slud_lu0_info, {1, 1, 1}, threads, SludLu0Args{own, n});
    } else if (task.kernel == "slud_bmod") {
      result = RunGrid(
          slud_bmod_info, {1, 1, 1}, threads,
          SludBmodArgs{read(task.row, k), read(k, task.column), own, n});
    } else {
      result =
          RunGrid(task.kernel == "slud_fwd" ? slud_fwd_info : slud_bdiv_info,
                  {1, 1, 1}, threads, SludSolveArgs{read(k, k), own, n});
    }
    ASSERT_EQ(result.status, simt::kFailNone) << task.kernel;
  }
  for (uint32_t row = 0; row < side; ++row) {
    for (uint32_t column = 0; column < side; ++column) {
      ASSERT_NEAR(block(row / n, column / n)[row % n * n + column % n],
                  expected[row * side + column], 1e-3)
          << row << "," << column;
    }
  }
}

}  // namespace
}  // namespace carillon::kernels

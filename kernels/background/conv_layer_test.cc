#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "kernels/background/conv1.cuh"
#include "kernels/background/conv2.cuh"
#include "kernels/background/edge_references.h"
#include "kernels/simt/kernel_test_util.h"

namespace carillon::kernels {
namespace {

using simt::Dim3;
using simt::ReadOnly;
using simt::RunGrid;
using simt::Writable;

const Dim3 kBlock{32, 4, 1};

struct Layer : reference::ConvShape {
  Dim3 grid;
};

struct Data {
  explicit Data(const Layer& of)
      : layer(of),
        images(of.colours * of.image_size * of.image_size * of.images),
        filters(of.colours * of.filter_size * of.filter_size * of.filters),
        targets(of.filters * of.side() * of.side() * of.images, -1.0f) {
    std::mt19937 random(9);
    // Small integers: every sum is exact, in any order.
    for (float& x : images) x = static_cast<float>(random() % 21) - 10;
    for (float& x : filters) x = static_cast<float>(random() % 21) - 10;
  }
  ConvLayerArgs args() {
    return {ReadOnly(images), ReadOnly(filters), Writable(targets),
            layer.colours,    layer.image_size,  layer.filter_size,
            layer.stride,     layer.images,      layer.filters};
  }
  Layer layer;
  std::vector<float> images, filters, targets;
};

void ExpectFiltered(const simt::KernelInfo& kernel, const Layer& layer) {
  Data data(layer);
  const ConvLayerArgs args = data.args();
  EXPECT_EQ(kernel.validate({layer.grid, kBlock}, &args), nullptr);
  const simt::GridResult result =
      RunGrid(kernel, layer.grid, kBlock, args, {.workers = 2});
  ASSERT_EQ(result.status, simt::kFailNone) << result.message;
  const std::vector<float> expected =
      reference::Convolved(layer, data.images, data.filters);
  ASSERT_EQ(data.targets.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    ASSERT_EQ(data.targets[i], expected[i])
        << "module " << i / layer.images << ", image " << i % layer.images;
  }
}

TEST(ConvLayer, OneColourEqualsTheDefinition) {
  // Blocks with one module each, with several, with none.
  ExpectFiltered(conv1_info, {1, 9, 5, 1, 128, 16, {1, 25, 1}});
  ExpectFiltered(conv1_info, {1, 9, 5, 1, 128, 16, {1, 4, 1}});
  ExpectFiltered(conv1_info, {1, 9, 5, 2, 256, 32, {3, 30, 1}});
  ExpectFiltered(conv1_info, {1, 7, 3, 3, 128, 16, {1, 3, 1}});
}

TEST(ConvLayer, ManyColoursEqualTheDefinition) {
  ExpectFiltered(conv2_info, {2, 7, 5, 1, 128, 16, {1, 9, 1}});
  ExpectFiltered(conv2_info, {6, 8, 5, 1, 128, 16, {1, 5, 1}});
  ExpectFiltered(conv2_info, {4, 8, 3, 2, 256, 32, {3, 40, 1}});
}

TEST(ConvLayer, ArgumentsThatDoNotFitFailAndTouchNothing) {
  Data data({2, 6, 5, 1, 128, 16, {1, 4, 1}});
  const ConvLayerArgs good = data.args();
  std::vector<ConvLayerArgs> bad(17, good);
  bad[0].images.size -= 1;
  bad[1].filters.size -= 1;
  bad[2].targets.size -= 1;
  bad[3].colours = 0;
  bad[4].colours = 4;
  bad[5].image_size = 7;
  bad[6].image_size = 0xffffffff;
  bad[7].filter_size = 7;
  bad[8].filter_size = 0;
  bad[9].stride = 0;
  bad[10].image_count = 127;
  bad[11].image_count = 0xffffff80;
  bad[12].filter_count = 8;
  bad[13].filter_count = 0xfffffff0;
  bad[14].colours = 3;
  bad[15].image_count = 0;
  bad[16].filter_count = 0;
  const Dim3 grid{1, 4, 1};
  for (size_t i = 0; i < bad.size(); ++i) {
    EXPECT_EQ(RunGrid(conv2_info, grid, kBlock, bad[i]).status,
              simt::kFailBadArguments)
        << i;
    EXPECT_NE(conv2_info.validate({grid, kBlock}, &bad[i]), nullptr) << i;
    bad[i].colours = bad[i].colours == 2 ? 1 : bad[i].colours;
    if (i < 2 || i == 5) continue;  // half of the colours fit
    EXPECT_EQ(RunGrid(conv1_info, grid, kBlock, bad[i]).status,
              simt::kFailBadArguments)
        << i;
    EXPECT_NE(conv1_info.validate({grid, kBlock}, &bad[i]), nullptr) << i;
  }
  for (const simt::KernelInfo* kernel : {&conv1_info, &conv2_info}) {
    EXPECT_EQ(RunGrid(*kernel, grid, {16, 8, 1}, good).status,
              simt::kFailBadShape);
    EXPECT_NE(kernel->check_shape({grid, {16, 8, 1}}), nullptr);
  }
  EXPECT_NE(conv2_info.validate({{0, 4, 1}, kBlock}, &good), nullptr);
  // Two colours are too many for conv1, one is too few for conv2.
  EXPECT_EQ(RunGrid(conv1_info, grid, kBlock, good).status,
            simt::kFailBadArguments);
  ConvLayerArgs grey = good;
  grey.colours = 1;
  EXPECT_EQ(RunGrid(conv2_info, grid, kBlock, grey).status,
            simt::kFailBadArguments);
  EXPECT_EQ(data.targets, std::vector<float>(data.targets.size(), -1.0f));
}

}  // namespace
}  // namespace carillon::kernels

#include "tools/gpu_check/edge_cases.h"

#include "fmt/format.h"
#include "kernels/background/types.h"

namespace carillon::gpu_check {
namespace {

using kernels::BfsNode;
using kernels::HeartwallPlace;
using kernels::ScPoint;

// All sums of such numbers are exact.
std::vector<float> WholeNumbers(uint64_t count, uint32_t range,
                                Random& random) {
  std::vector<float> numbers(count);
  for (float& x : numbers) x = static_cast<float>(random.Small(0, range - 1));
  return numbers;
}

Case Bfs(Random& random) {
  const uint32_t count = random.Small(2, 2000);
  std::vector<BfsNode> nodes;
  std::vector<uint32_t> edges;
  for (uint32_t i = 0; i < count; ++i) {
    nodes.push_back({static_cast<uint32_t>(edges.size()), random.Small(0, 4)});
    for (uint32_t e = 0; e < nodes.back().edge_count; ++e) {
      edges.push_back(random.Small(0, count - 1));
    }
  }
  edges.push_back(0);  // not an edge: a buffer has at least one element
  std::vector<uint32_t> cost(count, 0xffffffff);
  cost[0] = 0;
  std::vector<uint8_t> first(count);
  first[0] = 1;
  std::vector<CaseLaunch> launches;
  for (int level = 0; level < 5; ++level) {
    launches.push_back(Launch("bfs_expand", {Blocks(count, 512), 1, 1},
                              {512, 1, 1},
                              {{"nodes", 0},
                               {"edges", 1},
                               {"frontier", 2},
                               {"reached", 3},
                               {"visited", 4},
                               {"cost", 5}}));
    launches.push_back(
        Launch("bfs_commit", {Blocks(count, 512), 1, 1}, {512, 1, 1},
               {{"frontier", 2}, {"reached", 3}, {"visited", 4}, {"over", 6}}));
  }
  return {fmt::format("bfs_expand of {} nodes", count),
          {{ToBytes(nodes)},
           {ToBytes(edges)},
           {ToBytes(first), Compare::kBytes},
           {Zeros(count), Compare::kBytes},
           {ToBytes(first), Compare::kBytes},
           {ToBytes(cost), Compare::kBytes},
           {Zeros(1), Compare::kBytes}},
          std::move(launches)};
}

Case Bp(Random& random) {
  const uint32_t blocks = random.Small(1, 9);
  const uint64_t units = uint64_t{blocks} * 16 + 1;
  return {
      fmt::format("bp_forward of {} inputs, bp_adjust", units - 1),
      {{random.Floats(units)},
       {random.Floats(units * 17), Compare::kFloats},
       {Zeros((units - 1) * 4), Compare::kFloats},
       {random.Floats(17)},
       {random.Floats(units * 17), Compare::kFloats}},
      {Launch("bp_forward", {1, blocks, 1}, {16, 16, 1},
              {{"input", 0}, {"weights", 1}, {"partial_sums", 2}}),
       Launch("bp_adjust", {1, blocks, 1}, {16, 16, 1},
              {{"delta", 3}, {"input", 0}, {"weights", 1}, {"changes", 4}})}};
}

Case ConvLayer(const char* kernel, uint32_t colours, Random& random) {
  const uint32_t image = random.Small(5, 9);
  const uint32_t filter = random.Small(1, 5);
  const uint32_t stride = image > filter ? random.Small(1, image - filter) : 1;
  const uint64_t side = (image - filter) / stride + 1;
  constexpr uint64_t kImages = 128;
  constexpr uint64_t kFilters = 16;
  return {fmt::format("{} of {} colours, images of {}, filters of {}, stride "
                      "{}",
                      kernel, colours, image, filter, stride),
          {{random.Floats(uint64_t{colours} * image * image * kImages)},
           {random.Floats(uint64_t{colours} * filter * filter * kFilters)},
           {Zeros(kFilters * side * side * kImages * 4), Compare::kFloats}},
          {Launch(kernel, {1, random.Small(1, 12), 1}, {32, 4, 1},
                  {{"images", 0}, {"filters", 1}, {"targets", 2}},
                  {{"colours", colours},
                   {"image_size", image},
                   {"filter_size", filter},
                   {"stride", stride},
                   {"image_count", kImages},
                   {"filter_count", kFilters}})}};
}

Case Heartwall(Random& random) {
  const uint32_t width = random.Small(1, 60);
  const uint32_t height = random.Small(1, 60);
  const uint32_t size = 2 * random.Small(1, 5) + 1;
  const uint32_t search = 2 * random.Small(0, 6) + 1;
  const uint32_t points = random.Small(1, 5);
  std::vector<HeartwallPlace> places;
  for (uint32_t i = 0; i < points; ++i) {
    places.push_back({random.Small(0, width - 1), random.Small(0, height - 1)});
  }
  return {fmt::format("heartwall of {} points, templates of {}, {} places",
                      points, size, search * search),
          {{ToBytes(WholeNumbers(uint64_t{width} * height, 32, random))},
           {ToBytes(WholeNumbers(uint64_t{points} * size * size, 32, random))},
           {ToBytes(places), Compare::kBytes},
           {Zeros(points * 4), Compare::kFloats},
           {Zeros(uint64_t{points} * search * search * 4), Compare::kFloats}},
          {Launch("heartwall", {points, 1, 1}, {256, 1, 1},
                  {{"frame", 0},
                   {"templates", 1},
                   {"places", 2},
                   {"scores", 3},
                   {"scratch", 4}},
                  {{"width", width},
                   {"height", height},
                   {"template_size", size},
                   {"search_size", search}})}};
}

Case Hotspot(Random& random) {
  const uint32_t rows = random.Small(1, 70);
  const uint32_t columns = random.Small(1, 70);
  const uint64_t cells = uint64_t{rows} * columns;
  return {fmt::format("hotspot of {}x{}", rows, columns),
          {{random.Floats(cells)},
           {random.Floats(cells, 320, 340)},
           {Zeros(cells * 4), Compare::kFloats}},
          {Launch("hotspot", {Blocks(columns, 12), Blocks(rows, 12), 1},
                  {16, 16, 1}, {{"power", 0}, {"from", 1}, {"to", 2}},
                  {{"rows", rows},
                   {"columns", columns},
                   {"steps", random.Between(1, 2)},
                   {"step_by_capacity", Float(0.1f)},
                   {"by_rx", Float(1.1f)},
                   {"by_ry", Float(0.7f)},
                   {"by_rz", Float(0.01f)}})}};
}

Case Kmn(Random& random) {
  const uint64_t points = random.Between(1, 1500);
  const uint64_t features = random.Between(1, 9);
  const uint64_t clusters = random.Between(1, 6);
  return {fmt::format("kmn_invert, kmn_point of {} points, {} features, {} "
                      "clusters",
                      points, features, clusters),
          {{ToBytes(WholeNumbers(points * features, 64, random))},
           {Zeros(points * features * 4), Compare::kBytes},
           {ToBytes(WholeNumbers(clusters * features, 64, random))},
           {ToBytes(std::vector<uint32_t>(points, 77)), Compare::kBytes}},
          {Launch("kmn_invert", {Blocks(points, 256), 1, 1}, {256, 1, 1},
                  {{"by_point", 0}, {"by_feature", 1}},
                  {{"points", points}, {"features", features}}),
           Launch("kmn_point", {Blocks(points, 256), 1, 1}, {256, 1, 1},
                  {{"by_feature", 1}, {"centres", 2}, {"membership", 3}},
                  {{"points", points},
                   {"features", features},
                   {"clusters", clusters}})}};
}

Case Lud(Random& random) {
  const uint32_t n = 16 * random.Small(2, 5);
  std::vector<float> matrix = WholeNumbers(uint64_t{n} * n, 9, random);
  for (uint32_t i = 0; i < n; ++i) matrix[i * n + i] = 8.0f * n;
  std::vector<CaseLaunch> launches;
  const auto add = [&](const char* kernel, simt::Dim3 grid, simt::Dim3 block,
                       uint32_t offset) {
    launches.push_back(Launch(kernel, grid, block, {{"matrix", 0}},
                              {{"n", n}, {"offset", offset}}));
  };
  for (uint32_t offset = 0; offset < n; offset += 16) {
    const uint32_t left = (n - offset) / 16 - 1;
    add("lud_diagonal", {1, 1, 1}, {16, 1, 1}, offset);
    if (left == 0) break;
    add("lud_perimeter", {left, 1, 1}, {32, 1, 1}, offset);
    add("lud_internal", {left, left, 1}, {16, 16, 1}, offset);
  }
  return {fmt::format("lud of {0}x{0}", n),
          {{ToBytes(matrix), Compare::kFloats}},
          std::move(launches)};
}

Case Sc(Random& random) {
  const uint32_t count = random.Small(5, 1500);
  const uint32_t centres = random.Small(1, 5);
  const uint32_t dimensions = random.Small(1, 9);
  std::vector<uint32_t> table(count, 0xffffffff);
  for (uint32_t i = 0; i < centres; ++i) table[i] = i;
  std::vector<ScPoint> points;
  for (uint32_t i = 0; i < count; ++i) {
    points.push_back({static_cast<float>(random.Small(1, 3)),
                      static_cast<float>(random.Small(0, 200)),
                      random.Small(0, centres - 1)});
  }
  const uint64_t gains = uint64_t{count} * (centres + 1);
  return {fmt::format("sc of {} points, {} dimensions, {} centres", count,
                      dimensions, centres),
          {{ToBytes(points)},
           {ToBytes(WholeNumbers(uint64_t{count} * dimensions, 8, random))},
           {ToBytes(table)},
           {ToBytes(WholeNumbers(gains, 16, random)), Compare::kFloats},
           {Zeros(count), Compare::kBytes}},
          {Launch("sc", {Blocks(count, 512), 1, 1}, {512, 1, 1},
                  {{"points", 0},
                   {"coordinates", 1},
                   {"centre_table", 2},
                   {"gains", 3},
                   {"switches", 4}},
                  {{"dimensions", dimensions},
                   {"centres", centres},
                   {"candidate", random.Between(0, count - 1)}})}};
}

Case SradV1(Random& random) {
  const uint32_t rows = random.Small(1, 50);
  const uint32_t columns = random.Small(1, 50);
  const uint64_t pixels = uint64_t{rows} * columns;
  const auto before = [](uint32_t count) {
    std::vector<uint32_t> numbers(count);
    for (uint32_t i = 1; i < count; ++i) numbers[i] = i - 1;
    return ToBytes(numbers);
  };
  const auto behind = [](uint32_t count) {
    std::vector<uint32_t> numbers(count, count - 1);
    for (uint32_t i = 0; i + 1 < count; ++i) numbers[i] = i + 1;
    return ToBytes(numbers);
  };
  const Buffer result{Zeros(pixels * 4), Compare::kFloats};
  return {fmt::format("srad_v1_extract, srad_v1 of {}x{}", rows, columns),
          {{ToBytes(WholeNumbers(pixels, 256, random)), Compare::kFloats},
           result,
           result,
           result,
           result,
           result,
           {before(rows)},
           {behind(rows)},
           {before(columns)},
           {behind(columns)}},
          {Launch("srad_v1_extract", {Blocks(pixels, 512), 1, 1}, {512, 1, 1},
                  {{"image", 0}}),
           Launch("srad_v1", {Blocks(pixels, 512), 1, 1}, {512, 1, 1},
                  {{"image", 0},
                   {"coefficients", 1},
                   {"north", 2},
                   {"south", 3},
                   {"west", 4},
                   {"east", 5},
                   {"row_above", 6},
                   {"row_below", 7},
                   {"column_left", 8},
                   {"column_right", 9}},
                  {{"q0_squared", Float(0.3f)}})}};
}

Case SradV2(Random& random) {
  const uint32_t rows = random.Small(1, 4);  // in blocks of 16
  const uint32_t columns = random.Small(1, 4);
  const uint64_t pixels = uint64_t{rows} * columns * 256;
  const std::map<std::string, size_t> buffers = {
      {"image", 0}, {"coefficients", 1}, {"north", 2},
      {"south", 3}, {"west", 4},         {"east", 5}};
  const std::map<std::string, uint64_t> sides = {{"rows", 16 * rows},
                                                 {"columns", 16 * columns}};
  CaseLaunch first =
      Launch("srad_v2_1", {columns, rows, 1}, {16, 16, 1}, buffers, sides);
  first.numbers["q0_squared"] = Float(0.3f);
  CaseLaunch second =
      Launch("srad_v2_2", {columns, rows, 1}, {16, 16, 1}, buffers, sides);
  second.numbers["lambda"] = Float(0.5f);
  const Buffer result{Zeros(pixels * 4), Compare::kFloats};
  return {fmt::format("srad_v2 of {}x{}", 16 * rows, 16 * columns),
          {{random.Floats(pixels, 0.5f, 2.5f), Compare::kFloats},
           result,
           result,
           result,
           result,
           result},
          {std::move(first), std::move(second)}};
}

}  // namespace

void AddEdgeCases(Random* random, std::vector<Case>* cases) {
  for (Case (*make)(Random&) :
       {Bfs, Bp, Heartwall, Hotspot, Kmn, Lud, Sc, SradV1, SradV2}) {
    cases->push_back(make(*random));
  }
  cases->push_back(ConvLayer("conv1", 1, *random));
  cases->push_back(ConvLayer("conv2", 2 * random->Small(1, 2), *random));
}

}  // namespace carillon::gpu_check

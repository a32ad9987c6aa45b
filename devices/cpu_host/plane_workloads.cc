// Matrices and pictures: heartwall, hotspot, lud, srad_v1, srad_v2.
#include <algorithm>
#include <cmath>

#include "devices/cpu_host/array_workload.h"
#include "kernels/background/edge_references.h"

namespace carillon::cpu_host {
namespace {

namespace reference = kernels::reference;
using kernels::HeartwallPlace;

// In steps of a thousandth, `least` to `least + range`.
void FillBetween(std::span<float> numbers, float least, float range,
                 std::mt19937& random) {
  for (float& x : numbers) {
    x = least + range * static_cast<float>(random() % 1000) / 1000;
  }
}

uint32_t Blocks(uint32_t count, uint32_t of) { return (count + of - 1) / of; }

class Heartwall final : public ArrayWorkload {
 public:
  explicit Heartwall(const WorkloadOptions& options)
      : ArrayWorkload("heartwall", {options.size, 1, 1}, {256, 1, 1}, options) {
    const uint64_t points = options.size;
    AddInput<float>("frame", kWidth * kHeight);
    AddInput<float>("templates", points * kSize * kSize);
    AddState<HeartwallPlace>("places", points);
    AddOutput<float>("scores", points);
    AddScratch<float>("scratch", points * kSearch * kSearch);
    AddConstant(edge::Constant("width", kWidth));
    AddConstant(edge::Constant("height", kHeight));
    AddConstant(edge::Constant("template_size", kSize));
    AddConstant(edge::Constant("search_size", kSearch));
  }

 private:
  enum : size_t { kFrame, kTemplates, kPlaces, kScores };
  static constexpr uint32_t kWidth = 203;
  static constexpr uint32_t kHeight = 196;
  static constexpr uint32_t kSize = 11;
  static constexpr uint32_t kSearch = 15;

  reference::Picture picture() const {
    return {input<float>(kFrame), kWidth, kHeight};
  }
  void Fill(std::mt19937& random) override {
    // Small whole numbers: all sums are exact.
    for (float& x : input<float>(kFrame)) {
      x = static_cast<float>(random() % 32);
    }
    auto pixel = input<float>(kTemplates).begin();
    for (HeartwallPlace& place : input<HeartwallPlace>(kPlaces)) {
      place = {static_cast<uint32_t>(random() % kWidth),
               static_cast<uint32_t>(random() % kHeight)};
      // The template lies within the search area.
      const auto away = [&random] {
        return static_cast<int>(random() % kSearch) -
               static_cast<int>(kSearch / 2);
      };
      const int x = static_cast<int>(place.x) + away();
      const int y = static_cast<int>(place.y) + away();
      const int half = kSize / 2;
      for (int dy = -half; dy <= half; ++dy) {
        for (int dx = -half; dx <= half; ++dx) {
          *pixel++ = picture().at(x + dx, y + dy);
        }
      }
    }
  }
  reference::HeartwallMatch Best(uint64_t point) const {
    constexpr size_t kArea = kSize * kSize;
    return reference::HeartwallBest(
        picture(), input<float>(kTemplates).subspan(point * kArea, kArea),
        kSize, kSearch, input<HeartwallPlace>(kPlaces)[point]);
  }
  static double PixelOf(const HeartwallPlace& place) {
    return place.y * static_cast<double>(kWidth) + place.x;
  }
  std::vector<double> Found(size_t array,
                            std::span<const uint64_t> places) const override {
    if (array != kPlaces) return ArrayWorkload::Found(array, places);
    std::vector<double> pixels;
    for (const uint64_t point : places) {
      pixels.push_back(PixelOf(output<HeartwallPlace>(kPlaces)[point]));
    }
    return pixels;
  }
  std::vector<double> Expected(
      size_t array, std::span<const uint64_t> places) const override {
    std::vector<double> expected;
    for (const uint64_t point : places) {
      const reference::HeartwallMatch best = Best(point);
      expected.push_back(array == kPlaces ? PixelOf(best.place) : best.score);
    }
    return expected;
  }
  double tolerance() const override { return 1e-3; }
};

class Hotspot final : public ArrayWorkload {
 public:
  explicit Hotspot(const WorkloadOptions& options)
      : ArrayWorkload(
            "hotspot",
            {Blocks(options.size, kUseful), Blocks(options.size, kUseful), 1},
            {16, 16, 1}, options),
        side_(options.size) {
    const uint64_t cells = uint64_t{side_} * side_;
    AddInput<float>("power", cells);
    AddInput<float>("from", cells);
    AddOutput<float>("to", cells);
    AddConstant(edge::Constant("rows", side_));
    AddConstant(edge::Constant("columns", side_));
    AddConstant(edge::Constant("steps", kSteps));
    AddConstant(edge::ConstantFloat("step_by_capacity", kBy.step_by_capacity));
    AddConstant(edge::ConstantFloat("by_rx", kBy.by_rx));
    AddConstant(edge::ConstantFloat("by_ry", kBy.by_ry));
    AddConstant(edge::ConstantFloat("by_rz", kBy.by_rz));
  }

 private:
  enum : size_t { kPower, kFrom };
  static constexpr uint32_t kUseful = 12;  // cells along a block's side
  static constexpr uint32_t kSteps = 2;
  static constexpr kernels::HotspotCoefficients kBy{0.1f, 1.1f, 0.7f, 0.01f};

  void Fill(std::mt19937& random) override {
    FillBetween(input<float>(kPower), 0, 2, random);
    FillBetween(input<float>(kFrom), 320, 20, random);
  }
  std::vector<double> Expected(
      size_t, std::span<const uint64_t> places) const override {
    const std::span<const float> from = input<float>(kFrom);
    std::vector<double> cells(from.begin(), from.end());
    for (uint32_t step = 0; step < kSteps; ++step) {
      cells = reference::HotspotStep(input<float>(kPower), cells, side_, side_,
                                     kBy);
    }
    return At(cells, places);
  }
  double tolerance() const override { return 1e-3; }

  const uint32_t side_;
};

// A whole decomposition: three launches for each block of the diagonal.
class Lud final : public ArrayWorkload {
 public:
  explicit Lud(const WorkloadOptions& options)
      : ArrayWorkload("lud_diagonal", {1, 1, 1}, {kBlock, 1, 1}, options),
        n_(Blocks(options.size, kBlock) * kBlock) {
    AddState<float>("matrix", uint64_t{n_} * n_);
    AddOffset(0);
    for (uint32_t offset = 0; offset + kBlock < n_; offset += kBlock) {
      const uint32_t left = (n_ - offset) / kBlock - 1;
      AddStep("lud_perimeter", {left, 1, 1}, {2 * kBlock, 1, 1}, offset);
      AddStep("lud_internal", {left, left, 1}, {kBlock, kBlock, 1}, offset);
      AddStep("lud_diagonal", {1, 1, 1}, {kBlock, 1, 1}, offset + kBlock);
    }
  }

 private:
  static constexpr uint32_t kBlock = 16;
  static constexpr size_t kMatrix = 0;

  void AddStep(std::string kernel, const edge::Dim3& grid,
               const edge::Dim3& block, uint32_t offset) {
    AddLaunch(std::move(kernel), grid, block);
    Use("matrix", kMatrix);
    AddOffset(offset);
  }
  void AddOffset(uint32_t offset) {
    AddConstant(edge::Constant("n", n_));
    AddConstant(edge::Constant("offset", offset));
  }
  void Fill(std::mt19937& random) override {
    const std::span<float> matrix = input<float>(kMatrix);
    FillBetween(matrix, -1, 2, random);
    // A strong diagonal makes elimination without pivoting possible.
    for (size_t i = 0; i < n_; ++i) {
      matrix[i * n_ + i] += static_cast<float>(n_);
    }
  }
  // The product of the factors is the matrix.
  std::vector<double> Found(size_t,
                            std::span<const uint64_t> places) const override {
    std::vector<double> product;
    for (const uint64_t place : places) {
      product.push_back(reference::LudProductAt(output<float>(kMatrix), n_,
                                                place / n_, place % n_));
    }
    return product;
  }
  std::vector<double> Expected(
      size_t, std::span<const uint64_t> places) const override {
    return At(input<float>(kMatrix), places);
  }
  double tolerance() const override { return 1e-4 * n_; }

  const uint32_t n_;
};

constexpr float kSpeckle = 0.3f;

// srad_v1 stores its picture column by column and looks a pixel's neighbours
// up.
class SradV1 final : public ArrayWorkload {
 public:
  explicit SradV1(const WorkloadOptions& options)
      : ArrayWorkload("srad_v1_extract", GridFor(options), {kBlock, 1, 1},
                      options),
        side_(options.size) {
    const uint64_t pixels = uint64_t{side_} * side_;
    AddState<float>("image", pixels);
    AddLaunch("srad_v1", GridFor(options), {kBlock, 1, 1});
    AddOutput<float>("coefficients", pixels);
    AddInput<uint32_t>("row_above", side_);
    AddInput<uint32_t>("row_below", side_);
    Use("image", kImage);
    Use("column_left", kBefore);
    Use("column_right", kBehind);
    for (const char* difference : {"north", "south", "west", "east"}) {
      AddScratch<float>(difference, pixels);
    }
    AddConstant(edge::ConstantFloat("q0_squared", kSpeckle));
  }

 private:
  enum : size_t { kImage, kCoefficients, kBefore, kBehind };
  static constexpr uint32_t kBlock = 512;

  static edge::Dim3 GridFor(const WorkloadOptions& options) {
    const uint64_t pixels = uint64_t{options.size} * options.size;
    return {static_cast<uint32_t>((pixels + kBlock - 1) / kBlock), 1, 1};
  }
  void Fill(std::mt19937& random) override {
    for (float& x : input<float>(kImage)) {
      x = static_cast<float>(random() % 256);
    }
    for (uint32_t i = 0; i < side_; ++i) {
      input<uint32_t>(kBefore)[i] = i == 0 ? 0 : i - 1;
      input<uint32_t>(kBehind)[i] = std::min(i + 1, side_ - 1);
    }
  }
  std::vector<double> Expected(
      size_t array, std::span<const uint64_t> places) const override {
    std::vector<double> image;
    for (const float x : input<float>(kImage)) {
      image.push_back(std::exp(x / 255.0));
    }
    if (array == kImage) return At(image, places);
    // Rows and columns are the same in number, and in the sum over the
    // neighbours.
    return At(reference::SradCoefficients(image, side_, side_, kSpeckle),
              places);
  }
  double tolerance() const override { return 1e-4; }

  const uint32_t side_;
};

class SradV2 final : public ArrayWorkload {
 public:
  explicit SradV2(const WorkloadOptions& options)
      : ArrayWorkload("srad_v2_1", GridFor(options), {kBlock, kBlock, 1},
                      options),
        side_(GridFor(options).x * kBlock) {
    const uint64_t pixels = uint64_t{side_} * side_;
    AddState<float>("image", pixels);
    for (const char* array : kScratch) AddScratch<float>(array, pixels);
    AddSides();
    AddConstant(edge::ConstantFloat("q0_squared", kSpeckle));
    AddLaunch("srad_v2_2", GridFor(options), {kBlock, kBlock, 1});
    Use("image", 0);
    for (size_t i = 0; i < std::size(kScratch); ++i) Use(kScratch[i], i + 1);
    AddSides();
    AddConstant(edge::ConstantFloat("lambda", kLambda));
  }

 private:
  static constexpr uint32_t kBlock = 16;
  static constexpr float kLambda = 0.5f;
  static constexpr const char* kScratch[] = {"coefficients", "north", "south",
                                             "west", "east"};

  static edge::Dim3 GridFor(const WorkloadOptions& options) {
    return {Blocks(options.size, kBlock), Blocks(options.size, kBlock), 1};
  }
  void AddSides() {
    AddConstant(edge::Constant("rows", side_));
    AddConstant(edge::Constant("columns", side_));
  }
  void Fill(std::mt19937& random) override {
    FillBetween(input<float>(0), 0.5f, 2, random);
  }
  std::vector<double> Expected(
      size_t, std::span<const uint64_t> places) const override {
    const std::span<const float> image = input<float>(0);
    return At(
        reference::SradDiffused(std::vector<double>(image.begin(), image.end()),
                                side_, side_, kSpeckle, kLambda),
        places);
  }
  double tolerance() const override { return 1e-3; }

  const uint32_t side_;
};

}  // namespace

std::unique_ptr<Workload> MakeHeartwall(const WorkloadOptions& options) {
  return std::make_unique<Heartwall>(options);
}
std::unique_ptr<Workload> MakeHotspot(const WorkloadOptions& options) {
  return std::make_unique<Hotspot>(options);
}
std::unique_ptr<Workload> MakeLud(const WorkloadOptions& options) {
  return std::make_unique<Lud>(options);
}
std::unique_ptr<Workload> MakeSradV1(const WorkloadOptions& options) {
  return std::make_unique<SradV1>(options);
}
std::unique_ptr<Workload> MakeSradV2(const WorkloadOptions& options) {
  return std::make_unique<SradV2>(options);
}

}  // namespace carillon::cpu_host

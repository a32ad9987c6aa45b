// One kernel of a program that has several, in one launch: KS, LUD_INTERNAL,
// BP_FORWARD, BP_ADJUST, SRAD1, SRAD2, SRAD3.
#include <algorithm>
#include <cmath>

#include "fmt/format.h"
#include "kernels/background/bp.cuh"
#include "kernels/background/edge_references.h"
#include "kernels/background/kmn.cuh"
#include "kernels/background/lud.cuh"
#include "kernels/background/srad_v1.cuh"
#include "kernels/background/srad_v2.cuh"
#include "sim/experiments/workloads/backgrounds.h"
#include "sim/experiments/workloads/compare.h"

namespace carillon::sim::figures {
namespace {

namespace reference = kernels::reference;

constexpr int kMost = 20;

class KmnInvert final : public SingleLaunch {
 public:
  KmnInvert(uint32_t points, uint32_t features, Kernels* kernels)
      : SingleLaunch("KS",
                     fmt::format("{} points of {} features", points, features),
                     kernels),
        points_(points),
        features_(features),
        by_point_(kernels->Allocate<float>(points * features, "KS points")),
        by_feature_(
            kernels->Allocate<float>(points * features, "KS features")) {}

 private:
  Launch Only() const override {
    return Make(kernels::kmn_invert_info, GridFor(points_, kernels::kKmnBlock),
                {kernels::kKmnBlock, 1, 1},
                kernels::KmnInvertArgs{by_point_.read_only(),
                                       by_feature_.span(), points_, features_});
  }
  void Fill(std::mt19937& random) override {
    for (float& x : by_point_.values) x = static_cast<float>(random() % 5000);
    std::ranges::fill(by_feature_.values, -1.0f);
  }
  absl::Status CheckOutput() const override {
    std::vector<float> expected;
    for (uint32_t feature = 0; feature < features_; ++feature) {
      for (uint32_t point = 0; point < points_; ++point) {
        expected.push_back(by_point_.values[point * features_ + feature]);
      }
    }
    return Compare("KS: feature", by_feature_.values, expected);
  }

  const uint32_t points_, features_;
  const Array<float> by_point_, by_feature_;
};

// The first step's: the perimeter is taken as it is.
class LudInternal final : public SingleLaunch {
 public:
  LudInternal(uint32_t n, Kernels* kernels)
      : SingleLaunch("LUD_INTERNAL", fmt::format("{}x{} matrix", n, n),
                     kernels),
        n_(n),
        matrix_(kernels->Allocate<float>(n * n, "LUD_INTERNAL matrix")) {}

 private:
  Launch Only() const override {
    const uint32_t left = n_ / kernels::kLudBlock - 1;
    return Make(kernels::lud_internal_info, {left, left, 1},
                {kernels::kLudBlock, kernels::kLudBlock, 1},
                kernels::LudArgs{matrix_.span(), n_, 0});
  }
  void Fill(std::mt19937& random) override {
    FillWhole(matrix_.values, -kMost, kMost, random);
    before_.assign(matrix_.values.begin(), matrix_.values.end());
  }
  absl::Status CheckOutput() const override {
    std::vector<float> expected = before_;
    for (size_t row = 16; row < n_; ++row) {
      for (size_t column = 16; column < n_; ++column) {
        for (size_t i = 0; i < 16; ++i) {
          expected[row * n_ + column] -=
              before_[row * n_ + i] * before_[i * n_ + column];
        }
      }
    }
    return Compare("LUD_INTERNAL: element", matrix_.values, expected);
  }

  const uint32_t n_;
  const Array<float> matrix_;
  std::vector<float> before_;
};

class BpForward final : public SingleLaunch {
 public:
  BpForward(uint32_t inputs, Kernels* kernels)
      : SingleLaunch("BP_FORWARD", fmt::format("layer of {} inputs", inputs),
                     kernels),
        inputs_(inputs),
        input_(kernels->Allocate<float>(inputs + 1, "BP_FORWARD input")),
        weights_(kernels->Allocate<float>((inputs + 1) * kernels::kBpRow,
                                          "BP_FORWARD weights")),
        sums_(kernels->Allocate<float>(inputs, "BP_FORWARD sums")) {}

 private:
  Launch Only() const override {
    return Make(kernels::bp_forward_info, {1, inputs_ / kernels::kBpHidden, 1},
                {kernels::kBpHidden, kernels::kBpHidden, 1},
                kernels::BpForwardArgs{input_.read_only(), weights_.read_only(),
                                       sums_.span()});
  }
  void Fill(std::mt19937& random) override {
    FillWhole(input_.values, -kMost, kMost, random);
    FillWhole(weights_.values, -kMost, kMost, random);
    std::ranges::fill(sums_.values, 0.5f);
  }
  absl::Status CheckOutput() const override {
    return Compare("BP_FORWARD: partial sum", sums_.values,
                   reference::BpPartialSums(input_.values, weights_.values));
  }

  const uint32_t inputs_;
  const Array<float> input_, weights_, sums_;
};

class BpAdjust final : public SingleLaunch {
 public:
  BpAdjust(uint32_t inputs, Kernels* kernels)
      : SingleLaunch("BP_ADJUST", fmt::format("layer of {} inputs", inputs),
                     kernels),
        inputs_(inputs),
        delta_(kernels->Allocate<float>(kernels::kBpRow, "BP_ADJUST delta")),
        input_(kernels->Allocate<float>(inputs + 1, "BP_ADJUST input")),
        weights_(kernels->Allocate<float>((inputs + 1) * kernels::kBpRow,
                                          "BP_ADJUST weights")),
        changes_(kernels->Allocate<float>((inputs + 1) * kernels::kBpRow,
                                          "BP_ADJUST changes")) {}

 private:
  Launch Only() const override {
    return Make(kernels::bp_adjust_info, {1, inputs_ / kernels::kBpHidden, 1},
                {kernels::kBpHidden, kernels::kBpHidden, 1},
                kernels::BpAdjustArgs{delta_.read_only(), input_.read_only(),
                                      weights_.span(), changes_.span()});
  }
  void Fill(std::mt19937& random) override {
    for (const Array<float>* array : {&delta_, &input_, &weights_, &changes_}) {
      FillWhole(array->values, -kMost, kMost, random);
    }
    old_weights_.assign(weights_.values.begin(), weights_.values.end());
    old_changes_.assign(changes_.values.begin(), changes_.values.end());
  }
  absl::Status CheckOutput() const override {
    const reference::BpLayer expected = reference::BpAdjusted(
        delta_.values, input_.values, old_weights_, old_changes_);
    absl::Status status =
        Compare("BP_ADJUST: weight", weights_.values, expected.weights, 1e-4);
    status.Update(
        Compare("BP_ADJUST: change", changes_.values, expected.changes, 1e-4));
    return status;
  }

  const uint32_t inputs_;
  const Array<float> delta_, input_, weights_, changes_;
  std::vector<float> old_weights_, old_changes_;
};

class SradExtract final : public SingleLaunch {
 public:
  SradExtract(uint32_t pixels, Kernels* kernels)
      : SingleLaunch("SRAD1", fmt::format("image of {} pixels", pixels),
                     kernels),
        image_(kernels->Allocate<float>(pixels, "SRAD1 image")) {}

 private:
  Launch Only() const override {
    return Make(kernels::srad_v1_extract_info,
                GridFor(image_.values.size(), kernels::kSradV1Block),
                {kernels::kSradV1Block, 1, 1},
                kernels::SradV1ExtractArgs{image_.span()});
  }
  void Fill(std::mt19937& random) override {
    for (float& x : image_.values) x = static_cast<float>(random() % 256);
    before_.assign(image_.values.begin(), image_.values.end());
  }
  absl::Status CheckOutput() const override {
    std::vector<double> expected;
    for (const float x : before_) expected.push_back(std::exp(x / 255.0));
    return Compare("SRAD1: pixel", image_.values, expected, 1e-6);
  }

  const Array<float> image_;
  std::vector<float> before_;
};

// The differences and coefficients that both forms of SRAD compute.
class SradCoefficients : public SingleLaunch {
 protected:
  static constexpr float kSpeckle = 0.3f;

  SradCoefficients(std::string_view name, uint32_t rows, uint32_t columns,
                   Kernels* kernels)
      : SingleLaunch(name, fmt::format("image of {}x{}", rows, columns),
                     kernels),
        rows_(rows),
        columns_(columns),
        image_(kernels->Allocate<float>(rows * columns, "SRAD image")) {
    for (Array<float>& result : results_) {
      result = kernels->Allocate<float>(rows * columns, "SRAD result");
    }
  }

  void Fill(std::mt19937& random) override {
    for (float& x : image_.values) {
      x = 0.5f + static_cast<float>(random() % 1000) / 500;
    }
    for (const Array<float>& result : results_) {
      std::ranges::fill(result.values, -9.0f);
    }
  }
  // `image_` row by row: what is above or left of a pixel comes before it.
  absl::Status CheckOutput() const override {
    const std::vector<double> image(image_.values.begin(), image_.values.end());
    const auto what = [this](std::string_view result) {
      return fmt::format("{}: {}", name(), result);
    };
    absl::Status status = Compare(
        what("coefficient"), results_[0].values,
        reference::SradCoefficients(image, rows_, columns_, kSpeckle), 1e-4);
    std::vector<double> north, south, west, east;
    for (size_t i = 0; i < image.size(); ++i) {
      const size_t row = i / columns_;
      const size_t column = i % columns_;
      north.push_back(row > 0 ? image[i - columns_] - image[i] : 0);
      south.push_back(row + 1 < rows_ ? image[i + columns_] - image[i] : 0);
      west.push_back(column > 0 ? image[i - 1] - image[i] : 0);
      east.push_back(column + 1 < columns_ ? image[i + 1] - image[i] : 0);
    }
    status.Update(Compare(what("north"), results_[1].values, north, 1e-6));
    status.Update(Compare(what("south"), results_[2].values, south, 1e-6));
    status.Update(Compare(what("west"), results_[3].values, west, 1e-6));
    status.Update(Compare(what("east"), results_[4].values, east, 1e-6));
    return status;
  }

  const uint32_t rows_, columns_;
  const Array<float> image_;
  // Coefficients, north, south, west, east.
  Array<float> results_[5];
};

class SradV2 final : public SradCoefficients {
 public:
  SradV2(uint32_t rows, uint32_t columns, Kernels* kernels)
      : SradCoefficients("SRAD2", rows, columns, kernels) {}

 private:
  Launch Only() const override {
    return Make(
        kernels::srad_v2_1_info,
        {columns_ / kernels::kSradV2Block, rows_ / kernels::kSradV2Block, 1},
        {kernels::kSradV2Block, kernels::kSradV2Block, 1},
        kernels::SradV2FirstArgs{image_.read_only(), results_[0].span(),
                                 results_[1].span(), results_[2].span(),
                                 results_[3].span(), results_[4].span(), rows_,
                                 columns_, kSpeckle});
  }
};

// Its image lies column by column; here the columns are called rows.
class SradV1 final : public SradCoefficients {
 public:
  SradV1(uint32_t rows, uint32_t columns, Kernels* kernels)
      : SradCoefficients("SRAD3", rows, columns, kernels),
        above_(kernels->Allocate<uint32_t>(rows, "SRAD3 rows above")),
        below_(kernels->Allocate<uint32_t>(rows, "SRAD3 rows below")),
        left_(kernels->Allocate<uint32_t>(columns, "SRAD3 columns left")),
        right_(kernels->Allocate<uint32_t>(columns, "SRAD3 columns right")) {}

 private:
  Launch Only() const override {
    return Make(kernels::srad_v1_info,
                GridFor(image_.values.size(), kernels::kSradV1Block),
                {kernels::kSradV1Block, 1, 1},
                kernels::SradV1Args{
                    image_.read_only(), results_[0].span(), results_[3].span(),
                    results_[4].span(), results_[1].span(), results_[2].span(),
                    left_.read_only(), right_.read_only(), above_.read_only(),
                    below_.read_only(), kSpeckle});
  }
  void Fill(std::mt19937& random) override {
    SradCoefficients::Fill(random);
    const auto neighbours = [](const Array<uint32_t>& before,
                               const Array<uint32_t>& behind) {
      const auto count = static_cast<uint32_t>(before.values.size());
      for (uint32_t i = 0; i < count; ++i) {
        before.values[i] = i == 0 ? 0 : i - 1;
        behind.values[i] = std::min(i + 1, count - 1);
      }
    };
    neighbours(above_, below_);
    neighbours(left_, right_);
  }

  const Array<uint32_t> above_, below_, left_, right_;
};

}  // namespace

std::unique_ptr<Background> MakeKmnInvert(Size size, Kernels* kernels) {
  return size == Size::kFull ? std::make_unique<KmnInvert>(65536, 34, kernels)
                             : std::make_unique<KmnInvert>(1000, 7, kernels);
}

std::unique_ptr<Background> MakeLudInternal(Size size, Kernels* kernels) {
  return std::make_unique<LudInternal>(size == Size::kFull ? 512 : 48, kernels);
}

std::unique_ptr<Background> MakeBpForward(Size size, Kernels* kernels) {
  return std::make_unique<BpForward>(size == Size::kFull ? 65536 : 320,
                                     kernels);
}

std::unique_ptr<Background> MakeBpAdjust(Size size, Kernels* kernels) {
  return std::make_unique<BpAdjust>(size == Size::kFull ? 65536 : 320, kernels);
}

// The size of Rodinia's picture.
std::unique_ptr<Background> MakeSradExtract(Size size, Kernels* kernels) {
  return std::make_unique<SradExtract>(size == Size::kFull ? 502 * 458 : 1300,
                                       kernels);
}

std::unique_ptr<Background> MakeSradV2(Size size, Kernels* kernels) {
  return size == Size::kFull ? std::make_unique<SradV2>(512, 512, kernels)
                             : std::make_unique<SradV2>(32, 48, kernels);
}

std::unique_ptr<Background> MakeSradV1(Size size, Kernels* kernels) {
  return size == Size::kFull ? std::make_unique<SradV1>(458, 502, kernels)
                             : std::make_unique<SradV1>(30, 45, kernels);
}

}  // namespace carillon::sim::figures

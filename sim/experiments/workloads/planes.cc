#include <algorithm>

#include "fmt/format.h"
#include "kernels/background/edge_references.h"
#include "kernels/background/heartwall.cuh"
#include "kernels/background/hotspot.cuh"
#include "kernels/background/lud.cuh"
#include "kernels/background/srad_v2.cuh"
#include "sim/experiments/workloads/backgrounds.h"
#include "sim/experiments/workloads/compare.h"

namespace carillon::sim::figures {
namespace {

namespace reference = kernels::reference;

class Hotsp final : public Background {
 public:
  Hotsp(uint32_t rows, uint32_t columns, Kernels* kernels)
      : Background("HOTSP",
                   fmt::format("chip of {}x{}, 2 steps", rows, columns),
                   kernels),
        rows_(rows),
        columns_(columns),
        power_(kernels->Allocate<float>(rows * columns, "HOTSP power")),
        from_(kernels->Allocate<float>(rows * columns, "HOTSP from")),
        to_(kernels->Allocate<float>(rows * columns, "HOTSP to")) {}

  std::optional<Launch> Next() override {
    if (step_++ != 0) return std::nullopt;
    constexpr uint32_t kUseful = kernels::kHotspotUseful;
    return Make(kernels::hotspot_info,
                {(columns_ + kUseful - 1) / kUseful,
                 (rows_ + kUseful - 1) / kUseful, 1},
                {kernels::kHotspotBlock, kernels::kHotspotBlock, 1}, args());
  }

 private:
  kernels::HotspotArgs args() const {
    return {power_.read_only(),
            from_.read_only(),
            to_.span(),
            rows_,
            columns_,
            kernels::kHotspotSteps,
            kBy.step_by_capacity,
            kBy.by_rx,
            kBy.by_ry,
            kBy.by_rz};
  }
  void Fill(std::mt19937& random) override {
    for (float& p : power_.values) p = static_cast<float>(random() % 100) / 50;
    for (float& t : from_.values) {
      t = 320 + static_cast<float>(random() % 1000) / 50;
    }
    std::ranges::fill(to_.values, -1.0f);
  }
  absl::Status CheckOutput() const override {
    std::vector<double> expected(from_.values.begin(), from_.values.end());
    for (int32_t step = 0; step < kernels::kHotspotSteps; ++step) {
      expected =
          reference::HotspotStep(power_.values, expected, rows_, columns_, kBy);
    }
    return Compare("HOTSP: cell", to_.values, expected, 1e-3);
  }

  static constexpr kernels::HotspotCoefficients kBy{0.1f, 1.1f, 0.7f, 0.01f};
  const uint32_t rows_, columns_;
  const Array<float> power_, from_, to_;
};

class Hrtwl final : public Background {
 public:
  Hrtwl(uint32_t width, uint32_t height, uint32_t points, uint32_t pattern,
        uint32_t search, Kernels* kernels)
      : Background("HRTWL",
                   fmt::format("{} templates of {}x{}, each at {}x{} places",
                               points, pattern, pattern, search, search),
                   kernels),
        width_(width),
        height_(height),
        pattern_(pattern),
        search_(search),
        frame_(kernels->Allocate<float>(width * height, "HRTWL frame")),
        templates_(kernels->Allocate<float>(points * pattern * pattern,
                                            "HRTWL templates")),
        places_(
            kernels->Allocate<kernels::HeartwallPlace>(points, "HRTWL places")),
        scores_(kernels->Allocate<float>(points, "HRTWL scores")),
        scratch_(kernels->Allocate<float>(points * search * search,
                                          "HRTWL scratch")) {}

  std::optional<Launch> Next() override {
    if (step_++ != 0) return std::nullopt;
    return Make(
        kernels::heartwall_info,
        {static_cast<uint32_t>(places_.values.size()), 1, 1},
        {kernels::kHeartwallBlock, 1, 1},
        kernels::HeartwallArgs{frame_.read_only(), templates_.read_only(),
                               places_.span(), scores_.span(), scratch_.span(),
                               width_, height_, pattern_, search_});
  }

 private:
  reference::Picture picture() const {
    return {frame_.values, width_, height_};
  }
  void Fill(std::mt19937& random) override {
    for (float& x : frame_.values) x = static_cast<float>(random() % 32);
    was_.clear();
    size_t at = 0;
    for (kernels::HeartwallPlace& place : places_.values) {
      place = {static_cast<uint32_t>(random() % width_),
               static_cast<uint32_t>(random() % height_)};
      was_.push_back(place);
      // The point's appearance lies within the search area.
      const auto away = [&] {
        return static_cast<int>(random() % search_) -
               static_cast<int>(search_ / 2);
      };
      const int x = static_cast<int>(place.x) + away();
      const int y = static_cast<int>(place.y) + away();
      const int half = static_cast<int>(pattern_ / 2);
      for (int dy = -half; dy <= half; ++dy) {
        for (int dx = -half; dx <= half; ++dx) {
          templates_.values[at++] = picture().at(x + dx, y + dy);
        }
      }
    }
    std::ranges::fill(scores_.values, -9.0f);
  }
  absl::Status CheckOutput() const override {
    std::vector<uint32_t> got, expected;
    std::vector<double> scores;
    const size_t area = size_t{pattern_} * pattern_;
    for (size_t i = 0; i < was_.size(); ++i) {
      const reference::HeartwallMatch best = reference::HeartwallBest(
          picture(), templates_.values.subspan(i * area, area), pattern_,
          search_, was_[i]);
      const auto number = [&](const kernels::HeartwallPlace& place) {
        return place.y * width_ + place.x;
      };
      got.push_back(number(places_.values[i]));
      expected.push_back(number(best.place));
      scores.push_back(best.score);
    }
    absl::Status status = Compare("HRTWL: place", got, expected);
    status.Update(Compare("HRTWL: score", scores_.values, scores, 1e-3));
    return status;
  }

  const uint32_t width_, height_, pattern_, search_;
  const Array<float> frame_, templates_;
  const Array<kernels::HeartwallPlace> places_;
  const Array<float> scores_, scratch_;
  std::vector<kernels::HeartwallPlace> was_;
};

class Lud final : public Background {
 public:
  Lud(uint32_t n, Kernels* kernels)
      : Background("LUD", fmt::format("{}x{} matrix", n, n), kernels),
        n_(n),
        matrix_(kernels->Allocate<float>(n * n, "LUD matrix")) {}

  std::optional<Launch> Next() override {
    const uint32_t offset = step_ / 3 * kernels::kLudBlock;
    const uint32_t kernel = step_ % 3;
    const uint32_t left = (n_ - offset) / kernels::kLudBlock - 1;
    // The last block on the diagonal has no neighbours.
    if (left == 0 && kernel != 0) return std::nullopt;
    ++step_;
    const kernels::LudArgs args{matrix_.span(), n_, offset};
    switch (kernel) {
      case 0:
        return Make(kernels::lud_diagonal_info, {1, 1, 1},
                    {kernels::kLudBlock, 1, 1}, args);
      case 1:
        return Make(kernels::lud_perimeter_info, {left, 1, 1},
                    {2 * kernels::kLudBlock, 1, 1}, args);
      default:
        return Make(kernels::lud_internal_info, {left, left, 1},
                    {kernels::kLudBlock, kernels::kLudBlock, 1}, args);
    }
  }

 private:
  void Fill(std::mt19937& random) override {
    for (float& x : matrix_.values) {
      x = static_cast<float>(random() % 2001) / 1000.0f - 1.0f;
    }
    // A strong diagonal makes elimination without pivoting possible.
    for (uint32_t i = 0; i < n_; ++i) {
      matrix_.values[i * n_ + i] += static_cast<float>(n_);
    }
    before_.assign(matrix_.values.begin(), matrix_.values.end());
  }
  absl::Status CheckOutput() const override {
    return Compare("LUD: element of L * U",
                   reference::LudProduct(matrix_.values, n_), before_,
                   1e-4 * n_);
  }

  const uint32_t n_;
  const Array<float> matrix_;
  std::vector<float> before_;
};

class Srad final : public Background {
 public:
  Srad(uint32_t rows, uint32_t columns, Kernels* kernels)
      : Background("SRAD", fmt::format("image of {}x{}", rows, columns),
                   kernels),
        rows_(rows),
        columns_(columns),
        image_(kernels->Allocate<float>(rows * columns, "SRAD image")),
        c_(kernels->Allocate<float>(rows * columns, "SRAD coefficients")),
        north_(kernels->Allocate<float>(rows * columns, "SRAD north")),
        south_(kernels->Allocate<float>(rows * columns, "SRAD south")),
        west_(kernels->Allocate<float>(rows * columns, "SRAD west")),
        east_(kernels->Allocate<float>(rows * columns, "SRAD east")) {}

  std::optional<Launch> Next() override {
    const Dim3 grid{columns_ / kernels::kSradV2Block,
                    rows_ / kernels::kSradV2Block, 1};
    const Dim3 block{kernels::kSradV2Block, kernels::kSradV2Block, 1};
    switch (step_++) {
      case 0:
        return Make(
            kernels::srad_v2_1_info, grid, block,
            kernels::SradV2FirstArgs{image_.read_only(), c_.span(),
                                     north_.span(), south_.span(), west_.span(),
                                     east_.span(), rows_, columns_, kSpeckle});
      case 1:
        return Make(kernels::srad_v2_2_info, grid, block,
                    kernels::SradV2SecondArgs{
                        image_.span(), c_.read_only(), north_.read_only(),
                        south_.read_only(), west_.read_only(),
                        east_.read_only(), rows_, columns_, kLambda});
      default:
        return std::nullopt;
    }
  }

 private:
  static constexpr float kSpeckle = 0.3f;
  static constexpr float kLambda = 0.5f;

  void Fill(std::mt19937& random) override {
    for (float& x : image_.values) {
      x = 0.5f + static_cast<float>(random() % 1000) / 500;
    }
    before_.assign(image_.values.begin(), image_.values.end());
  }
  absl::Status CheckOutput() const override {
    return Compare(
        "SRAD: pixel", image_.values,
        reference::SradDiffused(before_, rows_, columns_, kSpeckle, kLambda),
        1e-3);
  }

  const uint32_t rows_, columns_;
  const Array<float> image_, c_, north_, south_, west_, east_;
  std::vector<double> before_;
};

}  // namespace

std::unique_ptr<Background> MakeHotsp(Size size, Kernels* kernels) {
  return size == Size::kFull ? std::make_unique<Hotsp>(512, 512, kernels)
                             : std::make_unique<Hotsp>(50, 37, kernels);
}

// Rodinia's frame and points; its templates of 51x51 at 81x81 places would take
// 100 times as long as the other kernels.
std::unique_ptr<Background> MakeHrtwl(Size size, Kernels* kernels) {
  return size == Size::kFull
             ? std::make_unique<Hrtwl>(609, 590, 51, 17, 21, kernels)
             : std::make_unique<Hrtwl>(60, 50, 3, 5, 7, kernels);
}

std::unique_ptr<Background> MakeLud(Size size, Kernels* kernels) {
  return std::make_unique<Lud>(size == Size::kFull ? 256 : 48, kernels);
}

// A quarter of the length of srad_v2's sides.
std::unique_ptr<Background> MakeSrad(Size size, Kernels* kernels) {
  return size == Size::kFull ? std::make_unique<Srad>(512, 512, kernels)
                             : std::make_unique<Srad>(32, 48, kernels);
}

}  // namespace carillon::sim::figures

#include "devices/fpga/cardiac_wave.h"

#include <cmath>

namespace carillon::fpga {
namespace {

// A pixel's beat begins so long before its activation. The front is below half
// a grey level there, so beats join without a seam.
constexpr double kLead = 12.0;

double Front(double time, double scale) {
  return 1 / (1 + std::exp(-time / scale));
}

}  // namespace

CardiacWave::CardiacWave(uint32_t width, uint32_t height)
    : width_(width), height_(height), course_(kPeriod * kSteps) {
  // The source lies left of the image, a third of the way down.
  const double source_x = -0.25 * width - 8;
  const double source_y = height / 3.0;
  activation_.reserve(uint64_t{width} * height);
  for (uint32_t y = 0; y < height; ++y) {
    for (uint32_t x = 0; x < width; ++x) {
      const double distance = std::hypot(x - source_x, y - source_y);
      activation_.push_back(
          static_cast<uint32_t>(std::lround(distance / kSpeed * kSteps)));
    }
  }
  for (uint32_t i = 0; i < course_.size(); ++i) {
    const double time = static_cast<double>(i) / kSteps - kLead;
    const double excitation = Front(time, kFrontWidth / kSpeed) *
                              (1 - Front(time - kDuration, kRecoveryTime));
    course_[i] = static_cast<uint8_t>(
        std::lround(kResting + (kExcited - kResting) * excitation));
  }
}

void CardiacWave::Render(uint64_t index, std::span<uint8_t> pixels) const {
  const auto beat = static_cast<uint32_t>(course_.size());
  const auto lead = static_cast<uint32_t>(kLead * kSteps);
  const auto now =
      static_cast<uint32_t>(index % kPeriod) * kSteps + lead + beat;
  for (size_t i = 0; i < activation_.size(); ++i) {
    pixels[i] = course_[(now - activation_[i] % beat) % beat];
  }
}

double CardiacWave::ActivationTime(uint64_t pixel) const {
  return static_cast<double>(activation_[pixel]) / kSteps;
}

}  // namespace carillon::fpga

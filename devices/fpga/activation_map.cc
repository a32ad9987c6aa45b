#include "devices/fpga/activation_map.h"

#include <algorithm>
#include <cmath>

namespace carillon::fpga {

ActivationMap::ActivationMap(const CardiacWave* wave)
    : wave_(wave), seen_(uint64_t{wave->width()} * wave->height()) {}

void ActivationMap::Add(uint64_t index, std::span<const uint8_t> pixels) {
  if (last_index_ && index == *last_index_ + 1) {
    for (size_t i = 0; i < seen_.size(); ++i) {
      if (last_[i] >= CardiacWave::kThreshold ||
          pixels[i] < CardiacWave::kThreshold)
        continue;
      const double time =
          static_cast<double>(*last_index_) +
          (CardiacWave::kThreshold - last_[i]) / (pixels[i] - last_[i]);
      const double error = std::fabs(std::remainder(
          time - wave_->ActivationTime(i), CardiacWave::kPeriod));
      ++activations_;
      if (error > kTolerance) ++errors_;
      largest_error_ = std::max(largest_error_, error);
      if (seen_[i] < 255) ++seen_[i];
    }
    if (++steps_ == CardiacWave::kPeriod) {
      errors_ += static_cast<uint64_t>(
          std::count_if(seen_.begin(), seen_.end(),
                        [](uint8_t times) { return times != 1; }));
      steps_ = 0;
      std::fill(seen_.begin(), seen_.end(), 0);
    }
  } else {
    steps_ = 0;
    std::fill(seen_.begin(), seen_.end(), 0);
  }
  last_index_ = index;
  last_.assign(pixels.begin(), pixels.end());
}

}  // namespace carillon::fpga

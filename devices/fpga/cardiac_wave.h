// Synthetic frames of cardiac optical mapping with a known answer: a wave of
// excitation crosses the tissue again and again, and a formula, not a
// simulation, gives the time at which it reaches each pixel.
//
// The upstroke is the exact travelling front of Nagumo's equation, u_t = D u_xx
// + u (1 - u) (u - a):  u = 1 / (1 + exp(-c (t - T) / sqrt(2 D))), with speed c
// and T the activation time, when u is 1/2. A second front of the same form,
// slower and one action-potential duration later, is the recovery. The wave
// starts at a point outside of the image, so T(x, y) = distance / c.
#ifndef CARILLON_DEVICES_FPGA_CARDIAC_WAVE_H_
#define CARILLON_DEVICES_FPGA_CARDIAC_WAVE_H_

#include <cstdint>
#include <span>
#include <vector>

namespace carillon::fpga {

// Times are in frames, distances in pixels. Immutable: thread safe.
class CardiacWave {
 public:
  static constexpr uint32_t kPeriod = 120;    // a beat
  static constexpr double kSpeed = 2.0;       // c
  static constexpr double kFrontWidth = 3.0;  // sqrt(2 D)
  static constexpr double kDuration = 40.0;   // the action potential's duration
  // The width of the falling front.
  static constexpr double kRecoveryTime = 4.0;
  static constexpr uint8_t kResting = 40;
  static constexpr uint8_t kExcited = 200;
  // A pixel's grey level rises through this value at its activation.
  static constexpr double kThreshold = (kResting + kExcited) / 2.0;

  CardiacWave(uint32_t width, uint32_t height);

  uint32_t width() const { return width_; }
  uint32_t height() const { return height_; }
  // Renders frame `index` row by row; `pixels` has width() * height() bytes.
  // Frames repeat after kPeriod.
  void Render(uint64_t index, std::span<uint8_t> pixels) const;
  // When the first wave activates a pixel (row by row); each later wave does so
  // kPeriod after the last.
  double ActivationTime(uint64_t pixel) const;

 private:
  static constexpr uint32_t kSteps = 64;  // steps of time per frame

  const uint32_t width_;
  const uint32_t height_;
  std::vector<uint32_t> activation_;  // in steps
  std::vector<uint8_t> course_;       // one beat of a pixel, in steps
};

}  // namespace carillon::fpga

#endif  // CARILLON_DEVICES_FPGA_CARDIAC_WAVE_H_

#include "devices/cpu_host/frame_judge.h"

#include <cmath>

#include "devices/fpga/image.h"
#include "devices/fpga/references.h"
#include "fmt/format.h"

namespace carillon::cpu_host {

using fpga::CardiacWave;
using fpga::FrameTag;
using fpga::GreyImage;

FrameJudge::FrameJudge(uint32_t width, uint32_t height, uint64_t expected)
    : wave_(width, height),
      expected_(expected),
      map_(&wave_),
      references_(CardiacWave::kPeriod) {}

uint64_t FrameJudge::CoefficientsOf(uint32_t width, uint32_t height) {
  return fpga::DctBlocks(width, height) * 64;
}

uint64_t FrameJudge::missing() const {
  const uint64_t behind = expected_ > next_ ? expected_ - next_ : 0;
  return missed_before_ + missing_.size() + behind;
}

std::string FrameJudge::WhatIsWrong(const FrameTag& tag) const {
  if (tag.magic != FrameTag::kMagic) {
    return fmt::format(
        "no tag is behind {}x{} pixels: is that the fpga's size?",
        wave_.width(), wave_.height());
  }
  if (tag.width != wave_.width() || tag.height != wave_.height()) {
    return fmt::format("it is one of {}x{}, expected {}x{}", tag.width,
                       tag.height, wave_.width(), wave_.height());
  }
  const uint64_t next = stream_ == tag.stream ? next_ : 0;
  const bool beyond = stream_ == tag.stream && tag.number > next + kMostAhead;
  if (beyond || (expected_ != 0 && tag.number >= expected_)) {
    return fmt::format("its number is {}, and the last was {}", tag.number,
                       static_cast<int64_t>(next) - 1);
  }
  return "";
}

// False: it came before.
bool FrameJudge::NoteNumber(uint64_t number) {
  if (number < next_) return missing_.erase(number) != 0;
  if (number - next_ > kMostBehind) {
    missed_before_ += number - kMostBehind - next_;
    next_ = number - kMostBehind;
  }
  for (; next_ < number; ++next_) missing_.insert(missing_.end(), next_);
  ++next_;
  while (!missing_.empty() && *missing_.begin() + kMostBehind < number) {
    missing_.erase(missing_.begin());
    ++missed_before_;
  }
  return true;
}

const std::vector<double>& FrameJudge::Reference(uint64_t number) {
  std::vector<double>& reference = references_[number % CardiacWave::kPeriod];
  if (reference.empty()) {
    GreyImage frame{
        .width = wave_.width(), .height = wave_.height(), .pixels = {}};
    frame.pixels.resize(uint64_t{frame.width} * frame.height);
    wave_.Render(number, frame.pixels);
    reference = fpga::Dct8x8(
        fpga::Conv5x5(frame, fpga::kSmoothingWeights, fpga::kSmoothingShift));
  }
  return reference;
}

std::string FrameJudge::Compare(uint64_t number,
                                std::span<const float> coefficients) {
  const std::vector<double>& expected = Reference(number);
  for (size_t i = 0; i < expected.size(); ++i) {
    // Written so that a NaN counts as wrong.
    if (std::fabs(coefficients[i] - expected[i]) <= fpga::kDctTolerance) {
      continue;
    }
    return fmt::format("coefficient {} of block {} is {}, expected {:.3f}",
                       i % 64, i / 64, coefficients[i], expected[i]);
  }
  return "";
}

FrameJudge::Finding FrameJudge::Take(const FrameTag& tag,
                                     std::span<const float> coefficients,
                                     Nanoseconds now) {
  Finding finding;
  ++counts_.frames;
  if (finding.wrong = WhatIsWrong(tag); !finding.wrong.empty()) {
    ++counts_.wrong;
    return finding;
  }
  if (stream_ != tag.stream) {
    missed_before_ += missing_.size();
    missing_.clear();
    next_ = expected_ != 0 ? 0 : tag.number;
    last_.reset();
    stream_ = tag.stream;
  }
  if (!NoteNumber(tag.number)) {
    finding.twice = true;
    ++counts_.twice;
    return finding;
  }
  finding.wrong = Compare(tag.number, coefficients);
  if (!finding.wrong.empty()) {
    ++counts_.wrong;
  } else {
    map_.Add(tag.number, fpga::InverseDct8x8(wave_.width(), wave_.height(),
                                             coefficients.data())
                             .pixels);
  }
  finding.latency = now - tag.exposed_ns;
  if (tag.deadline_ns == 0) return finding;
  finding.tardiness = now > tag.deadline_ns ? now - tag.deadline_ns : 0;
  if (*finding.tardiness > 0) ++counts_.late;
  if (last_) {
    const Nanoseconds due =
        last_->came_ns + (tag.exposed_ns - last_->exposed_ns);
    finding.jitter = now > due ? now - due : due - now;
  }
  last_ = Last{tag.exposed_ns, now};
  return finding;
}

}  // namespace carillon::cpu_host

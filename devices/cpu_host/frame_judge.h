// Judges the frames that reach the end of an imaging pipeline: each against what
// it must show, and all of them together by their numbers.
#ifndef CARILLON_DEVICES_CPU_HOST_FRAME_JUDGE_H_
#define CARILLON_DEVICES_CPU_HOST_FRAME_JUDGE_H_

#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "devices/fpga/activation_map.h"
#include "devices/fpga/cardiac_wave.h"
#include "devices/fpga/frame_tag.h"

namespace carillon::cpu_host {

// Frames of the cardiac wave, smoothed by conv5x5 and transformed by dct8x8. Not
// thread safe.
class FrameJudge {
 public:
  // What is known of one frame.
  struct Finding {
    std::string wrong;                     // what is; empty: nothing
    bool twice = false;                    // it came before
    Nanoseconds latency = 0;               // since it was exposed
    std::optional<Nanoseconds> tardiness;  // at a rate: 0 in time
    std::optional<Nanoseconds> jitter;     // at a rate, from the second on
  };
  struct Counts {
    uint64_t frames =
        0;  // that came, the wrong ones and repetitions among them
    uint64_t wrong = 0;
    uint64_t twice = 0;
    uint64_t late = 0;  // behind their deadlines
  };

  // `expected`: numbers 0 to `expected` - 1 have to come; 0: as many as come,
  // from the first on.
  FrameJudge(uint32_t width, uint32_t height, uint64_t expected);

  static uint64_t CoefficientsOf(uint32_t width, uint32_t height);

  // Takes one frame that came at `now`. A frame with a tag that cannot be is
  // wrong, and none of the numbers.
  Finding Take(const fpga::FrameTag& tag, std::span<const float> coefficients,
               Nanoseconds now);

  const Counts& counts() const { return counts_; }
  // Numbers that have not come, below the highest that has, or of the expected.
  uint64_t missing() const;
  // Whether the last of the expected frames has come.
  bool complete() const { return expected_ != 0 && next_ >= expected_; }
  const fpga::ActivationMap& map() const { return map_; }

 private:
  // Frames that a stream may be ahead of the last: a later number is no frame's.
  static constexpr uint64_t kMostAhead = 1 << 20;
  // Numbers farther behind are missing for good: a frame that comes with one is
  // taken for a repetition.
  static constexpr uint64_t kMostBehind = 1 << 16;

  std::string WhatIsWrong(const fpga::FrameTag& tag) const;
  std::string Compare(uint64_t number, std::span<const float> coefficients);
  const std::vector<double>& Reference(uint64_t number);
  bool NoteNumber(uint64_t number);

  const fpga::CardiacWave wave_;
  const uint64_t expected_;
  fpga::ActivationMap map_;
  // Of each frame of a beat, once it was needed.
  std::vector<std::vector<double>> references_;
  Counts counts_;
  std::optional<uint64_t> stream_;
  uint64_t next_ = 0;           // the highest number that came, and 1
  std::set<uint64_t> missing_;  // numbers below it
  uint64_t missed_before_ = 0;  // of streams that have ended, or far behind
  struct Last {
    Nanoseconds exposed_ns;
    Nanoseconds came_ns;
  };
  std::optional<Last> last_;
};

}  // namespace carillon::cpu_host

#endif  // CARILLON_DEVICES_CPU_HOST_FRAME_JUDGE_H_

// How punctual the results of a stream at a fixed rate are, as GPES (RTAS'15,
// section III) counts it for frames of a video.
#ifndef CARILLON_DEVICES_FPGA_PUNCTUALITY_H_
#define CARILLON_DEVICES_FPGA_PUNCTUALITY_H_

#include <cstdint>
#include <optional>

#include "base/clock.h"

namespace carillon::fpga {

// Not thread safe.
class Punctuality {
 public:
  struct Figures {
    // How long after its deadline the result came: that is when the next frame is
    // due. 0 for one in time.
    Nanoseconds tardiness = 0;
    // How far the time since the result before is from the time between the two
    // frames, too long or too short. None for the first result.
    std::optional<Nanoseconds> jitter;
  };

  // `fps` is greater than 0.
  Punctuality(Nanoseconds start_ns, double fps)
      : start_ns_(start_ns), fps_(fps) {}

  // When a frame is due: frame 0 at the start.
  Nanoseconds Due(uint64_t frame) const;
  // Takes results in ascending order of frames. Between two of them there may be
  // frames that were dropped.
  Figures Add(uint64_t frame, Nanoseconds done_ns);

 private:
  struct Result {
    uint64_t frame;
    Nanoseconds done_ns;
  };

  Nanoseconds start_ns_;
  double fps_;
  std::optional<Result> last_;
};

}  // namespace carillon::fpga

#endif  // CARILLON_DEVICES_FPGA_PUNCTUALITY_H_

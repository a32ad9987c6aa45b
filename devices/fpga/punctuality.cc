#include "devices/fpga/punctuality.h"

#include <cmath>

namespace carillon::fpga {

Nanoseconds Punctuality::Due(uint64_t frame) const {
  return start_ns_ + static_cast<Nanoseconds>(
                         std::llround(static_cast<double>(frame) * 1e9 / fps_));
}

Punctuality::Figures Punctuality::Add(uint64_t frame, Nanoseconds done_ns) {
  Figures figures;
  const Nanoseconds deadline = Due(frame + 1);
  if (done_ns > deadline) figures.tardiness = done_ns - deadline;
  if (last_) {
    const Nanoseconds expected =
        last_->done_ns + (Due(frame) - Due(last_->frame));
    figures.jitter =
        done_ns > expected ? done_ns - expected : expected - done_ns;
  }
  last_ = Result{frame, done_ns};
  return figures;
}

}  // namespace carillon::fpga

// How much slower a kernel runs now than it can.
#ifndef CARILLON_DEVICES_CPU_HOST_SLOWDOWN_H_
#define CARILLON_DEVICES_CPU_HOST_SLOWDOWN_H_

#include <array>
#include <cstdint>

#include "base/clock.h"
#include "shm/histogram.h"
#include "shm/types.h"

namespace carillon::cpu_host {

// Compares equal pieces of work with each other: the median of the last few
// with the median of the fastest tenth of all. Without a co-runner at any time
// it cannot know how fast the kernel would be alone; it then says how even its
// times are. Not thread safe.
class Slowdown {
 public:
  static constexpr uint32_t kRecent = 15;

  void Add(Nanoseconds duration);
  // In thousandths, to 3 %; 0 before the tenth duration.
  uint64_t permille() const;

 private:
  shm::HistogramSnapshot all_;
  std::array<Nanoseconds, kRecent> recent_{};  // a ring
  uint64_t count_ = 0;
};

}  // namespace carillon::cpu_host

#endif  // CARILLON_DEVICES_CPU_HOST_SLOWDOWN_H_

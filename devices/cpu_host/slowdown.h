// Estimates how much slower a kernel runs now than it can.
#ifndef CARILLON_DEVICES_CPU_HOST_SLOWDOWN_H_
#define CARILLON_DEVICES_CPU_HOST_SLOWDOWN_H_

#include <array>
#include <cstdint>

#include "base/clock.h"
#include "shm/histogram.h"
#include "shm/types.h"

namespace carillon::cpu_host {

// Compares equal pieces of work: the median of the last few with the median of
// the fastest tenth of all. If there is always a co-runner it cannot know how
// fast the kernel would be alone; then it shows how even the times are. Not
// thread safe.
class Slowdown {
 public:
  static constexpr uint32_t kRecent = 15;

  void Add(Nanoseconds duration);
  // In thousandths, accurate to 3 %; 0 before the tenth duration.
  uint64_t permille() const;

 private:
  shm::HistogramSnapshot all_;
  std::array<Nanoseconds, kRecent> recent_{};  // a ring
  uint64_t count_ = 0;
};

}  // namespace carillon::cpu_host

#endif  // CARILLON_DEVICES_CPU_HOST_SLOWDOWN_H_

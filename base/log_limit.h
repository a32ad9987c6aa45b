// Keeps a log line that every packet or event could cause from filling the
// disk.
#ifndef CARILLON_BASE_LOG_LIMIT_H_
#define CARILLON_BASE_LOG_LIMIT_H_

#include <cstdint>
#include <utility>

#include "base/clock.h"

namespace carillon {

// The first few lines pass, then one a second. Not thread safe.
class LogLimit {
 public:
  // How many occasions the line written now stands for; 0: write none.
  uint64_t Take(Nanoseconds now) {
    ++occasions_;
    if (passed_ >= kFree && now - last_ns_ < kPeriodNs) return 0;
    ++passed_;
    last_ns_ = now;
    return std::exchange(occasions_, 0);
  }

 private:
  static constexpr uint64_t kFree = 5;
  static constexpr Nanoseconds kPeriodNs = 1'000'000'000;
  uint64_t occasions_ = 0;
  uint64_t passed_ = 0;
  Nanoseconds last_ns_ = 0;
};

}  // namespace carillon

#endif  // CARILLON_BASE_LOG_LIMIT_H_

// Logs warnings about refused peers, at most a few each second, so that nobody
// can fill the log.
#ifndef CARILLON_GPU_DAEMON_CONTROL_NET_REFUSAL_LOG_H_
#define CARILLON_GPU_DAEMON_CONTROL_NET_REFUSAL_LOG_H_

#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include "base/clock.h"

namespace carillon::gpud {

// Not thread safe.
class RefusalLog {
 public:
  static constexpr uint32_t kMaxASecond = 5;

  // gpud's log gets the lines.
  RefusalLog();
  // `write` gets them.
  explicit RefusalLog(std::function<void(const std::string&)> write)
      : write_(std::move(write)) {}

  void Warn(const std::string& line, Nanoseconds now);
  // Logs how many warnings were left out, once their second has passed.
  void Tick(Nanoseconds now);

 private:
  const std::function<void(const std::string&)> write_;
  Nanoseconds second_began_ns_ = 0;
  uint32_t written_ = 0;   // in this second
  uint64_t left_out_ = 0;  // in this second
  std::string last_;       // of those left out
};

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_CONTROL_NET_REFUSAL_LOG_H_

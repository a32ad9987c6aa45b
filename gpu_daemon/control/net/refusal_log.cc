#include "gpu_daemon/control/net/refusal_log.h"

#include <spdlog/spdlog.h>

#include "base/clock.h"
#include "fmt/format.h"

namespace carillon::gpud {
namespace {

constexpr Nanoseconds kSecondNs = 1'000'000'000;

}  // namespace

RefusalLog::RefusalLog()
    : RefusalLog([](const std::string& line) { spdlog::warn("{}", line); }) {}

void RefusalLog::Warn(const std::string& line, Nanoseconds now) {
  Tick(now);
  if (written_ == 0) second_began_ns_ = now;
  if (written_ < kMaxASecond) {
    ++written_;
    write_(line);
    return;
  }
  ++left_out_;
  last_ = line;
}

void RefusalLog::Tick(Nanoseconds now) {
  if (written_ == 0 || now < second_began_ns_ + kSecondNs) return;
  written_ = 0;
  if (left_out_ == 0) return;
  write_(fmt::format("and {} more within a second, the last: {}", left_out_,
                     last_));
  left_out_ = 0;
}

}  // namespace carillon::gpud

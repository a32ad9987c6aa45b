#include "tools/bench/launch/interrupt.h"

#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/clock.h"
#include "base/status.h"

namespace carillon::bench {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kGlance{50};

// Writer: the signal handler; reader: the one thread. Relaxed: it carries
// nothing else.
std::atomic<bool> interrupted{false};
static_assert(std::atomic<bool>::is_always_lock_free);

}  // namespace

void CatchInterrupts() {
  struct sigaction action {};
  action.sa_handler = [](int) {
    interrupted.store(true, std::memory_order_relaxed);
  };
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

absl::Status CheckInterrupt() {
  if (!interrupted.load(std::memory_order_relaxed)) return absl::OkStatus();
  return absl::CancelledError("interrupted");
}

absl::StatusOr<std::string> AwaitLine(LineProcess& child,
                                      milliseconds timeout) {
  const Nanoseconds deadline =
      NowNs() + std::chrono::nanoseconds(timeout).count();
  while (true) {
    auto line = child.ReadLine(kGlance);
    // What Ctrl-C has done to the child is no failure of its own.
    RETURN_IF_ERROR(CheckInterrupt());
    if (!absl::IsDeadlineExceeded(line.status()) || NowNs() >= deadline) {
      return line;
    }
  }
}

absl::StatusOr<Json> AwaitAnswer(LineProcess& device, milliseconds timeout) {
  ASSIGN_OR_RETURN(const auto line, AwaitLine(device, timeout));
  Json answer = Json::parse(line, nullptr, false);
  if (!answer.is_object()) {
    return absl::InternalError(fmt::format("a device says '{}'", line));
  }
  if (!answer.contains("error")) return answer;
  const Json& error = answer["error"];
  return absl::Status(static_cast<absl::StatusCode>(error["code"].get<int>()),
                      error["message"].get<std::string>());
}

absl::Status Sleep(milliseconds time) {
  const auto deadline = std::chrono::steady_clock::now() + time;
  while (true) {
    RETURN_IF_ERROR(CheckInterrupt());
    const auto left = deadline - std::chrono::steady_clock::now();
    if (left <= milliseconds(0)) return absl::OkStatus();
    std::this_thread::sleep_for(
        std::min<std::chrono::steady_clock::duration>(left, kGlance));
  }
}

}  // namespace carillon::bench

#include "base/line_process.h"

#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/status.h"
#include "fmt/format.h"

namespace carillon {

absl::StatusOr<LineProcess> LineProcess::Start(SpawnOptions options) {
  ASSIGN_OR_RETURN(auto to, MakePipe());
  ASSIGN_OR_RETURN(auto from, MakePipe());
  options.in = to.reader.get();
  options.out = from.writer.get();
  ASSIGN_OR_RETURN(auto process, Subprocess::Start(options));
  return LineProcess(std::move(process), std::move(to.writer),
                     std::move(from.reader));
}

absl::StatusOr<bool> LineProcess::ReadMore(Nanoseconds deadline) {
  while (true) {
    const Nanoseconds now = NowNs();
    pollfd ready{from_.get(), POLLIN, 0};
    const int wait_ms =
        now >= deadline ? 0
                        : static_cast<int>((deadline - now) / 1'000'000) + 1;
    const int polled = poll(&ready, 1, wait_ms);
    if (polled < 0 && errno == EINTR) continue;
    if (polled == 0) {
      return absl::DeadlineExceededError(
          fmt::format("process {} does not answer", pid()));
    }
    std::array<char, 4096> bytes;
    const ssize_t got = read(from_.get(), bytes.data(), bytes.size());
    if (got > 0) unread_.append(bytes.data(), static_cast<size_t>(got));
    if (got >= 0 || errno != EINTR) return got > 0;
  }
}

absl::StatusOr<std::string> LineProcess::ReadLine(
    std::chrono::milliseconds timeout) {
  const Nanoseconds deadline =
      NowNs() + std::chrono::nanoseconds(timeout).count();
  while (true) {
    if (const size_t end = unread_.find('\n'); end != std::string::npos) {
      std::string line = unread_.substr(0, end);
      unread_.erase(0, end + 1);
      return line;
    }
    ASSIGN_OR_RETURN(const auto more, ReadMore(deadline));
    if (!more) {
      return absl::AbortedError(
          fmt::format("process {} ended early; its messages are above", pid()));
    }
  }
}

absl::StatusOr<std::string> LineProcess::ReadAll(
    std::chrono::milliseconds timeout) {
  const Nanoseconds deadline =
      NowNs() + std::chrono::nanoseconds(timeout).count();
  while (true) {
    ASSIGN_OR_RETURN(const auto more, ReadMore(deadline));
    if (!more) return std::exchange(unread_, {});
  }
}

absl::Status LineProcess::WriteLine(std::string_view line) {
  std::string bytes(line);
  bytes += '\n';
  // A dead reader must be an error here, not the end of this process.
  struct sigaction ignore {};
  struct sigaction before {};
  ignore.sa_handler = SIG_IGN;
  sigaction(SIGPIPE, &ignore, &before);
  const ssize_t written = write(to_.get(), bytes.data(), bytes.size());
  sigaction(SIGPIPE, &before, nullptr);
  if (written == static_cast<ssize_t>(bytes.size())) return absl::OkStatus();
  return absl::AbortedError(fmt::format("process {} does not listen: {}", pid(),
                                        std::strerror(errno)));
}

void LineProcess::End(int signal, std::chrono::milliseconds grace) {
  if (process_.done()) return;
  to_.reset();
  process_.Signal(signal);
  if (!process_.AwaitEnd(grace)) process_.Signal(SIGKILL);
  process_.Reap();
}

}  // namespace carillon

#include "tools/bench/transports/delay_line.h"

#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <deque>
#include <optional>
#include <utility>

#include "base/clock.h"
#include "base/status.h"
#include "tools/bench/transports/loopback.h"

namespace carillon::bench {
namespace {

// One direction of a connection.
class Way {
 public:
  Way(int from, int to, Nanoseconds delay)
      : from_(from), to_(to), delay_(delay) {}

  int from() const { return from_; }
  std::optional<Nanoseconds> due() const {
    if (coming_.empty()) return std::nullopt;
    return coming_.front().due;
  }
  // False: the connection has ended.
  bool Take() {
    std::array<char, 65536> bytes;
    const ssize_t size = read(from_, bytes.data(), bytes.size());
    if (size <= 0) return false;
    coming_.push_back({NowNs() + delay_,
                       std::string(bytes.data(), static_cast<size_t>(size))});
    return true;
  }
  bool GiveWhatIsDue() {
    while (!coming_.empty() && coming_.front().due <= NowNs()) {
      const std::string& bytes = coming_.front().bytes;
      for (size_t sent = 0; sent < bytes.size();) {
        const ssize_t size =
            send(to_, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
        if (size <= 0) return false;
        sent += static_cast<size_t>(size);
      }
      coming_.pop_front();
    }
    return true;
  }

 private:
  struct Chunk {
    Nanoseconds due;
    std::string bytes;
  };
  const int from_;
  const int to_;
  const Nanoseconds delay_;
  std::deque<Chunk> coming_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<DelayLine>> DelayLine::Start(
    uint16_t to, std::chrono::nanoseconds each_way) {
  ASSIGN_OR_RETURN(auto listener, ListenOnLoopback());
  return std::unique_ptr<DelayLine>(
      new DelayLine(std::move(listener.fd), listener.port, to, each_way));
}

DelayLine::DelayLine(UniqueFd listener, uint16_t port, uint16_t to,
                     std::chrono::nanoseconds each_way)
    : listener_(std::move(listener)),
      port_(port),
      to_(to),
      each_way_(each_way),
      thread_([this] { Run(); }) {}

DelayLine::~DelayLine() {
  stop_.Ring();
  thread_.join();
}

void DelayLine::Run() {
  // The kernel may else sleep 50 us longer than it is asked to.
  prctl(PR_SET_TIMERSLACK, 1);
  while (true) {
    std::array<pollfd, 2> fds = {
        {{stop_.fd(), POLLIN, 0}, {listener_.get(), POLLIN, 0}}};
    if (poll(fds.data(), fds.size(), -1) < 0) continue;
    if (fds[0].revents != 0) return;
    const UniqueFd near(accept(listener_.get(), nullptr, nullptr));
    const auto far = DialLoopback(to_);
    if (near && far.ok()) Carry(near, *far);
  }
}

void DelayLine::Carry(const UniqueFd& near, const UniqueFd& far) {
  mesh::SendAtOnce(near.get());
  mesh::SendAtOnce(far.get());
  const Nanoseconds delay = static_cast<Nanoseconds>(each_way_.count());
  std::array<Way, 2> ways = {Way(near.get(), far.get(), delay),
                             Way(far.get(), near.get(), delay)};
  while (true) {
    std::array<pollfd, 3> fds = {{{stop_.fd(), POLLIN, 0},
                                  {ways[0].from(), POLLIN, 0},
                                  {ways[1].from(), POLLIN, 0}}};
    const Nanoseconds now = NowNs();
    std::optional<Nanoseconds> due;
    for (const Way& way : ways) {
      if (way.due() && (!due || *way.due() < *due)) due = way.due();
    }
    const Nanoseconds left = due && *due > now ? *due - now : 0;
    const timespec wait = {.tv_sec = static_cast<time_t>(left / 1'000'000'000),
                           .tv_nsec = static_cast<long>(left % 1'000'000'000)};
    if (ppoll(fds.data(), fds.size(), due ? &wait : nullptr, nullptr) < 0) {
      continue;
    }
    if (fds[0].revents != 0) return;
    for (size_t i = 0; i < ways.size(); ++i) {
      if (fds[i + 1].revents != 0 && !ways[i].Take()) return;
      if (!ways[i].GiveWhatIsDue()) return;
    }
  }
}

}  // namespace carillon::bench

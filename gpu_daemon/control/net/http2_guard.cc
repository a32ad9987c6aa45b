#include "gpu_daemon/control/net/http2_guard.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "fmt/format.h"

namespace carillon::gpud {
namespace {

constexpr uint8_t kHeaders = 1;
constexpr uint8_t kSettings = 4;
constexpr uint8_t kAck = 1;
constexpr size_t kBufferBytes = 16 << 10;
// Epoll's number for the end of the thread; those of connections follow, each
// shifted by the bit that says which end.
constexpr uint64_t kStopId = 0;

absl::Status NoDescriptors(std::string_view what) {
  return absl::ResourceExhaustedError(
      fmt::format("{}: {}; raise gpud's descriptor limit (ulimit -n)", what,
                  std::strerror(errno)));
}

}  // namespace

bool Http2Frames::Read(std::span<const uint8_t> bytes, bool sent) {
  while (!bytes.empty() && !acknowledged_) {
    if (skip_ > 0) {
      const size_t skipped = std::min(skip_, bytes.size());
      skip_ -= skipped;
      bytes = bytes.subspan(skipped);
      continue;
    }
    header_[header_bytes_++] = bytes[0];
    bytes = bytes.subspan(1);
    if (header_bytes_ < header_.size()) continue;
    header_bytes_ = 0;
    skip_ = size_t{header_[0]} << 16 | size_t{header_[1]} << 8 | header_[2];
    const uint8_t type = header_[3];
    const uint8_t flags = header_[4];
    const bool of_connection =
        std::all_of(header_.begin() + 5, header_.end(),
                    [](uint8_t byte) { return byte == 0; });
    if (type == kHeaders && ++begun_ > kMaxUnacknowledged) return false;
    // gRPC takes no other for an acknowledgement, and one that comes before its
    // SETTINGS for that of its defaults, which are no limits.
    if (type == kSettings && flags == kAck && skip_ == 0 && of_connection) {
      if (!sent) return false;
      acknowledged_ = true;
    }
  }
  return true;
}

absl::StatusOr<std::unique_ptr<Http2Guard>> Http2Guard::Start() {
  UniqueFd epoll(epoll_create1(EPOLL_CLOEXEC));
  UniqueFd stop(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = kStopId;
  if (!epoll || !stop ||
      epoll_ctl(epoll.get(), EPOLL_CTL_ADD, stop.get(), &event) != 0) {
    return NoDescriptors("epoll");
  }
  std::unique_ptr<Http2Guard> guard(
      new Http2Guard(std::move(epoll), std::move(stop)));
  guard->thread_ = std::thread([self = guard.get()] { self->Run(); });
  return guard;
}

Http2Guard::Http2Guard(UniqueFd epoll, UniqueFd stop)
    : epoll_(std::move(epoll)), stop_(std::move(stop)) {}

Http2Guard::~Http2Guard() {
  eventfd_write(stop_.get(), 1);
  if (thread_.joinable()) thread_.join();
}

absl::StatusOr<std::pair<UniqueFd, UniqueFd>> Http2Guard::MakePair() {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0,
                 ends) != 0) {
    return NoDescriptors("socketpair");
  }
  return std::pair(UniqueFd(ends[0]), UniqueFd(ends[1]));
}

absl::Status Http2Guard::Carry(UniqueFd client, UniqueFd server,
                               std::string name) {
  MutexLock lock(mutex_);
  const uint64_t id = next_id_++;
  Connection& connection = connections_[id];
  connection.name = std::move(name);
  connection.ways[0].from = std::move(client);
  connection.ways[1].from = std::move(server);
  if (!Watch(id, connection, EPOLL_CTL_ADD)) {
    absl::Status status = NoDescriptors("epoll_ctl");
    connections_.erase(id);
    return status;
  }
  return absl::OkStatus();
}

// An end is read when what came from it before has gone, and written to when
// something waits for it.
bool Http2Guard::Watch(uint64_t id, const Connection& connection,
                       int operation) {
  bool watched = true;
  for (const uint64_t end : {0, 1}) {
    const Way& to = connection.ways[end];
    const Way& back = connection.ways[1 - end];
    epoll_event event{};
    if (to.empty()) event.events |= EPOLLIN;
    if (!back.empty()) event.events |= EPOLLOUT;
    event.data.u64 = id << 1 | end;
    watched &= epoll_ctl(epoll_.get(), operation, to.from.get(), &event) == 0;
  }
  return watched;
}

Http2Guard::Step Http2Guard::Move(Connection& connection, bool hung_up) {
  bool moved = false;
  for (const size_t end : {0, 1}) {
    Way& way = connection.ways[end];
    const int to = connection.ways[1 - end].from.get();
    if (way.empty()) {
      way.bytes.resize(kBufferBytes);
      const ssize_t got = recv(way.from.get(), way.bytes.data(),
                               way.bytes.size(), MSG_DONTWAIT);
      const bool later = got < 0 && (errno == EAGAIN || errno == EINTR);
      way.bytes.resize(std::max<ssize_t>(got, 0));
      way.gone = 0;
      if (got <= 0 && !later) return Step::kEnded;
      if (end == 0 && !connection.frames.Read(way.bytes, connection.sent)) {
        return Step::kBroken;
      }
    }
    if (way.empty()) continue;
    const ssize_t sent =
        send(to, way.bytes.data() + way.gone, way.bytes.size() - way.gone,
             MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0) {
      if (errno != EAGAIN && errno != EINTR) return Step::kEnded;
      if (hung_up) return Step::kEnded;
      continue;
    }
    moved = true;
    way.gone += static_cast<size_t>(sent);
    if (end == 1) connection.sent = true;
  }
  return moved ? Step::kMoved : Step::kIdle;
}

void Http2Guard::Run() {
  std::array<epoll_event, 64> events;
  while (true) {
    const int ready =
        epoll_wait(epoll_.get(), events.data(), events.size(), -1);
    for (int i = 0; i < ready; ++i) {
      // Copies, because epoll_event is packed.
      const uint64_t key = events[i].data.u64;
      const uint32_t what = events[i].events;
      MutexLock lock(mutex_);
      if (key == kStopId) {
        for (auto& [id, last] : connections_) {
          while (Move(last, true) == Step::kMoved) {
          }
        }
        return connections_.clear();
      }
      // One that has ended may have another event in this round.
      const auto found = connections_.find(key >> 1);
      if (found == connections_.end()) continue;
      Connection& connection = found->second;
      const Step step = Move(connection, (what & (EPOLLHUP | EPOLLERR)) != 0);
      if (step == Step::kMoved || step == Step::kIdle) {
        Watch(found->first, connection, EPOLL_CTL_MOD);
        continue;
      }
      if (step == Step::kBroken) {
        refusals_.Warn(
            fmt::format("connection of {} ended: it began {} calls and did not "
                        "acknowledge gpud's SETTINGS, or did before they were "
                        "sent; an HTTP/2 client acknowledges them first",
                        connection.name, Http2Frames::kMaxUnacknowledged),
            NowNs());
      }
      connections_.erase(found);
    }
  }
}

void Http2Guard::Tick(Nanoseconds now) {
  MutexLock lock(mutex_);
  refusals_.Tick(now);
}

}  // namespace carillon::gpud

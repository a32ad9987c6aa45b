#include "gpu_daemon/control/net/tcp_listener.h"

#include <arpa/inet.h>
#include <linux/tcp.h>  // the C library's lacks tcpi_bytes_received
#include <netinet/in.h>
#include <spdlog/spdlog.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/clock.h"
#include "base/host_port.h"
#include "base/status.h"
#include "fmt/format.h"
#include "gpu_daemon/control/net/accept.h"

namespace carillon::gpud {
namespace {

constexpr int kBacklog = 64;
// What a client has sent when a flood is noticed, gRPC may have read: some
// thousand calls in so many bytes.
constexpr int kReceiveBytes = 16 << 10;
// A peer whose machine is gone, or that is stopped and takes no more bytes, is
// given up after this long.
constexpr int kSilentMs = 20'000;
constexpr int kProbeEveryS = 5;

struct Address {
  sockaddr_storage storage{};
  socklen_t size = sizeof(sockaddr_storage);
  sockaddr* any() { return reinterpret_cast<sockaddr*>(&storage); }
};

Address ToAddress(const HostPort& host_port) {
  Address address;
  auto* const v4 = reinterpret_cast<sockaddr_in*>(&address.storage);
  auto* const v6 = reinterpret_cast<sockaddr_in6*>(&address.storage);
  if (inet_pton(AF_INET, host_port.host.c_str(), &v4->sin_addr) == 1) {
    v4->sin_family = AF_INET;
    v4->sin_port = htons(host_port.port);
    address.size = sizeof(sockaddr_in);
  } else {
    inet_pton(AF_INET6, host_port.host.c_str(), &v6->sin6_addr);
    v6->sin6_family = AF_INET6;
    v6->sin6_port = htons(host_port.port);
    address.size = sizeof(sockaddr_in6);
  }
  return address;
}

// An IPv4 address in an IPv6 one is told as the former, as gRPC does.
HostPort ToHostPort(const Address& address) {
  char text[INET6_ADDRSTRLEN] = "";
  if (address.storage.ss_family == AF_INET) {
    const auto* const v4 =
        reinterpret_cast<const sockaddr_in*>(&address.storage);
    inet_ntop(AF_INET, &v4->sin_addr, text, sizeof(text));
    return {text, ntohs(v4->sin_port)};
  }
  const auto* const v6 =
      reinterpret_cast<const sockaddr_in6*>(&address.storage);
  if (IN6_IS_ADDR_V4MAPPED(&v6->sin6_addr)) {
    inet_ntop(AF_INET, &v6->sin6_addr.s6_addr[12], text, sizeof(text));
  } else {
    inet_ntop(AF_INET6, &v6->sin6_addr, text, sizeof(text));
  }
  return {text, ntohs(v6->sin6_port)};
}

// Returns the URI by which grpc::ServerContext::peer() names it.
std::string GrpcPeer(const HostPort& peer) {
  return peer.host.find(':') == std::string::npos
             ? fmt::format("ipv4:{}:{}", peer.host, peer.port)
             : fmt::format("ipv6:%5B{}%5D:{}", peer.host, peer.port);
}

void Set(int socket, int level, int option, int value) {
  // Errors do not matter: where Linux does not know an option, gpud does without.
  setsockopt(socket, level, option, &value, sizeof(value));
}

uint64_t BytesReceivedOn(int connection) {
  tcp_info info{};
  socklen_t size = sizeof(info);
  getsockopt(connection, IPPROTO_TCP, TCP_INFO, &info, &size);
  return info.tcpi_bytes_received;
}

// Unlike shutdown(), this drops what waits to be read.
void Disconnect(int connection) {
  sockaddr nobody{};
  nobody.sa_family = AF_UNSPEC;
  connect(connection, &nobody, sizeof(nobody));
}

}  // namespace

absl::StatusOr<std::unique_ptr<TcpListener>> TcpListener::Open(
    const std::string& address, EventLoop* loop, OnConnection on_connection) {
  const auto wanted = ReadListenAddress(address);
  if (!wanted.ok()) {
    return absl::InvalidArgumentError(
        fmt::format("--listen: {}", wanted.status().message()));
  }
  Address where = ToAddress(*wanted);
  UniqueFd listener(socket(where.storage.ss_family,
                           SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  // Lets the next gpud listen while connections of this one linger.
  if (listener) Set(listener.get(), SOL_SOCKET, SO_REUSEADDR, 1);
  // Connections inherit it.
  if (listener) {
    Set(listener.get(), SOL_SOCKET, SO_RCVBUF, kReceiveBytes);
  }
  if (!listener || bind(listener.get(), where.any(), where.size) != 0 ||
      listen(listener.get(), kBacklog) != 0 ||
      getsockname(listener.get(), where.any(), &where.size) != 0) {
    return absl::UnavailableError(
        fmt::format("cannot listen on {}: {}", address, std::strerror(errno)));
  }
  const std::string got =
      HostPort{wanted->host, ToHostPort(where).port}.ToString();
  std::unique_ptr<TcpListener> door(new TcpListener(
      std::move(listener), got, loop, std::move(on_connection)));
  ASSIGN_OR_RETURN(door->watch_,
                   loop->Watch(door->listener_.get(),
                               [self = door.get()] { self->Accept(); }));
  return door;
}

TcpListener::TcpListener(UniqueFd listener, std::string address,
                         EventLoop* loop, OnConnection on_connection)
    : listener_(std::move(listener)),
      reserve_(OpenReserve()),
      address_(std::move(address)),
      loop_(loop),
      on_connection_(std::move(on_connection)) {}

TcpListener::~TcpListener() { Close(); }

void TcpListener::Close() {
  if (!listener_) return;
  loop_->Unwatch(watch_);
  listener_.reset();
  reserve_.reset();
  waiting_.clear();
}

void TcpListener::Accept() {
  UniqueFd connection = AcceptConnection(listener_.get(), &reserve_);
  if (!connection) return;
  if (auto status = Admit(connection.get()); !status.ok()) {
    refused_.fetch_add(1, std::memory_order_relaxed);
    refusals_.Warn(fmt::format("connection refused: {}", status.message()),
                   NowNs());
    return;
  }
  Set(connection.get(), IPPROTO_TCP, TCP_NODELAY, 1);
  Set(connection.get(), SOL_SOCKET, SO_KEEPALIVE, 1);
  Set(connection.get(), IPPROTO_TCP, TCP_KEEPIDLE, kProbeEveryS);
  Set(connection.get(), IPPROTO_TCP, TCP_KEEPINTVL, kProbeEveryS);
  Set(connection.get(), IPPROTO_TCP, TCP_USER_TIMEOUT, kSilentMs);
  waiting_.push_back(std::move(connection));
  LetIn(NowNs());
}

void TcpListener::LetIn(Nanoseconds now) {
  {
    MutexLock lock(mutex_);
    if (now < pause_ends_ns_) return;
  }
  for (UniqueFd& connection : waiting_) {
    on_connection_(listener_.get(), connection.release());
  }
  waiting_.clear();
}

void TcpListener::Tick(Nanoseconds now) {
  LetIn(now);
  refusals_.Tick(now);
}

absl::Status TcpListener::Admit(int connection) {
  Address from;
  if (getpeername(connection, from.any(), &from.size) != 0) {
    return absl::UnavailableError(std::strerror(errno));
  }
  const HostPort peer = ToHostPort(from);
  MutexLock lock(mutex_);
  const auto of_address = [&] {
    mutex_.AssertHeld();
    return static_cast<size_t>(std::count_if(
        connections_.begin(), connections_.end(),
        [&](const auto& entry) { return entry.second.host == peer.host; }));
  };
  if (connections_.size() >= kMaxConnections ||
      of_address() >= kMaxOfAnAddress) {
    ForgetClosed();
  }
  if (const size_t open = of_address(); open >= kMaxOfAnAddress) {
    return absl::ResourceExhaustedError(
        fmt::format("{} has {} connections over TCP: that is the limit; use "
                    "one for many calls",
                    peer.host, open));
  }
  if (connections_.size() >= kMaxConnections) {
    return absl::ResourceExhaustedError(
        fmt::format("{} connections over TCP are open, and {} wants another: "
                    "that is the limit",
                    connections_.size(), peer.host));
  }
  spdlog::debug("connection {} from {}", connection, peer.ToString());
  connections_[connection] = {peer.host, GrpcPeer(peer), InodeOf(connection)};
  return absl::OkStatus();
}

// gRPC owns the connections and does not say when it closes one, so the
// listener looks for closed ones when it matters.
void TcpListener::ForgetClosed() {
  std::erase_if(connections_, [](const auto& entry) {
    return InodeOf(entry.first) != entry.second.inode;
  });
}

size_t TcpListener::connections() {
  MutexLock lock(mutex_);
  ForgetClosed();
  return connections_.size();
}

void TcpListener::Cut(std::string_view grpc_peer) {
  MutexLock lock(mutex_);
  for (const auto& [connection, entry] : connections_) {
    if (entry.grpc_peer == grpc_peer && InodeOf(connection) == entry.inode) {
      shutdown(connection, SHUT_RDWR);
    }
  }
}

void TcpListener::MarkServed(std::string_view grpc_peer, uint64_t bytes) {
  MutexLock lock(mutex_);
  for (auto& [connection, entry] : connections_) {
    if (entry.grpc_peer != grpc_peer) continue;
    entry.served = true;
    // No more than has come: small calls save nothing up for a long one.
    entry.read_bytes =
        std::min(entry.read_bytes + bytes, BytesReceivedOn(connection));
  }
}

void TcpListener::CutForAFlood(int connection) {
  Disconnect(connection);
  // Whoever floods again at once does not keep the door closed.
  const Nanoseconds now = NowNs();
  if (now >= pause_ends_ns_ + kOpenNs) pause_ends_ns_ = now + kPauseNs;
}

uint64_t TcpListener::UnreadOf(int connection, const Connection& entry) {
  if (InodeOf(connection) != entry.inode) return 0;
  const uint64_t received = BytesReceivedOn(connection);
  // One that is just ending counts no bytes any more.
  return received < entry.read_bytes ? 0 : received - entry.read_bytes;
}

uint64_t TcpListener::unread_bytes() {
  MutexLock lock(mutex_);
  uint64_t unread = 0;
  for (const auto& [connection, entry] : connections_) {
    unread += UnreadOf(connection, entry);
  }
  return unread;
}

void TcpListener::CutHoards() {
  MutexLock lock(mutex_);
  uint64_t unread = 0;
  std::vector<int> hoards;
  for (const auto& [connection, entry] : connections_) {
    const uint64_t of_one = UnreadOf(connection, entry);
    unread += of_one;
    if (of_one > kMaxUnreadOfOne) hoards.push_back(connection);
  }
  if (unread <= kMaxUnreadBytes) return;
  for (const int connection : hoards) CutForAFlood(connection);
  refusals_.Warn(
      fmt::format("{} connections over TCP ended: without a whole call, all "
                  "had sent {} bytes, and may send {}",
                  hoards.size(), unread, kMaxUnreadBytes),
      NowNs());
}

void TcpListener::CutFlood(std::string_view grpc_peer) {
  MutexLock lock(mutex_);
  for (const auto& [connection, entry] : connections_) {
    const bool meant =
        grpc_peer.empty()
            ? !entry.served && BytesReceivedOn(connection) > kMaxUnservedBytes
            : entry.grpc_peer == grpc_peer;
    if (meant && InodeOf(connection) == entry.inode) CutForAFlood(connection);
  }
}

void TcpListener::CutAll() {
  MutexLock lock(mutex_);
  for (const auto& [connection, entry] : connections_) {
    if (InodeOf(connection) == entry.inode) shutdown(connection, SHUT_RDWR);
  }
}

}  // namespace carillon::gpud

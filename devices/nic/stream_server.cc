#include "devices/nic/stream_server.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "base/status.h"
#include "devices/nic/multi_get.h"
#include "devices/nic/stream_framer.h"

namespace carillon::nic {
namespace {

constexpr int kBacklog = 1024;
constexpr int kAcceptsAtOnce = 64;
constexpr size_t kReadBytes = 64 << 10;
// Further requests that a client sends ahead stay in the kernel.
constexpr size_t kReadAhead = 64 << 10;
// An idle connection may keep so much memory.
constexpr size_t kIdleBuffer = 16 << 10;

// epoll's data: the tag in the upper byte, then 24 bits of generation, then the
// index.
constexpr uint32_t kListenerIndex = 0xffffffff;
constexpr uint32_t kGenerationMask = 0xffffff;
epoll_event EpollEvent(uint32_t events, uint8_t tag, uint32_t generation,
                       uint32_t index) {
  return {
      .events = events,
      .data = {.u64 = uint64_t{tag} << 56 |
                      uint64_t{generation & kGenerationMask} << 32 | index}};
}

}  // namespace

struct StreamServer::Connection {
  Connection(uint32_t max_value, ConnectionIndex at)
      : index(at), framer(max_value) {}

  const ConnectionIndex index;
  uint32_t generation = 0;  // of the index
  UniqueFd fd;              // none: closed, but its request is still in flight
  uint32_t interest = 0;    // what epoll watches
  StreamFramer framer;
  std::string input;  // received, from `begin` on not yet consumed
  size_t begin = 0;
  std::string output;  // reply bytes that the kernel did not take, from...
  size_t output_begin = 0;
  bool in_flight = false;
  size_t request_bytes = 0;  // at the front of the input, while in flight
  std::optional<MultiGet> pieces;
  std::string piece;  // the part of the request that is in flight
  bool end_of_input = false;
  bool close_after_output = false;

  std::string_view unread() const {
    return std::string_view(input).substr(begin);
  }
  bool has_output() const { return output_begin < output.size(); }
  void Consume(size_t bytes) {
    begin += bytes;
    if (begin == input.size()) {
      input.clear();
      begin = 0;
      if (input.capacity() > kIdleBuffer) input.shrink_to_fit();
    } else if (begin > input.size() / 2 && begin > kReadAhead / 4) {
      input.erase(0, begin);
      begin = 0;
    }
  }
};

absl::StatusOr<std::unique_ptr<StreamServer>> StreamServer::Listen(
    const SocketAddress& address, int epoll_fd, uint8_t tag,
    const Limits& limits, StreamSink* sink) {
  ASSIGN_OR_RETURN(auto listener, BindSocket(address, SOCK_STREAM));
  std::unique_ptr<StreamServer> server(
      new StreamServer(std::move(listener), epoll_fd, tag, limits, sink));
  RETURN_IF_ERROR(server->Start());
  return server;
}

StreamServer::StreamServer(UniqueFd listener, int epoll_fd, uint8_t tag,
                           const Limits& limits, StreamSink* sink)
    : listener_(std::move(listener)),
      epoll_fd_(epoll_fd),
      tag_(tag),
      limits_(limits),
      sink_(sink),
      scratch_(kReadBytes, '\0') {}

StreamServer::~StreamServer() = default;

absl::Status StreamServer::Start() {
  // Two sockets can be bound to one port; only listening reports it.
  if (listen(listener_.get(), kBacklog) != 0) {
    const std::string text = fmt::format(
        "TCP {}: {}", SocketAddress::OfSocket(listener_.get()).ToString(),
        errno == EADDRINUSE
            ? "in use by another process; choose another port (0: any)"
            : strerror(errno));
    return errno == EADDRINUSE ? absl::AlreadyExistsError(text)
                               : absl::InternalError(text);
  }
  address_ = SocketAddress::OfSocket(listener_.get());
  spare_.reset(open("/dev/null", O_RDONLY | O_CLOEXEC));
  epoll_event event = EpollEvent(EPOLLIN, tag_, 0, kListenerIndex);
  if (epoll_ctl(epoll_fd_, EPOLL_CTL_ADD, listener_.get(), &event) != 0) {
    return absl::InternalError(fmt::format("epoll: {}", strerror(errno)));
  }
  return absl::OkStatus();
}

void StreamServer::OnEvent(uint64_t data, uint32_t events) {
  const auto index = static_cast<uint32_t>(data);
  if (index == kListenerIndex) {
    Accept();
    return;
  }
  if (index >= connections_.size()) return;
  Connection* connection = connections_[index].get();
  const uint32_t generation =
      static_cast<uint32_t>(data >> 32) & kGenerationMask;
  // The same epoll_wait may report an event of an earlier connection.
  if (!connection->fd ||
      (connection->generation & kGenerationMask) != generation) {
    return;
  }
  if ((events & EPOLLIN) != 0 && !connection->end_of_input) Read(connection);
  if (connection->fd && (events & EPOLLOUT) != 0) FlushOutput(connection);
  if (connection->fd && (events & (EPOLLERR | EPOLLHUP)) != 0) {
    Close(connection);
    return;
  }
  if (connection->fd) UpdateInterest(connection);
}

void StreamServer::Accept() {
  for (int i = 0; i < kAcceptsAtOnce; ++i) {
    UniqueFd fd(accept4(listener_.get(), nullptr, nullptr,
                        SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!fd) {
      if (errno == EMFILE || errno == ENFILE) {
        RefuseOne();
        continue;
      }
      if (errno == ECONNABORTED || errno == EINTR) continue;
      return;
    }
    if (counts_.open >= limits_.max_connections) {
      // memcached's own words, with its -o maxconns_fast.
      constexpr std::string_view kRefusal =
          "ERROR Too many open connections\r\n";
      send(fd.get(), kRefusal.data(), kRefusal.size(), MSG_NOSIGNAL);
      ++counts_.refused;
      continue;
    }
    Admit(std::move(fd));
  }
}

void StreamServer::RefuseOne() {
  // Otherwise the listener would stay readable, and this would be a busy loop.
  spare_.reset();
  UniqueFd fd(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (fd) ++counts_.refused;
  fd.reset();
  spare_.reset(open("/dev/null", O_RDONLY | O_CLOEXEC));
}

void StreamServer::Admit(UniqueFd fd) {
  const int on = 1;
  setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  setsockopt(fd.get(), SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
  ConnectionIndex index;
  if (free_.empty()) {
    index = static_cast<ConnectionIndex>(connections_.size());
    if (index == limits_.max_connections) {
      // Every index belongs to a closed connection whose request is in flight.
      ++counts_.refused;
      return;
    }
    connections_.push_back(nullptr);
  } else {
    index = free_.back();
    free_.pop_back();
  }
  const uint32_t generation =
      connections_[index] == nullptr ? 0 : connections_[index]->generation + 1;
  connections_[index] = std::make_unique<Connection>(limits_.max_value, index);
  Connection* connection = connections_[index].get();
  connection->generation = generation;
  connection->fd = std::move(fd);
  connection->interest = EPOLLIN;
  epoll_event event = EpollEvent(EPOLLIN, tag_, generation, index);
  if (epoll_ctl(epoll_fd_, EPOLL_CTL_ADD, connection->fd.get(), &event) != 0) {
    connection->fd.reset();
    Release(connection);
    ++counts_.refused;
    return;
  }
  ++counts_.open;
  ++counts_.accepted;
}

bool StreamServer::PassStream(faults::Point point, Connection* connection,
                              size_t* bytes) {
  const auto struck = faults::At(point);
  if (!struck) return false;
  if (struck->action == faults::Action::kShort) {
    *bytes = std::min<size_t>(*bytes, struck->count);
    return false;
  }
  // Closing then sends a reset, and throws away what was not sent.
  const linger at_once{.l_onoff = 1, .l_linger = 0};
  setsockopt(connection->fd.get(), SOL_SOCKET, SO_LINGER, &at_once,
             sizeof(at_once));
  Close(connection);
  return true;
}

void StreamServer::Read(Connection* connection) {
  size_t at_once = scratch_.size();
  if (PassStream(faults::Point::kNicStreamReceive, connection, &at_once)) {
    return;
  }
  const ssize_t bytes =
      recv(connection->fd.get(), scratch_.data(), at_once, MSG_DONTWAIT);
  if (bytes < 0) {
    if (errno != EAGAIN && errno != EINTR) Close(connection);
    return;
  }
  if (bytes == 0) {
    connection->end_of_input = true;
  } else {
    counts_.bytes_received += static_cast<size_t>(bytes);
    connection->input.append(scratch_.data(), static_cast<size_t>(bytes));
  }
  Advance(connection);
}

void StreamServer::Advance(Connection* connection) {
  while (!connection->in_flight && !connection->has_output() &&
         !connection->close_after_output) {
    const Frame frame = connection->framer.Next(connection->unread());
    if (frame.kind == Frame::Kind::kIncomplete) break;
    if (frame.kind == Frame::Kind::kHangUp) {
      Close(connection);
      return;
    }
    if (frame.kind == Frame::Kind::kSkip) {
      connection->Consume(frame.bytes);
      continue;
    }
    connection->request_bytes = frame.bytes;
    ++counts_.commands;
    if (frame.bytes > kPacketBytes) {
      connection->pieces =
          MultiGet::Parse(connection->unread().substr(0, frame.bytes));
    }
    Submit(connection);
    return;
  }
  const bool idle = !connection->in_flight && !connection->has_output();
  if (idle && (connection->end_of_input || connection->close_after_output)) {
    Close(connection);
  }
}

void StreamServer::Submit(Connection* connection) {
  if (connection->pieces) {
    connection->piece = connection->pieces->Next(kPacketBytes);
  }
  connection->in_flight = true;
  sink_->OnStreamRequest(connection->index, request(connection->index));
}

std::string_view StreamServer::request(ConnectionIndex index) const {
  const Connection& connection = *connections_[index];
  if (!connection.in_flight) return {};
  if (connection.pieces) return connection.piece;
  return connection.unread().substr(0, connection.request_bytes);
}

void StreamServer::Reply(ConnectionIndex index, std::string_view reply,
                         bool close) {
  Connection* connection = connections_[index].get();
  connection->in_flight = false;
  if (!connection->fd) {
    Release(connection);
    return;
  }
  bool failed = false;
  if (connection->pieces) reply = connection->pieces->Trim(reply, &failed);
  const bool more =
      connection->pieces && !failed && !connection->pieces->done();
  if (!more) {
    connection->pieces.reset();
    connection->piece.clear();
    connection->Consume(connection->request_bytes);
    connection->request_bytes = 0;
  }
  if (close) connection->close_after_output = true;
  Write(connection, reply);
  if (!connection->fd) return;
  if (more && !connection->has_output()) {
    Submit(connection);
  } else if (!more) {
    Advance(connection);
  }
  if (connection->fd) UpdateInterest(connection);
}

bool StreamServer::ReplyTooLarge(ConnectionIndex index) {
  Connection* connection = connections_[index].get();
  if (!connection->fd) {
    Reply(index, {}, false);
    return true;
  }
  if (!connection->pieces) {
    connection->pieces = MultiGet::Parse(request(index));
    if (!connection->pieces) return false;
    connection->pieces->Next(SIZE_MAX);  // what has just been tried
  }
  if (!connection->pieces->Halve()) return false;
  Submit(connection);
  return true;
}

void StreamServer::Write(Connection* connection, std::string_view text) {
  if (text.empty()) return;
  if (!connection->has_output()) {
    size_t at_once = text.size();
    if (PassStream(faults::Point::kNicStreamSend, connection, &at_once)) return;
    const ssize_t sent = send(connection->fd.get(), text.data(), at_once,
                              MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0 && errno != EAGAIN && errno != EINTR) {
      Close(connection);
      return;
    }
    if (sent > 0) {
      counts_.bytes_sent += static_cast<size_t>(sent);
      text.remove_prefix(static_cast<size_t>(sent));
    }
  }
  connection->output.append(text);
}

void StreamServer::FlushOutput(Connection* connection) {
  const std::string_view text =
      std::string_view(connection->output).substr(connection->output_begin);
  size_t at_once = text.size();
  if (PassStream(faults::Point::kNicStreamSend, connection, &at_once)) return;
  const ssize_t sent = send(connection->fd.get(), text.data(), at_once,
                            MSG_DONTWAIT | MSG_NOSIGNAL);
  if (sent < 0) {
    if (errno != EAGAIN && errno != EINTR) Close(connection);
    return;
  }
  counts_.bytes_sent += static_cast<size_t>(sent);
  connection->output_begin += static_cast<size_t>(sent);
  if (connection->has_output()) return;
  connection->output.clear();
  connection->output.shrink_to_fit();
  connection->output_begin = 0;
  if (connection->pieces && !connection->in_flight) {
    Submit(connection);
  } else {
    Advance(connection);
  }
}

void StreamServer::UpdateInterest(Connection* connection) {
  // An incomplete request may need any number of further bytes.
  const bool waits = !connection->in_flight && !connection->has_output();
  const bool reads = !connection->end_of_input &&
                     !connection->close_after_output &&
                     (waits || connection->unread().size() < kReadAhead);
  const uint32_t interest =
      (reads ? uint32_t{EPOLLIN} : 0u) |
      (connection->has_output() ? uint32_t{EPOLLOUT} : 0u);
  if (interest == connection->interest) return;
  connection->interest = interest;
  epoll_event event =
      EpollEvent(interest, tag_, connection->generation, connection->index);
  if (epoll_ctl(epoll_fd_, EPOLL_CTL_MOD, connection->fd.get(), &event) != 0) {
    Close(connection);
  }
}

void StreamServer::Close(Connection* connection) {
  // Closing also removes it from epoll.
  connection->fd.reset();
  --counts_.open;
  if (!connection->in_flight) Release(connection);
}

void StreamServer::Release(Connection* connection) {
  connection->input = std::string();
  connection->begin = 0;
  connection->output = std::string();
  connection->output_begin = 0;
  connection->pieces.reset();
  free_.push_back(connection->index);
}

}  // namespace carillon::nic

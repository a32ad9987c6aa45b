#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/status.h"
#include "base/unique_fd.h"
#include "fmt/format.h"
#include "tools/bench/transports/transports.h"

namespace carillon::bench {
namespace {

absl::Status Failed(const char* call) {
  return absl::InternalError(fmt::format("{}: {}", call, std::strerror(errno)));
}

absl::StatusOr<sockaddr_un> AddressOf(const std::string& path) {
  sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
  if (path.size() >= sizeof(address.sun_path)) {
    return absl::InvalidArgumentError(
        fmt::format("'{}' is too long for a socket's name", path));
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  return address;
}

// The size of the next message, or what recv() says of none.
ssize_t ReceiveOn(int socket, Message* message, Wait wait,
                  std::chrono::nanoseconds spin) {
  ssize_t size = -1;
  const auto receive = [&](int flags) {
    size = recv(socket, message, sizeof(*message), flags);
    return size >= 0 || (errno != EAGAIN && errno != EINTR);
  };
  WaitUntil(
      wait, spin, [&] { return receive(MSG_DONTWAIT); },
      [&] { return receive(0); });
  return size;
}

absl::Status Serve(const std::string& directory, Wait wait,
                   AnnounceReady ready) {
  const std::string path = directory + "/seqpacket";
  ASSIGN_OR_RETURN(const auto address, AddressOf(path));
  const UniqueFd listener(socket(AF_UNIX, SOCK_SEQPACKET, 0));
  if (bind(listener.get(), reinterpret_cast<const sockaddr*>(&address),
           sizeof(address)) != 0 ||
      listen(listener.get(), 1) != 0) {
    return Failed("bind");
  }
  ready(path);
  const UniqueFd client(accept(listener.get(), nullptr, nullptr));
  if (!client) return Failed("accept");
  Message message;
  while (true) {
    const ssize_t size = ReceiveOn(client.get(), &message, wait, kServerSpin);
    if (size < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    if (size != sizeof(message)) return absl::OkStatus();
    if (send(client.get(), &message, sizeof(message), MSG_NOSIGNAL) < 0) {
      return absl::OkStatus();
    }
  }
}

class SeqpacketClient final : public Client {
 public:
  SeqpacketClient(UniqueFd socket, Wait wait)
      : socket_(std::move(socket)), wait_(wait) {}

  absl::Status Send(const Message& request) override {
    return send(socket_.get(), &request, sizeof(request), MSG_NOSIGNAL) ==
                   sizeof(request)
               ? absl::OkStatus()
               : Failed("send");
  }
  absl::Status Receive(Message* reply) override {
    return ReceiveOn(socket_.get(), reply, wait_, kClientSpin) == sizeof(*reply)
               ? absl::OkStatus()
               : Failed("recv");
  }

 private:
  const UniqueFd socket_;
  const Wait wait_;
};

absl::StatusOr<std::unique_ptr<Client>> Connect(const std::string& endpoint,
                                                Wait wait) {
  ASSIGN_OR_RETURN(const auto address, AddressOf(endpoint));
  UniqueFd fd(socket(AF_UNIX, SOCK_SEQPACKET, 0));
  const timeval patience{.tv_sec = kPatience.count(), .tv_usec = 0};
  setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
  setsockopt(fd.get(), SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
  if (connect(fd.get(), reinterpret_cast<const sockaddr*>(&address),
              sizeof(address)) != 0) {
    return Failed("connect");
  }
  return std::make_unique<SeqpacketClient>(std::move(fd), wait);
}

}  // namespace

Transport UnixSeqpacket() {
  return {.name = "unix_seqpacket",
          .label = "Unix socket, seqpacket",
          .serve = &Serve,
          .connect = &Connect};
}

}  // namespace carillon::bench

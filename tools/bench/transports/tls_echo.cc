#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "base/unique_fd.h"
#include "fmt/format.h"
#include "mesh/tls_stream.h"
#include "tools/bench/transports/delay_line.h"
#include "tools/bench/transports/link_files.h"
#include "tools/bench/transports/loopback.h"
#include "tools/bench/transports/transports.h"

namespace carillon::bench {
namespace {

using mesh::TlsContext;
using mesh::TlsSide;
using mesh::TlsStream;

constexpr size_t kMostBytes = kMaxLinkWindow * sizeof(Message);

absl::Status Failed(const char* call) {
  return absl::InternalError(fmt::format("{}: {}", call, std::strerror(errno)));
}

// The stream of a link (mesh/tls_stream.h), without its frames.
class Stream {
 public:
  static absl::StatusOr<Stream> Agree(const TlsFiles& files, TlsSide side,
                                      UniqueFd socket, Wait wait) {
    const int on = 1;
    setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    ASSIGN_OR_RETURN(const auto context, TlsContext::Create(files));
    Stream stream(std::make_unique<TlsStream>(context, side, std::move(socket)),
                  wait);
    while (true) {
      ASSIGN_OR_RETURN(const bool agreed, stream.tls_->Handshake());
      if (agreed) return stream;
      if (!stream.Sleep()) return Silent();
    }
  }

  // Appends what comes, at least one byte.
  absl::Status Read(std::chrono::nanoseconds spin, std::string* to) {
    absl::StatusOr<size_t> size = size_t{0};
    const auto look = [&] {
      size = tls_->Read(came_);
      return !size.ok() || *size > 0;
    };
    while (!look()) {
      if (!WaitUntil(wait_, spin, look, [&] { return Sleep(); })) {
        return Silent();
      }
      if (!size.ok() || *size > 0) break;
    }
    if (size.ok()) to->append(came_.data(), *size);
    return size.status();
  }
  absl::Status Write(std::string_view bytes) {
    while (!bytes.empty()) {
      ASSIGN_OR_RETURN(const size_t written, tls_->Write(bytes));
      bytes.remove_prefix(written);
      if (written == 0 && !Sleep()) return Silent();
    }
    return absl::OkStatus();
  }

 private:
  Stream(std::unique_ptr<TlsStream> tls, Wait wait)
      : tls_(std::move(tls)), wait_(wait) {}

  bool Sleep() {
    pollfd fd{.fd = tls_->fd(), .events = tls_->poll_events(), .revents = 0};
    constexpr std::chrono::milliseconds kLimit = kPatience;
    return poll(&fd, 1, static_cast<int>(kLimit.count())) > 0;
  }

  std::unique_ptr<TlsStream> tls_;
  Wait wait_;
  std::vector<char> came_ = std::vector<char>(kMostBytes);
};

template <std::chrono::microseconds::rep kEachWay>
absl::Status Serve(const std::string& directory, Wait wait,
                   AnnounceReady ready) {
  signal(SIGPIPE, SIG_IGN);
  ASSIGN_OR_RETURN(const TlsFiles files, MakeLinkFiles(directory));
  ASSIGN_OR_RETURN(const auto listener, ListenOnLoopback());
  uint16_t port = listener.port;
  std::unique_ptr<DelayLine> line;
  if constexpr (kEachWay > 0) {
    ASSIGN_OR_RETURN(
        line, DelayLine::Start(port, std::chrono::microseconds(kEachWay)));
    port = line->port();
  }
  ready(fmt::format("{} {}", port, directory));
  UniqueFd client(accept4(listener.fd.get(), nullptr, nullptr, SOCK_NONBLOCK));
  if (!client) return Failed("accept");
  ASSIGN_OR_RETURN(auto stream, Stream::Agree(files, TlsSide::kServer,
                                              std::move(client), wait));
  std::string bytes;
  while (true) {
    // Until the client goes.
    if (!stream.Read(kServerSpin, &bytes).ok()) return absl::OkStatus();
    RETURN_IF_ERROR(stream.Write(bytes));
    bytes.clear();
  }
}

class TlsClient final : public Client {
 public:
  explicit TlsClient(Stream stream) : stream_(std::move(stream)) {}

  absl::Status Send(const Message& request) override {
    out_.append(reinterpret_cast<const char*>(&request), sizeof(request));
    return absl::OkStatus();
  }
  absl::Status Flush() override {
    RETURN_IF_ERROR(stream_.Write(out_));
    out_.clear();
    return absl::OkStatus();
  }
  absl::Status Receive(Message* reply) override {
    while (in_.size() - taken_ < sizeof(*reply)) {
      in_.erase(0, taken_);
      taken_ = 0;
      RETURN_IF_ERROR(stream_.Read(kClientSpin, &in_));
    }
    std::memcpy(reply, in_.data() + taken_, sizeof(*reply));
    taken_ += sizeof(*reply);
    return absl::OkStatus();
  }

 private:
  Stream stream_;
  std::string out_;
  std::string in_;
  size_t taken_ = 0;  // bytes of in_
};

absl::StatusOr<std::unique_ptr<Client>> Connect(const std::string& endpoint,
                                                Wait wait) {
  signal(SIGPIPE, SIG_IGN);
  const size_t space = endpoint.find(' ');
  if (space == endpoint.npos) return absl::InvalidArgumentError(endpoint);
  ASSIGN_OR_RETURN(auto fd, DialLoopback(static_cast<uint16_t>(
                                std::stoul(endpoint.substr(0, space)))));
  if (fcntl(fd.get(), F_SETFL, O_NONBLOCK) != 0) return Failed("fcntl");
  ASSIGN_OR_RETURN(auto stream,
                   Stream::Agree(LinkFilesIn(endpoint.substr(space + 1)),
                                 TlsSide::kClient, std::move(fd), wait));
  return std::make_unique<TlsClient>(std::move(stream));
}

}  // namespace

Transport TlsEcho() {
  return {.name = "tls",
          .label = "the link's TLS stream, 64 bytes",
          .serve = &Serve<0>,
          .connect = &Connect};
}
Transport TlsEchoFar() {
  return {.name = "tls_far",
          .label = "the link's TLS stream, 64 bytes, 1 ms away",
          .serve = &Serve<kFarEachWay.count()>,
          .connect = &Connect};
}

}  // namespace carillon::bench

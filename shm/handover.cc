#include "shm/handover.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "fmt/format.h"
#include "shm/layout.h"

namespace carillon::shm {
namespace {

constexpr int kDescriptors = 3;

// How long `timeout` still lasts, and when it is over, whatever happens on the
// way.
class Deadline {
 public:
  explicit Deadline(std::chrono::milliseconds timeout)
      : timeout_(std::clamp(timeout, std::chrono::milliseconds(0), kLongest)),
        end_ns_(NowNs() + std::chrono::nanoseconds(timeout_).count()) {}

  // Rounded up: 0 only when it is over.
  int left_ms() const {
    const Nanoseconds now = NowNs();
    return now >= end_ns_
               ? 0
               : static_cast<int>((end_ns_ - now + 999'999) / 1'000'000);
  }
  absl::Status Exceeded() const {
    return absl::DeadlineExceededError(fmt::format(
        "no answer on the hand-over socket within {} ms", timeout_.count()));
  }

 private:
  static constexpr std::chrono::milliseconds kLongest = std::chrono::hours(24);
  const std::chrono::milliseconds timeout_;
  const Nanoseconds end_ns_;
};

absl::Status WaitReadable(int fd, const Deadline& deadline) {
  pollfd waiter{.fd = fd, .events = POLLIN, .revents = 0};
  while (true) {
    const int ready = poll(&waiter, 1, deadline.left_ms());
    if (ready > 0) return absl::OkStatus();
    if (ready == 0) {
      if (deadline.left_ms() == 0) return deadline.Exceeded();
    } else if (errno != EINTR) {
      return absl::UnavailableError(fmt::format(
          "cannot wait on the hand-over socket: {}", std::strerror(errno)));
    }
  }
}

absl::StatusOr<UniqueFd> Connect(const std::string& socket_path,
                                 const Deadline& deadline) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  // An empty path would be an abstract address, which anybody can take.
  if (socket_path.empty() || socket_path.size() >= sizeof(address.sun_path)) {
    return absl::InvalidArgumentError(fmt::format(
        "socket path '{}' has {} characters: must be 1 to {}", socket_path,
        socket_path.size(), sizeof(address.sun_path) - 1));
  }
  std::memcpy(address.sun_path, socket_path.c_str(), socket_path.size() + 1);
  UniqueFd connection(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  while (connection) {
    // connect() and send() wait while gpud's backlog is full, for this long.
    const int left_ms = deadline.left_ms();
    if (left_ms == 0) return deadline.Exceeded();
    const timeval left{.tv_sec = left_ms / 1000,
                       .tv_usec = left_ms % 1000 * 1000};
    setsockopt(connection.get(), SOL_SOCKET, SO_SNDTIMEO, &left, sizeof(left));
    if (connect(connection.get(), reinterpret_cast<sockaddr*>(&address),
                sizeof(address)) == 0) {
      return connection;
    }
    if (errno != EINTR && errno != EAGAIN) break;
  }
  return absl::UnavailableError(
      fmt::format("cannot reach gpud at {}: {}; is the testbed up?",
                  socket_path, std::strerror(errno)));
}

// The answer to a ticket, before any of it is checked.
struct Received {
  HandoverReply reply{};
  ssize_t bytes = 0;
  bool cut = false;              // the message was longer
  bool descriptors_cut = false;  // this process had no room for them
  std::vector<UniqueFd> descriptors;
};

absl::Status Closed() {
  return absl::UnavailableError(
      "gpud closed the hand-over socket; is it shutting down?");
}

HandoverReply MakeReply(absl::StatusCode code, const std::string& message) {
  HandoverReply reply{};
  reply.magic = kMagic;
  reply.layout_version = kLayoutVersion;
  reply.status = static_cast<uint32_t>(code);
  message.copy(reply.message, sizeof(reply.message) - 1);
  return reply;
}

absl::StatusOr<Received> ReceiveReply(int connection) {
  Received received;
  iovec payload{.iov_base = &received.reply, .iov_len = sizeof(HandoverReply)};
  alignas(cmsghdr) char control[CMSG_SPACE(kDescriptors * sizeof(int))];
  msghdr message{};
  message.msg_iov = &payload;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  received.bytes =
      recvmsg(connection, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
  if (received.bytes < 0) return Closed();
  received.cut = (message.msg_flags & MSG_TRUNC) != 0;
  received.descriptors_cut = (message.msg_flags & MSG_CTRUNC) != 0;
  // Own all that came, so that no refusal leaks a descriptor: the buffer's
  // alignment may leave room for more than were asked for.
  for (cmsghdr* part = CMSG_FIRSTHDR(&message); part != nullptr;
       part = CMSG_NXTHDR(&message, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) {
      continue;
    }
    const size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int fd;
      std::memcpy(&fd, CMSG_DATA(part) + i * sizeof(int), sizeof(int));
      received.descriptors.emplace_back(fd);
    }
  }
  // The end, or an empty message, which may bring descriptors all the same.
  if (received.bytes == 0) return Closed();
  return received;
}

absl::Status CheckReply(const Received& received) {
  const HandoverReply& reply = received.reply;
  if (received.bytes != sizeof(reply) || received.cut ||
      reply.magic != kMagic) {
    return absl::FailedPreconditionError(fmt::format(
        "malformed hand-over reply: {} bytes{} with magic {:#x}, expected {} "
        "with {:#x}; is that socket gpud's?",
        received.bytes, received.cut ? " or more" : "", reply.magic,
        sizeof(reply), kMagic));
  }
  if (reply.layout_version != kLayoutVersion) {
    return absl::FailedPreconditionError(
        fmt::format("gpud speaks layout version {}, this device {}; build both "
                    "from the same source",
                    reply.layout_version, kLayoutVersion));
  }
  if (reply.status != static_cast<uint32_t>(absl::StatusCode::kOk)) {
    return absl::Status(
        static_cast<absl::StatusCode>(reply.status),
        absl::string_view(reply.message,
                          strnlen(reply.message, sizeof(reply.message))));
  }
  if (received.descriptors.size() != kDescriptors || received.descriptors_cut) {
    return absl::FailedPreconditionError(fmt::format(
        "the hand-over carried {} descriptors{}, expected {}; is this process "
        "out of descriptors (ulimit -n)?",
        received.descriptors.size(),
        received.descriptors_cut ? " and lost some" : "", kDescriptors));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<HandedOver> FetchApertures(const std::string& socket_path,
                                          const Ticket& ticket,
                                          std::chrono::milliseconds timeout) {
  const Deadline deadline(timeout);
  ASSIGN_OR_RETURN(UniqueFd connection, Connect(socket_path, deadline));
  const HandoverRequest request{.magic = kMagic,
                                .layout_version = kLayoutVersion,
                                .reserved = 0,
                                .ticket = ticket};
  if (send(connection.get(), &request, sizeof(request), MSG_NOSIGNAL) !=
      sizeof(request)) {
    return Closed();
  }
  RETURN_IF_ERROR(WaitReadable(connection.get(), deadline));
  ASSIGN_OR_RETURN(auto received, ReceiveReply(connection.get()));
  RETURN_IF_ERROR(CheckReply(received));
  return HandedOver{.device_id = received.reply.device_id,
                    .generation = Generation(received.reply.generation),
                    .submission = std::move(received.descriptors[0]),
                    .completion = std::move(received.descriptors[1]),
                    .completion_event = std::move(received.descriptors[2]),
                    .connection = std::move(connection)};
}

absl::StatusOr<Ticket> ReceiveTicket(int connection,
                                     std::chrono::milliseconds timeout) {
  RETURN_IF_ERROR(WaitReadable(connection, Deadline(timeout)));
  HandoverRequest request{};
  const ssize_t received =
      recv(connection, &request, sizeof(request), MSG_DONTWAIT | MSG_TRUNC);
  if (received <= 0) {
    return absl::UnavailableError("the device left before it sent its ticket");
  }
  if (received != sizeof(request)) {
    return absl::InvalidArgumentError(fmt::format(
        "a hand-over request has {} bytes, not {}", sizeof(request), received));
  }
  if (request.magic != kMagic) {
    return absl::InvalidArgumentError(
        fmt::format("hand-over request with magic {:#x}, expected {:#x}",
                    request.magic, kMagic));
  }
  if (request.layout_version != kLayoutVersion) {
    return absl::InvalidArgumentError(
        fmt::format("the device speaks layout version {}, gpud {}; build both "
                    "from the same source",
                    request.layout_version, kLayoutVersion));
  }
  return request.ticket;
}

absl::Status SendApertures(int connection, uint32_t device_id,
                           Generation generation, int submission,
                           int completion, int completion_event) {
  HandoverReply reply = MakeReply(absl::StatusCode::kOk, "");
  reply.device_id = device_id;
  reply.generation = generation.value();
  iovec payload{.iov_base = &reply, .iov_len = sizeof(reply)};
  alignas(cmsghdr) char control[CMSG_SPACE(kDescriptors * sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &payload;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  cmsghdr* part = CMSG_FIRSTHDR(&message);
  part->cmsg_level = SOL_SOCKET;
  part->cmsg_type = SCM_RIGHTS;
  part->cmsg_len = CMSG_LEN(kDescriptors * sizeof(int));
  const int descriptors[kDescriptors] = {submission, completion,
                                         completion_event};
  std::memcpy(CMSG_DATA(part), descriptors, sizeof(descriptors));
  if (sendmsg(connection, &message, MSG_NOSIGNAL | MSG_DONTWAIT) !=
      sizeof(reply)) {
    return absl::UnavailableError(fmt::format(
        "cannot hand the apertures over: {}", std::strerror(errno)));
  }
  return absl::OkStatus();
}

void SendRefusal(int connection, const absl::Status& why) {
  const HandoverReply reply = MakeReply(why.code(), std::string(why.message()));
  send(connection, &reply, sizeof(reply), MSG_NOSIGNAL | MSG_DONTWAIT);
}

}  // namespace carillon::shm

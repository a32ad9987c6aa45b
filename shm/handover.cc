#include "shm/handover.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cerrno>
#include <cstring>
#include <optional>

#include "fmt/format.h"
#include "shm/layout.h"

namespace carillon::shm {
namespace {

constexpr int kDescriptors = 3;

absl::Status WaitReadable(int fd, std::chrono::milliseconds timeout) {
  pollfd waiter{.fd = fd, .events = POLLIN, .revents = 0};
  int ready;
  do {
    ready = poll(&waiter, 1, static_cast<int>(timeout.count()));
  } while (ready < 0 && errno == EINTR);
  if (ready > 0) return absl::OkStatus();
  return absl::DeadlineExceededError(fmt::format(
      "no answer on the hand-over socket within {} ms", timeout.count()));
}

HandoverReply MakeReply(absl::StatusCode code, const std::string& message) {
  HandoverReply reply{};
  reply.magic = kMagic;
  reply.layout_version = kLayoutVersion;
  reply.status = static_cast<uint32_t>(code);
  message.copy(reply.message, sizeof(reply.message) - 1);
  return reply;
}

}  // namespace

absl::StatusOr<HandedOver> FetchApertures(const std::string& socket_path,
                                          const Ticket& ticket,
                                          std::chrono::milliseconds timeout) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (socket_path.size() >= sizeof(address.sun_path)) {
    return absl::InvalidArgumentError(fmt::format(
        "socket path {} has {} characters; the limit is {}", socket_path,
        socket_path.size(), sizeof(address.sun_path) - 1));
  }
  std::memcpy(address.sun_path, socket_path.c_str(), socket_path.size() + 1);
  UniqueFd connection(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (!connection ||
      connect(connection.get(), reinterpret_cast<sockaddr*>(&address),
              sizeof(address)) != 0) {
    return absl::UnavailableError(
        fmt::format("cannot reach gpud at {}: {}; is the testbed up?",
                    socket_path, std::strerror(errno)));
  }
  const HandoverRequest request{.magic = kMagic,
                                .layout_version = kLayoutVersion,
                                .reserved = 0,
                                .ticket = ticket};
  if (send(connection.get(), &request, sizeof(request), MSG_NOSIGNAL) !=
      sizeof(request)) {
    return absl::UnavailableError(fmt::format(
        "gpud closed the hand-over socket: {}", std::strerror(errno)));
  }
  if (auto status = WaitReadable(connection.get(), timeout); !status.ok())
    return status;

  HandoverReply reply{};
  iovec payload{.iov_base = &reply, .iov_len = sizeof(reply)};
  alignas(cmsghdr) char control[CMSG_SPACE(kDescriptors * sizeof(int))];
  msghdr message{};
  message.msg_iov = &payload;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  const ssize_t received =
      recvmsg(connection.get(), &message, MSG_CMSG_CLOEXEC);
  if (received == 0)
    return absl::UnavailableError("gpud closed the hand-over socket");

  // Own what came before any check, so that no refusal leaks a descriptor.
  std::array<UniqueFd, kDescriptors> descriptors;
  size_t count = 0;
  for (cmsghdr* part = CMSG_FIRSTHDR(&message); part != nullptr;
       part = CMSG_NXTHDR(&message, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS)
      continue;
    for (size_t i = 0; i < (part->cmsg_len - CMSG_LEN(0)) / sizeof(int) &&
                       count < kDescriptors;
         ++i) {
      int fd;
      std::memcpy(&fd, CMSG_DATA(part) + i * sizeof(int), sizeof(int));
      descriptors[count++].reset(fd);
    }
  }
  if (received != sizeof(reply) || reply.magic != kMagic) {
    return absl::FailedPreconditionError(
        fmt::format("malformed hand-over reply of {} bytes", received));
  }
  if (reply.layout_version != kLayoutVersion) {
    return absl::FailedPreconditionError(
        fmt::format("gpud speaks layout version {}, this device {}; build both "
                    "from the same "
                    "source",
                    reply.layout_version, kLayoutVersion));
  }
  if (reply.status != static_cast<uint32_t>(absl::StatusCode::kOk)) {
    reply.message[sizeof(reply.message) - 1] = '\0';
    return absl::Status(static_cast<absl::StatusCode>(reply.status),
                        reply.message);
  }
  if (count != kDescriptors || (message.msg_flags & MSG_CTRUNC) != 0) {
    return absl::FailedPreconditionError(
        fmt::format("the hand-over carried {} descriptors, expected {}; is "
                    "this process out of "
                    "descriptors?",
                    count, kDescriptors));
  }
  HandedOver result;
  result.device_id = reply.device_id;
  result.generation = Generation(reply.generation);
  result.submission = std::move(descriptors[0]);
  result.completion = std::move(descriptors[1]);
  result.completion_event = std::move(descriptors[2]);
  result.connection = std::move(connection);
  return result;
}

absl::StatusOr<Ticket> ReceiveTicket(int connection,
                                     std::chrono::milliseconds timeout) {
  if (auto status = WaitReadable(connection, timeout); !status.ok())
    return status;
  HandoverRequest request{};
  const ssize_t received =
      recv(connection, &request, sizeof(request), MSG_DONTWAIT | MSG_TRUNC);
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
                    "from the same "
                    "source",
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

// Messages on the hand-over socket: what gpud is sent for a ticket, and what a
// device is sent for its apertures, with any bytes and any number of
// descriptors. Whatever comes, no descriptor is kept that is not handed on.
//
//   u8           bit 0: the device's side; bits 1..3: descriptors;
//                bit 4: a good message but for the bytes; bit 5: it hangs up
//   u8           where the bytes go in a good message
//   rest         the message, or its changed part
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <string>
#include <thread>

#include "base/testing/fuzz_input.h"
#include "base/unique_fd.h"
#include "shm/handover.h"
#include "shm/layout.h"

namespace carillon::shm {
namespace {

using std::chrono::milliseconds;

constexpr size_t kMaxDescriptors = 7;

// A kept one need not be the lowest that is free: these are all.
int OpenDescriptors() {
  int open = 0;
  for (int fd = 0; fd < 64; ++fd) open += fcntl(fd, F_GETFD) >= 0 ? 1 : 0;
  return open;
}

void Send(int connection, std::string_view bytes, size_t descriptors) {
  iovec payload{.iov_base = const_cast<char*>(bytes.data()),
                .iov_len = bytes.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(kMaxDescriptors * sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &payload;
  message.msg_iovlen = 1;
  if (descriptors > 0) {
    message.msg_control = control;
    message.msg_controllen = CMSG_SPACE(descriptors * sizeof(int));
    cmsghdr* const part = CMSG_FIRSTHDR(&message);
    part->cmsg_level = SOL_SOCKET;
    part->cmsg_type = SCM_RIGHTS;
    part->cmsg_len = CMSG_LEN(descriptors * sizeof(int));
    const std::array<int, kMaxDescriptors> all{};  // standard input
    std::memcpy(CMSG_DATA(part), all.data(), descriptors * sizeof(int));
  }
  FUZZ_CHECK(sendmsg(connection, &message, MSG_NOSIGNAL) ==
             static_cast<ssize_t>(bytes.size()));
}

// gpud's side is a thread of this one's: it answers one visitor.
absl::StatusOr<HandedOver> Fetch(int listener, const std::string& path,
                                 std::string_view bytes, size_t descriptors,
                                 bool hangs_up) {
  std::thread gpud([&] {
    const UniqueFd connection(
        accept4(listener, nullptr, nullptr, SOCK_CLOEXEC));
    FUZZ_CHECK(connection.get() >= 0);
    // Unread, it would reset the connection, and the answer with it.
    HandoverRequest request;
    FUZZ_CHECK(recv(connection.get(), &request, sizeof(request), 0) ==
               sizeof(request));
    if (!hangs_up) Send(connection.get(), bytes, descriptors);
  });
  Ticket ticket{};
  ticket[0] = 1;
  auto fetched = FetchApertures(path, ticket, milliseconds(20'000));
  gpud.join();
  return fetched;
}

void DeviceSide(std::string_view bytes, size_t descriptors, bool hangs_up) {
  static const std::string* const path = [] {
    char name[] = "/tmp/carillon-fuzz-XXXXXX";
    FUZZ_CHECK(mkdtemp(name) != nullptr);
    return new std::string(std::string(name) + "/socket");
  }();
  static const int listener = [] {
    const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path->copy(address.sun_path, sizeof(address.sun_path) - 1);
    FUZZ_CHECK(
        bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0);
    FUZZ_CHECK(listen(fd, 1) == 0);
    std::atexit([] {
      unlink(path->c_str());
      rmdir(path->substr(0, path->rfind('/')).c_str());
    });
    return fd;
  }();
  const auto fetched = Fetch(listener, *path, bytes, descriptors, hangs_up);
  if (fetched.ok()) {
    FUZZ_CHECK(!hangs_up && descriptors == 3);
    FUZZ_CHECK(bytes.size() == sizeof(HandoverReply));
    for (const UniqueFd* fd :
         {&fetched->submission, &fetched->completion,
          &fetched->completion_event, &fetched->connection}) {
      FUZZ_CHECK(fcntl(fd->get(), F_GETFD) == FD_CLOEXEC);
    }
    return;
  }
  FUZZ_CHECK(fetched.status().code() != absl::StatusCode::kDeadlineExceeded ||
             bytes.size() == sizeof(HandoverReply));
}

void GpudSide(std::string_view bytes, size_t descriptors, bool hangs_up) {
  int ends[2];
  FUZZ_CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0);
  const UniqueFd gpud(ends[0]);
  UniqueFd device(ends[1]);
  if (!hangs_up) Send(device.get(), bytes, descriptors);
  if (hangs_up) device.reset();
  const auto ticket = ReceiveTicket(gpud.get(), milliseconds(20'000));
  if (!ticket.ok()) {
    FUZZ_CHECK(!ticket.status().message().empty());
    SendRefusal(gpud.get(), ticket.status());
    return;
  }
  FUZZ_CHECK(bytes.size() == sizeof(HandoverRequest) && !hangs_up);
  FUZZ_CHECK(std::memcmp(ticket->data(),
                         bytes.data() + offsetof(HandoverRequest, ticket),
                         ticket->size()) == 0);
  FUZZ_CHECK(SendApertures(gpud.get(), 1, Generation(1), 0, 0, 0).ok());
}

template <class Message>
std::string Changed(Message message, size_t at, std::string_view bytes) {
  std::string whole(reinterpret_cast<const char*>(&message), sizeof(message));
  at %= whole.size();
  whole.replace(at, std::min(bytes.size(), whole.size() - at),
                bytes.substr(0, whole.size() - at));
  return whole;
}

void Run(fuzz::FuzzInput input) {
  const auto how = input.Take<uint8_t>();
  const size_t at = input.Take<uint8_t>();
  const size_t descriptors = how >> 1 & 7;
  const bool hangs_up = (how & 32) != 0;
  std::string bytes(input.TakeRest());
  const bool device = (how & 1) != 0;
  if ((how & 16) != 0 && device) {
    bytes = Changed(
        HandoverReply{
            .magic = kMagic, .layout_version = kLayoutVersion, .generation = 1},
        at, bytes);
  } else if ((how & 16) != 0) {
    bytes = Changed(
        HandoverRequest{.magic = kMagic, .layout_version = kLayoutVersion}, at,
        bytes);
  }
  device ? DeviceSide(bytes, descriptors, hangs_up)
         : GpudSide(bytes, descriptors, hangs_up);
  static const int expected = OpenDescriptors();
  FUZZ_CHECK(OpenDescriptors() == expected, "a descriptor was kept");
}

}  // namespace
}  // namespace carillon::shm

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  // Theirs come and go with the first use.
  static const bool ready = [] {
    const uint8_t device_side = 1 | 32;
    carillon::shm::Run({&device_side, 1});
    return true;
  }();
  (void)ready;
  carillon::shm::Run({data, size});
  return 0;
}

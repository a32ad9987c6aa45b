// Messages on the hand-over socket: what gpud is sent for a ticket, and what a
// device is sent for its apertures, with any bytes and any number of
// descriptors. Whatever comes, no descriptor is kept that is not handed on.
//
//   u8           bit 0: the device's side; bits 1..3: descriptors;
//                bit 4: a good message but for the bytes; bit 5: it hangs up
//   u8           where the bytes go in a good message
//   rest         the message, or its changed part
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <string>

#include "base/testing/fuzz_input.h"
#include "base/unique_fd.h"
#include "shm/handover.h"
#include "shm/layout.h"

namespace carillon::shm {
namespace {

using std::chrono::milliseconds;

constexpr size_t kMaxDescriptors = 7;

// A kept one need not be the lowest that is free: these are all, in one call.
int OpenDescriptors() {
  std::array<pollfd, 64> all{};
  for (size_t i = 0; i < all.size(); ++i) all[i].fd = static_cast<int>(i);
  FUZZ_CHECK(poll(all.data(), all.size(), 0) >= 0);
  return static_cast<int>(std::count_if(
      all.begin(), all.end(),
      [](const pollfd& one) { return (one.revents & POLLNVAL) == 0; }));
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

// gpud's side. It answers as soon as it is visited, within the visitor's
// connect(), by SIGIO: with a thread for it, a run would wait for the scheduler.
class Gpud {
 public:
  Gpud() {
    char name[] = "/tmp/carillon-fuzz-XXXXXX";
    FUZZ_CHECK(mkdtemp(name) != nullptr);
    path_ = std::string(name) + "/socket";
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path_.copy(address.sun_path, sizeof(address.sun_path) - 1);
    FUZZ_CHECK(bind(listener_.get(), reinterpret_cast<sockaddr*>(&address),
                    sizeof(address)) == 0);
    FUZZ_CHECK(listen(listener_.get(), 1) == 0);
    static Gpud* gpud;
    gpud = this;
    std::signal(SIGIO, [](int) { gpud->Answer(); });
    const f_owner_ex this_thread{.type = F_OWNER_TID, .pid = gettid()};
    FUZZ_CHECK(fcntl(listener_.get(), F_SETOWN_EX, &this_thread) == 0);
    FUZZ_CHECK(fcntl(listener_.get(), F_SETFL, O_ASYNC) == 0);
  }
  void RemoveFiles() const {
    unlink(path_.c_str());
    rmdir(path_.substr(0, path_.rfind('/')).c_str());
  }

  absl::StatusOr<HandedOver> Fetch(std::string_view bytes, size_t descriptors,
                                   bool hangs_up) {
    bytes_ = bytes;
    descriptors_ = descriptors;
    hangs_up_ = hangs_up;
    Ticket ticket{};
    ticket[0] = 1;
    auto fetched = FetchApertures(path_, ticket, milliseconds(20'000));
    FUZZ_CHECK(connection_.get() >= 0, "nobody came");
    // Not before: with the ticket unread it resets the connection.
    connection_.reset();
    return fetched;
  }

 private:
  void Answer() {
    connection_.reset(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    FUZZ_CHECK(connection_.get() >= 0);
    if (!hangs_up_) Send(connection_.get(), bytes_, descriptors_);
    FUZZ_CHECK(shutdown(connection_.get(), SHUT_WR) == 0);
  }

  const UniqueFd listener_{socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)};
  std::string path_;
  UniqueFd connection_;
  // The answer to the next visitor.
  std::string_view bytes_;
  size_t descriptors_ = 0;
  bool hangs_up_ = false;
};

void DeviceSide(std::string_view bytes, size_t descriptors, bool hangs_up) {
  static Gpud* const gpud = [] {
    auto* const made = new Gpud;
    std::atexit([] { gpud->RemoveFiles(); });
    return made;
  }();
  const auto fetched = gpud->Fetch(bytes, descriptors, hangs_up);
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

// A sanitizer's: starts the program that knows functions' names, and has two
// pipes to it, for good.
extern "C" __attribute__((weak)) void __sanitizer_symbolize_pc(void* pc,
                                                               const char* how,
                                                               char* out,
                                                               size_t size);

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  // What stays open from the first use on.
  static const bool ready = [] {
    char name[64];
    if (__sanitizer_symbolize_pc != nullptr) {
      __sanitizer_symbolize_pc(__builtin_return_address(0), "%f", name,
                               sizeof(name));
    }
    const uint8_t device_side = 1 | 32;
    carillon::shm::Run({&device_side, 1});
    return true;
  }();
  (void)ready;
  carillon::shm::Run({data, size});
  return 0;
}

#include "shm/handover.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <filesystem>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "shm/aperture.h"
#include "shm/layout.h"
#include "shm/wakeups.h"

namespace carillon::shm {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;

constexpr milliseconds kBound{30'000};
constexpr Ticket kTicket = {1, 2, 3, 4, 5, 6, 7, 8};

int NextFd() { return UniqueFd(dup(0)).get(); }

// Not the number of the next one: a descriptor that is kept need not be the
// lowest that was free.
int OpenFds() {
  int open = 0;
  for (int fd = 0; fd < 1024; ++fd) open += fcntl(fd, F_GETFD) >= 0 ? 1 : 0;
  return open;
}

std::string Message(const absl::Status& status) {
  return std::string(status.message());
}

// A listening hand-over socket whose one connection is served by a thread.
class HandoverTest : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/carillon_handover_XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    directory_ = name;
    path_ = directory_ + "/fd.sock";
    listener_.reset(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strcpy(address.sun_path, path_.c_str());
    ASSERT_EQ(bind(listener_.get(), reinterpret_cast<sockaddr*>(&address),
                   sizeof(address)),
              0);
    ASSERT_EQ(listen(listener_.get(), 8), 0);
    open_fds_ = OpenFds();
  }
  void TearDown() override {
    if (gpud_.joinable()) gpud_.join();
    std::filesystem::remove_all(directory_);
  }

  // What gpud does with its next connection.
  void Serve(std::function<void(int)> with) {
    gpud_ = std::thread([this, with = std::move(with)] {
      const UniqueFd connection(
          accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      with(connection.get());
    });
  }
  absl::StatusOr<HandedOver> Fetch() {
    return FetchApertures(path_, kTicket, kBound);
  }

  std::string directory_;
  std::string path_;
  UniqueFd listener_;
  int open_fds_ = 0;  // while none leaks
  std::thread gpud_;
};

// A reply as gpud would send it, for tests to spoil.
HandoverReply GoodReply() {
  HandoverReply reply{};
  reply.magic = kMagic;
  reply.layout_version = kLayoutVersion;
  reply.generation = 1;
  return reply;
}

// Sends `length` bytes with `descriptors` copies of one descriptor.
void SendRaw(int connection, const void* data, size_t length,
             size_t descriptors) {
  iovec payload{.iov_base = const_cast<void*>(data), .iov_len = length};
  msghdr message{};
  message.msg_iov = &payload;
  message.msg_iovlen = 1;
  std::vector<char> control(CMSG_SPACE(descriptors * sizeof(int)));
  if (descriptors > 0) {
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    cmsghdr* part = CMSG_FIRSTHDR(&message);
    part->cmsg_level = SOL_SOCKET;
    part->cmsg_type = SCM_RIGHTS;
    part->cmsg_len = CMSG_LEN(descriptors * sizeof(int));
    const std::vector<int> fds(descriptors, 0);
    std::memcpy(CMSG_DATA(part), fds.data(), descriptors * sizeof(int));
  }
  EXPECT_EQ(sendmsg(connection, &message, MSG_NOSIGNAL),
            static_cast<ssize_t>(length));
}

TEST_F(HandoverTest, ATicketBringsBothAperturesAndTheEvent) {
  const auto submission = Aperture::Create({.kind = RegionKind::kSubmission,
                                            .heap_bytes = 4096,
                                            .generation = Generation(5)});
  const auto completion = Aperture::Create({.kind = RegionKind::kCompletion,
                                            .heap_bytes = 4096,
                                            .generation = Generation(5)});
  const auto event = CompletionEvent::Create();
  ASSERT_TRUE(submission.ok() && completion.ok() && event.ok());
  Serve([&](int connection) {
    const auto ticket = ReceiveTicket(connection, kBound);
    ASSERT_TRUE(ticket.ok()) << ticket.status();
    EXPECT_EQ(*ticket, kTicket);
    EXPECT_TRUE(SendApertures(connection, 42, Generation(5), submission->fd(),
                              completion->fd(), event->reader.get())
                    .ok());
  });
  auto fetched = Fetch();
  ASSERT_TRUE(fetched.ok()) << fetched.status();
  EXPECT_EQ(fetched->device_id, 42u);
  EXPECT_EQ(fetched->generation, Generation(5));
  for (const UniqueFd* fd :
       {&fetched->submission, &fetched->completion, &fetched->completion_event,
        &fetched->connection}) {
    EXPECT_NE(fcntl(fd->get(), F_GETFD) & FD_CLOEXEC, 0);
  }
  EXPECT_EQ(write(event->writer.get(), "x", 1), 1);
  char byte;
  EXPECT_EQ(read(fetched->completion_event.get(), &byte, 1), 1);
  EXPECT_TRUE(Aperture::Map(std::move(fetched->submission),
                            RegionKind::kSubmission, Generation(5))
                  .ok());
  EXPECT_TRUE(Aperture::Map(std::move(fetched->completion),
                            RegionKind::kCompletion, Generation(5))
                  .ok());
  // The connection's end is the death notice.
  gpud_.join();
  pollfd waiter{
      .fd = fetched->connection.get(), .events = POLLIN, .revents = 0};
  EXPECT_EQ(poll(&waiter, 1, static_cast<int>(kBound.count())), 1);
  EXPECT_EQ(recv(fetched->connection.get(), &byte, 1, 0), 0);
}

TEST_F(HandoverTest, ARefusalKeepsItsCodeAndItsSentence) {
  Serve([&](int connection) {
    EXPECT_TRUE(ReceiveTicket(connection, kBound).ok());
    SendRefusal(connection, absl::PermissionDeniedError(
                                "the ticket has expired; attach again"));
  });
  const auto fetched = Fetch();
  EXPECT_EQ(fetched.status(), absl::PermissionDeniedError(
                                  "the ticket has expired; attach again"));
}

TEST_F(HandoverTest, ALongRefusalIsCutAndNotRefused) {
  const std::string sentence(1000, 'x');
  Serve([&](int connection) {
    EXPECT_TRUE(ReceiveTicket(connection, kBound).ok());
    SendRefusal(connection, absl::PermissionDeniedError(sentence));
  });
  const auto fetched = Fetch();
  EXPECT_EQ(fetched.status(), absl::PermissionDeniedError(std::string(
                                  sizeof(HandoverReply::message) - 1, 'x')));
}

// --- The device's side, against a gpud that is none.

struct BadReply {
  const char* name;
  std::function<void(int)> send;  // after the ticket came
  absl::StatusCode code;
  const char* message;
};
void PrintTo(const BadReply& bad, std::ostream* out) { *out << bad.name; }

class BadReplyTest : public HandoverTest,
                     public testing::WithParamInterface<BadReply> {};

TEST_P(BadReplyTest, IsRefusedAndLeaksNothing) {
  Serve([&](int connection) {
    EXPECT_TRUE(ReceiveTicket(connection, kBound).ok());
    GetParam().send(connection);
  });
  const auto fetched = Fetch();
  gpud_.join();
  EXPECT_EQ(fetched.status().code(), GetParam().code) << fetched.status();
  EXPECT_THAT(Message(fetched.status()), HasSubstr(GetParam().message));
  EXPECT_EQ(OpenFds(), open_fds_);
}

INSTANTIATE_TEST_SUITE_P(
    Replies, BadReplyTest,
    testing::Values(
        BadReply{"Magic",
                 [](int connection) {
                   HandoverReply reply = GoodReply();
                   reply.magic = 0x1234;
                   SendRaw(connection, &reply, sizeof(reply), 3);
                 },
                 absl::StatusCode::kFailedPrecondition, "magic 0x1234"},
        BadReply{"Version",
                 [](int connection) {
                   HandoverReply reply = GoodReply();
                   reply.layout_version = 9;
                   SendRaw(connection, &reply, sizeof(reply), 3);
                 },
                 absl::StatusCode::kFailedPrecondition,
                 "gpud speaks layout version 9, this device 2"},
        BadReply{"Short",
                 [](int connection) {
                   const HandoverReply reply = GoodReply();
                   SendRaw(connection, &reply, sizeof(reply) - 1, 3);
                 },
                 absl::StatusCode::kFailedPrecondition, "255 bytes"},
        BadReply{"Long",
                 [](int connection) {
                   char reply[sizeof(HandoverReply) + 1] = {};
                   const HandoverReply good = GoodReply();
                   std::memcpy(reply, &good, sizeof(good));
                   SendRaw(connection, reply, sizeof(reply), 3);
                 },
                 absl::StatusCode::kFailedPrecondition, "256 bytes or more"},
        BadReply{"NoDescriptors",
                 [](int connection) {
                   const HandoverReply reply = GoodReply();
                   SendRaw(connection, &reply, sizeof(reply), 0);
                 },
                 absl::StatusCode::kFailedPrecondition,
                 "carried 0 descriptors, expected 3"},
        BadReply{"TwoDescriptors",
                 [](int connection) {
                   const HandoverReply reply = GoodReply();
                   SendRaw(connection, &reply, sizeof(reply), 2);
                 },
                 absl::StatusCode::kFailedPrecondition,
                 "carried 2 descriptors, expected 3"},
        BadReply{"FourDescriptors",
                 [](int connection) {
                   const HandoverReply reply = GoodReply();
                   SendRaw(connection, &reply, sizeof(reply), 4);
                 },
                 absl::StatusCode::kFailedPrecondition, "expected 3"},
        BadReply{"ManyDescriptors",
                 [](int connection) {
                   const HandoverReply reply = GoodReply();
                   SendRaw(connection, &reply, sizeof(reply), 253);
                 },
                 absl::StatusCode::kFailedPrecondition,
                 "and lost some, expected 3"},
        BadReply{"RefusalWithDescriptors",
                 [](int connection) {
                   HandoverReply reply = GoodReply();
                   reply.status =
                       static_cast<uint32_t>(absl::StatusCode::kNotFound);
                   // No zero at the end.
                   std::memset(reply.message, 'y', sizeof(reply.message));
                   SendRaw(connection, &reply, sizeof(reply), 3);
                 },
                 absl::StatusCode::kNotFound, "yyy"},
        BadReply{"UnknownCode",
                 [](int connection) {
                   HandoverReply reply = GoodReply();
                   reply.status = 4711;
                   SendRaw(connection, &reply, sizeof(reply), 3);
                 },
                 absl::StatusCode::kUnknown, ""},
        BadReply{"NothingButDescriptors",
                 [](int connection) { SendRaw(connection, nullptr, 0, 3); },
                 absl::StatusCode::kUnavailable, "closed the hand-over socket"},
        BadReply{"Nothing", [](int) {}, absl::StatusCode::kUnavailable,
                 "closed the hand-over socket"}),
    [](const auto& bad) { return bad.param.name; });

TEST_F(HandoverTest, AGpudThatClosesAtOnceIsUnavailable) {
  Serve([](int) {});
  EXPECT_EQ(Fetch().status().code(), absl::StatusCode::kUnavailable);
}

TEST_F(HandoverTest, ASilentGpudIsGivenUpInTime) {
  // Nobody even accepts.
  for (const milliseconds timeout : {milliseconds(50), milliseconds(0),
                                     milliseconds(-1), milliseconds::min()}) {
    const auto fetched = FetchApertures(path_, kTicket, timeout);
    EXPECT_EQ(fetched.status().code(), absl::StatusCode::kDeadlineExceeded);
  }
}

TEST_F(HandoverTest, AFullBacklogIsGivenUpInTime) {
  ASSERT_EQ(listen(listener_.get(), 0), 0);
  // Nobody accepts. Connections of those who gave up stay in the backlog, so
  // that a later connect() blocks.
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(FetchApertures(path_, kTicket, milliseconds(50)).status().code(),
              absl::StatusCode::kDeadlineExceeded);
  }
}

TEST_F(HandoverTest, NoGpudIsUnavailableAndNamesTheSocket) {
  const int open_fds = OpenFds();
  for (const std::string& path : {directory_ + "/none", directory_}) {
    const auto fetched = FetchApertures(path, kTicket, kBound);
    EXPECT_EQ(fetched.status().code(), absl::StatusCode::kUnavailable);
    EXPECT_THAT(Message(fetched.status()), HasSubstr(path));
    EXPECT_THAT(Message(fetched.status()), HasSubstr("is the testbed up?"));
  }
  EXPECT_EQ(OpenFds(), open_fds);
}

TEST_F(HandoverTest, PathsThatNoSocketHasAreRefused) {
  for (const std::string& path : {std::string(), std::string(108, 'p')}) {
    const auto fetched = FetchApertures(path, kTicket, kBound);
    EXPECT_EQ(fetched.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(Message(fetched.status()), HasSubstr("must be 1 to 107"));
  }
}

TEST_F(HandoverTest, ADeviceOutOfDescriptorsIsToldSoAndLeaksNothing) {
  const int next_fd = NextFd();  // before a thread that starts opens anything
  Serve([&](int connection) {
    EXPECT_TRUE(ReceiveTicket(connection, kBound).ok());
    const HandoverReply reply = GoodReply();
    SendRaw(connection, &reply, sizeof(reply), 3);
  });
  rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  // gpud's end of the connection, the device's end, and one.
  const rlimit now{.rlim_cur = static_cast<rlim_t>(next_fd) + 3,
                   .rlim_max = before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &now), 0);
  const auto fetched = Fetch();
  setrlimit(RLIMIT_NOFILE, &before);
  gpud_.join();
  EXPECT_EQ(fetched.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(Message(fetched.status()),
              HasSubstr("and lost some, expected 3; is this process out of "
                        "descriptors (ulimit -n)?"));
  EXPECT_EQ(OpenFds(), open_fds_);
}

// --- gpud's side, against a device that is none.

class ReceiveTicketTest : public testing::Test {
 protected:
  void SetUp() override {
    int ends[2];
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
    gpud_.reset(ends[0]);
    device_.reset(ends[1]);
  }
  absl::Status Receive(milliseconds timeout = kBound) {
    return ReceiveTicket(gpud_.get(), timeout).status();
  }
  HandoverRequest GoodRequest() const {
    return {.magic = kMagic,
            .layout_version = kLayoutVersion,
            .reserved = 0,
            .ticket = kTicket};
  }
  UniqueFd gpud_;
  UniqueFd device_;
};

TEST_F(ReceiveTicketTest, EachWrongFieldIsRefusedByName) {
  HandoverRequest request = GoodRequest();
  request.magic = 0x99;
  SendRaw(device_.get(), &request, sizeof(request), 0);
  absl::Status status = Receive();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(Message(status), HasSubstr("magic 0x99"));

  request = GoodRequest();
  request.layout_version = 3;
  SendRaw(device_.get(), &request, sizeof(request), 0);
  status = Receive();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(Message(status), HasSubstr("speaks layout version 3, gpud 2"));

  const char bytes[100] = {};
  for (const size_t length : {size_t{1}, size_t{31}, size_t{33}, size_t{100}}) {
    SendRaw(device_.get(), bytes, length, 0);
    status = Receive();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(Message(status),
                HasSubstr("has 32 bytes, not " + std::to_string(length)));
  }
}

TEST_F(ReceiveTicketTest, DescriptorsThatComeAlongAreDropped) {
  const int open_fds = OpenFds();
  const HandoverRequest request = GoodRequest();
  SendRaw(device_.get(), &request, sizeof(request), 100);
  EXPECT_TRUE(Receive().ok());
  EXPECT_EQ(OpenFds(), open_fds);
}

TEST_F(ReceiveTicketTest, ASilentDeviceIsGivenUpInTime) {
  for (const milliseconds timeout : {milliseconds(20), milliseconds(0),
                                     milliseconds(-5), milliseconds::min()}) {
    EXPECT_EQ(Receive(timeout).code(), absl::StatusCode::kDeadlineExceeded);
  }
}

TEST_F(ReceiveTicketTest, TheLongestTimeoutStillReceives) {
  const HandoverRequest request = GoodRequest();
  SendRaw(device_.get(), &request, sizeof(request), 0);
  EXPECT_TRUE(Receive(milliseconds::max()).ok());
}

TEST_F(ReceiveTicketTest, ADeviceThatLeftIsNoBadRequest) {
  device_.reset();
  EXPECT_EQ(Receive().code(), absl::StatusCode::kUnavailable);
}

TEST_F(ReceiveTicketTest, SendingToADeviceThatLeftIsAnErrorAndNotASignal) {
  device_.reset();
  EXPECT_EQ(SendApertures(gpud_.get(), 1, Generation(1), 0, 0, 0).code(),
            absl::StatusCode::kUnavailable);
  SendRefusal(gpud_.get(), absl::PermissionDeniedError("late"));
}

TEST_F(ReceiveTicketTest, ABadDescriptorIsNotSent) {
  EXPECT_EQ(SendApertures(gpud_.get(), 1, Generation(1), 0, -1, 0).code(),
            absl::StatusCode::kUnavailable);
}

TEST_F(ReceiveTicketTest, ADeviceThatDoesNotReadDoesNotHoldGpudUp) {
  absl::Status status = absl::OkStatus();
  for (int i = 0; i < 10'000 && status.ok(); ++i) {
    status = SendApertures(gpud_.get(), 1, Generation(1), 0, 0, 0);
  }
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace carillon::shm

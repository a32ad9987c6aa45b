// A device's life as processes see it: admission, attaching, fetching the
// apertures, the end.
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <string>

#include "base/unique_fd.h"
#include "gpu_daemon/control/error_detail.h"
#include "gpu_daemon/control/testing/test_peer.h"
#include "gpu_daemon/control/testing/test_subscriber.h"
#include "gpu_daemon/control/testing/test_testbed.h"

namespace carillon::gpud {
namespace {

using grpc::StatusCode;

Outcome Attach(TestTestbed& testbed, const v1::AttachRequest& request,
               v1::AttachResponse* response) {
  return TestTestbed::Call(testbed.devices(), &v1::Devices::Stub::Attach,
                           request, response);
}

Outcome ReportReady(TestTestbed& testbed, const std::string& session,
                    const std::string& note) {
  v1::ReportReadyRequest request;
  request.set_session(session);
  request.set_note(note);
  v1::ReportReadyResponse response;
  return TestTestbed::Call(testbed.devices(), &v1::Devices::Stub::ReportReady,
                           request, &response);
}

std::string Refusal(TestTestbed& testbed, const shm::Ticket& ticket) {
  const auto fetched = shm::FetchApertures(testbed.paths().handover_socket(),
                                           ticket, std::chrono::seconds(20));
  EXPECT_EQ(fetched.status().code(), absl::StatusCode::kPermissionDenied)
      << fetched.status();
  return std::string(fetched.status().message());
}

TEST(Devices, AnAttachedDeviceHoldsItsAperturesAndIsListed) {
  TestTestbed testbed;
  AttachedDevice device(&testbed, "nic0");
  EXPECT_NE(device.generation(), 0u);
  EXPECT_EQ(device.submission().generation().value(), device.generation());
  EXPECT_EQ(device.close_reason(), shm::CloseReason::kOpen);
  auto listed = testbed.Devices();
  ASSERT_EQ(listed.devices_size(), 1);
  EXPECT_EQ(listed.devices(0).name(), "nic0");
  EXPECT_EQ(listed.devices(0).state(), "attached");
  EXPECT_EQ(listed.devices(0).pid(), static_cast<uint32_t>(getpid()));
  EXPECT_EQ(listed.devices(0).generation(), device.generation());
  EXPECT_EQ(listed.devices(0).submission_bytes(),
            shm::kSubmissionHeapOffset + (64 << 10));
  EXPECT_EQ(listed.devices(0).completion_bytes(),
            shm::kCompletionHeapOffset + (64 << 10));

  EXPECT_TRUE(ReportReady(testbed, device.session(), "udp :11211").ok());
  listed = testbed.Devices();
  EXPECT_EQ(listed.devices(0).state(), "ready");
  EXPECT_EQ(listed.devices(0).note(), "udp :11211");
  EXPECT_EQ(ReportReady(testbed, device.session(), "a\x1b[2J").reason,
            reason::kBadName);
}

TEST(Devices, GpudsLeaseBeats) {
  TestTestbed testbed;
  AttachedDevice device(&testbed, "nic0");
  const auto beat = [&] {
    return std::atomic_ref<uint64_t>(
               device.completion().completion_control().heartbeat_ns)
        .load();
  };
  EXPECT_TRUE(Eventually([&] { return beat() != 0; }));
  const uint64_t first = beat();
  EXPECT_TRUE(Eventually([&] { return beat() > first; }));
}

TEST(Devices, EveryAttachHasALaterGeneration) {
  TestTestbed testbed;
  AttachedDevice first(&testbed, "a");
  AttachedDevice second(&testbed, "b");
  EXPECT_GT(second.generation(), first.generation());
  EXPECT_NE(second.device_id(), first.device_id());
}

TEST(Devices, ANameIsGivenOnceAndItsHolderIsNamed) {
  TestTestbed testbed;
  auto device = std::make_unique<AttachedDevice>(&testbed, "nic0");
  v1::AttachResponse response;
  const Outcome second = Attach(testbed, AttachRequestFor("nic0"), &response);
  EXPECT_EQ(second.status.error_code(), StatusCode::ALREADY_EXISTS);
  EXPECT_EQ(second.reason, reason::kDeviceNameTaken);
  EXPECT_NE(
      second.status.error_message().find("pid " + std::to_string(getpid())),
      std::string::npos);
  EXPECT_TRUE(device->Detach().ok());
  AttachedDevice again(&testbed, "nic0");
}

TEST(Devices, ARefusedAttachLeavesNothingBehind) {
  TestTestbed testbed({.memory_bytes = 8 << 20});
  const auto refuse = [&](const std::function<void(v1::AttachRequest&)>& edit,
                          StatusCode code, const std::string& why) {
    v1::AttachRequest request = AttachRequestFor("nic0");
    edit(request);
    v1::AttachResponse response;
    const Outcome outcome = Attach(testbed, request, &response);
    EXPECT_EQ(outcome.status.error_code(), code)
        << outcome.status.error_message();
    EXPECT_EQ(outcome.reason, why) << outcome.status.error_message();
    EXPECT_EQ(testbed.Status().devices(), 0u);
    EXPECT_EQ(testbed.Status().memory_used(), 0u);
  };
  testbed.Status();  // connects
  const size_t descriptors = OpenDescriptors();
  refuse([](auto& r) { r.set_name("NIC 0"); }, StatusCode::INVALID_ARGUMENT,
         reason::kBadName);
  refuse([](auto& r) { r.set_kind(""); }, StatusCode::INVALID_ARGUMENT,
         reason::kBadName);
  refuse([](auto& r) { r.add_counter_names("a b"); },
         StatusCode::INVALID_ARGUMENT, reason::kBadName);
  refuse(
      [](auto& r) {
        for (int i = 0; i < 5; ++i) {
          r.add_histogram_names("h" + std::to_string(i));
        }
      },
      StatusCode::INVALID_ARGUMENT, reason::kTooMany);
  refuse([](auto& r) { r.set_layout_version(shm::kLayoutVersion + 1); },
         StatusCode::FAILED_PRECONDITION, reason::kLayoutVersion);
  refuse([](auto& r) { r.set_submission_bytes(0); },
         StatusCode::INVALID_ARGUMENT, reason::kBadSize);
  refuse([](auto& r) { r.set_completion_bytes(~uint64_t{0}); },
         StatusCode::INVALID_ARGUMENT, reason::kBadSize);
  refuse([](auto& r) { r.set_completion_bytes(8 << 20); },
         StatusCode::RESOURCE_EXHAUSTED, reason::kMemoryBudget);
  EXPECT_EQ(OpenDescriptors(), descriptors);
  AttachedDevice device(&testbed, "nic0");
}

TEST(Devices, ADetachedDeviceGivesEverythingBack) {
  TestTestbed testbed;
  testbed.Status();
  const size_t descriptors = OpenDescriptors();
  {
    AttachedDevice device(&testbed, "nic0");
    device.Buffer(v1::GPU_MEMORY, 1 << 20);
    device.RingOf(device.NullEvent());
    const auto status = testbed.Status();
    EXPECT_GE(status.memory_used(), shm::kSubmissionHeapOffset +
                                        shm::kCompletionHeapOffset +
                                        2 * (64 << 10) + (1 << 20));
    EXPECT_EQ(status.ekt_used(), 1u);
    uint64_t aborted = 77;
    EXPECT_TRUE(device.Detach(&aborted).ok());
    EXPECT_EQ(aborted, 0u);
    EXPECT_EQ(device.close_reason(), shm::CloseReason::kDetached);
    // The session is known to have ended, and why.
    const Outcome late = ReportReady(testbed, device.session(), "");
    EXPECT_EQ(late.status.error_code(), StatusCode::NOT_FOUND);
    EXPECT_EQ(late.reason, reason::kSessionEnded);
    EXPECT_NE(late.status.error_message().find("it detached"),
              std::string::npos);
  }
  EXPECT_EQ(testbed.Status().ekt_used(), 0u);
  // Whoever looked into the session last lets go of the memory.
  EXPECT_TRUE(Eventually([&] {
    return testbed.Status().memory_used() == 0 &&
           OpenDescriptors() == descriptors;
  }));
}

TEST(Devices, NothingIsServedBeforeTheAperturesAreFetched) {
  TestTestbed testbed;
  v1::AttachResponse attached;
  ASSERT_TRUE(Attach(testbed, AttachRequestFor("nic0"), &attached).ok());
  const Outcome outcome = ReportReady(testbed, attached.session(), "");
  EXPECT_EQ(outcome.status.error_code(), StatusCode::FAILED_PRECONDITION);
  EXPECT_EQ(outcome.reason, reason::kNotAttached);
  EXPECT_EQ(testbed.Devices().devices(0).state(), "attaching");
}

TEST(Devices, AnUnknownSessionIsRefused) {
  TestTestbed testbed;
  for (const std::string session : {"", "x", "0123456789abcdef"}) {
    const Outcome outcome = ReportReady(testbed, session, "");
    EXPECT_EQ(outcome.status.error_code(), StatusCode::NOT_FOUND);
    EXPECT_EQ(outcome.reason, reason::kUnknownSession);
  }
}

TEST(Handover, ATicketIsGoodOnceAndForItsProcess) {
  TestTestbed testbed;
  v1::AttachResponse attached;
  ASSERT_TRUE(Attach(testbed, AttachRequestFor("nic0"), &attached).ok());
  TestPeer thief("ticket", testbed.paths().directory(),
                 ToHex(attached.ticket()));
  EXPECT_NE(
      thief.ReadLine().find("issued to process " + std::to_string(getpid()) +
                            ", not to process " + std::to_string(thief.pid())),
      std::string::npos);
  const shm::Ticket ticket = TicketIn(attached);
  const auto fetched = shm::FetchApertures(testbed.paths().handover_socket(),
                                           ticket, std::chrono::seconds(20));
  ASSERT_TRUE(fetched.ok()) << fetched.status();
  EXPECT_NE(Refusal(testbed, ticket).find("already used"), std::string::npos);
  EXPECT_NE(Refusal(testbed, shm::Ticket{}).find("unknown ticket"),
            std::string::npos);
  EXPECT_EQ(testbed.Status().devices(), 1u);
}

TEST(Handover, ATicketExpiresAndItsSessionWithIt) {
  TestTestbed testbed({.ticket_valid_ns = 1'000'000});
  v1::AttachResponse attached;
  ASSERT_TRUE(Attach(testbed, AttachRequestFor("nic0"), &attached).ok());
  EXPECT_EQ(attached.ticket_valid_ms(), 1u);
  EXPECT_TRUE(testbed.WaitUntilGone("nic0"));
  EXPECT_NE(Refusal(testbed, TicketIn(attached)).find("expired"),
            std::string::npos);
  EXPECT_EQ(testbed.Status().memory_used(), 0u);
}

TEST(Handover, AnotherLayoutVersionOrGarbageIsRefusedWithAReason) {
  TestTestbed testbed;
  const auto present = [&](const void* bytes, size_t size) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    const std::string path = testbed.paths().handover_socket();
    path.copy(address.sun_path, sizeof(address.sun_path) - 1);
    const UniqueFd fd(socket(AF_UNIX, SOCK_SEQPACKET, 0));
    EXPECT_EQ(connect(fd.get(), reinterpret_cast<sockaddr*>(&address),
                      sizeof(address)),
              0);
    EXPECT_EQ(send(fd.get(), bytes, size, MSG_NOSIGNAL),
              static_cast<ssize_t>(size));
    shm::HandoverReply reply{};
    EXPECT_EQ(recv(fd.get(), &reply, sizeof(reply), 0),
              static_cast<ssize_t>(sizeof(reply)));
    return std::string(reply.message);
  };
  shm::HandoverRequest request{.magic = shm::kMagic,
                               .layout_version = shm::kLayoutVersion + 1,
                               .reserved = 0,
                               .ticket = {}};
  EXPECT_NE(present(&request, sizeof(request)).find("layout version 3"),
            std::string::npos);
  request.magic = 1;
  EXPECT_NE(present(&request, sizeof(request)).find("magic"),
            std::string::npos);
  EXPECT_NE(present("x", 1).find("bytes"), std::string::npos);
}

TEST(Sessions, BelongToTheProcessThatAttached) {
  TestTestbed testbed;
  AttachedDevice device(&testbed, "nic0");
  TestPeer thief("session", testbed.paths().directory(),
                 ToHex(device.session()));
  const std::string answer = thief.ReadLine();
  EXPECT_EQ(answer.substr(0, 2),
            std::to_string(StatusCode::PERMISSION_DENIED) + " ");
  EXPECT_NE(answer.find("belongs to process " + std::to_string(getpid())),
            std::string::npos)
      << answer;
  EXPECT_EQ(testbed.Devices().devices(0).state(), "attached");
}

TEST(Death, AKilledProcessLeavesNothingAndIsReported) {
  TestTestbed testbed;
  testbed.Status();
  const auto context = Within();
  auto watch = testbed.admin().Watch(context.get(), v1::WatchRequest());
  TestPeer peer("device", testbed.paths().directory(), "nic0");
  ASSERT_EQ(peer.ReadLine(), "ready");
  EXPECT_EQ(testbed.Status().ekt_used(), 1u);
  const auto pid = static_cast<uint32_t>(peer.pid());
  peer.Kill();
  v1::TelemetryEvent event;
  while (watch->Read(&event) && !event.has_peer_died()) {
  }
  EXPECT_EQ(event.peer_died().device(), "nic0");
  EXPECT_EQ(event.peer_died().pid(), pid);
  const auto status = testbed.Status();
  EXPECT_EQ(status.devices(), 0u);
  EXPECT_EQ(status.ekt_used(), 0u);
  EXPECT_TRUE(Eventually([&] { return testbed.Status().memory_used() == 0; }));
  context->TryCancel();
  TestPeer next("device", testbed.paths().directory(), "nic0");
  EXPECT_EQ(next.ReadLine(), "ready");
}

TEST(Death, IsNoticedThoughAChildKeepsTheConnectionsOpen) {
  TestTestbed testbed;
  TestPeer peer("parent", testbed.paths().directory(), "nic0");
  ASSERT_EQ(peer.ReadLine(), "ready");
  peer.Kill();
  EXPECT_TRUE(testbed.WaitUntilGone("nic0"));
  EXPECT_TRUE(Eventually([&] { return testbed.Status().ekt_used() == 0; }));
}

TEST(Death, TheBusTellsOtherProcessesOfADevicesLife) {
  TestTestbed testbed;
  TestSubscriber subscriber(testbed.paths().bus_socket(), "");
  subscriber.Join([&] {
    v1::SetPolicyRequest request;
    request.set_policy("first_come");
    v1::SetPolicyResponse response;
    TestTestbed::Call(testbed.admin(), &v1::Admin::Stub::SetPolicy, request,
                      &response);
  });
  TestPeer peer("device", testbed.paths().directory(), "nic0");
  const auto pid = static_cast<uint32_t>(peer.pid());
  const v1::TelemetryEvent attached = subscriber.NextOf("device_attached");
  EXPECT_EQ(attached.device_attached().device(), "nic0");
  EXPECT_EQ(attached.device_attached().kind(), "test");
  EXPECT_EQ(attached.device_attached().pid(), pid);
  const v1::TelemetryEvent registered = subscriber.NextOf("event_registered");
  EXPECT_EQ(registered.event_registered().kernel(), "null_event");
  peer.Kill();
  const v1::TelemetryEvent died = subscriber.NextOf("peer_died");
  EXPECT_EQ(died.peer_died().device(), "nic0");
  EXPECT_EQ(died.peer_died().pid(), pid);
  // Nothing went missing in between.
  EXPECT_EQ(registered.number(), attached.number() + 1);
  EXPECT_EQ(died.number(), registered.number() + 1);
}

TEST(Death, KilledProcessesDoNotUseUpDescriptors) {
  TestTestbed testbed;
  const auto live_and_die = [&] {
    TestPeer peer("device", testbed.paths().directory(), "nic0");
    EXPECT_EQ(peer.ReadLine(), "ready");
    peer.Kill();
    EXPECT_TRUE(testbed.WaitUntilGone("nic0"));
  };
  live_and_die();
  size_t descriptors = 0;
  // gRPC closes its end of a connection in its own time.
  EXPECT_TRUE(Eventually([&] {
    const size_t before = descriptors;
    descriptors = OpenDescriptors();
    return before == descriptors;
  }));
  for (int i = 0; i < 3; ++i) live_and_die();
  EXPECT_TRUE(Eventually([&] { return OpenDescriptors() <= descriptors; }));
}

TEST(Death, TheEndOfTheHandoverConnectionIsADeath) {
  TestTestbed testbed;
  AttachedDevice device(&testbed, "nic0");
  device.CloseConnection();
  EXPECT_TRUE(testbed.WaitUntilGone("nic0"));
  EXPECT_TRUE(Eventually(
      [&] { return device.close_reason() == shm::CloseReason::kPeerDied; }));
}

TEST(Death, ADeviceThatTalksOnTheHandoverConnectionIsEvicted) {
  TestTestbed testbed;
  AttachedDevice device(&testbed, "nic0");
  ASSERT_EQ(send(device.connection(), "x", 1, MSG_NOSIGNAL), 1);
  EXPECT_TRUE(testbed.WaitUntilGone("nic0"));
  EXPECT_TRUE(Eventually(
      [&] { return device.close_reason() == shm::CloseReason::kEvicted; }));
}

TEST(Admission, AnotherUsersProcessIsTurnedAway) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can become somebody else";
  TestTestbed testbed;
  testbed.Status();
  const std::string path = testbed.paths().control_socket();
  // As if somebody had opened the doors: the check must not depend on them.
  ASSERT_EQ(chmod(testbed.paths().directory().c_str(), 0755), 0);
  ASSERT_EQ(chmod(path.c_str(), 0666), 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof(address.sun_path) - 1);
  constexpr uid_t kNobody = 65534;
  // Between fork and _exit, system calls only: other threads hold locks.
  const auto first_bytes_as = [&](uid_t uid) {
    const pid_t child = fork();
    if (child == 0) {
      if (uid != 0 && setresuid(uid, uid, uid) != 0) _exit(9);
      const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
      if (connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) !=
          0) {
        _exit(8);
      }
      alarm(20);
      char byte;
      _exit(read(fd, &byte, 1) == 1 ? 1 : 0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  };
  EXPECT_EQ(first_bytes_as(0), 1);  // gRPC greets those who are let in
  const int refused = first_bytes_as(kNobody);
  if (refused == 9) GTEST_SKIP() << "only root can become somebody else";
  EXPECT_EQ(refused, 0);
}

TEST(Start, ASecondGpudInADirectoryIsRefusedAndHarmsNothing) {
  TestTestbed testbed({.testbed = "lab"});
  auto second = ControlPlane::Start(
      {.directory = testbed.paths().directory(), .testbed = "lab"});
  ASSERT_EQ(second.status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_NE(std::string(second.status().message())
                .find("testbed lab is already up (pid " +
                      std::to_string(getpid()) + ")"),
            std::string::npos)
      << second.status();
  EXPECT_EQ(testbed.Status().testbed(), "lab");
  AttachedDevice device(&testbed, "nic0");
}

TEST(Start, BadOptionsAreNamed) {
  TempDirectory directory;
  const auto start = [&](ControlPlane::Options options) {
    if (options.directory.empty()) options.directory = directory.path();
    return ControlPlane::Start(std::move(options)).status();
  };
  EXPECT_EQ(start({.ekt_entries = 0}).code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(start({.ekt_entries = 1025}).code(),
            absl::StatusCode::kInvalidArgument);
  for (const char* users : {"0", "1000,", "nobody", "4294967295", "1 2"}) {
    EXPECT_EQ(start({.device_users = users}).code(),
              absl::StatusCode::kInvalidArgument)
        << users;
  }
  EXPECT_EQ(start({.backend_options = {.policy = "fifo"}}).code(),
            absl::StatusCode::kNotFound);
  const absl::Status path =
      start({.directory = directory.path() + "/" + std::string(100, 'x')});
  EXPECT_EQ(path.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(std::string(path.message()).find("the limit is 107"),
            std::string::npos);
  EXPECT_TRUE(std::filesystem::is_empty(directory.path()));
}

TEST(Start, SocketsOfADeadGpudAreReplaced) {
  TempDirectory directory;
  const TestbedPaths paths(directory.path());
  for (const auto& path :
       {paths.control_socket(), paths.operator_socket(), paths.bus_socket()}) {
    const UniqueFd dead(socket(AF_UNIX, SOCK_STREAM, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof(address.sun_path) - 1);
    ASSERT_EQ(bind(dead.get(), reinterpret_cast<sockaddr*>(&address),
                   sizeof(address)),
              0);
  }
  auto plane = ControlPlane::Start({.directory = directory.path(),
                                    .backend_options = {.workers = 1},
                                    .memory_bytes = 1 << 20});
  EXPECT_TRUE(plane.ok()) << plane.status();
}

TEST(Shutdown, TellsDevicesAndLeavesNoFile) {
  TestTestbed testbed;
  AttachedDevice device(&testbed, "nic0");
  testbed.Stop();
  EXPECT_EQ(device.close_reason(), shm::CloseReason::kShutdown);
  const TestbedPaths paths = testbed.paths();
  EXPECT_FALSE(std::filesystem::exists(paths.control_socket()));
  EXPECT_FALSE(std::filesystem::exists(paths.operator_socket()));
  EXPECT_FALSE(std::filesystem::exists(paths.handover_socket()));
  EXPECT_FALSE(std::filesystem::exists(paths.bus_socket()));
}

}  // namespace
}  // namespace carillon::gpud

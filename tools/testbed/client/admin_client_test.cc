#include "tools/testbed/client/admin_client.h"

#include <gmock/gmock.h>
#include <grpc/grpc.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/health_check_service_interface.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <thread>

#include "base/unique_fd.h"
#include "devices/sdk/cancel_calls.h"
#include "devices/sdk/unix_target.h"
#include "proto/admin.grpc.pb.h"
#include "shm/layout.h"
#include "tools/testbed/supervisor/test_util.h"

namespace carillon::testbed {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;

// Answers like gpud, on a socket of its own.
class FakeAdmin : public v1::Admin::Service {
 public:
  explicit FakeAdmin(const std::string& socket) {
    grpc::EnableDefaultHealthCheckService(true);
    grpc::ServerBuilder builder;
    builder.AddListeningPort(edge::UnixTarget(socket),
                             grpc::InsecureServerCredentials());
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
  }
  ~FakeAdmin() override { server_->Shutdown(std::chrono::system_clock::now()); }

  void DescribeAs(const std::string& backend, const std::string& description) {
    backend_ = backend;
    description_ = description;
  }
  void SetServing(bool serving) {
    server_->GetHealthCheckService()->SetServingStatus(serving);
  }

  grpc::Status GetStatus(grpc::ServerContext*, const v1::GetStatusRequest*,
                         v1::GetStatusResponse* response) override {
    response->set_backend(backend_);
    response->set_workers(2);
    response->set_backend_description(description_);
    response->set_policy("priority");
    return grpc::Status::OK;
  }
  grpc::Status ListDevices(grpc::ServerContext*, const v1::ListDevicesRequest*,
                           v1::ListDevicesResponse* response) override {
    for (const char* state : {"ready", "attached"}) {
      v1::Device* const device = response->add_devices();
      device->set_name(state);
      device->set_state(state);
      device->set_note("port 7");
    }
    return grpc::Status::OK;
  }
  // Returns a full table of wide histograms.
  grpc::Status ListEkt(grpc::ServerContext*, const v1::ListEktRequest*,
                       v1::ListEktResponse* response) override {
    for (uint32_t i = 0; i < 1024; ++i) {
      v1::EktEntry* const entry = response->add_entries();
      entry->set_ekt_index(i);
      for (int stage = 0; stage < 4; ++stage) {
        v1::Histogram* const histogram = entry->add_stages();
        for (uint32_t bucket = 0; bucket < shm::kHistogramBuckets;
             bucket += 4) {
          histogram->add_bucket(bucket);
          histogram->add_count(1000);
        }
      }
    }
    return grpc::Status::OK;
  }
  grpc::Status SetPolicy(grpc::ServerContext* context,
                         const v1::SetPolicyRequest*,
                         v1::SetPolicyResponse*) override {
    v1::ErrorDetail detail;
    detail.set_hint("did you mean 'priority'?");
    context->AddTrailingMetadata("carillon-error-bin",
                                 detail.SerializeAsString());
    return {grpc::StatusCode::NOT_FOUND, "no such policy"};
  }

 private:
  std::string backend_ = "cpu";
  std::string description_ = "2 worker threads";
  std::unique_ptr<grpc::Server> server_;
};

// Forwards one connection, but delays the server's first byte.
class SlowPassage {
 public:
  SlowPassage(const std::string& from, const std::string& to,
              milliseconds delay)
      : listener_(socket(AF_UNIX, SOCK_STREAM, 0)),
        thread_([=, this] { Pass(to, delay); }) {
    const sockaddr_un address = Address(from);
    EXPECT_EQ(bind(listener_.get(), reinterpret_cast<const sockaddr*>(&address),
                   sizeof(address)),
              0);
    EXPECT_EQ(listen(listener_.get(), 1), 0);
    listening_ = true;
    listening_.notify_all();
  }
  ~SlowPassage() {
    shutdown(listener_.get(), SHUT_RDWR);
    thread_.join();
  }

 private:
  static sockaddr_un Address(const std::string& path) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof(address.sun_path) - 1);
    return address;
  }

  static bool Copy(int from, int to) {
    char bytes[4096];
    const ssize_t got = read(from, bytes, sizeof(bytes));
    return got > 0 && write(to, bytes, got) == got;
  }

  void Pass(const std::string& to, milliseconds delay) {
    listening_.wait(false);
    const UniqueFd client(accept(listener_.get(), nullptr, nullptr));
    if (!client) return;
    // The test is about the delay; nothing waits for a state here.
    std::this_thread::sleep_for(delay);
    const UniqueFd server(socket(AF_UNIX, SOCK_STREAM, 0));
    const sockaddr_un address = Address(to);
    connect(server.get(), reinterpret_cast<const sockaddr*>(&address),
            sizeof(address));
    for (;;) {
      pollfd fds[2] = {{client.get(), POLLIN, 0}, {server.get(), POLLIN, 0}};
      poll(fds, 2, -1);
      if (fds[0].revents != 0 && !Copy(client.get(), server.get())) return;
      if (fds[1].revents != 0 && !Copy(server.get(), client.get())) return;
    }
  }

  UniqueFd listener_;
  std::atomic<bool> listening_{false};
  std::thread thread_;
};

class AdminClientTest : public ::testing::Test {
 protected:
  TestFolder folder_;
  const TestbedPaths paths_{folder_.path()};
};

TEST_F(AdminClientTest, IsUnavailableWithoutAServer) {
  AdminClient client(paths_);
  EXPECT_EQ(client.CheckHealth().code(), absl::StatusCode::kUnavailable);
  const auto status = client.GetStatus();
  EXPECT_EQ(status.status().code(), absl::StatusCode::kUnavailable);
}

TEST_F(AdminClientTest, FollowsTheHealthService) {
  FakeAdmin server(paths_.operator_socket());
  AdminClient client(paths_);
  EXPECT_TRUE(client.CheckHealth().ok()) << client.CheckHealth();
  server.SetServing(false);
  EXPECT_EQ(client.CheckHealth().message(),
            "gpud answers that it does not serve");
}

// A busy machine answers late, which is not the same as no server.
TEST_F(AdminClientTest, WaitsForAServerThatIsSlowToGreet) {
  FakeAdmin server(folder_.path() + "/real.sock");
  SlowPassage passage(paths_.operator_socket(), folder_.path() + "/real.sock",
                      milliseconds(300));
  AdminClient client(paths_, milliseconds(20'000));
  const auto status = client.GetStatus();
  ASSERT_TRUE(status.ok()) << status.status();
  EXPECT_EQ(status->workers(), 2u);
}

// Its process is stopped: the kernel connects, and nobody answers.
TEST_F(AdminClientTest, LoadsNothingIntoAGpudThatDoesNotAnswer) {
  const UniqueFd stopped(socket(AF_UNIX, SOCK_STREAM, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  paths_.operator_socket().copy(address.sun_path, sizeof(address.sun_path) - 1);
  ASSERT_EQ(bind(stopped.get(), reinterpret_cast<const sockaddr*>(&address),
                 sizeof(address)),
            0);
  ASSERT_EQ(listen(stopped.get(), 1), 0);
  AdminClient client(paths_, milliseconds(200));
  const absl::Status status =
      client.RegisterModule(v1::RegisterModuleRequest()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(
      std::string(status.message()),
      HasSubstr("did not answer GetStatus within 200 ms: it is stopped"));
}

TEST_F(AdminClientTest, FindsTheSocketWhateverItsFolderIsCalled) {
  const TestbedPaths odd(folder_.path() + "/a b%20#c?d");
  std::filesystem::create_directory(odd.directory());
  FakeAdmin server(odd.operator_socket());
  AdminClient client(odd);
  const auto status = client.GetStatus();
  ASSERT_TRUE(status.ok()) << status.status();
  EXPECT_EQ(status->backend(), "cpu");
}

TEST_F(AdminClientTest, ReadsAnEktBeyondGrpcsUsualLimit) {
  // Never shut down: after a long write, that waits up to 10 s for gRPC's
  // poller.
  grpc_init();
  FakeAdmin server(paths_.operator_socket());
  AdminClient client(paths_, milliseconds(60'000));
  const auto ekt = client.ListEkt();
  ASSERT_TRUE(ekt.ok()) << ekt.status();
  EXPECT_EQ(ekt->entries_size(), 1024);
  EXPECT_GT(ekt->ByteSizeLong(), size_t{4} << 20);
}

TEST_F(AdminClientTest, CarriesTheServersHint) {
  FakeAdmin server(paths_.operator_socket());
  AdminClient client(paths_);
  const auto previous = client.SetPolicy("priorty");
  EXPECT_EQ(previous.status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(previous.status().message(),
            "no such policy; did you mean 'priority'?");
}

// A gpud that is stopped takes no connection.
TEST_F(AdminClientTest, CallsEndWhenTheUserWishesIt) {
  const UniqueFd gpud(socket(AF_UNIX, SOCK_STREAM, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  paths_.operator_socket().copy(address.sun_path, sizeof(address.sun_path) - 1);
  ASSERT_EQ(bind(gpud.get(), reinterpret_cast<const sockaddr*>(&address),
                 sizeof(address)),
            0);
  ASSERT_EQ(listen(gpud.get(), 1), 0);
  // Longer than a test may take.
  AdminClient client(paths_, std::chrono::hours(1));
  const UniqueFd wish(eventfd(0, EFD_CLOEXEC));
  const edge::CancelCalls cancel_calls(wish.get());
  UniqueFd taken;
  std::thread user([&] {
    // The connection is there when the call is on its way.
    taken.reset(accept(gpud.get(), nullptr, nullptr));
    eventfd_write(wish.get(), 1);
  });
  EXPECT_TRUE(absl::IsCancelled(client.GetStatus().status()));
  user.join();
  EXPECT_TRUE(absl::IsCancelled(client.GetStatus().status()))
      << "a call to come";
}

TEST_F(AdminClientTest, ProbesReadiness) {
  FakeAdmin server(paths_.operator_socket());
  GrpcReadinessProbe probe(paths_);
  std::string note;
  EXPECT_TRUE(probe.Gpud(&note).ok());
  EXPECT_EQ(note, "cpu back-end: 2 worker threads");
  const auto devices = probe.Devices();
  ASSERT_TRUE(devices.ok()) << devices.status();
  EXPECT_TRUE(devices->at("ready").ready);
  EXPECT_EQ(devices->at("ready").note, "port 7");
  EXPECT_FALSE(devices->at("attached").ready);
}

TEST_F(AdminClientTest, ProbesTheLinkOfAHostWithoutTheGpu) {
  FakeAdmin server(paths_.operator_socket());
  GrpcReadinessProbe probe(paths_);
  EXPECT_TRUE(probe.Link().ok());
  server.DescribeAs("cpu", "by link to b (10.0.0.6:4711), now down: no GPU's");
  EXPECT_TRUE(probe.Link().ok());
  server.DescribeAs(
      "remote",
      "by link to b (10.0.0.6:4711), now up, but device 'd' waits: x");
  EXPECT_TRUE(probe.Link().ok());
  server.DescribeAs(
      "remote", "by link to b (10.0.0.6:4711), now down: Connection refused");
  EXPECT_EQ(probe.Link(), absl::UnavailableError("down: Connection refused"));
  server.DescribeAs("remote",
                    "in the simulated time of b (10.0.0.6:4711), now up");
  EXPECT_TRUE(probe.Link().ok());
  server.DescribeAs(
      "remote", "in the simulated time of b (10.0.0.6:4711), now down: late");
  EXPECT_EQ(probe.Link(), absl::UnavailableError("down: late"));
}

}  // namespace
}  // namespace carillon::testbed

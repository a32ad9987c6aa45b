// gpud of a host without the GPU, and the far end of its link, at which a test
// says what linkd might.
#include "gpu_daemon/relay/session_relay.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/temp_directory.h"
#include "base/testbed_paths.h"
#include "base/testing/eventually.h"
#include "base/testing/test_ca.h"
#include "gpu_daemon/relay/relayed_sessions.h"
#include "kernels/catalogue.h"

namespace carillon::gpud {
namespace {

using ::testing::Contains;
using ::testing::Not;
using ::testing::ResultOf;

constexpr char kSimulation[] = "1234";
constexpr Nanoseconds kSecond = 1'000'000'000;

class SessionRelayTest : public ::testing::Test {
 protected:
  SessionRelayTest() {
    auto far = mesh::FarStepLink::Start(
        {.tls = FilesOf("b"),
         .address = "127.0.0.1:0",
         .link = {.self = {.testbed = "lab",
                           .host = "b",
                           .build = mesh::OwnBuild(),
                           .catalogue = mesh::SimulatedCatalogue(
                               simt::OwnCatalogue(), kSimulation),
                           .incarnation = 1},
                  .peer = "a",
                  .times = {.timeout = 5 * kSecond, .lease = 60 * kSecond}}},
        [] {});
    EXPECT_TRUE(far.ok()) << far.status();
    far_ = *std::move(far);
    auto relay = SessionRelay::Start(Options(), kSimulation);
    EXPECT_TRUE(relay.ok()) << relay.status();
    if (!relay.ok()) return;
    relay_ = *std::move(relay);
    thread_ = std::thread([this] { EXPECT_TRUE(relay_->Run().ok()); });
  }
  ~SessionRelayTest() override {
    stop_.Ring();
    if (thread_.joinable()) thread_.join();
  }

  GpudOptions Options() const {
    GpudOptions options;
    options.directory = files_.path() + "/lab";
    options.testbed = "lab";
    options.backend = kRemoteBackend;
    options.stop_fd = stop_.fd();
    options.backend_options.remote.address = far_->address();
    options.backend_options.remote.host = "a";
    options.backend_options.remote.peer = "b";
    options.backend_options.remote.testbed = "lab";
    options.backend_options.remote.tls = FilesOf("a");
    return options;
  }
  TlsFiles FilesOf(const std::string& host) const {
    return ca_.Issue(
        {.name = host,
         .alternative_names = "URI:carillon:role:link,DNS:" + host});
  }
  std::string ControlSocket() const {
    return TestbedPaths(files_.path() + "/lab").control_socket();
  }
  UniqueFd Connect() const { return ConnectTo(ControlSocket(), SOCK_STREAM); }
  UniqueFd ConnectForHandover() const {
    return ConnectTo(TestbedPaths(files_.path() + "/lab").handover_socket(),
                     SOCK_SEQPACKET);
  }
  static UniqueFd ConnectTo(const std::string& path, int type) {
    sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
    std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
    UniqueFd fd(socket(AF_UNIX, type | SOCK_CLOEXEC, 0));
    if (connect(fd.get(), reinterpret_cast<const sockaddr*>(&address),
                sizeof(address)) != 0) {
      return {};
    }
    return fd;
  }
  // What the relay says.
  void Take() {
    for (const v1::SessionStep& step : far_->Take().steps) {
      if (step.has_open()) opened_.insert(step.open().connection());
      if (step.has_bytes()) bytes_ += step.bytes().bytes().size();
    }
  }

  const TempDirectory files_ = *TempDirectory::Make();
  const TestCa ca_{files_.path()};
  const mesh::Alarm stop_;
  std::unique_ptr<mesh::FarStepLink> far_;
  std::unique_ptr<SessionRelay> relay_;
  std::thread thread_;
  std::set<uint64_t> opened_;
  size_t bytes_ = 0;
};

// Whatever its owner writes, and the other host is slow to take.
TEST_F(SessionRelayTest, AConnectionThatFloodsWaitsForTheLink) {
  const UniqueFd flood = Connect();
  ASSERT_TRUE(flood);
  constexpr size_t kMost = size_t{64} << 20;
  constexpr int kStuckMs = 1000;
  const std::string some(size_t{64} << 10, 'x');
  size_t written = 0;
  while (written < kMost) {
    const ssize_t count = send(flood.get(), some.data(), some.size(),
                               MSG_DONTWAIT | MSG_NOSIGNAL);
    if (count > 0) {
      written += static_cast<size_t>(count);
      continue;
    }
    pollfd ready{flood.get(), POLLOUT, 0};
    if (poll(&ready, 1, kStuckMs) == 0) break;
  }
  EXPECT_LT(written, kMost) << "all of it lies in the relay's memory";
  // Nor does one that comes now, and what it says.
  const UniqueFd late = Connect();
  ASSERT_TRUE(late);
  ASSERT_EQ(send(late.get(), "late", 4, MSG_NOSIGNAL), 4);
  // All of it is to be had.
  EXPECT_TRUE(Eventually([&] {
    Take();
    return bytes_ == written + 4 && opened_.size() == 2;
  })) << bytes_
      << " of " << written + 4;
}

bool IsClosed(const UniqueFd& fd) {
  char byte;
  return recv(fd.get(), &byte, 1, MSG_DONTWAIT) == 0;
}

TEST_F(SessionRelayTest, AProcessThatIsSilentHasFewConnections) {
  std::vector<UniqueFd> calls;
  for (int i = 0; i < RelayedSessions::kMaxConnectionsBesideDevices; ++i) {
    calls.push_back(Connect());
  }
  const UniqueFd one_more = Connect();
  EXPECT_TRUE(Eventually([&] { return IsClosed(one_more); }));
  EXPECT_THAT(calls, Not(Contains(ResultOf(IsClosed, true))));
  calls.pop_back();
  // Once the relay has seen that.
  EXPECT_TRUE(Eventually([&] {
    const UniqueFd next = Connect();
    pollfd closed{next.get(), POLLIN, 0};
    return poll(&closed, 1, /*timeout_ms=*/20) == 0;
  }));
}

TEST_F(SessionRelayTest, WhoShowsNoTicketIsClosed) {
  std::vector<UniqueFd> waiting;
  for (int i = 0; i < RelayedSessions::kMaxPending; ++i) {
    waiting.push_back(ConnectForHandover());
  }
  const UniqueFd one_more = ConnectForHandover();
  EXPECT_TRUE(Eventually([&] { return IsClosed(one_more); }));
  EXPECT_TRUE(
      Eventually([&] { return std::ranges::all_of(waiting, IsClosed); }));
}

TEST_F(SessionRelayTest, WaitsForTheLinkUntilItIsToldToEnd) {
  GpudOptions options = Options();
  options.directory = files_.path() + "/other";
  options.backend_options.remote.address = "127.0.0.1:1";  // nobody is there
  options.backend_options.remote.wait = 3600 * kSecond;
  const mesh::Alarm stop;
  options.stop_fd = stop.fd();
  stop.Ring();
  EXPECT_EQ(SessionRelay::Start(options, kSimulation).status(),
            absl::CancelledError("told to end"));
}

TEST_F(SessionRelayTest, ConnectionsThatComeAndGoWaitForTheLink) {
  constexpr int kMost = 50'000;
  constexpr int kStuckMs = 1000;
  int connections = 0;
  for (; connections < kMost; ++connections) {
    sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
    const std::string path = ControlSocket();
    std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
    const UniqueFd fd(
        socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    const auto comes = [&] {
      return connect(fd.get(), reinterpret_cast<const sockaddr*>(&address),
                     sizeof(address)) == 0;
    };
    if (!Eventually(comes, std::chrono::milliseconds(kStuckMs))) break;
  }
  EXPECT_LT(connections, kMost) << "all of them lie in the relay's memory";
  EXPECT_TRUE(Eventually([&] {
    Take();
    return opened_.size() == static_cast<size_t>(connections);
  })) << opened_.size()
      << " of " << connections;
}

}  // namespace
}  // namespace carillon::gpud

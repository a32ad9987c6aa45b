// Devices of a host without the GPU in simulated time: gpud there, linkd and gpud
// of the GPU's host are processes, and the device, or a near end that lies, is
// the test.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/temp_directory.h"
#include "base/testing/eventually.h"
#include "base/testing/test_ca.h"
#include "base/unique_fd.h"
#include "devices/sdk/edge.h"
#include "fmt/format.h"
#include "integration_tests/testbed_process.h"
#include "kernels/catalogue.h"
#include "mesh/session/step_link.h"

namespace carillon {
namespace {

using ::testing::HasSubstr;
using testing::Process;
using testing::Testbed;

constexpr char kSimulation[] = "0123456789abcdef";
constexpr uint64_t kBytes = 300'000;  // more than one step

std::string Message(const absl::Status& status) {
  return std::string(status.message());
}

class LinkedSessionsTest : public ::testing::Test {
 protected:
  TlsFiles FilesOf(const std::string& host) const {
    return ca_.Issue(
        {.name = host,
         .alternative_names = "URI:carillon:role:link,DNS:" + host});
  }
  static std::unique_ptr<Testbed> StartGpu(
      const std::vector<std::string>& more = {}) {
    std::vector<std::string> flags = {
        "--backend", "sim", "--timing", "tiny", "--device-order", "dev0"};
    flags.insert(flags.end(), more.begin(), more.end());
    auto testbed = Testbed::Start(flags);
    EXPECT_TRUE(testbed.ok()) << Message(testbed.status());
    return testbed.ok() ? *std::move(testbed) : nullptr;
  }
  void StartLinkd(const std::string& lease_s = "60",
                  const std::vector<std::string>& gpud_flags = {}) {
    b_ = StartGpu(gpud_flags);
    ASSERT_NE(b_, nullptr);
    const TlsFiles files = FilesOf("b");
    auto linkd = b_->StartDevice(
        "linkd-a", "devices/link/linkd",
        {"--listen", "127.0.0.1:0", "--host", "b", "--peer", "a",
         "--simulation", kSimulation, "--lease", lease_s, "--tls-cert",
         files.certificate, "--tls-key", files.key, "--tls-ca", files.ca});
    ASSERT_TRUE(linkd.ok()) << Message(linkd.status());
    linkd_ = *std::move(linkd);
    ASSERT_TRUE(linkd_->WaitForOutput("in simulated time")) << linkd_->output();
    const std::string said = linkd_->output();
    const size_t at = said.find("127.0.0.1:");
    address_ = said.substr(at, said.find(',', at) - at);
  }
  std::vector<std::string> RelayFlags() const {
    const TlsFiles files = FilesOf("a");
    return {"--backend",         "remote",    "--link",      address_,
            "--link-host",       "a",         "--link-peer", "b",
            "--link-simulation", kSimulation, "--link-cert", files.certificate,
            "--link-key",        files.key,   "--link-ca",   files.ca};
  }
  void StartRelay() {
    auto a = Testbed::Start(RelayFlags());
    ASSERT_TRUE(a.ok()) << Message(a.status());
    a_ = *std::move(a);
  }
  static std::unique_ptr<edge::Device> Attach(
      const Testbed& testbed, const std::string& name = "dev0") {
    auto device =
        edge::Device::Attach({.testbed_directory = testbed.directory(),
                              .name = name,
                              .kind = "test",
                              .takes_simulated_time = true});
    EXPECT_TRUE(device.ok()) << Message(device.status());
    return device.ok() ? *std::move(device) : nullptr;
  }

  const TempDirectory files_ = *TempDirectory::Make();
  const TestCa ca_{files_.path()};
  std::unique_ptr<Testbed> b_;
  std::unique_ptr<Process> linkd_;
  std::string address_;
  std::unique_ptr<Testbed> a_;
};

// What a device sees of a copy to the GPU, a background launch and a copy back.
std::vector<std::string> CopyAndLaunch(edge::Device& device) {
  const auto in = *device.AllocateBuffer(edge::Place::kInput, kBytes);
  const auto gpu = *device.AllocateBuffer(edge::Place::kGpuMemory, kBytes);
  const auto out = *device.AllocateBuffer(edge::Place::kOutput, kBytes);
  for (uint64_t i = 0; i < kBytes; ++i) {
    in.bytes[i] = static_cast<std::byte>(i * 7 % 251);
  }
  std::vector<std::string> seen;
  const auto copy = [&](const edge::Buffer& from, const edge::Buffer& to) {
    const auto times = device.Copy({.from = from, .to = to, .bytes = kBytes});
    seen.push_back(times.ok()
                       ? fmt::format("copy {} {} now {}", times->started_ns,
                                     times->finished_ns, device.Now())
                       : Message(times.status()));
  };
  copy(in, gpu);
  const auto times =
      device.LaunchKernel({.kernel = "busy",
                           .grid = {4, 1, 1},
                           .block = {64, 1, 1},
                           .parameters = {edge::Constant("iterations", 50)}});
  seen.push_back(times.ok()
                     ? fmt::format("launch {} {} now {}", times->dispatched_ns,
                                   times->finished_ns, device.Now())
                     : Message(times.status()));
  copy(gpu, out);
  seen.push_back(std::equal(in.bytes.begin(), in.bytes.end(), out.bytes.begin())
                     ? "the same bytes"
                     : "other bytes");
  return seen;
}

TEST_F(LinkedSessionsTest,
       CopiesAndBackgroundKernelsAreWhatTheyAreBesideTheGpu) {
  std::vector<std::string> beside;
  {
    const auto testbed = StartGpu();
    ASSERT_NE(testbed, nullptr);
    const auto device = Attach(*testbed);
    ASSERT_NE(device, nullptr);
    beside = CopyAndLaunch(*device);
  }
  ASSERT_EQ(beside.size(), 4u);
  EXPECT_THAT(beside[0], HasSubstr("copy "));
  EXPECT_THAT(beside[1], HasSubstr("launch "));
  EXPECT_EQ(beside[3], "the same bytes");
  ASSERT_NO_FATAL_FAILURE(StartLinkd());
  ASSERT_NO_FATAL_FAILURE(StartRelay());
  const auto device = Attach(*a_);
  ASSERT_NE(device, nullptr);
  EXPECT_EQ(CopyAndLaunch(*device), beside);
}

// A device beside the GPU, and one of host a that keeps its turn while gpud there
// is killed.
class DeadGpudTest : public LinkedSessionsTest {
 protected:
  void KillGpud(const std::string& lease_s) {
    ASSERT_NO_FATAL_FAILURE(StartLinkd(lease_s));
    ASSERT_NO_FATAL_FAILURE(StartRelay());
    near_ = Attach(*b_, "near");
    far_ = Attach(*a_);
    ASSERT_TRUE(near_ != nullptr && far_ != nullptr);
    waits_ = std::thread([this] {
      near_->WaitForCompletion([] { return false; },
                               std::chrono::milliseconds(1));
      waited_ = true;
    });
    ASSERT_TRUE(Eventually([&] {
      return b_->Status().backend_description().find("waits for dev0") !=
             std::string::npos;
    })) << b_->Status().backend_description();
    a_->gpud().Kill();
  }
  ~DeadGpudTest() override {
    b_->gpud().Kill();
    if (waits_.joinable()) waits_.join();
  }

  std::unique_ptr<edge::Device> near_;
  std::unique_ptr<edge::Device> far_;
  std::thread waits_;
  std::atomic<bool> waited_{false};
};

TEST_F(DeadGpudTest, StopsTimeForTheLease) {
  ASSERT_NO_FATAL_FAILURE(KillGpud(/*lease_s=*/"2"));
  EXPECT_TRUE(Eventually([&] { return waited_.load(); }));
  EXPECT_TRUE(linkd_->WaitForOutput("the link to host a is over"));
}

TEST_F(DeadGpudTest, StopsTimeUntilItIsBack) {
  ASSERT_NO_FATAL_FAILURE(KillGpud(/*lease_s=*/"3600"));
  EXPECT_FALSE(waited_);
  const absl::Status back = a_->RestartGpud(RelayFlags());
  ASSERT_TRUE(back.ok()) << Message(back);
  EXPECT_TRUE(Eventually([&] { return waited_.load(); }));
  EXPECT_TRUE(linkd_->WaitForOutput("the link to host a is over"));
}

uint64_t ResidentBytes(pid_t pid) {
  std::ifstream file(fmt::format("/proc/{}/statm", pid));
  uint64_t size = 0;
  uint64_t resident = 0;
  file >> size >> resident;
  return resident * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

// Of HTTP/2: a frame.
std::string FrameOf(uint8_t type, uint8_t flags, uint32_t stream,
                    const std::string& payload) {
  std::string frame;
  const auto number = [&](uint64_t value, int bytes) {
    while (bytes-- > 0) frame += static_cast<char>(value >> (8 * bytes));
  };
  number(payload.size(), 3);
  number(type, 1);
  number(flags, 1);
  number(stream, 4);
  return frame + payload;
}

std::string Literal(std::string_view name, std::string_view value) {
  return fmt::format("{}{}{}{}{}", '\0', static_cast<char>(name.size()), name,
                     static_cast<char>(value.size()), value);
}

// It calls, and takes no answer.
TEST_F(LinkedSessionsTest, LinkdKeepsNoMoreForAHostThatTakesNothing) {
  constexpr int kConnections = 40;
  constexpr uint32_t kCalls = 60;  // their answers have about 14 KB each
  constexpr uint64_t kMost = uint64_t{16} << 20;
  ASSERT_NO_FATAL_FAILURE(StartLinkd());
  auto link = mesh::NearStepLink::Start(
      {.tls = FilesOf("a"),
       .address = address_,
       .link = {.self = {.testbed = "default",
                         .host = "a",
                         .build = mesh::OwnBuild(),
                         .catalogue = mesh::SimulatedCatalogue(
                             simt::OwnCatalogue(), kSimulation)},
                .peer = "b",
                .times = {}}},
      [] {});
  ASSERT_TRUE(link.ok()) << Message(link.status());
  ASSERT_TRUE(Eventually([&] { return (*link)->status().up; }));
  const uint64_t before = ResidentBytes(linkd_->pid());
  ASSERT_GT(before, 0u);
  const std::string none(5, '\0');
  const std::string headers =
      Literal(":method", "POST") + Literal(":scheme", "http") +
      Literal(":path", "/carillon.v1.Events/ListKernels") +
      Literal(":authority", "x") + Literal("content-type", "application/grpc") +
      Literal("te", "trailers");
  const auto say = [&](uint64_t connection, const std::string& bytes) {
    v1::SessionStep step;
    step.mutable_bytes()->set_connection(connection);
    step.mutable_bytes()->set_bytes(bytes);
    (*link)->Send(step);
  };
  for (uint64_t connection = 1; connection <= kConnections; ++connection) {
    v1::SessionStep open;
    open.mutable_open()->set_connection(connection);
    open.mutable_open()->set_process(1);
    (*link)->Send(open);
    // All windows are as wide as they can be.
    say(connection,
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" +
            FrameOf(4, 0, 0, std::string("\0\4\x7f\xff\xff\xff", 6)) +
            FrameOf(8, 0, 0, std::string("\x7f\xff\0\0", 4)));
    for (uint32_t call = 0; call < kCalls; ++call) {
      say(connection, FrameOf(1, 4, 1 + 2 * call, headers) +
                          FrameOf(0, 1, 1 + 2 * call, none));
    }
  }
  // Without a bound it has all answers by then, or soon. The link sends when
  // there is something to say.
  v1::SessionStep nothing;
  nothing.mutable_close()->set_connection(kConnections + 1);
  EXPECT_FALSE(Eventually(
      [&] {
        (*link)->Send(nothing);
        return ResidentBytes(linkd_->pid()) > before + kMost;
      },
      std::chrono::seconds(3)));
  // It lives, and what it has kept comes.
  uint64_t bytes = 0;
  EXPECT_TRUE(Eventually([&] {
    for (const v1::SessionStep& step : (*link)->Take().steps) {
      bytes += step.bytes().bytes().size();
    }
    return bytes > 2 * kMost || linkd_->ended();
  })) << bytes;
  EXPECT_FALSE(linkd_->ended());
}

// They are all linkd's on the GPU's host, which names it.
TEST_F(LinkedSessionsTest, ALimitThatAHostsDevicesShareNamesTheHost) {
  ASSERT_NO_FATAL_FAILURE(StartLinkd("60", {"--devices-per-process", "2"}));
  ASSERT_NO_FATAL_FAILURE(StartRelay());
  const auto first = Attach(*a_);  // the other one is linkd's own
  ASSERT_NE(first, nullptr);
  const absl::Status full =
      edge::Device::Attach({.testbed_directory = a_->directory(),
                            .name = "dev1",
                            .kind = "test",
                            .takes_simulated_time = true})
          .status();
  EXPECT_EQ(full.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(Message(full),
              HasSubstr(fmt::format("process {} 'linkd-a' has 2 devices: that "
                                    "is the limit of a process",
                                    linkd_->pid())));
  // 32 beside one for each device.
  constexpr int kConnections = 34;
  std::vector<UniqueFd> connections;
  const std::string path = a_->paths().control_socket();
  sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  for (int i = 0; i < kConnections; ++i) {
    connections.emplace_back(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    ASSERT_EQ(
        connect(connections.back().get(),
                reinterpret_cast<const sockaddr*>(&address), sizeof(address)),
        0);
  }
  EXPECT_TRUE(a_->gpud().WaitForOutput(
      fmt::format("host 'b' has closed a connection of process {} before it "
                  "answered",
                  getpid())));
  EXPECT_TRUE(b_->gpud().WaitForOutput(
      fmt::format("process {} has 34 connections", linkd_->pid())));
}

}  // namespace
}  // namespace carillon

#include "gpu_daemon/backends/remote/remote_backend.h"

#include <gtest/gtest.h>
#include <spdlog/sinks/ringbuffer_sink.h>
#include <spdlog/spdlog.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/temp_directory.h"
#include "base/testing/eventually.h"
#include "base/testing/test_ca.h"
#include "gpu_daemon/options/backend_options.h"
#include "kernels/catalogue.h"
#include "mesh/far_link.h"

namespace carillon::gpud {
namespace {

// Takes no ring.
class EmptyHost final : public mesh::FarHost {
 public:
  std::optional<absl::Status> MakeRing(mesh::RingId, mesh::RingSerial,
                                       const mesh::RingLimits&,
                                       shm::Sequence) override {
    return absl::ResourceExhaustedError("there is no place");
  }
  void RunEvent(mesh::RingId, shm::Sequence, std::string_view) override {}
  mesh::End ReadEnd(mesh::RingId, shm::Sequence, std::string*) override {
    return {};
  }
  void Free(mesh::RingId, shm::Sequence) override {}
  void DropRing(mesh::RingId, mesh::GoneReason) override {}
};

class RemoteBackendTest : public ::testing::Test {
 protected:
  RemoteBackendTest() {
    spdlog::set_default_logger(std::make_shared<spdlog::logger>("test", log_));
    StartFar();
  }
  ~RemoteBackendTest() override { spdlog::set_default_logger(before_); }

  // Lines of the log that have both.
  std::vector<std::string> Said(const std::string& begin,
                                const std::string& end) const {
    std::vector<std::string> lines = log_->last_formatted();
    std::erase_if(lines, [&](const std::string& line) {
      const size_t at = line.find(begin);
      return at == line.npos || line.find(end, at) == line.npos;
    });
    return lines;
  }

  TlsFiles Files(const std::string& host) const {
    return ca_.Issue(
        {.name = host,
         .alternative_names = "URI:carillon:role:link,DNS:" + host});
  }
  // At the address of the one before.
  void StartFar() {
    auto far = mesh::FarLink::Start(settings_, &host_);
    ASSERT_TRUE(far.ok()) << far.status();
    far_ = *std::move(far);
    settings_.address = far_->address();
  }
  RemoteOptions Options() const {
    return {.address = settings_.address,
            .host = "a",
            .peer = "b",
            .testbed = "lab",
            .tls = near_files_,
            .incarnation_file = folder_.path() + "/incarnation"};
  }

  const std::shared_ptr<spdlog::sinks::ringbuffer_sink_mt> log_ =
      std::make_shared<spdlog::sinks::ringbuffer_sink_mt>(1000);
  const std::shared_ptr<spdlog::logger> before_ = spdlog::default_logger();
  const TempDirectory folder_;
  const TestCa ca_{testing::TempDir()};
  const TlsFiles near_files_ = Files("a");
  EmptyHost host_;
  mesh::FarLink::Settings settings_{
      .tls = Files("b"),
      .address = "127.0.0.1:0",
      .link = {.self = {.testbed = "lab",
                        .host = "b",
                        .build = mesh::OwnBuild(),
                        .catalogue = simt::OwnCatalogue()},
               .peer = "a",
               .times = {}}};
  std::unique_ptr<mesh::FarLink> far_;
};

TEST_F(RemoteBackendTest, ALinkThatIsLostForGoodIsFollowedByANewOne) {
  RemoteOptions options = Options();
  options.lease = 300'000'000;
  const auto backend = RemoteBackend::Create({.remote = options});
  ASSERT_TRUE(backend.ok()) << backend.status();
  const auto says = [&](const std::string& what) {
    return (*backend)->description().find(what) != std::string::npos;
  };
  EXPECT_TRUE(says("by link to b (127.0.0.1:"));
  // A busy machine may lose it for so short a lease, and it comes again.
  EXPECT_TRUE(Eventually([&] { return says("up"); }));
  far_.reset();
  ASSERT_TRUE(Eventually([&] { return says("down"); }));
  // The new link is refused until somebody is there again.
  ASSERT_TRUE(Eventually([&] { return says("Connection refused"); }));
  StartFar();
  EXPECT_TRUE(Eventually([&] { return says("up"); }));
}

TEST_F(RemoteBackendTest, WhyALinkIsRefusedLaterIsSaidOnce) {
  const auto times_said = [&] {
    return Said("host b refuses the link: ", "another build of b").size();
  };
  const auto backend = RemoteBackend::Create({.remote = Options()});
  ASSERT_TRUE(backend.ok()) << backend.status();
  far_.reset();
  settings_.link.self.build = "another build of b";
  StartFar();
  ASSERT_TRUE(Eventually([&] { return times_said() > 0; }));
  const uint64_t refused = far_->status().refused;
  ASSERT_TRUE(
      Eventually([&] { return far_->status().refused >= refused + 2; }));
  EXPECT_EQ(times_said(), 1u);
}

TEST_F(RemoteBackendTest, ARefusalEndsTheStartAtOnceAndIsSaidOnce) {
  far_.reset();
  settings_.link.self.build = "another build of b";
  StartFar();
  const RemoteOptions options = Options();
  absl::Status status;
  bool at_once = false;
  // A busy machine may take that long once.
  for (int i = 0; i < 4 && !at_once; ++i) {
    const Nanoseconds began = NowNs();
    status = RemoteBackend::Create({.remote = options}).status();
    at_once = NowNs() - began < options.wait;
  }
  EXPECT_TRUE(at_once);
  EXPECT_NE(status.message().find("host b refuses the link: "),
            std::string::npos)
      << status;
  EXPECT_EQ(Said("another build of b", "").size(), 0u)
      << "gpud says the status";
}

TEST_F(RemoteBackendTest, AGpudThatIsStartedAgainWaitsForAnotherBuild) {
  far_.reset();
  settings_.link.self.build = "another build of b";
  StartFar();
  RemoteOptions options = Options();
  options.restarted = true;
  options.lease = 3'600'000'000'000;
  absl::Status status = absl::UnknownError("not yet");
  std::thread start(
      [&] { status = RemoteBackend::Create({.remote = options}).status(); });
  EXPECT_TRUE(Eventually([&] { return far_->status().refused > 0; }));
  EXPECT_TRUE(
      Eventually([&] { return !Said("another build of b", "waits").empty(); }));
  far_.reset();
  settings_.link.self.build = mesh::OwnBuild();
  StartFar();
  start.join();
  EXPECT_TRUE(status.ok()) << status;
}

TEST_F(RemoteBackendTest, ALinkThatIsUpAgainSaysForHowLongItWasDownAndWhy) {
  // A stall is no outage.
  RemoteOptions options = Options();
  options.timeout = options.lease = 600'000'000'000;
  far_.reset();
  settings_.link.times.timeout = options.timeout;
  StartFar();
  options.address = settings_.address;
  const auto backend = RemoteBackend::Create({.remote = options});
  ASSERT_TRUE(backend.ok()) << backend.status();
  const auto is = [&](const std::string& state) {
    return Eventually([&] {
      return (*backend)->description().find(", now " + state) !=
             std::string::npos;
    });
  };
  const auto lines = [&] {
    return Said("link to b was down for ", "; up again");
  };
  for (int i = 0; i < 5; ++i) {
    ASSERT_TRUE(is("up"));
    EXPECT_LE(lines().size(), static_cast<size_t>(i));
    far_.reset();
    ASSERT_TRUE(is("down"));
    StartFar();
  }
  ASSERT_TRUE(is("up"));
  // Each is told: alone, or together with those of the same second.
  EXPECT_TRUE(Eventually([&] {
    size_t told = 0;
    for (const std::string& line : lines()) {
      const size_t at = line.find(" times: ");
      told += at == line.npos ? 1 : static_cast<size_t>(line[at - 1] - '0');
    }
    return told == 5;
  })) << lines().size();
}

}  // namespace
}  // namespace carillon::gpud

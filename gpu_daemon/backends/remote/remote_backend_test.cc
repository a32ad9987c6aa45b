#include "gpu_daemon/backends/remote/remote_backend.h"

#include <gtest/gtest.h>
#include <spdlog/sinks/ringbuffer_sink.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <memory>
#include <string>

#include "absl/cleanup/cleanup.h"
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
  RemoteBackendTest() { StartFar(); }

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
  const auto log = std::make_shared<spdlog::sinks::ringbuffer_sink_mt>(100);
  const auto before = spdlog::default_logger();
  spdlog::set_default_logger(std::make_shared<spdlog::logger>("test", log));
  const absl::Cleanup restore = [&] { spdlog::set_default_logger(before); };
  const auto times_said = [&] {
    const auto lines = log->last_formatted();
    return std::count_if(lines.begin(), lines.end(), [](const auto& line) {
      return line.find("host b refuses the link: ") != line.npos &&
             line.find("another build of b") != line.npos;
    });
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
  EXPECT_EQ(times_said(), 1);
}

}  // namespace
}  // namespace carillon::gpud

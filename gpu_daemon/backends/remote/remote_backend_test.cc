#include "gpu_daemon/backends/remote/remote_backend.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "base/testing/eventually.h"
#include "base/testing/test_ca.h"
#include "gpu_daemon/options/backend_options.h"
#include "kernels/catalogue.h"
#include "mesh/tls_engine.h"

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
  void Run(mesh::RingId, shm::Sequence, std::string_view) override {}
  mesh::End ReadEnd(mesh::RingId, shm::Sequence, std::string*) override {
    return {};
  }
  void Free(mesh::RingId, shm::Sequence) override {}
  void DropRing(mesh::RingId, mesh::GoneReason) override {}
};

TEST(RemoteBackendTest, ALinkThatIsLostForGoodIsFollowedByANewOne) {
  const TestCa ca(testing::TempDir());
  const auto files = [&](const std::string& host) {
    return ca.Issue(
        {.name = host,
         .alternative_names = "URI:carillon:role:link,DNS:" + host});
  };
  const TlsFiles near = files("a");
  EmptyHost host;
  mesh::TlsFarLink::Settings settings{
      .tls = files("b"),
      .address = "127.0.0.1:0",
      .link = {.self = {.testbed = "lab",
                        .host = "b",
                        .build = mesh::OwnBuild(),
                        .catalogue = simt::OwnCatalogue()},
               .peer = "a",
               .times = {}}};
  auto far = mesh::TlsFarLink::Start(settings, &host);
  ASSERT_TRUE(far.ok()) << far.status();
  settings.address = (*far)->address();
  const auto backend =
      RemoteBackend::Create({.remote = {.address = settings.address,
                                        .host = "a",
                                        .peer = "b",
                                        .testbed = "lab",
                                        .tls = near,
                                        .lease = 300'000'000}});
  ASSERT_TRUE(backend.ok()) << backend.status();
  const auto says = [&](const std::string& what) {
    return (*backend)->description().find(what) != std::string::npos;
  };
  EXPECT_TRUE(says("by link to b (127.0.0.1:"));
  EXPECT_TRUE(says("up"));
  far->reset();
  ASSERT_TRUE(Eventually([&] { return says("down"); }));
  // The new link is refused until somebody is there again.
  ASSERT_TRUE(Eventually([&] { return says("Connection refused"); }));
  far = mesh::TlsFarLink::Start(settings, &host);
  ASSERT_TRUE(far.ok()) << far.status();
  EXPECT_TRUE(Eventually([&] { return says("up"); }));
}

}  // namespace
}  // namespace carillon::gpud

#include "gpu_daemon/control/rpc/watch_stream.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>

#include "base/temp_directory.h"
#include "gpu_daemon/control/error_detail.h"

namespace carillon::gpud {
namespace {

class WatchStreamTest : public ::testing::Test {
 protected:
  WatchStreamTest() {
    auto bus =
        TelemetryBus::Start({.socket_path = directory_.path() + "/bus.sock",
                             .watcher_capacity = 2});
    EXPECT_TRUE(bus.ok()) << bus.status();
    bus_ = *std::move(bus);
  }
  void Publish(const std::string& device) {
    v1::TelemetryEvent event;
    event.mutable_device_ready()->set_device(device);
    bus_->Publish(std::move(event));
  }

  TempDirectory directory_;
  std::unique_ptr<TelemetryBus> bus_;
  SessionContext context_;
  TicketStore tickets_;
  SessionTable sessions_{&context_, &tickets_, SessionTable::kMaxSessions};
};

TEST_F(WatchStreamTest, AReaderThatFallsBehindIsToldSo) {
  const auto watcher = bus_->Subscribe();
  Publish("first");
  int written = 0;
  const absl::Status status = StreamChanges(
      *watcher, sessions_,
      [&](const v1::TelemetryEvent&) {
        // One more than there is room for while the reader takes this one.
        for (int i = 0; i < 3; ++i) Publish("more");
        ++written;
        return true;
      },
      [] { return false; });
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(DetailOf(status).reason(), reason::kSlowWatcher);
  EXPECT_EQ(written, 1);
}

TEST_F(WatchStreamTest, AReaderThatKeepsUpSeesAllUntilTheBusCloses) {
  const auto watcher = bus_->Subscribe();
  Publish("0");
  int written = 0;
  const absl::Status status = StreamChanges(
      *watcher, sessions_,
      [&](const v1::TelemetryEvent& event) {
        EXPECT_EQ(event.device_ready().device(), std::to_string(written));
        if (++written == 100) {
          bus_->Close();
        } else {
          Publish(std::to_string(written));
        }
        return true;
      },
      [] { return false; });
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(written, 100);
}

TEST_F(WatchStreamTest, AReaderThatHasGoneEndsTheStream) {
  const auto watcher = bus_->Subscribe();
  Publish("first");
  EXPECT_TRUE(StreamChanges(
                  *watcher, sessions_,
                  [](const v1::TelemetryEvent&) { return false; },
                  [] { return false; })
                  .ok());
  int looks = 0;
  EXPECT_TRUE(StreamChanges(
                  *watcher, sessions_,
                  [](const v1::TelemetryEvent&) { return true; },
                  [&] { return ++looks == 2; })
                  .ok());
}

}  // namespace
}  // namespace carillon::gpud

#include "gpu_daemon/control/telemetry_bus.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <chrono>
#include <filesystem>
#include <memory>
#include <string>

#include "base/temp_directory.h"
#include "gpu_daemon/control/testing/test_subscriber.h"

namespace carillon::gpud {
namespace {

using Outcome = TelemetryBus::Watcher::Outcome;

v1::TelemetryEvent Ready(const std::string& device) {
  v1::TelemetryEvent event;
  event.mutable_device_ready()->set_device(device);
  return event;
}

// Reads up to the message about `device`; false if it does not come.
bool ReadTo(TestSubscriber& subscriber, const std::string& device) {
  while (!::testing::Test::HasFailure()) {
    if (subscriber.Next().device_ready().device() == device) return true;
  }
  return false;
}

void Join(TestSubscriber& subscriber, TelemetryBus& bus) {
  subscriber.Join([&] { bus.Publish(Ready("joining")); });
}

class TelemetryBusTest : public ::testing::Test {
 protected:
  std::unique_ptr<TelemetryBus> Start(TelemetryBus::Options options = {}) {
    options.socket_path = path_;
    auto bus = TelemetryBus::Start(std::move(options));
    EXPECT_TRUE(bus.ok()) << bus.status();
    return *std::move(bus);
  }
  TempDirectory directory_;
  const std::string path_ = directory_.path() + "/bus.sock";
};

TEST_F(TelemetryBusTest, TheTopicIsTheNameOfTheFieldThatIsSet) {
  EXPECT_EQ(TopicOf(Ready("nic0")), "device_ready");
  v1::TelemetryEvent event;
  event.mutable_shutting_down();
  EXPECT_EQ(TopicOf(event), "shutting_down");
}

TEST_F(TelemetryBusTest, ASubscriberGetsItsTopicsInTwoPartsAndInOrder) {
  auto bus = Start();
  TestSubscriber subscriber(path_, "device_ready");
  Join(subscriber, *bus);
  v1::TelemetryEvent other;
  other.mutable_policy_changed()->set_to("priority");
  bus->Publish(other);
  bus->Publish(Ready("nic0"));
  uint64_t last = 0;
  std::string topic;
  v1::TelemetryEvent event;
  do {
    event = subscriber.Next(&topic);
    EXPECT_EQ(topic, "device_ready");
    EXPECT_GT(event.number(), last);
    last = event.number();
  } while (event.device_ready().device() != "nic0");
  EXPECT_GT(event.time_ns(), uint64_t{1'600'000'000} * 1'000'000'000);
}

TEST_F(TelemetryBusTest, TheSocketIsPrivateAndGoesWithTheBus) {
  {
    auto bus = Start();
    struct stat info;
    ASSERT_EQ(stat(path_.c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777, 0600u);
    auto second = TelemetryBus::Start({.socket_path = path_});
    EXPECT_EQ(second.status().code(), absl::StatusCode::kAlreadyExists);
  }
  EXPECT_FALSE(std::filesystem::exists(path_));
}

TEST_F(TelemetryBusTest, AStuckSubscriberIsCountedAndCostsNobodyElseAMessage) {
  auto bus = Start({.queue_capacity = 100'000, .subscriber_capacity = 4});
  TestSubscriber reader(path_, "device_ready");
  Join(reader, *bus);
  TestSubscriber stuck(path_, "device_ready", 1);
  Join(stuck, *bus);
  // One at a time, so that the reader keeps up; larger than what a socket
  // buffers.
  const std::string large(64 << 10, 'x');
  int published = 0;
  while (bus->dropped() == 0 && published < 2000) {
    const std::string name = std::to_string(++published) + large;
    bus->Publish(Ready(name));
    ASSERT_TRUE(ReadTo(reader, name)) << published;
  }
  EXPECT_GT(bus->dropped(), 0u);
  for (int i = 0; i < 10; ++i) {
    const std::string name = "after" + std::to_string(i);
    bus->Publish(Ready(name));
    EXPECT_EQ(reader.Next().device_ready().device(), name);
  }
}

TEST_F(TelemetryBusTest, EveryMessageIsEitherSentOrDropped) {
  auto bus = Start({.queue_capacity = 2});
  constexpr uint64_t kMessages = 20'000;
  for (uint64_t i = 0; i < kMessages; ++i) bus->Publish(Ready("nic0"));
  bus->Close();
  EXPECT_EQ(bus->sent() + bus->dropped(), kMessages);
  EXPECT_GT(bus->dropped(), 0u);
}

TEST_F(TelemetryBusTest, AWatcherSeesEverythingFromItsStartOn) {
  auto bus = Start();
  bus->Publish(Ready("before"));
  const auto watcher = bus->Subscribe();
  EXPECT_EQ(watcher->start_number(), 1u);
  bus->Publish(Ready("a"));
  bus->Publish(Ready("b"));
  v1::TelemetryEvent event;
  for (const char* name : {"a", "b"}) {
    ASSERT_EQ(watcher->Next(std::chrono::seconds(20), &event), Outcome::kEvent);
    EXPECT_EQ(event.device_ready().device(), name);
  }
  EXPECT_EQ(event.number(), 3u);
  EXPECT_EQ(watcher->Next(std::chrono::milliseconds(1), &event),
            Outcome::kTimedOut);
}

TEST_F(TelemetryBusTest, AWatcherThatIsTooSlowIsToldSoAndNothingElse) {
  auto bus = Start({.watcher_capacity = 3});
  const auto slow = bus->Subscribe();
  const auto fast = bus->Subscribe();
  v1::TelemetryEvent event;
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(slow->overflowed_ns(), 0u);
    bus->Publish(Ready("nic0"));
    EXPECT_EQ(fast->Next(std::chrono::seconds(20), &event), Outcome::kEvent);
  }
  EXPECT_NE(slow->overflowed_ns(), 0u);
  EXPECT_EQ(slow->Next(std::chrono::seconds(20), &event), Outcome::kOverflowed);
  EXPECT_EQ(slow->Next(std::chrono::seconds(20), &event), Outcome::kOverflowed);
}

TEST_F(TelemetryBusTest, ClosingEndsWatchersAfterTheLastMessage) {
  auto bus = Start();
  const auto watcher = bus->Subscribe();
  bus->Publish(Ready("last"));
  bus->Close();
  bus->Publish(Ready("too late"));
  v1::TelemetryEvent event;
  EXPECT_EQ(watcher->Next(std::chrono::seconds(20), &event), Outcome::kEvent);
  EXPECT_EQ(event.device_ready().device(), "last");
  EXPECT_EQ(watcher->Next(std::chrono::seconds(20), &event), Outcome::kClosed);
  EXPECT_EQ(bus->Subscribe()->Next(std::chrono::seconds(20), &event),
            Outcome::kClosed);
}

TEST_F(TelemetryBusTest, APathTooLongForASocketIsAnError) {
  auto bus = TelemetryBus::Start(
      {.socket_path = directory_.path() + "/" + std::string(120, 'x')});
  EXPECT_EQ(bus.status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace carillon::gpud

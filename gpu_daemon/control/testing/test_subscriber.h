// A process's end of the event bus.
#ifndef CARILLON_GPU_DAEMON_CONTROL_TESTING_TEST_SUBSCRIBER_H_
#define CARILLON_GPU_DAEMON_CONTROL_TESTING_TEST_SUBSCRIBER_H_

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <zmq.hpp>

#include "proto/telemetry.pb.h"

namespace carillon::gpud {

class TestSubscriber {
 public:
  // `topic` empty: all.
  TestSubscriber(const std::string& path, const std::string& topic,
                 int capacity = 1000)
      : context_(1), socket_(context_, zmq::socket_type::sub) {
    socket_.set(zmq::sockopt::linger, 0);
    socket_.set(zmq::sockopt::rcvhwm, capacity);
    socket_.set(zmq::sockopt::rcvtimeo, 20'000);
    socket_.set(zmq::sockopt::subscribe, topic);
    socket_.connect("ipc://" + path);
  }
  // The next message; fails the test if none comes.
  v1::TelemetryEvent Next(std::string* topic = nullptr) {
    zmq::message_t first;
    zmq::message_t second;
    v1::TelemetryEvent event;
    EXPECT_TRUE(socket_.recv(first).has_value());
    EXPECT_TRUE(first.more());
    EXPECT_TRUE(socket_.recv(second).has_value());
    EXPECT_FALSE(second.more());
    EXPECT_TRUE(
        event.ParseFromArray(second.data(), static_cast<int>(second.size())));
    if (topic != nullptr) *topic = first.to_string();
    return event;
  }
  // The next message of that topic; fails the test if none comes.
  v1::TelemetryEvent NextOf(const std::string& topic) {
    std::string of;
    v1::TelemetryEvent event;
    while (!::testing::Test::HasFailure()) {
      event = Next(&of);
      if (of == topic) break;
    }
    return event;
  }
  // Calls `publish` until a first message arrives: a subscription takes its
  // time.
  void Join(const std::function<void()>& publish) {
    socket_.set(zmq::sockopt::rcvtimeo, 5);
    zmq::message_t part;
    for (int i = 0; i < 4000; ++i) {
      publish();
      if (socket_.recv(part).has_value()) break;
    }
    ASSERT_TRUE(part.size() > 0);
    ASSERT_TRUE(socket_.recv(part).has_value());
    socket_.set(zmq::sockopt::rcvtimeo, 20'000);
  }

 private:
  zmq::context_t context_;
  zmq::socket_t socket_;
};

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_CONTROL_TESTING_TEST_SUBSCRIBER_H_

// Chains of events through the control plane: who may be which end.
#include <gtest/gtest.h>

#include <string>

#include "gpu_daemon/control/error_detail.h"
#include "gpu_daemon/control/testing/test_testbed.h"

namespace carillon::gpud {
namespace {

using grpc::StatusCode;
using shm::EventState;
using shm::EventStatus;

constexpr uint64_t kBytes = 64;

v1::ParameterBinding Buffer(const std::string& name, uint32_t id) {
  v1::ParameterBinding binding;
  binding.set_name(name);
  binding.set_buffer_id(id);
  return binding;
}
v1::ParameterBinding Taken(const std::string& name, const std::string& from) {
  v1::ParameterBinding binding;
  binding.set_name(name);
  binding.set_taken(from);
  return binding;
}

// `echo`, from a buffer of the device's own.
v1::RegisterEventRequest Source(AttachedDevice& device, const std::string& to) {
  v1::RegisterEventRequest request = device.NullEvent();
  request.set_kernel("echo");
  request.clear_parameters();
  *request.add_parameters() = Buffer("in", device.Buffer(v1::INPUT, kBytes));
  *request.add_parameters() = Buffer("out", device.Buffer(v1::OUTPUT, kBytes));
  request.set_hands_to(to);
  return request;
}
// `echo`, from what another device's event had as `parameter`.
v1::RegisterEventRequest Follower(AttachedDevice& device,
                                  const std::string& from,
                                  const std::string& parameter = "out") {
  v1::RegisterEventRequest request = device.NullEvent();
  request.set_kernel("echo");
  request.clear_parameters();
  *request.add_parameters() = Taken("in", parameter);
  *request.add_parameters() = Buffer("out", device.Buffer(v1::OUTPUT, kBytes));
  request.set_takes_from(from);
  return request;
}

class ChainsTest : public testing::Test {
 protected:
  Outcome Register(AttachedDevice& device,
                   const v1::RegisterEventRequest& request) {
    v1::RegisterEventResponse response;
    return device.Register(request, &response);
  }

  TestTestbed testbed_;
  AttachedDevice camera_{&testbed_, "camera"};
  AttachedDevice host_{&testbed_, "host"};
};

TEST_F(ChainsTest, AnEventOfOneDeviceStartsOneOfTheOther) {
  shm::DeviceRing follower = host_.RingOf(Follower(host_, "camera"));
  shm::DeviceRing source = camera_.RingOf(Source(camera_, "host"));
  for (uint64_t i = 1; i <= 10; ++i) {
    follower.Commit();
    follower.RingDoorbell();
    // Its ring has been taken: it waits for the other one.
    while (testbed_.Ekt().entries(0).counts().rung() < i) {
    }
    source.Commit();
    source.RingDoorbell();
    const auto taken = AttachedDevice::Await(follower);
    const auto done = AttachedDevice::Await(source);
    ASSERT_TRUE(taken.has_value() && done.has_value()) << i;
    EXPECT_EQ(taken->state, EventState::kDone);
    EXPECT_EQ(done->state, EventState::kDone);
    EXPECT_EQ(done->status, 0u);
  }
}

TEST_F(ChainsTest, NobodyTakesEventsThatWereNotHandedToIt) {
  shm::DeviceRing follower = host_.RingOf(Follower(host_, "camera"));
  for (const std::string to : {"", "another"}) {
    shm::DeviceRing source = camera_.RingOf(Source(camera_, to));
    follower.Commit();
    follower.RingDoorbell();
    source.Commit();
    source.RingDoorbell();
    const auto done = AttachedDevice::Await(source);
    ASSERT_TRUE(done.has_value());
    EXPECT_EQ(done->status,
              to.empty() ? 0u : static_cast<uint32_t>(EventStatus::kNotTaken));
    EXPECT_FALSE(follower.Poll().has_value());
  }
}

TEST_F(ChainsTest, EndsThatDoNotFitAreRefusedAndLeaveNothing) {
  ASSERT_TRUE(Register(camera_, Source(camera_, "host")).ok());
  Outcome outcome = Register(camera_, Source(camera_, "host"));
  EXPECT_EQ(outcome.status.error_code(), StatusCode::ALREADY_EXISTS);
  outcome = Register(host_, Follower(host_, "camera", "sum"));
  EXPECT_EQ(outcome.status.error_code(), StatusCode::FAILED_PRECONDITION);
  EXPECT_NE(outcome.status.error_message().find("'sum'"), std::string::npos);
  // A parameter that is taken, and nobody to take it from; and the reverse.
  auto request = Follower(host_, "camera");
  request.clear_takes_from();
  EXPECT_EQ(Register(host_, request).status.error_code(),
            StatusCode::INVALID_ARGUMENT);
  request = host_.NullEvent();
  request.set_takes_from("camera");
  EXPECT_EQ(Register(host_, request).status.error_code(),
            StatusCode::INVALID_ARGUMENT);
  // Only what the kernel reads.
  request = Follower(host_, "camera");
  *request.mutable_parameters(1) = Taken("out", "out");
  EXPECT_EQ(Register(host_, request).reason, reason::kBadBinding);
  // Nothing beside the name.
  request = Follower(host_, "camera");
  request.mutable_parameters(0)->set_buffer_id(1);
  EXPECT_EQ(Register(host_, request).reason, reason::kBadBinding);
  request = Follower(host_, "no such name!");
  EXPECT_EQ(Register(host_, request).reason, reason::kBadName);
  EXPECT_EQ(testbed_.Ekt().entries_size(), 1);
  // The place is still free.
  EXPECT_TRUE(Register(host_, Follower(host_, "camera")).ok());
}

TEST_F(ChainsTest, AnEndThatIsUnregisteredMakesRoomForAnother) {
  const auto request = Follower(host_, "camera");
  v1::RegisterEventResponse first;
  ASSERT_TRUE(host_.Register(request, &first).ok());
  uint64_t aborted = 0;
  ASSERT_TRUE(host_.Unregister(first.event_id(), 1, &aborted).ok());
  EXPECT_TRUE(Register(host_, request).ok());
}

}  // namespace
}  // namespace carillon::gpud

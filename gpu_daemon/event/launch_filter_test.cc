#include "gpu_daemon/event/launch_filter.h"

#include <gtest/gtest.h>

#include "gpu_daemon/event/test_device.h"
#include "kernels/registry.h"

namespace carillon::gpud {
namespace {

TEST(LaunchFilterTest, EachNamesWhatItSaysAndNothingElse) {
  TestDevice device;
  TestDevice other("test1");
  const TestDevice::Spec spec = {.kernel = simt::FindKernel("null_event"),
                                 .bindings = {{.constant_bits = 0}}};
  const auto one = device.Register(spec);
  const auto two = device.Register(spec);
  KernelLaunch event;
  event.event = one.kernel;
  event.memory = device.memory;
  KernelLaunch background;
  background.memory = device.memory;
  background.token = 7;

  const LaunchFilter by_event = LaunchFilter::Of(*one.kernel);
  EXPECT_TRUE(by_event.Matches(event));
  EXPECT_TRUE(by_event.Matches(*one.kernel));
  EXPECT_FALSE(by_event.Matches(*two.kernel));
  EXPECT_FALSE(by_event.Matches(background));

  const LaunchFilter by_device = LaunchFilter::Of(*device.memory);
  EXPECT_TRUE(by_device.Matches(event));
  EXPECT_TRUE(by_device.Matches(background));
  EXPECT_TRUE(by_device.Matches(*two.kernel));
  EXPECT_EQ(by_device.device(), device.memory.get());
  EXPECT_FALSE(LaunchFilter::Of(*other.memory).Matches(event));
  EXPECT_FALSE(LaunchFilter::Of(*other.memory).Matches(background));

  EXPECT_TRUE(LaunchFilter::OfToken(7).Matches(background));
  EXPECT_FALSE(LaunchFilter::OfToken(8).Matches(background));
  EXPECT_FALSE(LaunchFilter::OfToken(7).Matches(event));
  background.token = 0;  // its caller gave it none
  EXPECT_FALSE(LaunchFilter::OfToken(0).Matches(background));

  MemoryCopy copy;
  copy.memory = device.memory;
  copy.token = 9;
  EXPECT_TRUE(by_device.Matches(copy));
  EXPECT_FALSE(by_event.Matches(copy));
  EXPECT_FALSE(LaunchFilter::Of(*other.memory).Matches(copy));
  EXPECT_TRUE(LaunchFilter::OfToken(9).Matches(copy));
  EXPECT_FALSE(LaunchFilter::OfToken(7).Matches(copy));
  EXPECT_TRUE(LaunchFilter::All().Matches(copy));

  EXPECT_TRUE(LaunchFilter::All().Matches(event));
  EXPECT_TRUE(LaunchFilter::All().Matches(background));
  EXPECT_EQ(LaunchFilter::All().device(), nullptr);
}

}  // namespace
}  // namespace carillon::gpud

// A GPU in simulated time, with devices in the test's own process.
#ifndef CARILLON_GPU_DAEMON_BACKENDS_SIM_TIMED_TEST_H_
#define CARILLON_GPU_DAEMON_BACKENDS_SIM_TIMED_TEST_H_

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <future>
#include <memory>
#include <sstream>
#include <string>

#include "gpu_daemon/backends/sim/turn_device.h"
#include "gpu_daemon/event/backend.h"
#include "gpu_daemon/event/test_device.h"
#include "kernels/registry.h"

namespace carillon::gpud {

// Its tests make the back-end.
class TimedTest : public ::testing::Test {
 protected:
  ~TimedTest() override { Stop(); }

  void Stop() {
    if (backend_ == nullptr) return;
    backend_->Stop();
    backend_->Join();
    backend_.reset();
  }
  std::unique_ptr<TurnDevice> Attach(const std::string& name) {
    auto device = std::make_unique<TurnDevice>(name);
    backend_->AddDevice(device->memory);
    EXPECT_TRUE(device->WaitForTurn());
    return device;
  }
  TestDevice::Event Register(TurnDevice& device, uint32_t priority = 0) {
    auto event = device.Register({.kernel = simt::FindKernel("fail_if"),
                                  .bindings = {{.writable = true}},
                                  .priority = priority});
    const auto status = backend_->paths().Find("edge")->path->Add(event.kernel);
    EXPECT_TRUE(status.ok()) << status;
    return event;
  }
  std::unique_ptr<KernelLaunch> Background(
      const std::shared_ptr<DeviceMemory>& memory,
      std::promise<LaunchResult>* ended) {
    auto launch = std::make_unique<KernelLaunch>();
    launch->kmd = {.kernel = simt::FindKernel("busy"),
                   .grid = {4, 1, 1},
                   .block = {64, 1, 1}};
    launch->args = std::make_unique<std::byte[]>(launch->kmd.kernel->args_size);
    const uint32_t iterations = 100;
    std::memcpy(launch->args.get(), &iterations, sizeof(iterations));
    launch->memory = memory;
    launch->token = 1;
    launch->on_end = [ended](const LaunchResult& result) {
      ended->set_value(result);
    };
    return launch;
  }
  // What it has logged of each event, once it has stopped.
  std::string Log() {
    Stop();
    std::ostringstream text;
    text << std::ifstream(log_).rdbuf();
    return text.str();
  }

  const std::string log_ = ::testing::TempDir() + "/events.csv";
  std::unique_ptr<Backend> backend_;
};

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_BACKENDS_SIM_TIMED_TEST_H_

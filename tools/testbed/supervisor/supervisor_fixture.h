// A Supervisor over fake_child processes, whose readiness the test decides.
#ifndef CARILLON_TOOLS_TESTBED_SUPERVISOR_SUPERVISOR_FIXTURE_H_
#define CARILLON_TOOLS_TESTBED_SUPERVISOR_SUPERVISOR_FIXTURE_H_

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tools/testbed/supervisor/marks.h"
#include "tools/testbed/supervisor/supervisor.h"
#include "tools/testbed/supervisor/test_util.h"

namespace carillon::testbed {

class FakeProbe : public ReadinessProbe {
 public:
  absl::Status Gpud(std::string* note) override {
    *note = "a fake";
    if (on_gpud) on_gpud();
    return gpud_serves ? absl::OkStatus()
                       : absl::UnavailableError("nobody serves");
  }
  absl::StatusOr<std::map<std::string, DeviceReadiness>> Devices() override {
    if (on_devices) on_devices();
    return devices;
  }

  absl::Status Link() override { return link; }

  bool gpud_serves = true;
  absl::Status link;
  std::map<std::string, DeviceReadiness> devices;
  std::function<void()> on_gpud;
  std::function<void()> on_devices;
};

class SupervisorTest : public ::testing::Test {
 protected:
  using Arguments = std::vector<std::string>;

  static PlannedProcess Process(const std::string& name, Arguments arguments,
                                bool wait_ready = true) {
    arguments.insert(arguments.begin(), FakeChild());
    return {.name = name,
            .kind = name == "gpud" ? "gpud" : "test",
            .argv = arguments,
            .wait_ready = wait_ready};
  }

  Supervisor& Make(const Arguments& gpud,
                   const std::vector<PlannedProcess>& devices,
                   Supervisor::Options options = {}) {
    return MakeWith(Process("gpud", gpud), devices, std::move(options));
  }
  Supervisor& MakeWith(const PlannedProcess& gpud,
                       const std::vector<PlannedProcess>& devices,
                       Supervisor::Options options = {}) {
    auto directory = LockedDirectory::Create(paths_);
    EXPECT_TRUE(directory.ok()) << directory.status();
    options.say = [this](const std::string& line) { said_ += line + "\n"; };
    supervisor_ = std::make_unique<Supervisor>(
        LaunchPlan{"demo", gpud, devices, record_}, *std::move(directory),
        &probe_, &requests_, options);
    return *supervisor_;
  }

  bool IsWaiting(const std::string& name) {
    return FileText(paths_.log_directory() + "/" + name + ".log") ==
           "waiting\n";
  }
  std::vector<ProcessIdentity> Running() { return MarkedProcesses(paths_); }

  TestFolder folder_;
  const TestbedPaths paths_ = PathsOf("demo");
  FakeProbe probe_;
  StopSignals requests_;
  std::string said_;
  uint64_t record_ = 0;  // LaunchPlan::record
  std::unique_ptr<Supervisor> supervisor_;
};

}  // namespace carillon::testbed

#endif  // CARILLON_TOOLS_TESTBED_SUPERVISOR_SUPERVISOR_FIXTURE_H_

// gpud in a directory of its own, and the devices that launch there.
#ifndef CARILLON_TOOLS_BENCH_LAUNCH_TESTBED_H_
#define CARILLON_TOOLS_BENCH_LAUNCH_TESTBED_H_

#include <signal.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/line_process.h"
#include "base/temp_directory.h"
#include "tools/bench/machine.h"

namespace carillon::bench {

// Who may use which CPUs: with four or more, the device has one to itself and
// gpud all others; with fewer, the device stays on one, gpud may use all, and
// the device spins no longer than the SDK does by default.
struct CpuShares {
  std::vector<int> device;  // empty: all
  std::vector<int> gpud;
  bool separate() const { return !gpud.empty(); }
};
CpuShares ShareCpus();

// A device process (device_role.h).
class LaunchDeviceProcess {
 public:
  static absl::StatusOr<LaunchDeviceProcess> Start(const std::string& testbed,
                                                   const std::string& name,
                                                   const std::vector<int>& cpus,
                                                   bool always_spin,
                                                   bool realtime);
  // What it said when it was attached.
  const Json& about() const { return about_; }

  // Sends, and waits for the answer: at most as long as `ms` of the command
  // says, and half a minute. Errors: the device's; DeadlineExceeded, Aborted
  // (it died), Cancelled.
  absl::StatusOr<Json> Call(const Json& command);
  // The two halves of Call().
  absl::Status Send(const Json& command);
  absl::StatusOr<Json> Receive();
  uint64_t CpuNs() const { return child_.CpuNs(); }
  // Ends it without a word, and waits until it is gone.
  void Kill() { child_.End(SIGKILL, {}); }

 private:
  explicit LaunchDeviceProcess(LineProcess child) : child_(std::move(child)) {}

  LineProcess child_;
  std::chrono::milliseconds patience_{0};
  Json about_;
};

// Until gpud answers. Errors: FailedPrecondition (it has ended, or takes too
// long; with the last that it has logged), Cancelled.
absl::Status WaitForGpud(const LineProcess& gpud, const std::string& testbed,
                         const std::string& log);

struct LaunchTestbedOptions {
  std::string gpud;     // the program
  std::string backend;  // auto, cpu, cuda
  uint32_t reserved_sms = 0;
  bool realtime = false;
  uint64_t memory_bytes = 0;  // for all devices together; 0: gpud's default
  std::vector<std::string> gpud_arguments = {};  // further ones
};

// One thread. Ends its processes and removes its directory when destroyed.
class LaunchTestbed {
 public:
  // Errors: FailedPrecondition (gpud does not come up; says what it logged),
  // Cancelled.
  static absl::StatusOr<std::unique_ptr<LaunchTestbed>> Start(
      const LaunchTestbedOptions& options);
  ~LaunchTestbed();

  LaunchDeviceProcess& device() { return *device_; }
  // Its directory, for devices of one's own.
  std::string testbed() const { return directory_.path() + "/testbed"; }
  const CpuShares& cpus() const { return cpus_; }
  uint64_t GpudCpuNs() const { return gpud_.CpuNs(); }
  // gpud's and the device's.
  uint64_t CpuNs() const { return gpud_.CpuNs() + device_->CpuNs(); }
  // Ends gpud without a word, and waits until it is gone.
  void KillGpud() { gpud_.End(SIGKILL, {}); }
  // Another device, which may use gpud's CPUs.
  absl::StatusOr<LaunchDeviceProcess> AddDevice(const std::string& name) const;
  // `status` with the last that gpud has logged, if it has.
  absl::Status WithLog(const absl::Status& status) const;

 private:
  LaunchTestbed(const LaunchTestbedOptions& options, TempDirectory directory,
                LineProcess gpud)
      : options_(options),
        directory_(std::move(directory)),
        gpud_(std::move(gpud)) {}

  const LaunchTestbedOptions options_;
  const CpuShares cpus_ = ShareCpus();
  TempDirectory directory_;
  LineProcess gpud_;
  std::optional<LaunchDeviceProcess> device_;
};

}  // namespace carillon::bench

#endif  // CARILLON_TOOLS_BENCH_LAUNCH_TESTBED_H_

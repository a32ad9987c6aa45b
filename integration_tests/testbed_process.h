// Real processes for integration tests: their output is kept, every wait has a
// bound, and they end with the test, however it ends.
#ifndef CARILLON_INTEGRATION_TESTS_TESTBED_PROCESS_H_
#define CARILLON_INTEGRATION_TESTS_TESTBED_PROCESS_H_

#include <grpcpp/channel.h>

#include <chrono>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "base/subprocess.h"
#include "base/temp_directory.h"
#include "base/testbed_paths.h"
#include "base/testing/eventually.h"
#include "base/unique_fd.h"
#include "proto/admin.grpc.pb.h"

namespace carillon::testing {

// How long anything may take before a test reports a hang. No test passes or
// fails by a shorter time.
inline constexpr std::chrono::seconds kBound{60};

// Environment variables that run the tests elsewhere than in this workspace:
// the folder that has all programs, and gpud's back-end.
inline constexpr const char* kProgramsVariable = "CARILLON_TEST_PROGRAMS";
inline constexpr const char* kBackendVariable = "CARILLON_TEST_BACKEND";

// The path of a program of this workspace in the test's data:
// Program("gpu_daemon/gpud").
std::string Program(const std::string& path);

// Thread safe except for Start() and the destructor, which belong to one
// thread: the process is killed when the thread that started it ends.
class Process {
 public:
  // How it ended: the exit code, or minus the signal.
  using Exit = int;

  // `name` marks the process's lines when a failed test shows them.
  // `environment` has "NAME=VALUE", added to the test's own. Errors: Internal.
  static absl::StatusOr<std::unique_ptr<Process>> Start(
      const std::string& name, const std::vector<std::string>& argv,
      const std::vector<std::string>& environment = {});
  // Kills and reaps it. Shows its output if the test has failed.
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  pid_t pid() const { return process_.pid(); }
  void Signal(int signal) const { process_.Signal(signal); }
  // Sends SIGSTOP, and waits until every thread has stopped.
  void Stop() const;
  // Waits for the end and reaps; then output() is complete. Nothing if it still
  // runs after `bound`.
  std::optional<Exit> Wait(std::chrono::milliseconds bound = kBound);
  // Sends SIGKILL and waits.
  void Kill();
  // Whether it has ended; does not reap it.
  bool ended() const { return process_.ended(); }

  // The CPU time of all its threads, including those that have ended.
  std::chrono::nanoseconds CpuTime() const;

  // stdout and stderr so far.
  std::string output() const;
  // Waits until the output contains `text`. Returns false once it cannot come
  // any more.
  bool WaitForOutput(const std::string& text,
                     std::chrono::milliseconds bound = kBound);

 private:
  Process(std::string name, Subprocess process, UniqueFd output);
  void ReadOutput();

  const std::string name_;
  Subprocess process_;
  const UniqueFd pipe_;
  mutable std::mutex mutex_;
  std::condition_variable more_;
  std::string output_;
  bool output_ended_ = false;
  std::thread reader_;
};

// What gpud says of a testbed, and devices that a test starts in it.
class TestbedClient {
 public:
  TestbedClient(const TestbedClient&) = delete;
  TestbedClient& operator=(const TestbedClient&) = delete;

  const std::string& directory() const { return paths_.directory(); }
  const TestbedPaths& paths() const { return paths_; }

  // Starts a device of this testbed: StartDevice("fpga0", "devices/fpga/fpga",
  // {"--frames", "10"}). It finds its name in --name and in its environment.
  absl::StatusOr<std::unique_ptr<Process>> StartDevice(
      const std::string& name, const std::string& program,
      const std::vector<std::string>& flags = {});

  // gpud's answers. The test fails if it does not answer.
  v1::GetStatusResponse Status();
  v1::ListDevicesResponse Devices();
  v1::ListEktResponse Ekt();
  v1::ListRingsResponse Rings();
  // A counter of an attached device; 0 if it does not exist.
  uint64_t Counter(const std::string& device, const std::string& counter);
  // How many samples an attached device's histogram has; 0 if it does not
  // exist.
  uint64_t Samples(const std::string& device, const std::string& histogram);
  v1::Admin::Stub& admin() { return *admin_; }
  const std::shared_ptr<grpc::Channel>& channel() const { return channel_; }

 protected:
  // `environment` has "NAME=VALUE" for devices.
  explicit TestbedClient(std::string directory,
                         std::vector<std::string> environment = {});
  ~TestbedClient() = default;

  // The last process that StartDevice() has started under this name; 0 if none.
  pid_t StartedAs(const std::string& name) const;

 private:
  // Without counters and histograms if it is not attached.
  v1::Device DeviceOf(const std::string& name);

  const TestbedPaths paths_;
  const std::vector<std::string> environment_;
  std::map<std::string, pid_t> started_;
  const std::shared_ptr<grpc::Channel> channel_;
  const std::unique_ptr<v1::Admin::Stub> admin_;
};

// A directory with a gpud in it; the destructor removes both.
class Testbed : public TestbedClient {
 public:
  // Starts gpud with these flags, besides --dir, and waits until it answers its
  // health check. Errors: Internal, with gpud's output.
  static absl::StatusOr<std::unique_ptr<Testbed>> Start(
      const std::vector<std::string>& flags = {});
  Process& gpud() { return *gpud_; }
  // Ends gpud if it still runs and starts a new one in the same directory.
  absl::Status RestartGpud(const std::vector<std::string>& flags = {});

 private:
  explicit Testbed(TempDirectory directory)
      : TestbedClient(directory.path()), files_(std::move(directory)) {}

  const TempDirectory files_;
  std::unique_ptr<Process> gpud_;
};

}  // namespace carillon::testing

#endif  // CARILLON_INTEGRATION_TESTS_TESTBED_PROCESS_H_

// Real processes for integration tests: started with their output kept, waited
// for with a bound, and gone when the test is, however it ends.
#ifndef CARILLON_INTEGRATION_TESTS_TESTBED_PROCESS_H_
#define CARILLON_INTEGRATION_TESTS_TESTBED_PROCESS_H_

#include <grpcpp/channel.h>

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "base/testbed_paths.h"
#include "base/unique_fd.h"
#include "proto/admin.grpc.pb.h"

namespace carillon::testing {

// How long anything may take before a test says that it hangs. No test passes
// or fails by time below it.
inline constexpr std::chrono::seconds kBound{60};

// Environment variables with which tests run elsewhere than in this workspace:
// the folder that has all programs, and gpud's back-end.
inline constexpr const char* kProgramsVariable = "CARILLON_TEST_PROGRAMS";
inline constexpr const char* kBackendVariable = "CARILLON_TEST_BACKEND";

// Makes an empty directory and returns its path, which is short enough for
// sockets. Errors: Internal.
absl::StatusOr<std::string> MakeTestDirectory();

// Looks again and again until `state` holds; false if it does not within
// `bound`.
bool Eventually(const std::function<bool()>& state,
                std::chrono::milliseconds bound = kBound);

// A program of this workspace as the test's data holds it:
// Program("gpu_daemon/gpud").
std::string Program(const std::string& path);

// Thread safe but for Start() and the destructor, which belong to one thread:
// the process is killed when the thread that started it ends.
class Process {
 public:
  // How it ended: exit code, or minus the signal.
  using Exit = int;

  // `name` is for people: it marks the process's lines when a failed test shows
  // them. `environment`: "NAME=VALUE" beside the test's own. Errors: Internal.
  static absl::StatusOr<std::unique_ptr<Process>> Start(
      const std::string& name, const std::vector<std::string>& argv,
      const std::vector<std::string>& environment = {});
  // Kills and reaps it. Shows its output if the test has failed.
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  pid_t pid() const { return pid_; }
  void Signal(int signal) const;
  // SIGSTOP, and waits until every thread has stopped.
  void Stop() const;
  // Waits for the end and reaps; output() is complete then. Nothing if it still
  // runs after `bound`.
  std::optional<Exit> Wait(std::chrono::milliseconds bound = kBound);
  // SIGKILL and Wait().
  void Kill();
  // Whether it has ended; does not reap it.
  bool ended() const;

  // Of all its threads, ended ones included.
  std::chrono::nanoseconds CpuTime() const;

  // stdout and stderr so far.
  std::string output() const;
  // Waits until the output has `text` in it. False once it cannot come any
  // more.
  bool WaitForOutput(const std::string& text,
                     std::chrono::milliseconds bound = kBound);

 private:
  Process(std::string name, pid_t pid, UniqueFd pidfd, UniqueFd output);
  void ReadOutput();

  const std::string name_;
  const pid_t pid_;
  const UniqueFd pidfd_;
  const UniqueFd pipe_;
  mutable std::mutex mutex_;
  std::condition_variable more_;
  std::string output_;
  bool output_ended_ = false;
  std::optional<Exit> exit_;
  std::thread reader_;
};

// What the gpud of a testbed says, and devices that a test lets join it.
class TestbedClient {
 public:
  TestbedClient(const TestbedClient&) = delete;
  TestbedClient& operator=(const TestbedClient&) = delete;

  const std::string& directory() const { return paths_.directory(); }
  const TestbedPaths& paths() const { return paths_; }

  // A device of this testbed: StartDevice("fpga0", "devices/fpga/fpga",
  // {"--frames", "10"}).
  absl::StatusOr<std::unique_ptr<Process>> StartDevice(
      const std::string& name, const std::string& program,
      const std::vector<std::string>& flags = {});

  // What gpud says. The test fails when it does not answer.
  v1::GetStatusResponse Status();
  v1::ListDevicesResponse Devices();
  v1::ListEktResponse Ekt();
  v1::ListRingsResponse Rings();
  // A counter of an attached device, 0 if there is no such.
  uint64_t Counter(const std::string& device, const std::string& counter);
  // How many samples a histogram of an attached device has, 0 if there is no
  // such.
  uint64_t Samples(const std::string& device, const std::string& histogram);
  v1::Admin::Stub& admin() { return *admin_; }
  const std::shared_ptr<grpc::Channel>& channel() const { return channel_; }

 protected:
  // `environment`: "NAME=VALUE", for devices.
  explicit TestbedClient(std::string directory,
                         std::vector<std::string> environment = {});
  ~TestbedClient() = default;

 private:
  const TestbedPaths paths_;
  const std::vector<std::string> environment_;
  const std::shared_ptr<grpc::Channel> channel_;
  const std::unique_ptr<v1::Admin::Stub> admin_;
};

// A directory with a gpud in it, both gone with the object.
class Testbed : public TestbedClient {
 public:
  // Starts gpud with these flags beside --dir, and waits until it answers its
  // health check. Errors: Internal, with gpud's output.
  static absl::StatusOr<std::unique_ptr<Testbed>> Start(
      const std::vector<std::string>& flags = {});
  ~Testbed();

  Process& gpud() { return *gpud_; }
  // Ends gpud if it still runs and starts a new one in the same directory.
  absl::Status RestartGpud(const std::vector<std::string>& flags = {});

 private:
  explicit Testbed(std::string directory)
      : TestbedClient(std::move(directory)) {}

  std::unique_ptr<Process> gpud_;
};

}  // namespace carillon::testing

#endif  // CARILLON_INTEGRATION_TESTS_TESTBED_PROCESS_H_

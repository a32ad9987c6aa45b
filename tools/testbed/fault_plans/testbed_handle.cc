#include "tools/testbed/fault_plans/testbed_handle.h"

#include <fmt/format.h>
#include <google/protobuf/util/json_util.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "base/status.h"
#include "base/text.h"
#include "shm/recorder/flight_recorder.h"
#include "tools/testbed/client/admin_client.h"
#include "tools/testbed/supervisor/marks.h"
#include "tools/testbed/supervisor/testbeds.h"

namespace carillon::testbed {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;

// Space is taken only for what is recorded.
constexpr uint64_t kRecords = shm::FlightRecorder::kMaxRecords;
constexpr char kGpud[] = "gpud";

// Carillon's files in /dev/shm; there should be none.
std::set<std::string> SharedMemoryFiles() {
  std::set<std::string> names;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator("/dev/shm", error)) {
    const std::string name = entry.path().filename();
    struct stat file {};
    if (name.find("carillon") == name.npos) continue;
    if (lstat(entry.path().c_str(), &file) != 0) continue;
    if (file.st_uid == getuid()) names.insert(name);
  }
  return names;
}

std::string RingsOf(const TestbedPaths& paths) {
  const auto rings = AdminClient(paths, milliseconds(2000)).ListRings();
  if (!rings.ok()) {
    return fmt::format(
        "{}\n", Json{{"error", std::string(rings.status().message())}}.dump(2));
  }
  google::protobuf::util::JsonPrintOptions options;
  options.add_whitespace = true;
  options.always_print_primitive_fields = true;
  options.preserve_proto_field_names = true;
  std::string text;
  (void)google::protobuf::util::MessageToJsonString(*rings, &text, options);
  return text;
}

class StartedTestbed : public TestbedHandle {
 public:
  StartedTestbed(std::unique_ptr<TestbedRun> run,
                 std::set<std::string> shared_before)
      : run_(std::move(run)), shared_before_(std::move(shared_before)) {}
  ~StartedTestbed() override {
    if (!down_) (void)TakeDown();
  }

  const TestbedPaths& paths() const override { return supervisor().paths(); }
  std::string name() const override { return supervisor().state().testbed; }
  bool Watch(milliseconds timeout) override {
    return supervisor().Watch(timeout);
  }
  TestbedState State() override { return supervisor().state(); }
  std::string Rings() override { return RingsOf(paths()); }

  EndState End(nanoseconds settle) override {
    EndState state_at_end{.in_flight = std::nullopt,
                          .leaks = std::vector<std::string>()};
    const bool gpud = Runs(kGpud);
    supervisor().Continue();
    supervisor().EndDevices();
    if (gpud) AskGpud(settle, &state_at_end);
    supervisor().EndGpud();
    for (const ProcessIdentity& process : MarkedProcesses(paths())) {
      state_at_end.leaks->push_back(
          fmt::format("process {} goes on", process.pid));
    }
    for (const std::string& file : supervisor().directory().ForeignFiles()) {
      state_at_end.leaks->push_back(
          fmt::format("a file is left over: {}", file));
    }
    for (const std::string& file : SharedMemoryFiles()) {
      if (shared_before_.contains(file)) continue;
      state_at_end.leaks->push_back(
          fmt::format("/dev/shm/{} is left over", file));
    }
    return state_at_end;
  }

  absl::Status TakeDown() override {
    down_ = true;
    supervisor().Continue();
    return supervisor().TakeDown();
  }

 private:
  Supervisor& supervisor() const { return run_->supervisor(); }

  bool Runs(const std::string& name) {
    TestbedState state = State();
    const ProcessRecord* const process = state.Find(name);
    return process != nullptr && process->state == ProcessState::kReady;
  }

  // Checks that gpud has nothing left of the devices.
  void AskGpud(nanoseconds settle, EndState* state_at_end) {
    AdminClient client(paths(), milliseconds(2000));
    const auto deadline = Clock::now() + settle;
    for (;;) {
      const auto status = client.GetStatus();
      std::vector<std::string> leaks;
      if (!status.ok()) {
        leaks.push_back(
            fmt::format("gpud does not answer: {}", status.status().message()));
      } else {
        state_at_end->in_flight = InFlight(status->events());
        if (status->devices() != 0) {
          leaks.push_back(
              fmt::format("gpud has {} devices attached", status->devices()));
        }
        if (status->ekt_used() != 0) {
          leaks.push_back(fmt::format("{} event kernels are registered",
                                      status->ekt_used()));
        }
        if (status->memory_used() != 0) {
          leaks.push_back(fmt::format("{} of GPU memory are in use",
                                      FormatBytes(status->memory_used())));
        }
      }
      const bool rests =
          leaks.empty() && state_at_end->in_flight.value_or(1) == 0;
      if (rests || Clock::now() >= deadline) {
        state_at_end->leaks->insert(state_at_end->leaks->end(), leaks.begin(),
                                    leaks.end());
        return;
      }
      // TakeDown() handles the user's wish to end.
      (void)supervisor().Watch(milliseconds(5));
    }
  }

  const std::unique_ptr<TestbedRun> run_;
  const std::set<std::string> shared_before_;
  bool down_ = false;
};

class AttachedTestbed : public TestbedHandle {
 public:
  explicit AttachedTestbed(Testbed testbed) : testbed_(std::move(testbed)) {}

  const TestbedPaths& paths() const override { return testbed_.paths; }
  std::string name() const override { return testbed_.name; }
  bool Watch(milliseconds timeout) override {
    pollfd interrupted{interrupt_.fd(), POLLIN, 0};
    poll(&interrupted, 1, static_cast<int>(timeout.count()));
    return interrupt_.Take() == 0;
  }
  TestbedState State() override {
    // The file is replaced atomically; if it cannot be read, the last state
    // still holds.
    if (auto state = ReadState(paths().state_file()); state.ok()) {
      state_ = *std::move(state);
    }
    return state_;
  }
  std::string Rings() override { return RingsOf(paths()); }
  EndState End(nanoseconds) override { return {}; }
  absl::Status TakeDown() override { return absl::OkStatus(); }

 private:
  const Testbed testbed_;
  StopSignals interrupt_;
  TestbedState state_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<TestbedHandle>> StartTestbed(
    const fault::Plan& plan, const UpOptions& options, const Say& say) {
  Topology topology = *plan.topology;
  topology.name =
      options.name.empty() ? fmt::format("fault-{}", getpid()) : options.name;
  topology.faults = true;
  if (topology.record == 0) topology.record = kRecords;
  auto shared = SharedMemoryFiles();
  ASSIGN_OR_RETURN(auto run,
                   TestbedRun::Make(topology, plan.file, options, say));
  RETURN_IF_ERROR(run->supervisor().BringUp());
  return std::make_unique<StartedTestbed>(std::move(run), std::move(shared));
}

absl::StatusOr<std::unique_ptr<TestbedHandle>> AttachTestbed(
    const std::string& name) {
  ASSIGN_OR_RETURN(auto testbed, ChooseTestbed(name));
  if (!testbed.supervisor) {
    return absl::UnavailableError(
        fmt::format("testbed '{}' is not up", testbed.name));
  }
  return std::make_unique<AttachedTestbed>(std::move(testbed));
}

size_t DescriptorsOf(const ProcessIdentity& process) {
  std::error_code error;
  const fs::directory_iterator files(fmt::format("/proc/{}/fd", process.pid),
                                     error);
  if (error || !IsAlive(process)) return 0;
  return static_cast<size_t>(std::distance(begin(files), end(files)));
}

}  // namespace carillon::testbed

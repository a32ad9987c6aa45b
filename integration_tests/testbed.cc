#include "integration_tests/testbed.h"

#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <stop_token>
#include <thread>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "base/temp_directory.h"
#include "base/text.h"
#include "base/unique_fd.h"
#include "fmt/format.h"
#include "shm/recorder/flight_recorder.h"
#include "tools/testbed/load/nic_load.h"
#include "tools/testbed/supervisor/directory.h"
#include "tools/testbed/supervisor/marks.h"
#include "tools/testbed/supervisor/process_identity.h"
#include "tools/testbed/supervisor/restart_request.h"
#include "tools/testbed/supervisor/supervisor_socket.h"

namespace carillon::testing {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;
using ::testing::AssertionFailure;
using ::testing::AssertionResult;
using ::testing::AssertionSuccess;

constexpr char kName[] = "lab";
constexpr char kGpud[] = "gpud";
// The delay until a load notices that its NIC has moved.
constexpr milliseconds kFollow{20};
// The limit for a question that gpud need not answer.
constexpr milliseconds kAnswer{1000};
// More than a supervisor gives its processes to end.
constexpr milliseconds kEnding{20'000};

AssertionResult ResultOf(const absl::Status& status) {
  if (status.ok()) return AssertionSuccess();
  return AssertionFailure() << std::string(status.message());
}

std::string ProcessNames(const testbed::TestbedState& state) {
  std::vector<std::string> names;
  for (const auto& process : state.processes) names.push_back(process.name);
  return JoinWords(names);
}

// Describes the process as `carillon ps` does.
std::string Words(const testbed::ProcessRecord& process) {
  std::string words =
      fmt::format("{} is {}, restarted {} times", process.name,
                  testbed::ToText(process.state), process.restarts);
  if (process.given_up) words += ", given up";
  return words;
}

std::optional<testbed::ProcessRecord> FindProcess(const TestbedPaths& paths,
                                                  const std::string& name) {
  auto state = testbed::ReadState(paths.state_file());
  if (!state.ok()) return std::nullopt;
  const testbed::ProcessRecord* const found = state->Find(name);
  if (found == nullptr) return std::nullopt;
  return *found;
}

// Nothing if gpud does not answer.
std::optional<v1::ListRingsResponse> AskForRings(v1::Admin::Stub& admin) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kAnswer);
  v1::ListRingsResponse response;
  if (!admin.ListRings(&context, {}, &response).ok()) return std::nullopt;
  return response;
}

std::optional<v1::ListDevicesResponse> AskForDevices(v1::Admin::Stub& admin) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kAnswer);
  v1::ListDevicesResponse response;
  if (!admin.ListDevices(&context, {}, &response).ok()) return std::nullopt;
  return response;
}

// How a process of the supervisor's ended that will not be started again; empty:
// it lives, or comes back, or the supervisor does not know it.
std::string EndOf(const TestbedPaths& paths, const std::string& name) {
  const auto process = FindProcess(paths, name);
  if (!process || !process->exit) return "";
  const bool comes_back =
      process->restart == testbed::RestartPolicy::kOnFailure &&
      !process->exit->ok() && !process->given_up;
  return comes_back ? ""
                    : fmt::format("{} has ended ({})", name,
                                  process->exit->ToString());
}

// Bazel packs its folder of outputs and removes the folder when the test ends.
std::string HowToRead(const std::string& kept) {
  const char* const outputs = std::getenv("TEST_UNDECLARED_OUTPUTS_DIR");
  const char* const target = std::getenv("TEST_TARGET");
  if (outputs == nullptr || target == nullptr) {
    return fmt::format("carillon postmortem --dir {}", kept);
  }
  std::string test(target);
  std::ranges::replace(test, ':', '/');
  return fmt::format(
      "unzip bazel-testlogs/{}/test.outputs/outputs.zip, then carillon "
      "postmortem --dir {}",
      test.substr(test.find_first_not_of('/')),
      fs::path(kept).filename().string());
}

// Whether none of its threads runs.
bool IsStopped(pid_t pid) {
  std::error_code error;
  for (const auto& task :
       fs::directory_iterator(fmt::format("/proc/{}/task", pid), error)) {
    std::ostringstream stat;
    stat << std::ifstream(task.path() / "stat").rdbuf();
    const std::string text = stat.str();
    const size_t name_end = text.rfind(") ");
    if (name_end == text.npos) continue;  // it has ended
    if (std::strchr("TtZX", text[name_end + 2]) == nullptr) return false;
  }
  return true;
}

// Empty if everything ended and was recorded.
std::string WhatIsNotProven(const testbed::Timeline& timeline) {
  const ledger::Report& report = timeline.report;
  if (!report.violations.empty()) {
    return fmt::format("{} events are not as promised; the first: {}",
                       report.total.violated(),
                       report.violations.front().sentence);
  }
  if (!timeline.unreadable.empty()) {
    return "not every recorder can be read: " + JoinWords(timeline.unreadable);
  }
  if (report.overwritten != 0) {
    return fmt::format(
        "{} records are overwritten: give the topology a larger `record`",
        report.overwritten);
  }
  for (const ledger::Unknown why :
       {ledger::Unknown::kNotTaken, ledger::Unknown::kNotRecorded,
        ledger::Unknown::kOverwritten}) {
    if (report.total.of(why) == 0) continue;
    return fmt::format("{} events: {}", report.total.of(why),
                       UnknownSentence(why));
  }
  if (report.total.ok + report.total.failed == 0) {
    return "no event has ended: nothing proves anything";
  }
  return "";
}

MATCHER(LosesNothing, negation ? "does not prove that nothing is lost"
                               : "proves that nothing is lost") {
  const std::string wrong = WhatIsNotProven(arg.timeline());
  *result_listener << wrong;
  return wrong.empty();
}

}  // namespace

std::string LedgerReading::ToString() const {
  return testbed::EventsText(timeline_) +
         testbed::FirstViolationText(timeline_);
}

void PrintTo(const LedgerReading& reading, std::ostream* stream) {
  *stream << "\n" << reading.ToString();
}

LedgerReading ReadLedger(const TestbedPaths& paths) {
  return LedgerReading(testbed::ReadTimeline(kName, paths));
}

::testing::Matcher<const LedgerReading&> NothingLost() {
  return LosesNothing();
}

// A client, and a thread that tells it where its NIC is.
class FaultTestbed::Load {
 public:
  Load(const TestbedPaths& paths, const std::string& nic, uint32_t window)
      : load_(window, /*seed=*/1),
        follower_([this, paths, nic](std::stop_token stop) {
          Follow(paths, nic, stop);
        }) {}

  uint64_t replies() const { return load_.replies(); }
  testbed::LoadResult Stop() {
    follower_.request_stop();
    if (follower_.joinable()) follower_.join();
    return load_.Stop();
  }

 private:
  void Follow(const TestbedPaths& paths, const std::string& nic,
              std::stop_token stop) {
    std::mutex mutex;
    std::condition_variable_any stopped;
    std::unique_lock lock(mutex);
    do {
      const auto process = FindProcess(paths, nic);
      std::string host;
      uint16_t port = 0;
      if (process && process->state == testbed::ProcessState::kReady &&
          testbed::ReadUdpAddress(process->note, &host, &port)) {
        load_.SetAddress(host, port);
      }
    } while (!stopped.wait_for(lock, stop, kFollow,
                               [&] { return stop.stop_requested(); }));
  }

  testbed::NicLoad load_;
  std::jthread follower_;
};

FaultTestbed::FaultTestbed(TempDirectory runtime_directory)
    : TestbedClient(
          fmt::format("{}/{}", runtime_directory.path(), kName),
          {fmt::format("{}={}", shm::FlightRecorder::kVariable, kRecords)}),
      runtime_directory_(std::move(runtime_directory)) {}

absl::StatusOr<std::unique_ptr<FaultTestbed>> FaultTestbed::Up(
    std::string_view topology, const std::vector<std::string>& flags) {
  ASSIGN_OR_RETURN(auto files, TempDirectory::Make());
  const std::string file = files.path() + "/topology.yaml";
  std::ofstream(file) << topology << "\n";
  return UpFile(file, flags);
}

absl::StatusOr<std::unique_ptr<FaultTestbed>> FaultTestbed::UpFile(
    const std::string& file, const std::vector<std::string>& flags) {
  ASSIGN_OR_RETURN(auto directory, TempDirectory::Make());
  std::unique_ptr<FaultTestbed> testbed(new FaultTestbed(std::move(directory)));
  RETURN_IF_ERROR(testbed->BringUp(file, flags));
  return testbed;
}

absl::Status FaultTestbed::BringUp(const std::string& file,
                                   const std::vector<std::string>& flags) {
  std::vector<std::string> command = {
      Program("tools/cli/carillon"),
      "up",
      "--file",
      file,
      "--name",
      kName,
      "--faults",
      "--timeout",
      std::to_string(std::chrono::seconds(kBound).count())};
  command.insert(command.end(), flags.begin(), flags.end());
  ASSIGN_OR_RETURN(
      supervisor_,
      Process::Start(
          "carillon up", command,
          {"CARILLON_RUNTIME_DIR=" + runtime_directory_.path(),
           "CARILLON_BIN_DIR=" + Program("."),
           fmt::format("{}={}", shm::FlightRecorder::kVariable, kRecords)}));
  // Its own time limits end it.
  Eventually(
      [&] {
        const auto state = testbed::ReadState(paths().state_file());
        return supervisor_->ended() ||
               (state.ok() && state->phase == testbed::Phase::kUp);
      },
      std::chrono::minutes(10));
  if (supervisor_->ended()) {
    supervisor_->Wait();
    return absl::InternalError(supervisor_->output());
  }
  ASSIGN_OR_RETURN(board_, faults::Board::Open(paths().fault_board()));
  return absl::OkStatus();
}

FaultTestbed::~FaultTestbed() {
  for (auto& [nic, load] : loads_) {
    const testbed::LoadResult result = load->Stop();
    EXPECT_EQ(result.bad, 0u) << nic << " has answered wrong bytes";
  }
  if (supervisor_ != nullptr && board_ != nullptr &&
      ::testing::Test::HasFailure()) {
    const auto kept = Keep();
    fmt::print(stderr, "{}\n",
               kept.ok() ? fmt::format("--- kept: {}", HowToRead(*kept))
                         : std::string(kept.status().message()));
  }
  EXPECT_TRUE(Down());
}

testbed::ProcessRecord FaultTestbed::ProcessOf(const std::string& name) const {
  if (auto process = FindProcess(paths(), name)) return *process;
  const auto state = testbed::ReadState(paths().state_file());
  ADD_FAILURE() << "no process " << name << "; there are "
                << (state.ok() ? ProcessNames(*state) : "none");
  return {};
}

AssertionResult FaultTestbed::Restart(const std::string& name, bool kill) {
  const testbed::RestartRequest request{
      .processes = {name}, .kill = kill, .timeout = kBound};
  const auto answer =
      testbed::AskSupervisor({.socket = testbed::SupervisorSocketOf(paths()),
                              .request = testbed::ToJson(request),
                              .limit = kEnding + 2 * request.timeout,
                              .say = [](const std::string&) {}});
  return ResultOf(answer.status());
}

AssertionResult FaultTestbed::Signal(const std::string& name,
                                     int signal) const {
  const testbed::ProcessRecord process = ProcessOf(name);
  // Signals through a pidfd of this very process, not to one that got its
  // number later.
  const UniqueFd pidfd(
      static_cast<int>(syscall(SYS_pidfd_open, process.identity.pid, 0)));
  if (!pidfd || !testbed::IsAlive(process.identity)) {
    return AssertionFailure() << name << " does not run: " << Words(process);
  }
  if (syscall(SYS_pidfd_send_signal, pidfd.get(), signal, nullptr, 0) != 0) {
    return AssertionFailure() << name << ": " << std::strerror(errno);
  }
  if (signal == SIGSTOP &&
      !Eventually([&] { return IsStopped(process.identity.pid); })) {
    return AssertionFailure() << name << " does not stop";
  }
  return AssertionSuccess();
}

AssertionResult FaultTestbed::WaitForRestart(const std::string& name,
                                             uint32_t times,
                                             milliseconds bound) const {
  testbed::ProcessRecord process = ProcessOf(name);
  if (process.name.empty()) return AssertionFailure() << "no such process";
  const bool is = Eventually(
      [&] {
        process = FindProcess(paths(), name).value_or(process);
        return process.restarts >= times &&
               process.state == testbed::ProcessState::kReady;
      },
      bound);
  if (is) return AssertionSuccess();
  return AssertionFailure()
         << Words(process) << " after " << bound.count() << " ms";
}

std::string FaultTestbed::WhyItIsGone(const std::string& device) const {
  if (const pid_t pid = StartedAs(device); pid != 0) {
    const auto facts = testbed::LookAtProcess(pid);
    if (facts && facts->state != 'Z') return "";
    return fmt::format("{} (pid {}) has ended", device, pid);
  }
  return EndOf(paths(), device);
}

AssertionResult FaultTestbed::WaitForProgress(const std::string& device,
                                              uint64_t events,
                                              milliseconds bound) {
  // Rings get a new generation when their device or gpud comes back, and the
  // counts then start from what is first seen.
  std::map<std::pair<uint32_t, uint32_t>, uint64_t> seen;
  uint64_t done = 0;
  std::string gone;
  if (StartedAs(device) == 0 && !FindProcess(paths(), device)) {
    std::optional<v1::ListDevicesResponse> devices;
    (void)Eventually([&] {
      devices = AskForDevices(admin());
      return devices || !EndOf(paths(), kGpud).empty();
    });
    if (devices && std::ranges::none_of(devices->devices(), [&](const auto& d) {
          return d.name() == device;
        })) {
      const auto state = testbed::ReadState(paths().state_file());
      return AssertionFailure()
             << "there is no device " << device << "; there are "
             << (state.ok() ? ProcessNames(*state) : "none");
    }
  }
  const bool is = Eventually(
      [&] {
        const auto rings = AskForRings(admin());
        if (!rings) {
          gone = EndOf(paths(), kGpud);
          return !gone.empty();
        }
        gone = WhyItIsGone(device);
        for (const v1::Ring& ring : rings->rings()) {
          if (ring.device() != device) continue;
          const auto [last, first] = seen.try_emplace(
              {ring.event_id(), ring.generation()}, ring.consumed());
          if (!first) done += ring.consumed() - last->second;
          last->second = ring.consumed();
        }
        return done >= events || !gone.empty();
      },
      bound);
  if (is && done >= events) return AssertionSuccess();
  return AssertionFailure()
         << device << " has taken " << done << " of " << events << " events"
         << (gone.empty() ? fmt::format(" within {} ms", bound.count())
                          : ": " + gone);
}

AssertionResult FaultTestbed::StartLoad(const std::string& nic,
                                        uint32_t window) {
  const testbed::ProcessRecord process = ProcessOf(nic);
  if (process.kind != "nic") {
    return AssertionFailure()
           << nic << " is no NIC, but of kind '" << process.kind << "'";
  }
  if (loads_.contains(nic)) {
    return AssertionFailure() << nic << " has its load already";
  }
  const Load& load =
      *(loads_[nic] = std::make_unique<Load>(paths(), nic, window));
  if (Eventually([&] { return load.replies() > 0; })) {
    return AssertionSuccess();
  }
  return AssertionFailure()
         << nic << " does not answer: " << ProcessOf(nic).note;
}

uint64_t FaultTestbed::Replies(const std::string& nic) const {
  const auto load = loads_.find(nic);
  return load == loads_.end() ? 0 : load->second->replies();
}

testbed::LoadResult FaultTestbed::StopLoad(const std::string& nic) {
  const auto load = loads_.find(nic);
  if (load == loads_.end()) {
    ADD_FAILURE() << nic << " has no load";
    return {};
  }
  const testbed::LoadResult result = load->second->Stop();
  loads_.erase(load);
  return result;
}

AssertionResult FaultTestbed::Inject(const faults::Fault& fault) {
  const auto ids = board_->Inject({&fault, 1});
  return ResultOf(ids.status());
}

uint64_t FaultTestbed::Struck(const std::string& fault) const {
  for (const faults::Injected& injected : board_->List()) {
    if (injected.fault.name == fault) return injected.struck;
  }
  ADD_FAILURE() << "no fault " << fault << " was injected";
  return 0;
}

AssertionResult FaultTestbed::WaitForStrike(const std::string& fault,
                                            uint64_t times,
                                            milliseconds bound) const {
  const Nanoseconds end = NowNs() + std::chrono::nanoseconds(bound).count();
  for (uint64_t struck = 0;;) {
    // Read it before the check: a strike meanwhile then ends the wait.
    const uint64_t seen = board_->strikes();
    std::optional<faults::Injected> own;
    for (const faults::Injected& injected : board_->List()) {
      if (injected.fault.name == fault) own = injected;
    }
    if (!own) {
      return AssertionFailure() << "no fault " << fault << " was injected";
    }
    struck = own->struck;
    if (struck >= times) return AssertionSuccess();
    const Nanoseconds now = NowNs();
    if (now >= end) {
      return AssertionFailure()
             << fault << " (" << faults::Describe(own->fault) << ") has struck "
             << struck << " times in " << bound.count() << " ms, after "
             << own->passages << " passages";
    }
    board_->WaitForStrike(seen, std::chrono::nanoseconds(end - now));
  }
}

absl::StatusOr<std::string> FaultTestbed::Keep() {
  if (supervisor_ == nullptr) {
    return absl::FailedPreconditionError("the testbed is down");
  }
  const char* const outputs = std::getenv("TEST_UNDECLARED_OUTPUTS_DIR");
  std::string folder =
      fmt::format("{}/carillon-kept-XXXXXX", outputs ? outputs : "/tmp");
  if (mkdtemp(folder.data()) == nullptr) {
    return absl::InternalError(
        fmt::format("{}: {}", folder, std::strerror(errno)));
  }
  // Copies of recordings that continue meanwhile would contradict each other.
  // gpud is stopped first: its recording has what a device sees later.
  std::vector<testbed::ProcessRecord> stopped;
  if (const auto state = testbed::ReadState(paths().state_file()); state.ok()) {
    for (const testbed::ProcessRecord& process : state->processes) {
      const auto facts = testbed::LookAtLiving(process.identity);
      if (!facts || facts->state == 'T' || !Signal(process.name, SIGSTOP)) {
        continue;
      }
      stopped.push_back(process);
    }
  }
  const absl::Status status = CopyTo(TestbedPaths(folder));
  for (const testbed::ProcessRecord& process : stopped) {
    (void)Signal(process.name, SIGCONT);
  }
  if (!status.ok()) return status;
  std::ofstream(folder + "/supervisor.txt") << supervisor_->output();
  const auto rings = AskForRings(admin());
  std::ofstream(folder + "/rings.txt")
      << (rings ? rings->DebugString() : "gpud does not answer\n");
  return folder;
}

absl::Status FaultTestbed::CopyTo(const TestbedPaths& to) const {
  for (const auto& [source, target] :
       {std::pair(paths().recorder_directory(), to.recorder_directory()),
        {paths().log_directory(), to.log_directory()},
        {paths().state_file(), to.state_file()},
        {paths().fault_board(), to.fault_board()}}) {
    std::error_code error;
    if (!fs::exists(source, error)) continue;
    fs::copy(source, target, fs::copy_options::recursive, error);
    if (error) {
      return absl::InternalError(fmt::format("cannot keep {} in {}: {}", source,
                                             target, error.message()));
    }
  }
  return absl::OkStatus();
}

AssertionResult FaultTestbed::Down() {
  loads_.clear();
  if (supervisor_ == nullptr) return AssertionSuccess();
  // A stopped process cannot end in order.
  if (const auto state = testbed::ReadState(paths().state_file()); state.ok()) {
    for (const testbed::ProcessRecord& process : state->processes) {
      if (testbed::IsAlive(process.identity))
        (void)Signal(process.name, SIGCONT);
    }
  }
  supervisor_->Signal(SIGTERM);
  AssertionResult result = AssertionSuccess();
  if (!supervisor_->Wait()) {
    result = AssertionFailure() << "the supervisor does not end\n";
    supervisor_->Kill();
  }
  for (const testbed::ProcessIdentity& process :
       testbed::MarkedProcesses(paths())) {
    result = AssertionFailure()
             << result.message() << "process " << process.pid << " goes on\n";
  }
  // A testbed that never came up leaves its logs, and has reported the error.
  if (board_ != nullptr && fs::exists(directory())) {
    result = AssertionFailure() << result.message() << directory()
                                << " is left over: " << supervisor_->output();
  }
  supervisor_.reset();
  std::error_code ignored;
  fs::remove_all(runtime_directory_.path(), ignored);
  return result;
}

}  // namespace carillon::testing

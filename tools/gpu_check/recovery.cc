#include "tools/gpu_check/recovery.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "base/subprocess.h"
#include "base/temp_directory.h"
#include "base/unique_fd.h"
#include "devices/sdk/edge.h"
#include "fmt/format.h"

namespace carillon::gpu_check {
namespace {

using std::chrono::seconds;

// A kernel may run for 10 s; then another gpud makes its context.
constexpr seconds kPatience{60};
constexpr uint64_t kEnough = 100;  // events of the honest device

// A testbed under `carillon up -d`; ends when this is destroyed.
class SupervisedTestbed {
 public:
  static absl::StatusOr<std::unique_ptr<SupervisedTestbed>> Start(
      const std::string& carillon) {
    std::unique_ptr<SupervisedTestbed> testbed(new SupervisedTestbed(carillon));
    std::ofstream(testbed->File("topology.yaml"))
        << "name: recovery\ngpu: {backend: cuda, memory: 64MiB}\n";
    testbed->up_ = true;
    RETURN_IF_ERROR(testbed->Call(
        {"up", "-d", "-f", testbed->File("topology.yaml"), "--timeout", "60"}));
    return testbed;
  }
  ~SupervisedTestbed() {
    if (up_) Call({"down", "--name", kName}).IgnoreError();
  }

  std::string directory() const { return directory_.path() + "/" + kName; }
  // Of the carillon program. Error: with what it has said.
  absl::Status Call(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), carillon_);
    const std::string said = File("said.txt");
    const UniqueFd out(
        open(said.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
    ASSIGN_OR_RETURN(
        auto process,
        Subprocess::Start(
            {.argv = arguments,
             .environment = {"CARILLON_RUNTIME_DIR=" + directory_.path()},
             .out = out.get(),
             .err = out.get()}));
    const ExitReport exit = process.Reap();
    if (exit.ok()) return absl::OkStatus();
    return absl::UnknownError(fmt::format("carillon {}: {}: {}", arguments[1],
                                          exit.ToString(), TextOf(said)));
  }
  // `status` with the last that gpud has logged, if it is an error.
  absl::Status WithLog(const absl::Status& status) const {
    if (status.ok()) return status;
    std::string log = TextOf(directory() + "/logs/gpud.log");
    constexpr size_t kMost = 3000;
    if (log.size() > kMost) log.erase(0, log.size() - kMost);
    return absl::Status(status.code(), fmt::format("{}; gpud's log:\n{}",
                                                   status.message(), log));
  }

 private:
  static constexpr char kName[] = "recovery";

  explicit SupervisedTestbed(std::string carillon)
      : carillon_(std::move(carillon)) {}
  std::string File(const std::string& name) const {
    return directory_.path() + "/" + name;
  }
  static std::string TextOf(const std::string& path) {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  const std::string carillon_;
  const TempDirectory directory_;
  bool up_ = false;
};

// A device and its event kernel, whose ledger it keeps: each event that it rings
// must end, once and in order. One thread.
class Player {
 public:
  static absl::StatusOr<std::unique_ptr<Player>> Attach(
      const std::string& testbed, const std::string& name,
      const std::function<absl::StatusOr<edge::EventSpec>(edge::Device&)>&
          spec) {
    std::unique_ptr<Player> player(new Player);
    ASSIGN_OR_RETURN(
        player->device_,
        edge::Device::Attach(
            {.testbed_directory = testbed, .name = name, .kind = "check"}));
    ASSIGN_OR_RETURN(const auto event, spec(*player->device_));
    ASSIGN_OR_RETURN(player->queue_,
                     edge::edgeRegisterEvent(*player->device_, event));
    return player;
  }

  // Rings an event and waits for its end, in this gpud or a later one.
  absl::StatusOr<shm::Completion> Run() {
    queue_->RingDoorbell();
    ++rung_;
    while (true) {
      const auto completion = queue_->Wait(kPatience);
      if (completion.ok()) {
        queue_->Free();
        if (completion->sequence.value() != rung_ || queue_->Poll()) {
          return absl::DataLossError(
              fmt::format("event {} ended as {}, or twice", rung_,
                          completion->sequence.value()));
        }
        return completion;
      }
      if (!absl::IsUnavailable(completion.status())) return completion;
      ++restarts_;
      RETURN_IF_ERROR(device_->Resume(kPatience));
    }
  }
  // Waits for the end of the first gpud, and goes on with the next one.
  absl::Status FollowGpud() {
    if (restarts_ != 0) return absl::OkStatus();
    const absl::Status end = device_->WaitForEnd(kPatience);
    if (!absl::IsUnavailable(end)) {
      return absl::DeadlineExceededError(
          fmt::format("gpud goes on ({})", end.ToString()));
    }
    ++restarts_;
    return device_->Resume(kPatience);
  }
  uint64_t restarts() const { return restarts_; }

 private:
  Player() = default;

  std::unique_ptr<edge::Device> device_;
  edge::EventQueue* queue_ = nullptr;
  uint64_t rung_ = 0;
  uint64_t restarts_ = 0;
};

// The honest device, in a thread of its own.
class Honest {
 public:
  explicit Honest(std::unique_ptr<Player> player)
      : player_(std::move(player)), thread_([this] { status_ = Go(); }) {}
  ~Honest() {
    if (thread_.joinable()) End().IgnoreError();
  }

  // Waits for so many more events that are done.
  absl::Status Await(uint64_t more) const {
    const uint64_t goal = done_.load(std::memory_order_relaxed) + more;
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    while (done_.load(std::memory_order_relaxed) < goal) {
      if (over_.load(std::memory_order_acquire)) break;  // End() says why
      if (std::chrono::steady_clock::now() > deadline) {
        return absl::DeadlineExceededError(
            "the honest device's events do not go on");
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return absl::OkStatus();
  }
  absl::Status End() {
    stop_.store(true, std::memory_order_relaxed);
    thread_.join();
    return status_;
  }
  // After End().
  void AddTo(Recovery& recovery) const {
    recovery.honest_done = done_.load(std::memory_order_relaxed);
    recovery.honest_failed = failed_;
    recovery.longest_pause_ms = static_cast<double>(longest_ns_) * 1e-6;
  }

 private:
  absl::Status Go() {
    absl::Status status;
    while (status.ok() && !stop_.load(std::memory_order_relaxed)) {
      const Nanoseconds rung = NowNs();
      const auto completion = player_->Run();
      status = completion.status();
      if (!status.ok()) break;
      longest_ns_ = std::max(longest_ns_, NowNs() - rung);
      if (completion->state == shm::EventState::kDone) {
        done_.fetch_add(1, std::memory_order_relaxed);
      } else {
        ++failed_;
      }
    }
    over_.store(true, std::memory_order_release);
    return status;
  }

  const std::unique_ptr<Player> player_;
  // Writer: the other thread. Relaxed: a wish.
  std::atomic<bool> stop_{false};
  // Writers of all below: the thread. Relaxed: a figure; `over_` comes last.
  std::atomic<uint64_t> done_{0};
  std::atomic<bool> over_{false};
  uint64_t failed_ = 0;
  Nanoseconds longest_ns_ = 0;
  absl::Status status_;
  std::thread thread_;  // last: it uses the others
};

absl::StatusOr<Recovery> Play(const SupervisedTestbed& testbed,
                              const RecoveryOptions& options) {
  RETURN_IF_ERROR(testbed.Call({"kernel", "load", options.kernels, "--kernel",
                                options.kernel + "(word: write u32[])", "--dir",
                                testbed.directory()}));
  ASSIGN_OR_RETURN(
      auto honest_player,
      Player::Attach(testbed.directory(), "honest",
                     [&](edge::Device&) -> absl::StatusOr<edge::EventSpec> {
                       return edge::EventSpec{
                           .kernel = "null_event",
                           .max_in_flight = 4,
                           .launch_path = options.path,
                           .parameters = {edge::Constant("token", 1)}};
                     }));
  ASSIGN_OR_RETURN(
      const auto rogue,
      Player::Attach(
          testbed.directory(), "rogue",
          [&](edge::Device& device) -> absl::StatusOr<edge::EventSpec> {
            ASSIGN_OR_RETURN(const auto word,
                             device.AllocateBuffer(edge::Place::kOutput, 64));
            return edge::EventSpec{
                .kernel = options.kernel,
                .grid = {options.blocks, 1, 1},
                .block = {options.blocks == 1 ? 32u : 1024u, 1, 1},
                .max_in_flight = 4,
                .launch_path = "baseline",
                .parameters = {edge::Fixed("word", word)}};
          }));
  Honest honest(std::move(honest_player));
  RETURN_IF_ERROR(honest.Await(kEnough));
  ASSIGN_OR_RETURN(const auto ended, rogue->Run());
  // What it takes to end may be there before its gpud has ended.
  RETURN_IF_ERROR(rogue->FollowGpud());
  RETURN_IF_ERROR(honest.Await(kEnough));
  RETURN_IF_ERROR(honest.End());
  if (ended.state != shm::EventState::kFailed) {
    return absl::DataLossError("the rogue device's event has not failed");
  }
  Recovery recovery{.rogue_status = ended.status,
                    .restarts = rogue->restarts()};
  honest.AddTo(recovery);
  return recovery;
}

}  // namespace

absl::StatusOr<Recovery> TryRecovery(const RecoveryOptions& options) {
  ASSIGN_OR_RETURN(const auto testbed,
                   SupervisedTestbed::Start(options.carillon));
  auto recovery = Play(*testbed, options);
  if (!recovery.ok()) return testbed->WithLog(recovery.status());
  return recovery;
}

}  // namespace carillon::gpu_check

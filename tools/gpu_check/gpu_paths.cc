// Loads every launch path of a real gpud from device processes, and checks the
// ledger: what was rung must be what ended, by the devices' counts and by
// gpud's.
#include <CLI/CLI.hpp>
#include <chrono>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "fmt/format.h"
#include "shm/layout.h"
#include "tools/bench/launch/device_role.h"
#include "tools/bench/launch/interrupt.h"
#include "tools/bench/launch/testbed.h"
#include "tools/bench/report.h"
#include "tools/gpu_check/recovery.h"
#include "tools/gpu_check/runner.h"
#include "tools/plots/document.h"
#if CARILLON_WITH_CUDA
#include "base/status.h"
#include "tools/gpu_check/info.h"
#endif

namespace carillon::gpu_check {
namespace {

using bench::LaunchDeviceProcess;
using bench::LaunchTestbed;
using std::chrono::milliseconds;
using std::chrono::seconds;

struct Options {
  std::string scenario;
  std::string backend = "cuda";
  uint32_t reserved_sms = 0;
  std::string gpud;
  std::string carillon;
  std::string kernels;             // of a rogue device
  std::vector<std::string> paths;  // empty: all
  bool quick = false;
};

constexpr std::string_view kLargest = "tb120";
constexpr std::string_view kKernels[] = {"empty", "warp", "tb2", kLargest};
// gpud needs so long to see that a process has died and to end what it has
// rung.
constexpr seconds kPatience{10};
constexpr milliseconds kGlance{10};

Json Open(const std::string& path, std::string_view kernel) {
  return {{"do", "open"}, {"path", path}, {"kernel", kernel}};
}
Json For(const char* what, milliseconds time) {
  return {{"do", what}, {"ms", time.count()}};
}

// Sends one command after another, until one fails.
absl::Status CallAll(LaunchDeviceProcess& device,
                     const std::vector<Json>& commands) {
  for (const Json& command : commands) {
    const auto answer = device.Call(command);
    if (answer.ok()) continue;
    return absl::Status(
        answer.status().code(),
        fmt::format("{}: {}", command.dump(), answer.status().message()));
  }
  return absl::OkStatus();
}

// Of an event kernel, by a path that cannot run it.
bool IsRefusal(const absl::Status& status) {
  return absl::IsInvalidArgument(status) || absl::IsUnimplemented(status);
}

struct Counts {
  uint64_t rung = 0, done = 0, failed = 0, aborted = 0;
  uint64_t device_rung = 0, device_done = 0;

  std::string Text() const {
    return fmt::format(
        "rung {} = done {} + failed {} + aborted {}; this "
        "device: rung {}, done {}",
        rung, done, failed, aborted, device_rung, device_done);
  }
};

absl::StatusOr<Counts> CountsOf(LaunchDeviceProcess& device) {
  ASSIGN_OR_RETURN(const auto answer, device.Call({{"do", "ledger"}}));
  return Counts{.rung = answer.at("rung"),
                .done = answer.at("done"),
                .failed = answer.at("failed"),
                .aborted = answer.at("aborted"),
                .device_rung = answer.at("device_rung"),
                .device_done = answer.at("device_done")};
}

// Waits until `fits`, within kPatience. Error: DataLoss with the counts.
absl::StatusOr<Counts> AwaitCounts(
    LaunchDeviceProcess& device, const char* what,
    const std::function<bool(const Counts&)>& fits) {
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (true) {
    const auto counts = CountsOf(device);
    if (!counts.ok() || fits(*counts)) return counts;
    if (std::chrono::steady_clock::now() >= deadline) {
      return absl::DataLossError(fmt::format("{}: {}", what, counts->Text()));
    }
    RETURN_IF_ERROR(bench::Sleep(kGlance));
  }
}

bool Balanced(const Counts& counts) {
  return counts.rung == counts.done + counts.failed + counts.aborted;
}

class Scenarios {
 public:
  explicit Scenarios(const Options& options)
      : options_(options), time_(options.quick ? 30 : 400) {}

  // Rings events of every kernel on the path: one at a time, as many as
  // possible, and at a constant rate, while another device does the same.
  absl::Status Load(const std::string& path) {
    return WithTestbed([&](LaunchTestbed& testbed) -> absl::Status {
      ASSIGN_OR_RETURN(auto other, testbed.AddDevice("other"));
      size_t opened = 0;
      for (const std::string_view kernel : kKernels) {
        absl::Status status = CallAll(testbed.device(), {Open(path, kernel)});
        if (IsRefusal(status)) {
          fmt::print("{} {}: refused: {}\n", path, kernel, status.message());
          continue;
        }
        if (!status.ok()) return status;
        ++opened;
        // A large kernel alone: a simulated GPU would run those that wait before
        // it for longer than a kernel may take.
        const bool both = !options_.quick || kernel != kLargest;
        if (both) {
          RETURN_IF_ERROR(CallAll(other, {Open(path, kernel)}));
          RETURN_IF_ERROR(other.Send(For("pipeline", 3 * time_)));
        }
        RETURN_IF_ERROR(CallAll(testbed.device(), {For("round_trips", time_),
                                                   For("pipeline", time_)}));
        Json stream = For("open_loop", time_);
        stream["per_second"] = options_.quick ? 500 : 2000;
        RETURN_IF_ERROR(CallAll(testbed.device(), {stream, {{"do", "close"}}}));
        if (both) {
          RETURN_IF_ERROR(other.Receive().status());
          RETURN_IF_ERROR(CallAll(other, {{{"do", "close"}}}));
        }
      }
      if (opened == 0) return absl::NotFoundError("refuses every kernel");
      ASSIGN_OR_RETURN(const auto theirs, CountsOf(other));
      return Account(testbed, [&](const Counts& counts) {
        return Balanced(counts) && counts.failed == 0 && counts.aborted == 0 &&
               counts.rung == counts.device_rung + theirs.device_rung &&
               counts.done == counts.device_done + theirs.device_done;
      });
    });
  }

  // Registers and unregisters events of one device while another's events go
  // on.
  absl::Status Churn(const std::string& path) {
    return WithTestbed([&](LaunchTestbed& testbed) -> absl::Status {
      ASSIGN_OR_RETURN(auto other, testbed.AddDevice("other"));
      RETURN_IF_ERROR(CallAll(other, {Open(path, "warp")}));
      // A path that has no form of its kernel takes the other one.
      const absl::Status large = CallAll(testbed.device(), {Open(path, "tb2")});
      if (large.ok()) {
        RETURN_IF_ERROR(CallAll(testbed.device(), {{{"do", "close"}}}));
      } else if (!IsRefusal(large)) {
        return large;
      }
      const char* const second = large.ok() ? "tb2" : "warp";
      const size_t times = options_.quick ? 3 : 20;
      // The pipeline is most probably longer than the loop; its end is awaited.
      RETURN_IF_ERROR(other.Send(For("pipeline", 8 * time_)));
      for (size_t i = 0; i < times; ++i) {
        RETURN_IF_ERROR(CallAll(testbed.device(),
                                {Open(path, i % 2 == 0 ? "empty" : second),
                                 For("pipeline", milliseconds(5)),
                                 {{"do", "close"}}}));
      }
      RETURN_IF_ERROR(other.Receive().status());
      ASSIGN_OR_RETURN(const auto theirs, CountsOf(other));
      return Account(testbed, [&](const Counts& counts) {
        return Balanced(counts) && counts.failed == 0 &&
               counts.rung == counts.device_rung + theirs.device_rung;
      });
    });
  }

  // Kills a device with events in flight. Another device's events must go on,
  // and gpud must end what the dead one had rung.
  absl::Status DeviceKilled(const std::string& path) {
    return WithTestbed([&](LaunchTestbed& testbed) -> absl::Status {
      LaunchDeviceProcess& survivor = testbed.device();
      RETURN_IF_ERROR(CallAll(survivor, {Open(path, "warp")}));
      for (int i = 0; i < (options_.quick ? 1 : 3); ++i) {
        ASSIGN_OR_RETURN(auto victim,
                         testbed.AddDevice(fmt::format("victim{}", i)));
        RETURN_IF_ERROR(CallAll(victim, {Open(path, "warp")}));
        ASSIGN_OR_RETURN(const auto before, CountsOf(survivor));
        RETURN_IF_ERROR(victim.Send(For("pipeline", seconds(30))));
        RETURN_IF_ERROR(AwaitCounts(survivor, "the victim's events do not flow",
                                    [&](const Counts& now) {
                                      return now.rung >= before.rung + 300;
                                    })
                            .status());
        victim.Kill();
        RETURN_IF_ERROR(CallAll(
            survivor, {For("round_trips", time_), For("pipeline", time_)}));
      }
      return Account(testbed, [](const Counts& counts) {
        return Balanced(counts) && counts.failed == 0 &&
               counts.device_done == counts.device_rung;
      });
    });
  }

  // Kills gpud with events in flight. The device must learn it in time, and
  // another gpud must find a GPU that works.
  absl::Status GpudKilled(const std::string& path) {
    auto status = WithTestbed([&](LaunchTestbed& testbed) -> absl::Status {
      RETURN_IF_ERROR(CallAll(testbed.device(), {Open(path, "warp")}));
      RETURN_IF_ERROR(testbed.device().Send(For("pipeline", seconds(30))));
      RETURN_IF_ERROR(bench::Sleep(time_));
      testbed.KillGpud();
      const Nanoseconds killed = NowNs();
      const auto answer = testbed.device().Receive();
      const double ms = static_cast<double>(NowNs() - killed) * 1e-6;
      if (answer.ok()) {
        return absl::DataLossError("the device does not notice a dead gpud");
      }
      if (absl::IsDeadlineExceeded(answer.status()) ||
          absl::IsAborted(answer.status())) {
        return absl::DataLossError(
            fmt::format("the device of a dead gpud is not told: {}",
                        answer.status().message()));
      }
      fmt::print("{}: a device knew after {:.1f} ms: {}\n", path, ms,
                 answer.status().message());
      return absl::OkStatus();
    });
    if (!status.ok()) return status;
    return WithTestbed([&](LaunchTestbed& testbed) {
      return CallAll(testbed.device(),
                     {Open(path, "warp"), For("round_trips", time_)});
    });
  }

  // A device's kernel faults, or does not end, on a GPU that is otherwise idle or
  // full of it, beside an honest device: gpud ends, and another one serves.
  absl::Status Fault(const std::string& path) {
    return TryRogue(path, "write_wrong", 1, shm::EventStatus::kKernelFault);
  }
  absl::Status Endless(const std::string& path) {
    return TryRogue(path, "never_end", 1, shm::EventStatus::kTimedOut);
  }
  absl::Status EndlessFull(const std::string& path) {
    // More than any GPU has room for; those of a dry run have few SMs.
    const uint32_t blocks = options_.quick ? 64 : 1024;
    return TryRogue(path, "never_end", blocks, shm::EventStatus::kTimedOut);
  }

  int Run() {
    using Scenario = absl::Status (Scenarios::*)(const std::string&);
    const std::pair<const char*, Scenario> scenarios[] = {
        {"load", &Scenarios::Load},
        {"churn", &Scenarios::Churn},
        {"device_killed", &Scenarios::DeviceKilled},
        {"gpud_killed", &Scenarios::GpudKilled},
        {"fault", &Scenarios::Fault},
        {"endless", &Scenarios::Endless},
        {"endless_full", &Scenarios::EndlessFull}};
    Scenario scenario = nullptr;
    for (const auto& [name, one] : scenarios) {
      if (name == options_.scenario) scenario = one;
    }
    std::vector<std::string> paths = options_.paths;
    if (paths.empty()) {
      const absl::Status known =
          WithTestbed([&](LaunchTestbed& testbed) -> absl::Status {
            const Json& about = testbed.device().about();
            fmt::print("{}\n", about.dump());
            for (const Json& path : about["paths"]) {
              paths.push_back(path["name"]);
            }
            return absl::OkStatus();
          });
      if (!known.ok()) return Fail(known);
    }
    std::string good;
    std::vector<std::string> bad;
    for (const std::string& path : paths) {
      const absl::Status status = (this->*scenario)(path);
      if (absl::IsCancelled(status)) return Fail(status);
      if (status.ok()) {
        good += (good.empty() ? "" : ", ") + path;
        fmt::print("{}: ok\n", path);
      } else {
        bad.push_back(fmt::format("{}: {}", path, status.message()));
        fmt::print("FAILED {}\n", bad.back());
      }
      std::fflush(stdout);
    }
    if (bad.empty() && good.empty()) bad.push_back("no launch path works");
    fmt::print(
        "finding: {}\n",
        bad.empty() ? fmt::format("{}; {} events", good, events_) : bad[0]);
    return bad.empty() ? 0 : 1;
  }

 private:
  static int Fail(const absl::Status& status) {
    fmt::print(stderr, "{}\n", status.message());
    return 1;
  }

  absl::Status WithTestbed(
      const std::function<absl::Status(LaunchTestbed&)>& body) {
    ASSIGN_OR_RETURN(
        auto testbed,
        LaunchTestbed::Start({.gpud = options_.gpud,
                              .backend = options_.backend,
                              .reserved_sms = options_.reserved_sms}));
    return testbed->WithLog(body(*testbed));
  }

  absl::Status TryRogue(const std::string& path, const char* kernel,
                        uint32_t blocks, shm::EventStatus expected) {
    ASSIGN_OR_RETURN(const auto recovery,
                     TryRecovery({.carillon = options_.carillon,
                                  .kernels = options_.kernels,
                                  .path = path,
                                  .kernel = kernel,
                                  .blocks = blocks}));
    events_ += recovery.honest_done + recovery.honest_failed + 1;
    fmt::print(
        "{}: {} ended with status {}; gpud was started again {} times; the "
        "honest device: {} done, {} failed, longest pause {:.0f} ms\n",
        path, kernel, recovery.rogue_status, recovery.restarts,
        recovery.honest_done, recovery.honest_failed,
        recovery.longest_pause_ms);
    if (recovery.rogue_status != static_cast<uint64_t>(expected)) {
      return absl::DataLossError(fmt::format("{} ended with status {}, not {}",
                                             kernel, recovery.rogue_status,
                                             static_cast<uint32_t>(expected)));
    }
    return absl::OkStatus();
  }

  absl::Status Account(LaunchTestbed& testbed,
                       const std::function<bool(const Counts&)>& fits) {
    ASSIGN_OR_RETURN(
        const auto counts,
        AwaitCounts(testbed.device(), "the ledger does not add up", fits));
    events_ += counts.rung;
    fmt::print("  {}\n", counts.Text());
    return absl::OkStatus();
  }

  const Options options_;
  const milliseconds time_;
  uint64_t events_ = 0;
};

int Main(const Options& options) {
  bench::CatchInterrupts();
  if (options.gpud.empty()) {
    fmt::print(stderr, "there is no gpud: say where it is with --gpud\n");
    return 1;
  }
#if CARILLON_WITH_CUDA
  // Checked here, because gpud would only report a sentence.
  if (options.backend == "cuda") {
    const int code = ExitCodeOfGpuElsewhere();
    if (code != 0) return code;
  }
#endif
  return Scenarios(options).Run();
}

}  // namespace
}  // namespace carillon::gpu_check

int main(int argc, char** argv) {
  if (const auto played = carillon::bench::PlayLaunchDevice(argc, argv)) {
    return *played;
  }
  using namespace carillon;
  gpu_check::Options options;
  options.gpud = plots::Runfile("gpu_daemon/gpud");
  CLI::App app{
      "Every launch path of a real gpud under load, with a ledger. Exit codes: "
      "0 passed, 1 failed, 2 usage, 77 no GPU."};
  app.add_option("scenario", options.scenario, "What to do")
      ->required()
      ->check(CLI::IsMember({"load", "churn", "device_killed", "gpud_killed",
                             "fault", "endless", "endless_full"}));
  app.add_option("--backend", options.backend, "What runs the kernels")
      ->check(CLI::IsMember({"cpu", "cuda"}))
      ->capture_default_str();
  app.add_option("--reserve-sms", options.reserved_sms,
                 "SMs that launch path edge has to itself");
  app.add_option("--paths", options.paths, "Only these, with commas")
      ->delimiter(',');
  app.add_option("--gpud", options.gpud, "The GPU daemon's program");
  app.add_option("--carillon", options.carillon,
                 "The carillon program, for fault, endless and endless_full");
  app.add_option("--kernels", options.kernels,
                 "The image of rogue.cu, for the same");
  app.add_flag("--quick", options.quick,
               "Short: shows that it works, tries little");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  return gpu_check::Main(options);
}

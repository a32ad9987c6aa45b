#include "tools/testbed/fault_plans/fault_runner.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "base/clock.h"
#include "base/status.h"
#include "base/text.h"
#include "shm/faults/board.h"
#include "tools/testbed/client/fault_board.h"
#include "tools/testbed/fault_plans/kept_plans.h"
#include "tools/testbed/fault_plans/testbed_handle.h"
#include "tools/testbed/load/nic_load.h"

namespace carillon::testbed {
namespace {

namespace fs = std::filesystem;
using fault::ExpectationResult;
using fault::Plan;
using fault::PlannedFault;
using std::chrono::milliseconds;

// The delay after which a strike is reported.
constexpr milliseconds kTick{20};
// How long the load may take until it is first served.
constexpr Nanoseconds kLoadStarts = 20'000'000'000;
// The folders below the runtime directory; the oldest goes for the next.
constexpr size_t kKeptPlans = 16;
// Further strikes are only counted.
constexpr size_t kToldStrikes = 40;

std::string Contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

bool Runs(const ProcessRecord& process) {
  return process.state == ProcessState::kReady ||
         process.state == ProcessState::kRunning;
}

class PlanRunner {
 public:
  PlanRunner(const Plan& plan, const RunnerOptions& options, const Say& say)
      : options_(options), say_(say) {
    run_.plan = plan;
  }

  absl::StatusOr<PlanRun> Run() {
    const Nanoseconds start = NowNs();
    absl::Status status = Open();
    if (status.ok()) status = StartLoad();
    if (status.ok()) status = Strike();
    if (status.ok()) status = Recover();
    if (board_ != nullptr) ClearOwn();
    if (!status.ok()) {
      loads_.clear();
      if (bed_ != nullptr) (void)bed_->TakeDown();
      return status;
    }
    Collect();
    Save();
    status = bed_->TakeDown();
    if (!status.ok()) return status;
    run_.took_ns = NowNs() - start;
    return std::move(run_);
  }

 private:
  const Plan& plan() const { return run_.plan; }
  fault::Evidence& evidence() { return run_.evidence; }

  absl::StatusOr<std::unique_ptr<TestbedHandle>> OpenBed() {
    if (plan().topology) {
      return StartTestbed(
          plan(), {.name = options_.testbed, .timeout_s = options_.timeout_s},
          [this](const std::string& line) {
            // Report the strikes before their effects.
            if (board_ != nullptr) TellStrikes();
            if (options_.narrate_testbed) say_(line);
          });
    }
    auto bed = AttachTestbed(options_.testbed);
    if (bed.ok() || !absl::IsNotFound(bed.status())) return bed;
    return absl::NotFoundError(
        fmt::format("plan {} has no topology of its own: it needs a testbed "
                    "that is up ({})",
                    plan().name, bed.status().message()));
  }

  absl::Status Open() {
    ASSIGN_OR_RETURN(bed_, OpenBed());
    ASSIGN_OR_RETURN(board_, OpenBoardOf(bed_->paths()));
    return absl::OkStatus();
  }

  absl::Status StartLoad() {
    if (!plan().topology || plan().run.clients == 0) return absl::OkStatus();
    for (const DeviceEntry& device : plan().topology->devices) {
      if (device.kind->name != "nic") continue;
      loads_[device.name] = std::make_unique<NicLoad>(
          plan().run.clients, plan().seed + loads_.size());
    }
    const Nanoseconds deadline = NowNs() + kLoadStarts;
    for (;;) {
      if (!Tick(kTick)) return Interrupted();
      const auto idle = std::ranges::find_if(
          loads_, [](const auto& load) { return load.second->replies() == 0; });
      if (idle == loads_.end()) return absl::OkStatus();
      if (NowNs() > deadline) {
        return absl::DeadlineExceededError(
            fmt::format("{} has not answered a memcached client within {}",
                        idle->first, FormatSeconds(kLoadStarts)));
      }
    }
  }

  // Injects the faults and waits until they have struck.
  absl::Status Strike() {
    seen_strikes_ = board_->strikes();
    for (const ProcessRecord& process : bed_->State().processes) {
      if (Runs(process)) {
        descriptors_.push_back(
            {process.name, process.identity, DescriptorsOf(process.identity)});
      }
    }
    const auto faults = fault::FaultsOf(plan());
    injected_ = NowNs();
    ASSIGN_OR_RETURN(const auto ids, board_->Inject(faults));
    for (size_t i = 0; i < faults.size(); ++i) {
      fault_ids_[(ids)[i]] = &plan().faults[i];
      say_(fmt::format("  fault {}: {}", faults[i].name,
                       faults::Describe(faults[i])));
    }
    while (!AllHaveStruck()) {
      if (!Tick(kTick)) return Interrupted();
      if (NowNs() - injected_ > plan().run.within_ns) break;
    }
    return absl::OkStatus();
  }

  bool AllHaveStruck() {
    const bool long_enough = NowNs() - injected_ >= plan().run.for_ns;
    for (const faults::Injected& there : board_->List()) {
      const auto own = fault_ids_.find(there.id);
      if (own == fault_ids_.end() || there.spent) continue;
      const PlannedFault& planned = *own->second;
      // Such a fault may strike for ever, or need not strike.
      const bool open_end =
          (planned.fault.times == 0 && planned.fault.window_ns == 0) ||
          planned.struck.Holds(0);
      if (!open_end || !long_enough) return false;
    }
    return true;
  }

  // After the last strike: keeps the load going until dead processes are back.
  absl::Status Recover() {
    ClearOwn();
    struck_until_ = NowNs();
    say_(fmt::format("  {:>8.3f} s  no more faults; the load goes on for {}",
                     Since(struck_until_),
                     FormatExactDuration(plan().run.for_ns)));
    while (NowNs() - struck_until_ < plan().run.for_ns) {
      if (!Tick(kTick)) return Interrupted();
    }
    const Nanoseconds settle_until = NowNs() + plan().run.settle_ns;
    for (;;) {
      const bool recovered = HasRecovered();
      if (recovered || NowNs() > settle_until) return absl::OkStatus();
      if (!Tick(milliseconds(100))) return Interrupted();
    }
  }

  // Whether everything that the plan expects of the processes holds by now.
  bool HasRecovered() {
    LookAtProcesses();
    std::vector<std::string> unreadable;
    const auto recordings = shm::ReadFlightRecordings(
        bed_->paths().recorder_directory(), &unreadable);
    evidence().progress = fault::ProgressSince(recordings, struck_until_);
    const auto& expect = plan().expect;
    const auto all_hold = [](const fault::ByName& wanted, auto& found) {
      return std::ranges::all_of(wanted, [&](const auto& each) {
        return each.second.Holds(found[each.first]);
      });
    };
    const bool progress = all_hold(expect.progress, evidence().progress);
    const bool restarts = all_hold(expect.restarts, evidence().restarts);
    const bool running =
        std::ranges::all_of(expect.running, [&](const std::string& name) {
          return std::ranges::count(evidence().running, name) > 0;
        });
    return progress && restarts && running && SurvivorsLeaks().empty();
  }

  void LookAtProcesses() {
    evidence().running.clear();
    for (const ProcessRecord& process : bed_->State().processes) {
      evidence().restarts[process.name] = process.restarts;
      if (Runs(process)) evidence().running.push_back(process.name);
    }
  }

  // The descriptors that surviving processes did not have before.
  std::vector<std::string> SurvivorsLeaks() {
    std::vector<std::string> leaks;
    if (!plan().topology) return leaks;
    for (const Survivor& survivor : descriptors_) {
      const size_t now = DescriptorsOf(survivor.identity);
      if (now <= survivor.descriptors) continue;
      leaks.push_back(fmt::format(
          "{} has {} descriptors open, and had {} before the faults",
          survivor.name, now, survivor.descriptors));
    }
    return leaks;
  }

  // One step of waiting: narrates, and tells the load where the NICs are.
  // Returns false once the user asks to end.
  bool Tick(milliseconds timeout) {
    const bool goes_on = bed_->Watch(timeout);
    for (const ProcessRecord& process : bed_->State().processes) {
      const auto pid = static_cast<uint32_t>(process.identity.pid);
      names_[pid] = process.name;
      uint32_t& known_pid = pids_[process.name];
      if (known_pid != pid && known_pid != 0 && process.last_exit) {
        exits_[known_pid] = *process.last_exit;
      }
      known_pid = pid;
      const auto load = loads_.find(process.name);
      if (load == loads_.end()) continue;
      std::string host;
      uint16_t port = 0;
      uint16_t tcp_port = 0;
      if (process.state == ProcessState::kReady) {
        if (StrikesStreams()) ReadTcpAddress(process.note, &host, &tcp_port);
        ReadUdpAddress(process.note, &host, &port);
      }
      load->second->SetAddress(host, port, tcp_port);
    }
    TellStrikes();
    return goes_on;
  }

  // Whether the load must use TCP, too.
  bool StrikesStreams() const {
    return std::ranges::any_of(plan().faults, [](const PlannedFault& planned) {
      return planned.fault.point == faults::Point::kNicStreamReceive ||
             planned.fault.point == faults::Point::kNicStreamSend;
    });
  }

  void TellStrikes() {
    const uint64_t ever = board_->strikes();
    if (ever == seen_strikes_) return;
    const auto strikes = board_->Strikes();
    const size_t fresh =
        std::min<uint64_t>(ever - seen_strikes_, strikes.size());
    seen_strikes_ = ever;
    for (auto strike = strikes.end() - static_cast<ptrdiff_t>(fresh);
         strike != strikes.end(); ++strike) {
      const auto own = fault_ids_.find(strike->fault_id);
      if (own == fault_ids_.end()) continue;
      if (own->second->fault.action == faults::Action::kKill) {
        struck_dead_.insert(strike->pid);
      }
      if (++told_ > kToldStrikes) {
        if (told_ == kToldStrikes + 1) say_("  more strikes are not told");
        continue;
      }
      const auto name = names_.find(strike->pid);
      say_(fmt::format("  {:>8.3f} s  {} strikes {} (pid {}){}",
                       Since(strike->time_ns), own->second->fault.name,
                       name == names_.end() ? "" : name->second, strike->pid,
                       strike->passage == 0
                           ? ""
                           : fmt::format(", passage {}", strike->passage)));
    }
  }

  // The processes that ended neither well nor by a fault.
  std::vector<std::string> BadExits() {
    for (const ProcessRecord& process : bed_->State().processes) {
      if (!process.exit) continue;
      exits_[static_cast<uint32_t>(process.identity.pid)] = *process.exit;
    }
    std::vector<std::string> bad;
    for (const auto& [pid, exit] : exits_) {
      if (exit.ok() || struck_dead_.contains(pid)) continue;
      bad.push_back(fmt::format("{} (pid {}) ended with {}", names_[pid], pid,
                                exit.ToString()));
    }
    return bad;
  }

  double Since(Nanoseconds time) const {
    return static_cast<double>(static_cast<int64_t>(time - injected_)) / 1e9;
  }

  static absl::Status Interrupted() {
    return absl::CancelledError("interrupted");
  }

  // Takes the plan's faults off the board, and keeps a copy of the board for
  // the report.
  void ClearOwn() {
    if (cleared_) return;
    cleared_ = true;
    board_bytes_ = Contents(bed_->paths().fault_board());
    for (const faults::Injected& there : board_->List()) {
      const auto own = fault_ids_.find(there.id);
      if (own == fault_ids_.end()) continue;
      // A spent fault strikes no more; left on the board it names its strikes
      // in a postmortem.
      if (!there.spent || !plan().topology) {
        (void)board_->Clear(there.fault.name);
      }
      evidence().struck[there.fault.name] = there.struck;
    }
    // Report strikes up to the moment of clearing.
    TellStrikes();
  }

  void Collect() {
    LookAtProcesses();
    if (plan().topology) {
      uint64_t bad = 0;
      for (const auto& [name, load] : loads_) bad += load->Stop().bad;
      if (!loads_.empty()) evidence().bad_replies = bad;
    }
    std::vector<std::string> leaks = SurvivorsLeaks();
    rings_ = bed_->Rings();
    EndState at_end = bed_->End(std::chrono::nanoseconds(plan().run.settle_ns));
    evidence().in_flight = at_end.in_flight;
    if (plan().topology) evidence().bad_exits = BadExits();
    evidence().leaks = std::move(at_end.leaks);
    if (evidence().leaks) {
      evidence().leaks->insert(evidence().leaks->begin(), leaks.begin(),
                               leaks.end());
    }
    run_.timeline = ReadTimeline(bed_->name(), bed_->paths());
    evidence().report = run_.timeline.report;
    evidence().progress =
        fault::ProgressSince(run_.timeline.recordings, struck_until_);
    run_.findings = fault::Judge(plan(), evidence());
  }

  void Save() {
    if (run_.ok() || !options_.save) return;
    if (options_.keep.empty()) (void)fault::TrimKeptPlans(kKeptPlans - 1);
    const std::string folder =
        !options_.keep.empty()
            ? fmt::format("{}/{}", options_.keep, plan().name)
            : fmt::format("{}/{}-{}", fault::KeptPlansDirectory(), plan().name,
                          getpid());
    std::error_code error;
    fs::create_directories(folder, error);
    const TestbedPaths& from = bed_->paths();
    const TestbedPaths to(folder);
    constexpr auto kOverwrite =
        fs::copy_options::overwrite_existing | fs::copy_options::recursive;
    for (const auto& [source, target] :
         {std::pair(from.recorder_directory(), to.recorder_directory()),
          {from.log_directory(), to.log_directory()},
          {from.state_file(), to.state_file()}}) {
      std::error_code missing;
      fs::copy(source, target, kOverwrite, missing);
      if (missing && fs::exists(source)) error = missing;
    }
    std::ofstream(to.fault_board(), std::ios::binary) << board_bytes_;
    std::ofstream(folder + "/rings.json") << rings_;
    Plan saved = plan();
    if (!saved.topology_file.empty()) {
      saved.topology_file =
          (fs::absolute(plan().file, error).parent_path() / saved.topology_file)
              .lexically_normal()
              .string();
    }
    std::ofstream plan_file(folder + "/plan.yaml");
    plan_file << fault::ToYaml(saved);
    plan_file.flush();
    if (error || !plan_file) {
      say_(fmt::format("could not keep everything in {}: {}", folder,
                       error ? error.message() : "write error"));
    }
    run_.kept = folder;
  }

  struct Survivor {
    std::string name;
    ProcessIdentity identity;
    size_t descriptors = 0;
  };

  const RunnerOptions& options_;
  const Say& say_;
  PlanRun run_;
  std::unique_ptr<TestbedHandle> bed_;
  std::unique_ptr<faults::Board> board_;
  std::map<std::string, std::unique_ptr<NicLoad>> loads_;
  std::vector<Survivor> descriptors_;
  std::map<uint32_t, const PlannedFault*> fault_ids_;
  std::map<uint32_t, std::string> names_;  // of processes, by pid
  std::map<std::string, uint32_t> pids_;
  std::map<uint32_t, ExitReport> exits_;  // by pid
  std::set<uint32_t> struck_dead_;        // pids
  std::string board_bytes_;
  std::string rings_;  // what gpud said of them before the end
  Nanoseconds injected_ = 0;
  Nanoseconds struck_until_ = 0;
  uint64_t seen_strikes_ = 0;
  size_t told_ = 0;
  bool cleared_ = false;
};

}  // namespace

absl::StatusOr<PlanRun> RunPlan(const Plan& plan, const RunnerOptions& options,
                                const Say& say) {
  return PlanRunner(plan, options, say).Run();
}

std::string ReplayLine(const Plan& plan, const RunnerOptions& options) {
  std::string line =
      fmt::format("carillon fault run {} --seed {}", plan.file, plan.seed);
  if (!plan.topology && !options.testbed.empty()) {
    line += fmt::format(" --name {}", options.testbed);
  }
  if (!options.backend.empty()) {
    line += fmt::format(" --backend {}", options.backend);
  }
  return line;
}

}  // namespace carillon::testbed

#include "integration_tests/soak/soak.h"

#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <optional>
#include <random>
#include <utility>

#include "base/clock.h"
#include "base/process_cpu.h"
#include "devices/sdk/edge.h"
#include "fmt/format.h"
#include "integration_tests/soak/death_watch.h"
#include "tools/bench/quiet.h"
#include "tools/testbed/supervisor/marks.h"
#include "tools/testbed/supervisor/process_identity.h"
#include "tools/testbed/supervisor/state.h"

namespace carillon::soak {
namespace {

using std::chrono::milliseconds;
using testing::FaultTestbed;

constexpr char kGpud[] = "gpud";
constexpr char kNeighbour[] = "nic1";
constexpr char kHost[] = "cpu_host0";
constexpr const char* kDevices[] = {"nic0", "fpga0", kHost, kNeighbour};
constexpr const char* kNics[] = {"nic0", kNeighbour};
constexpr const char* kProcesses[] = {kGpud, "nic0", "fpga0", kHost,
                                      kNeighbour};
// The recorders hold the events of several rounds.
constexpr char kTopology[] = R"(
gpu: {backend: cpu, workers: 1, memory: 512MiB, record: 524288,
      restart: on_failure}
record: 262144
devices:
  - {name: nic0, kind: nic, udp_port: 0, tcp_port: 0, table_entries: 4096,
     store_bytes: 1MiB, restart: on_failure}
  - {name: nic1, kind: nic, udp_port: 0, tcp_port: 0, table_entries: 4096,
     store_bytes: 1MiB}
  - {name: fpga0, kind: fpga, size: 64x64, fps: 200, check: true,
     restart: on_failure}
  - {name: cpu_host0, kind: cpu_host, size: 64, gap_us: 5000,
     schedule_event_every_ms: 5, restart: on_failure}
)";
// A process that is killed every few seconds must not be given up.
const std::vector<std::string> kUpFlags = {"--restart-proven", "0.2"};
constexpr milliseconds kAnswer{1000};
// How long it may take to clear away what a death leaves.
constexpr milliseconds kClearing{5000};
constexpr uint64_t kProgress = 5;
// The recorders hold several times as much.
constexpr Nanoseconds kKeepUp = 1'500'000'000;
// A process that takes longer is named in the round's line.
constexpr double kSlowMs = 1000;
constexpr milliseconds kSlice{500};
constexpr Nanoseconds kMillisecond = 1'000'000;
// Allocators and gRPC's pollers keep some of the memory that they once had.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr uint64_t kKeptKb = std::numeric_limits<uint32_t>::max();
#else
constexpr uint64_t kKeptKb = 48 * 1024;
#endif
constexpr uint64_t kKeptThreads = 32;

double Ms(Nanoseconds ns) { return static_cast<double>(ns) / 1e6; }
double Us(Nanoseconds ns) { return static_cast<double>(ns) / 1e3; }

uint64_t CounterOf(const v1::Device& device, const std::string& name) {
  for (const v1::Counter& counter : device.counters()) {
    if (counter.name() == name) return counter.value();
  }
  return 0;
}

// Waits until `end` without observing anything, because this time is measured.
void PassUntil(Nanoseconds end) {
  const Nanoseconds now = NowNs();
  if (end <= now) return;
  const timespec time{
      .tv_sec = static_cast<time_t>((end - now) / 1'000'000'000),
      .tv_nsec = static_cast<long>((end - now) % 1'000'000'000)};
  ppoll(nullptr, 0, &time, nullptr);
}

// What the testbed uses in gpud and elsewhere. It must be the same after every
// kill.
struct TestbedResources {
  uint32_t sessions = 0;
  uint32_t ekt = 0;
  uint64_t memory = 0;
  uint64_t regions = 0;  // that gpud maps
  size_t processes = 0;
  std::set<std::string> files;
  std::set<std::string> shared_memory;

  bool operator==(const TestbedResources&) const = default;
  std::string ToString() const {
    return fmt::format(
        "{} sessions, {} EKT entries, {} bytes of GPU memory, {} regions, {} "
        "processes, {} files, {} in /dev/shm",
        sessions, ekt, memory, regions, processes, files.size(),
        shared_memory.size());
  }
};

// A device attaches, registers, and leaves.
void Visit(const std::string& directory) {
  auto device = edge::Device::Attach({.testbed_directory = directory,
                                      .name = "visitor",
                                      .kind = "test",
                                      .submission_bytes = 1 << 16,
                                      .completion_bytes = 1 << 16,
                                      .timeout = kAnswer});
  if (!device.ok()) return;
  const auto in = (*device)->AllocateBuffer(edge::Place::kInput, 64);
  const auto out = (*device)->AllocateBuffer(edge::Place::kOutput, 64);
  if (!in.ok() || !out.ok()) return;
  edge::EventSpec spec;
  spec.kernel = "echo";
  spec.max_in_flight = 1;
  spec.parameters = {edge::Fixed("in", *in), edge::Fixed("out", *out)};
  (void)edge::edgeRegisterEvent(**device, spec);
}

class Run {
 public:
  Run(const Options& options, Result* result)
      : options_(options), result_(result), random_(options.seed) {}

  void All();

 private:
  struct Snapshot {
    testbed::TestbedState state;
    v1::GetStatusResponse status;
    v1::ListDevicesResponse devices;
    v1::ListRingsResponse rings;
  };

  void Say(const std::string& line) const {
    if (options_.say) options_.say(line);
  }
  // Returns false.
  bool Wrong(const std::string& sentence) {
    result_->wrong.push_back(sentence);
    Say("    " + sentence);
    return false;
  }
  // Nothing if a process does not answer; `why` then names it.
  std::optional<Snapshot> TakeSnapshot(std::string* why);
  // Waits until every process is ready and ends more events than now. Otherwise
  // returns what is missing.
  std::string WaitForAll();
  // Names what is still missing; empty if nothing is.
  std::string MissingIn(const Snapshot& snapshot);
  bool Start();
  bool Round(uint32_t number, TargetResult* target);
  // Makes the target pass its point, and waits until it is struck.
  std::string Strike(const Target& target, const std::string& fault,
                     const std::string& words);
  std::optional<TestbedResources> MeasureResources(std::string* why);
  // One sentence for each resource that has grown.
  std::vector<std::string> Leaks();
  void AddToTrends();
  void LookAtCounters(const v1::ListDevicesResponse& devices);
  // Also returns the figures in words.
  std::string Measure(const Segment& segment, const Death& death,
                      const Target& target, bool quiet, DeathWatch* watch);
  // Adds to the results of the round's target.
  void CountSegment(const Segment& segment);
  Segment ReadSegment();
  // Takes a reading before the recorders overwrite unread records.
  void KeepUp();
  void End();
  pid_t PidOf(const std::string& name);
  // The CPU time of the testbed's processes, all of which run.
  uint64_t CpuOfAll();
  Trend& TrendOf(const std::string& what);

  const Options& options_;
  Result* const result_;
  std::mt19937_64 random_;
  std::unique_ptr<FaultTestbed> lab_;
  Segments segments_;
  Nanoseconds read_ns_ = 0;         // the last reading
  TargetResult* target_ = nullptr;  // of this round
  uint64_t events_ = 0;             // in this round
  std::string last_missing_;        // of WaitForAll(), before all was there
  TestbedResources at_start_;
  std::map<std::string, ResourceUse> held_at_start_;
  std::vector<size_t> order_;  // of targets that have not had their turn
  // State of WaitForAll().
  std::map<std::string, uint64_t> taken_;
  struct RingSeen {
    uint64_t consumed = 0;
    bool moves = false;  // or has nothing in flight
  };
  std::map<std::tuple<std::string, uint32_t, uint32_t>, RingSeen> rings_;
  std::map<std::string, uint64_t> replies_;
  std::optional<std::pair<uint32_t, uint64_t>> runs_;  // pid, and its runs
  bool ran_ = false;
  // By counter and pid: how many of them were reported.
  std::map<std::pair<std::string, uint32_t>, uint64_t> wrong_results_;
};

pid_t Run::PidOf(const std::string& name) {
  auto state = testbed::ReadState(lab_->paths().state_file());
  if (!state.ok()) return 0;
  const testbed::ProcessRecord* const process = state->Find(name);
  return process == nullptr ? 0 : process->identity.pid;
}

uint64_t Run::CpuOfAll() {
  uint64_t sum = 0;
  for (const char* name : kProcesses) {
    sum += ProcessCpuNs(PidOf(name)).value_or(0);
  }
  return sum;
}

Trend& Run::TrendOf(const std::string& what) {
  for (LeakRow& row : result_->leaks) {
    if (row.what == what) return row.trend;
  }
  return result_->leaks.emplace_back(LeakRow{what, {}}).trend;
}

std::optional<Run::Snapshot> Run::TakeSnapshot(std::string* why) {
  auto state = testbed::ReadState(lab_->paths().state_file());
  if (!state.ok()) {
    *why = std::string(state.status().message());
    return std::nullopt;
  }
  Snapshot snapshot{.state = *std::move(state)};
  const auto ask = [&](auto method, const auto& request, auto* response) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + kAnswer);
    // A call that fails at once would leave nobody to look after the
    // connection.
    context.set_wait_for_ready(true);
    const grpc::Status status =
        (lab_->admin().*method)(&context, request, response);
    if (!status.ok()) {
      *why = "gpud does not answer: " + status.error_message();
    }
    return status.ok();
  };
  using Stub = v1::Admin::Stub;
  if (!ask(&Stub::GetStatus, v1::GetStatusRequest(), &snapshot.status) ||
      !ask(&Stub::ListDevices, v1::ListDevicesRequest(), &snapshot.devices) ||
      !ask(&Stub::ListRings, v1::ListRingsRequest(), &snapshot.rings)) {
    return std::nullopt;
  }
  return snapshot;
}

std::string Run::MissingIn(const Snapshot& snapshot) {
  testbed::TestbedState state = snapshot.state;
  for (const char* name : kProcesses) {
    const testbed::ProcessRecord* const process = state.Find(name);
    if (process == nullptr) return fmt::format("{} is not there", name);
    if (process->state != testbed::ProcessState::kReady) {
      return fmt::format("{} is {}, restarted {} times{}", name,
                         testbed::ToText(process->state), process->restarts,
                         process->given_up ? ", given up" : "");
    }
    const auto pid = static_cast<uint32_t>(process->identity.pid);
    if (name == std::string_view(kGpud)) {
      if (snapshot.status.pid() != pid) {
        return fmt::format("gpud answers as pid {}, not {}",
                           snapshot.status.pid(), pid);
      }
      continue;
    }
    const auto& devices = snapshot.devices.devices();
    const auto device =
        std::find_if(devices.begin(), devices.end(), [&](const auto& each) {
          return each.name() == name && each.pid() == pid;
        });
    if (device == devices.end()) {
      return fmt::format("{} (pid {}) is not attached", name, pid);
    }
    if (name == std::string_view(kHost)) {
      const uint64_t runs = CounterOf(*device, "runs");
      if (runs_ && runs_->first == pid && runs > runs_->second) ran_ = true;
      if (!runs_ || runs_->first != pid) runs_ = {pid, runs};
    }
  }
  for (const v1::Ring& ring : snapshot.rings.rings()) {
    const auto [found, first] =
        rings_.try_emplace({ring.device(), ring.event_id(), ring.generation()},
                           RingSeen{.consumed = ring.consumed()});
    RingSeen& seen = found->second;
    taken_[ring.device()] += ring.consumed() - seen.consumed;
    // Only the low 32 bits, as in the doorbell.
    const uint32_t in_flight =
        ring.doorbell() - static_cast<uint32_t>(ring.consumed());
    seen.moves |= in_flight == 0 || ring.consumed() != seen.consumed;
    seen.consumed = ring.consumed();
    if (!seen.moves) {
      return fmt::format(
          "{}: {} events of '{}' stay in flight, the first behind {}",
          ring.device(), in_flight, ring.kernel(), ring.consumed());
    }
  }
  for (const char* name : kDevices) {
    if (taken_[name] < kProgress) {
      return fmt::format("{} has taken {} of {} events", name, taken_[name],
                         kProgress);
    }
  }
  for (const char* name : kNics) {
    if (lab_->Replies(name) <= replies_[name]) {
      return fmt::format("the client of {} has no answer", name);
    }
  }
  if (!ran_) return fmt::format("{} has no kernel of its own done", kHost);
  return "";
}

std::string Run::WaitForAll() {
  taken_.clear();
  rings_.clear();
  runs_.reset();
  ran_ = false;
  for (const char* name : kNics) replies_[name] = lab_->Replies(name);
  std::string missing;
  last_missing_.clear();
  const bool all = Eventually(
      [&] {
        KeepUp();
        const auto snapshot = TakeSnapshot(&missing);
        if (!snapshot) return false;
        missing = MissingIn(*snapshot);
        if (!missing.empty()) last_missing_ = missing;
        return missing.empty();
      },
      options_.bound);
  return all ? "" : missing;
}

void Run::KeepUp() {
  if (NowNs() < read_ns_ + kKeepUp) return;
  CountSegment(ReadSegment());
}

Segment Run::ReadSegment() {
  Segment segment = segments_.Read(lab_->paths().recorder_directory());
  read_ns_ = NowNs();
  return segment;
}

std::optional<TestbedResources> Run::MeasureResources(std::string* why) {
  const auto snapshot = TakeSnapshot(why);
  if (!snapshot) return std::nullopt;
  return TestbedResources{
      .sessions = snapshot->status.devices(),
      .ekt = snapshot->status.ekt_used(),
      .memory = snapshot->status.memory_used(),
      .regions =
          ResourceUseOf(static_cast<pid_t>(snapshot->status.pid())).regions,
      .processes = testbed::MarkedProcesses(lab_->paths()).size(),
      .files = FilesOf(lab_->paths()),
      .shared_memory = SharedMemoryFiles()};
}

std::vector<std::string> Run::Leaks() {
  std::vector<std::string> leaks;
  const auto nothing_left = [&] {
    leaks.clear();
    std::string why;
    const auto now = MeasureResources(&why);
    if (!now) {
      leaks.push_back(why);
    } else if (*now != at_start_) {
      leaks.push_back(fmt::format("there is {}; at the start {}",
                                  now->ToString(), at_start_.ToString()));
      for (const std::string& file : now->files) {
        if (!at_start_.files.contains(file)) leaks.push_back("file " + file);
      }
    }
    for (const char* name : kProcesses) {
      const ResourceUse held = ResourceUseOf(PidOf(name));
      const ResourceUse& start = held_at_start_[name];
      const auto compare = [&](const char* what, uint64_t now_held,
                               uint64_t at_start, uint64_t may_grow) {
        if (now_held <= at_start + may_grow) return;
        leaks.push_back(fmt::format("{} has {} {}, {} at the start", name,
                                    now_held, what, at_start));
      };
      compare("descriptors", held.descriptors, start.descriptors, 0);
      compare("threads", held.threads, start.threads, 0);
      compare("threads of gRPC's", held.pool_threads, start.pool_threads,
              kKeptThreads);
      compare("kB resident", held.resident_kb, start.resident_kb, kKeptKb);
    }
    return leaks.empty();
  };
  (void)Eventually(nothing_left, kClearing);
  return leaks;
}

void Run::AddToTrends() {
  const auto add = [&](const std::string& name, pid_t pid) {
    const ResourceUse held = ResourceUseOf(pid);
    const auto number = [&](const char* what, uint64_t value) {
      TrendOf(fmt::format("{}: {}", name, what))
          .Add(static_cast<double>(value));
    };
    number("descriptors", held.descriptors);
    number("threads", held.threads);
    number("threads of gRPC's", held.pool_threads);
    number("resident kB", held.resident_kb);
    if (name == kGpud) number("regions", held.regions);
  };
  for (const char* name : kProcesses) add(name, PidOf(name));
  auto state = testbed::ReadState(lab_->paths().state_file());
  if (state.ok()) add("supervisor", state->supervisor.pid);
  std::string why;
  if (const auto now = MeasureResources(&why)) {
    const auto number = [&](const char* what, uint64_t value) {
      TrendOf(what).Add(static_cast<double>(value));
    };
    number("sessions", now->sessions);
    number("EKT entries", now->ekt);
    number("GPU memory, bytes", now->memory);
    number("processes", now->processes);
    number("files in the testbed's directory", now->files.size());
    number("files in /dev/shm", now->shared_memory.size());
  }
}

void Run::LookAtCounters(const v1::ListDevicesResponse& devices) {
  for (const v1::Device& device : devices.devices()) {
    for (const char* name : {"mismatches", "activation_errors",
                             "verify_failures", "scheduled_failures"}) {
      const uint64_t count = CounterOf(device, name);
      uint64_t& told = wrong_results_[{name, device.pid()}];
      if (count <= told) continue;
      result_->wrong_results += count - told;
      told = count;
      Wrong(fmt::format("{} (pid {}) counts {} {}", device.name(), device.pid(),
                        count, name));
    }
  }
}

bool Run::Start() {
  auto lab = FaultTestbed::Up(kTopology, kUpFlags);
  if (!lab.ok()) return Wrong(std::string(lab.status().message()));
  lab_ = *std::move(lab);
  for (const char* name : kNics) {
    if (const auto served = lab_->StartLoad(name); !served) {
      return Wrong(served.message());
    }
  }
  if (const std::string missing = WaitForAll(); !missing.empty()) {
    return Wrong("hung at the start: " + missing);
  }
  // The lasting costs of a first visit are no leak.
  Visit(lab_->directory());
  if (const std::string missing = WaitForAll(); !missing.empty()) {
    return Wrong("hung after a first visit: " + missing);
  }
  std::string why;
  const auto resources = MeasureResources(&why);
  if (!resources) return Wrong(why);
  at_start_ = *resources;
  for (const char* name : kProcesses) {
    held_at_start_[name] = ResourceUseOf(PidOf(name));
  }
  Say("at the start: " + at_start_.ToString());
  return true;
}

std::string Run::Strike(const Target& target, const std::string& fault,
                        const std::string& words) {
  if (target.trigger == Trigger::kLoad) {
    std::string waited;
    const bool struck = Eventually(
        [&] {
          KeepUp();
          const auto now = lab_->WaitForStrike(fault, 1, kSlice);
          waited = now.message();
          return static_cast<bool>(now);
        },
        options_.bound);
    return struck ? "" : waited;
  }
  const auto end = std::chrono::steady_clock::now() + options_.bound;
  while (!lab_->WaitForStrike(fault, 1, milliseconds(0))) {
    if (std::chrono::steady_clock::now() >= end) {
      return words + " is never struck";
    }
    KeepUp();
    if (target.trigger == Trigger::kVisit) {
      Visit(lab_->directory());
    } else {
      // It ends before it is ready, and its policy starts it again.
      (void)lab_->Restart(target.role);
    }
  }
  return "";
}

std::string Run::Measure(const Segment& segment, const Death& death,
                         const Target& target, bool quiet, DeathWatch* watch) {
  Figures& figures = result_->figures;
  std::string words;
  std::optional<Nanoseconds> bare;
  if (watch->pid() == static_cast<pid_t>(death.pid)) {
    if (const auto told = watch->Told(kAnswer);
        told && *told >= death.time_ns) {
      bare = *told - death.time_ns;
      words += fmt::format(", pidfd {:.0f} us", Us(*bare));
    }
  }
  if (target.role != kGpud) {
    const auto closed = UntilGpudClosed(segment.recordings, death);
    if (!closed || !bare) return words;
    figures.gpud_closed_us.Add(Us(*closed), quiet);
    figures.device_bare_us.Add(Us(*bare), quiet);
    return words + fmt::format(", closed {:.0f} us", Us(*closed));
  }
  if (bare) figures.gpud_bare_us.Add(Us(*bare), quiet);
  for (const Nanoseconds knew : UntilDevicesKnew(segment.recordings, death)) {
    figures.devices_knew_us.Add(Us(knew), quiet);
    words += fmt::format(", known {:.0f} us", Us(knew));
  }
  if (const auto first = UntilFirstSession(segment.recordings, death)) {
    figures.first_session_ms.Add(Ms(*first), quiet);
    words += fmt::format(", first session {:.0f} ms", Ms(*first));
  }
  if (const auto first = UntilFirstEnd(segment.recordings, death)) {
    figures.first_end_ms.Add(Ms(*first), quiet);
    words += fmt::format(", first event {:.0f} ms", Ms(*first));
  }
  const int windows = static_cast<int>(options_.before / milliseconds(100));
  if (const auto full = UntilFullRate(segment.recordings, death, windows)) {
    figures.full_rate_ms.Add(Ms(*full), quiet);
    words += fmt::format(", full rate {:.0f} ms", Ms(*full));
  } else {
    ++figures.never_full;
  }
  return words;
}

void Run::CountSegment(const Segment& segment) {
  using ledger::Fault;
  result_->rung += segment.rung;
  result_->done += segment.done;
  result_->failed += segment.failed;
  for (size_t i = 0; i < ledger::kUnknowns; ++i) {
    result_->unknown[i] += segment.unknown[i];
  }
  for (const std::string& sentence : segment.violations) Wrong(sentence);
  for (const std::string& sentence : segment.gaps) Wrong(sentence);
  TargetResult* const target = target_;
  if (target == nullptr) return;
  events_ += segment.done + segment.failed;
  target->lost += segment.of(Fault::kLost);
  target->duplicated += segment.of(Fault::kDuplicated);
  target->other_violations += segment.of(Fault::kUnexpected) +
                              segment.of(Fault::kOutOfOrder) +
                              segment.of(Fault::kContradicted) +
                              segment.of(Fault::kWrong);
  target->failed += segment.failed;
}

bool Run::Round(uint32_t number, TargetResult* result) {
  const Target& target = result->target;
  target_ = result;
  events_ = 0;
  const std::string point(faults::InfoOf(target.point).name);
  const uint64_t nth =
      std::uniform_int_distribution<uint64_t>(1, target.most)(random_);
  const std::string words = fmt::format("kill {} at {} {}, passage {}", number,
                                        target.role, point, nth);
  const auto hung = [&](const std::string& at, const std::string& what) {
    ++result->hangs;
    // The lost events may be the reason.
    CountSegment(ReadSegment());
    return Wrong(fmt::format("{}: hung at {} for {} ms: {}", words, at,
                             options_.bound.count(), what));
  };

  const size_t wrong_before = result_->wrong.size();
  if (options_.disturb) options_.disturb(*lab_);
  bench::ForeignMeter meter;
  meter.Start(CpuOfAll());
  const Nanoseconds from = NowNs();
  const uint64_t replies_from = lab_->Replies(kNeighbour);
  PassUntil(from + options_.before.count() * kMillisecond);
  const Nanoseconds to = NowNs();
  const uint64_t replies_to = lab_->Replies(kNeighbour);
  const double others = meter.Stop(CpuOfAll());
  const bool quiet = others <= kQuietShare;
  result_->figures.others.Add(others);
  if (const auto bare = BareWake()) {
    result_->figures.bare_wake_us.Add(Us(*bare), quiet);
  }

  const std::string fault = fmt::format("kill-{}", number);
  DeathWatch watch(PidOf(target.role));
  if (const auto injected = lab_->Inject({.name = fault,
                                          .process = target.role,
                                          .point = target.point,
                                          .nth = nth,
                                          .action = faults::Action::kKill});
      !injected) {
    return hung("its injection", injected.message());
  }
  if (const std::string not_struck = Strike(target, fault, words);
      !not_struck.empty()) {
    return hung("the strike", not_struck);
  }
  const uint64_t replies_at = lab_->Replies(kNeighbour);
  const Nanoseconds at = NowNs();
  const auto strikes = lab_->board().Strikes();
  if (strikes.empty()) return hung("the strike", "the board has none");
  const Death death{strikes.back().pid, strikes.back().time_ns};
  ++result->kills;
  ++result_->kills;

  if (const std::string missing = WaitForAll(); !missing.empty()) {
    return hung("its return", missing);
  }
  const double served = Ms(NowNs() - death.time_ns);
  result->served_ms.Add(served);
  const std::string slow =
      served < kSlowMs ? "" : ", the last was: " + last_missing_;
  const int times = target.role == kGpud ? 2 : 1;
  PassUntil(death.time_ns + times * options_.after.count() * kMillisecond);
  const uint64_t replies_after = lab_->Replies(kNeighbour);
  const Nanoseconds after = NowNs();
  if (target.role != kGpud) {
    const double without = static_cast<double>(replies_to - replies_from) *
                           1e9 / static_cast<double>(to - from);
    const double with = static_cast<double>(replies_after - replies_at) * 1e9 /
                        static_cast<double>(after - at);
    result_->figures.without_death.Add(without, quiet);
    result_->figures.with_death.Add(with, quiet);
    if (without > 0) result_->figures.ratio.Add(with / without, quiet);
  }
  (void)lab_->board().Clear(fault);

  const Segment segment = ReadSegment();
  const std::string figures = Measure(segment, death, target, quiet, &watch);
  CountSegment(segment);
  std::string why;
  if (const auto snapshot = TakeSnapshot(&why)) {
    LookAtCounters(snapshot->devices);
  }
  const std::vector<std::string> leaks = Leaks();
  result->leaks += static_cast<uint32_t>(leaks.size());
  for (const std::string& leak : leaks) Wrong(words + ": " + leak);
  AddToTrends();
  Say(fmt::format(
      "{}/{}  {} at {}, passage {}: all get on after {:.0f} ms; {} events, {} "
      "wrong, {} leaks, others {:.0f} %{}{}",
      number, options_.kills, target.role, point, nth, served, events_,
      result_->wrong.size() - wrong_before - leaks.size(), leaks.size(),
      100 * others, figures, slow));
  return true;
}

// The devices end in order, gpud has nothing left of them, and no file is left.
void Run::End() {
  for (const char* name : kNics) {
    const testbed::LoadResult load = lab_->StopLoad(name);
    result_->replies += load.replies;
    result_->bad_replies += load.bad;
    if (load.bad != 0) {
      Wrong(fmt::format("{} has answered {} requests wrong", name, load.bad));
    }
  }
  for (const char* name : kDevices) {
    if (const auto sent = lab_->Signal(name, SIGTERM); !sent) {
      Wrong(sent.message());
    }
  }
  std::string rest;
  const bool ended = Eventually(
      [&] {
        const auto snapshot = TakeSnapshot(&rest);
        if (!snapshot) return false;
        testbed::TestbedState state = snapshot->state;
        for (const char* name : kDevices) {
          const testbed::ProcessRecord* const process = state.Find(name);
          if (process == nullptr || !process->exit) {
            rest = fmt::format("{} goes on", name);
            return false;
          }
          if (!process->exit->ok()) {
            rest = fmt::format("{} has ended: {}", name,
                               process->exit->ToString());
            return false;
          }
        }
        const v1::GetStatusResponse& status = snapshot->status;
        const v1::EventCounts& events = status.events();
        const uint64_t in_flight =
            events.rung() - events.done() - events.failed() - events.aborted();
        rest = fmt::format(
            "gpud has {} devices, {} EKT entries, {} bytes of GPU memory, {} "
            "events in flight",
            status.devices(), status.ekt_used(), status.memory_used(),
            in_flight);
        return status.devices() == 0 && status.ekt_used() == 0 &&
               status.memory_used() == 0 && in_flight == 0;
      },
      options_.bound);
  if (!ended) Wrong("at the end: " + rest);
  target_ = nullptr;
  CountSegment(ReadSegment());
  if (const auto down = lab_->Down(); !down) Wrong(down.message());
  const std::set<std::string> shared = SharedMemoryFiles();
  for (const std::string& file : shared) {
    if (!at_start_.shared_memory.contains(file)) {
      Wrong(fmt::format("/dev/shm/{} is left over", file));
    }
  }
}

void Run::All() {
  const Nanoseconds began = NowNs();
  const auto wanted = [&](std::string_view word) {
    return std::find(options_.only.begin(), options_.only.end(), word) !=
           options_.only.end();
  };
  for (Target& target : AllTargets()) {
    if (!options_.only.empty() && !wanted(target.role) &&
        !wanted(faults::InfoOf(target.point).name)) {
      continue;
    }
    result_->targets.push_back({.target = std::move(target)});
  }
  if (result_->targets.empty()) {
    Wrong("there is no such role, and no role passes such a point");
    return;
  }
  bool goes_on = Start();
  for (uint32_t number = 1; goes_on && number <= options_.kills; ++number) {
    if (order_.empty()) {
      for (size_t i = 0; i < result_->targets.size(); ++i) order_.push_back(i);
      std::shuffle(order_.begin(), order_.end(), random_);
    }
    TargetResult& target = result_->targets[order_.back()];
    order_.pop_back();
    goes_on = Round(number, &target);
  }
  if (lab_ != nullptr) {
    if (!result_->wrong.empty()) {
      const auto kept = lab_->Keep();
      Say(kept.ok() ? fmt::format("kept: carillon postmortem --dir {}", *kept)
                    : std::string(kept.status().message()));
    }
    if (goes_on) End();
    lab_.reset();
  }
  result_->seconds = Ms(NowNs() - began) / 1000;
}

}  // namespace

Result Soak(const Options& options) {
  Result result;
  Run(options, &result).All();
  return result;
}

}  // namespace carillon::soak

#include "tools/bench/launch/device_role.h"

#include <sched.h>
#include <sys/prctl.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <iostream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string_view>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "base/status.h"
#include "base/subprocess.h"
#include "base/testbed_paths.h"
#include "devices/sdk/edge.h"
#include "fmt/format.h"
#include "shm/waiting.h"
#include "tools/bench/launch/samples.h"
#include "tools/bench/launch/workload.h"
#include "tools/testbed/client/admin_client.h"

namespace carillon::bench {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using std::chrono::seconds;

constexpr std::string_view kRole = "--launch-device";
constexpr std::string_view kSpin = "spin";
constexpr std::string_view kYield = "yield";
constexpr uint32_t kEntries = 256;
constexpr seconds kPatience{10};
constexpr nanoseconds kSdkSpin = std::chrono::microseconds(20);
// A stream may end so much late for other reasons than falling behind.
constexpr Nanoseconds kSlack = 1'000'000;
constexpr uint32_t kTile = 16;  // of matmul

uint32_t ToSample(Nanoseconds ns) {
  return static_cast<uint32_t>(std::min<Nanoseconds>(ns, UINT32_MAX));
}

double ToSeconds(Nanoseconds ns) { return static_cast<double>(ns) * 1e-9; }

Nanoseconds MillisecondsOf(const Json& command) {
  return command.at("ms").get<uint64_t>() * 1'000'000;
}

// The time that a batch's events spent in each stage.
class Stages {
 public:
  static constexpr std::array<const char*, 7> kNames = {
      "due_to_rung",          "rung_to_seen",           "seen_to_queued",
      "queued_to_dispatched", "dispatched_to_finished", "finished_to_completed",
      "due_to_completed"};

  // A stage gets no sample if the launch path does not give its stamps.
  void Add(Nanoseconds due, const edge::EventLife& life,
           Nanoseconds completed) {
    const std::array<Nanoseconds, 7> stamps = {due,
                                               life.rung_ns,
                                               life.seen_ns,
                                               life.queued_ns,
                                               life.dispatched_ns,
                                               life.finished_ns,
                                               completed};
    for (size_t i = 0; i + 1 < stamps.size(); ++i) {
      AddOne(i, stamps[i], stamps[i + 1]);
    }
    AddOne(6, due, completed);
  }
  Json ToJson() {
    Json json = Json::object();
    for (size_t i = 0; i < kNames.size(); ++i) {
      json[kNames[i]] = SamplesToJson(std::move(samples_[i]));
    }
    return json;
  }

 private:
  void AddOne(size_t stage, Nanoseconds from, Nanoseconds to) {
    if (from == 0 || to == 0) return;
    samples_[stage].push_back(to > from ? ToSample(to - from) : 0);
  }
  std::array<std::vector<uint32_t>, 7> samples_;
};

class LaunchDevice {
 public:
  explicit LaunchDevice(LaunchDeviceOptions options)
      : options_(std::move(options)), admin_(TestbedPaths(options_.testbed)) {}

  absl::StatusOr<Json> Attach();
  absl::StatusOr<Json> Do(const Json& command);

 private:
  absl::StatusOr<Json> Open(const Json& command);
  absl::StatusOr<Json> RoundTrips(const Json& command);
  absl::StatusOr<Json> Pipeline(const Json& command);
  absl::StatusOr<Json> OpenLoop(const Json& command);
  absl::StatusOr<Json> Batches(const Json& command);
  absl::StatusOr<Json> Background(const Json& command);
  // Whether the open workload's kernel runs where its doorbell is polled; false
  // once gpud has found it to be long.
  absl::StatusOr<Json> ShortPath();
  absl::StatusOr<Json> Ledger();

  // Rings events when they are due, `interval` apart, and waits for their ends,
  // for `time`; a path that falls behind is rung for no longer than twice that.
  // `on_end` gets an event's due time before the event is freed. Returns the
  // number of events.
  template <class OnEnd>
  absl::StatusOr<uint64_t> Stream(double interval_ns, Nanoseconds time,
                                  OnEnd on_end);
  void Commit() {
    workload_->Commit();
    ++rung_;
  }
  // Takes the oldest event's completion and frees it. Error: the event did not
  // end well.
  absl::Status Take(const edge::Completion& completion);
  absl::Status WaitForOldest();
  absl::Status OneRoundTrip(uint32_t* ns);
  void Relax() const {
    if (options_.always_spin) {
      shm::CpuRelax();
    } else {
      sched_yield();
    }
  }
  nanoseconds spin() const {
    return options_.always_spin ? nanoseconds(kPatience) : kSdkSpin;
  }

  const LaunchDeviceOptions options_;
  testbed::AdminClient admin_;
  std::unique_ptr<edge::Device> device_;
  std::unique_ptr<OpenWorkload> workload_;
  // The parameters of background kernels by size, kept until the device ends.
  std::map<uint32_t, std::vector<edge::Parameter>> background_;
  Nanoseconds typical_ns_ = 0;  // of a round trip
  uint64_t opened_ = 0;         // each has launched one event
  uint64_t rung_ = 0;
  uint64_t done_ = 0;
};

absl::StatusOr<Json> LaunchDevice::Attach() {
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (true) {
    auto device = edge::Device::Attach({.testbed_directory = options_.testbed,
                                        .name = options_.name,
                                        .kind = "bench",
                                        .submission_bytes = 2 << 20,
                                        .completion_bytes = 2 << 20});
    if (device.ok()) {
      device_ = *std::move(device);
      break;
    }
    // gpud has just been started and may not be up yet.
    if (!absl::IsUnavailable(device.status()) ||
        std::chrono::steady_clock::now() >= deadline) {
      return device.status();
    }
    std::this_thread::sleep_for(milliseconds(10));
  }
  ASSIGN_OR_RETURN(const auto status, admin_.GetStatus());
  Json paths = Json::array();
  for (const auto& path : status.launch_paths()) {
    paths.push_back({{"name", path.name()}, {"summary", path.summary()}});
  }
  return Json{{"backend", status.backend()},
              {"description", status.backend_description()},
              {"workers", status.workers()},
              {"paths", std::move(paths)}};
}

absl::StatusOr<Json> LaunchDevice::Do(const Json& command) {
  const std::string what = command.at("do");
  if (what == "open") return Open(command);
  if (what == "background") return Background(command);
  if (what == "ledger") return Ledger();
  if (what == "trace") {
    RETURN_IF_ERROR(admin_.SetTracing(command.at("on").get<bool>()));
    return Json::object();
  }
  if (workload_ == nullptr) {
    return absl::FailedPreconditionError("nothing is open");
  }
  if (what == "close") {
    const absl::Status closed = workload_->Close();
    workload_.reset();
    if (!closed.ok()) return closed;
    return Json::object();
  }
  if (what == "short_path") return ShortPath();
  if (what == "round_trips") return RoundTrips(command);
  if (what == "pipeline") return Pipeline(command);
  if (what == "open_loop") return OpenLoop(command);
  if (what == "batches") return Batches(command);
  return absl::InternalError(fmt::format("no command '{}'", what));
}

absl::StatusOr<Json> LaunchDevice::Open(const Json& command) {
  workload_.reset();
  Workload workload;
  if (command.contains("packets")) {
    workload = PacketBatch(command["packets"].get<uint32_t>());
  } else {
    const Workload* const known =
        FindWorkload(command.at("kernel").get<std::string>());
    if (known == nullptr) return absl::InternalError("no such workload");
    workload = *known;
  }
  ASSIGN_OR_RETURN(
      workload_,
      OpenWorkload::Open(*device_, workload,
                         command.at("path").get<std::string>(), kEntries));
  typical_ns_ = 0;
  ++opened_;
  return Json::object();
}

absl::Status LaunchDevice::Take(const edge::Completion& completion) {
  workload_->queue().Free();
  if (completion.state != edge::EventState::kDone) {
    return absl::InternalError(
        fmt::format("event {} ended in state {} with status {}",
                    completion.sequence.value(),
                    static_cast<int>(completion.state), completion.status));
  }
  ++done_;
  return absl::OkStatus();
}

absl::Status LaunchDevice::WaitForOldest() {
  const auto completion = workload_->queue().Wait(kPatience, spin());
  return completion.ok() ? Take(*completion) : completion.status();
}

absl::Status LaunchDevice::OneRoundTrip(uint32_t* ns) {
  const Nanoseconds start = NowNs();
  Commit();
  workload_->queue().RingCommitted();
  const auto completion = workload_->queue().Wait(kPatience, spin());
  *ns = ToSample(NowNs() - start);
  return completion.ok() ? Take(*completion) : completion.status();
}

absl::StatusOr<Json> LaunchDevice::RoundTrips(const Json& command) {
  const Nanoseconds time = MillisecondsOf(command);
  std::vector<uint32_t> samples;
  uint32_t ns = 0;
  const uint64_t before = rung_;
  Nanoseconds start = NowNs();
  do {
    RETURN_IF_ERROR(OneRoundTrip(&ns));
  } while (NowNs() - start < time / 10);
  samples.reserve(time / std::max<uint64_t>(ns, 200) * 2);
  start = NowNs();
  Nanoseconds end = start;
  do {
    RETURN_IF_ERROR(OneRoundTrip(&ns));
    samples.push_back(ns);
    end = NowNs();
  } while (end - start < time);
  const size_t events = samples.size();
  typical_ns_ = (end - start) / events;
  return Json{{"events", events},
              {"launched", rung_ - before},  // to warm up, too
              {"seconds", ToSeconds(end - start)},
              {"latency", SamplesToJson(std::move(samples))}};
}

// Keeps a window in flight: rings half of it at once, then waits for the oldest
// half.
absl::StatusOr<Json> LaunchDevice::Pipeline(const Json& command) {
  const Nanoseconds time = MillisecondsOf(command);
  // A small window lets the measurement end soon after its time.
  uint64_t half = kEntries / 4;
  while (half > 1 && half * typical_ns_ > time / 4) half /= 2;
  const auto ring_half = [&] {
    for (uint64_t i = 0; i < half; ++i) Commit();
    workload_->queue().RingCommitted();
  };
  const auto take_half = [&]() -> absl::Status {
    for (uint64_t i = 0; i < half; ++i) {
      RETURN_IF_ERROR(WaitForOldest());
    }
    return absl::OkStatus();
  };
  const uint64_t before = done_;
  const Nanoseconds start = NowNs();
  ring_half();
  do {
    ring_half();
    RETURN_IF_ERROR(take_half());
  } while (NowNs() - start < time);
  RETURN_IF_ERROR(take_half());
  const double seconds = ToSeconds(NowNs() - start);
  return Json{{"events", done_ - before},
              {"launched", done_ - before},
              {"per_second", static_cast<double>(done_ - before) / seconds},
              {"window", 2 * half},
              {"seconds", seconds}};
}

template <class OnEnd>
absl::StatusOr<uint64_t> LaunchDevice::Stream(double interval_ns,
                                              Nanoseconds time, OnEnd on_end) {
  edge::EventQueue& queue = workload_->queue();
  std::vector<Nanoseconds> due_of(kEntries);
  auto events = std::max<uint64_t>(
      1, static_cast<uint64_t>(static_cast<double>(time) / interval_ns));
  const Nanoseconds start = NowNs();
  const auto due = [&](uint64_t event) {
    return start + static_cast<Nanoseconds>(static_cast<double>(event + 1) *
                                            interval_ns);
  };
  // For the next end: a GPU that goes on, however slowly, has its time.
  const Nanoseconds patience(nanoseconds(kPatience).count());
  Nanoseconds limit = start + patience;
  uint64_t rung = 0;
  uint64_t ended = 0;
  while (ended < events) {
    const Nanoseconds now = NowNs();
    bool idle = true;
    while (rung < events && due(rung) <= now && queue.free_slots() > 0) {
      due_of[queue.next_slot()] = due(rung);
      Commit();
      ++rung;
      idle = false;
    }
    queue.RingCommitted();
    if (now > start + 2 * time && rung > 0) events = rung;
    while (const auto completion = queue.Poll()) {
      on_end(due_of[queue.SlotOf(completion->sequence)]);
      RETURN_IF_ERROR(Take(*completion));
      ++ended;
      idle = false;
    }
    if (!idle || rung == ended) limit = now + patience;
    if (!idle) continue;
    if (now > limit) {
      RETURN_IF_ERROR(device_->status());
      return absl::DeadlineExceededError(fmt::format(
          "{} of {} events did not end in time", events - ended, events));
    }
    Relax();
  }
  return events;
}

absl::StatusOr<Json> LaunchDevice::OpenLoop(const Json& command) {
  const Nanoseconds time = MillisecondsOf(command);
  const double per_second = command.at("per_second").get<double>();
  std::vector<uint32_t> samples;
  samples.reserve(static_cast<size_t>(per_second * ToSeconds(time)) + 1);
  const Nanoseconds start = NowNs();
  const auto events = Stream(1e9 / per_second, time, [&](Nanoseconds due) {
    samples.push_back(ToSample(NowNs() - due));
  });
  if (!events.ok()) return events.status();
  const Nanoseconds took = NowNs() - start;
  return Json{{"events", *events},
              {"seconds", ToSeconds(took)},
              {"per_second", per_second},
              {"kept_up", took < time + time / 20 + kSlack + 2 * typical_ns_},
              {"latency", SamplesToJson(std::move(samples))}};
}

absl::StatusOr<Json> LaunchDevice::Batches(const Json& command) {
  const Nanoseconds time = MillisecondsOf(command);
  const double packets = command.at("packets").get<double>();
  const double per_second = command.at("packets_per_second").get<double>();
  Stages stages;
  const Nanoseconds start = NowNs();
  const auto events =
      Stream(packets * 1e9 / per_second, time, [&](Nanoseconds due) {
        stages.Add(due, workload_->queue().life(), NowNs());
      });
  if (!events.ok()) return events.status();
  const Nanoseconds took = NowNs() - start;
  return Json{{"events", *events},
              {"kept_up", took < time + time / 20 + kSlack},
              {"stages", stages.ToJson()}};
}

absl::StatusOr<Json> LaunchDevice::Background(const Json& command) {
  const Nanoseconds time = MillisecondsOf(command);
  const uint32_t n = command.at("size").get<uint32_t>();
  std::vector<edge::Parameter>& parameters = background_[n];
  if (parameters.empty()) parameters.push_back(edge::Constant("n", n));
  while (parameters.size() < 4) {
    ASSIGN_OR_RETURN(const auto buffer,
                     device_->AllocateBuffer(edge::Place::kGpuMemory,
                                             uint64_t{n} * n * sizeof(float)));
    parameters.push_back(
        edge::Fixed(std::string(1, "abc"[parameters.size() - 1]), buffer));
  }
  const uint32_t blocks = (n + kTile - 1) / kTile;
  std::vector<uint32_t> samples;
  const Nanoseconds start = NowNs();
  do {
    ASSIGN_OR_RETURN(const auto times,
                     device_->LaunchKernel({.kernel = "matmul",
                                            .grid = {blocks, blocks, 1},
                                            .block = {kTile, kTile, 1},
                                            .parameters = parameters,
                                            .timeout = kPatience}));
    samples.push_back(ToSample(times.finished_ns - times.dispatched_ns));
  } while (NowNs() - start < time);
  return Json{{"kernel_ns", SamplesToJson(std::move(samples))}};
}

absl::StatusOr<Json> LaunchDevice::ShortPath() {
  ASSIGN_OR_RETURN(const auto ekt, admin_.ListEkt());
  const auto is_short = [this](const auto& entry) {
    return entry.device() == options_.name && entry.short_path();
  };
  return Json{{"short_path", std::ranges::any_of(ekt.entries(), is_short)}};
}

absl::StatusOr<Json> LaunchDevice::Ledger() {
  ASSIGN_OR_RETURN(const auto status, admin_.GetStatus());
  const auto& events = status.events();
  return Json{{"rung", events.rung()},         {"done", events.done()},
              {"failed", events.failed()},     {"aborted", events.aborted()},
              {"refused", events.refused()},   {"device_rung", rung_ + opened_},
              {"device_done", done_ + opened_}};
}

Json ErrorToJson(const absl::Status& status) {
  return {{"error",
           {{"code", static_cast<int>(status.code())},
            {"message", status.message()}}}};
}

void Answer(const absl::StatusOr<Json>& answer) {
  fmt::print("{}\n",
             (answer.ok() ? *answer : ErrorToJson(answer.status())).dump());
  std::fflush(stdout);
}

}  // namespace

std::vector<std::string> LaunchDeviceArguments(
    const LaunchDeviceOptions& options) {
  return {OwnProgram(), std::string(kRole), options.testbed, options.name,
          std::string(options.always_spin ? kSpin : kYield)};
}

std::optional<int> PlayLaunchDevice(int argc, char** argv) {
  if (argc != 5 || argv[1] != kRole) return std::nullopt;
  // By default the kernel adds 50 us to every sleep.
  prctl(PR_SET_TIMERSLACK, 1);
  LaunchDevice device(
      {.testbed = argv[2], .name = argv[3], .always_spin = argv[4] == kSpin});
  const auto attached = device.Attach();
  Answer(attached);
  if (!attached.ok()) return 1;
  for (std::string line; std::getline(std::cin, line);) {
    const Json command = Json::parse(line, nullptr, false);
    if (!command.is_object()) {
      Answer(absl::InvalidArgumentError(line));
      continue;
    }
    Answer(device.Do(command));
  }
  return 0;
}

}  // namespace carillon::bench

#include "tools/bench/sharing/device_role.h"

#include <sys/prctl.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "base/clock.h"
#include "base/json.h"
#include "base/status.h"
#include "base/subprocess.h"
#include "base/testbed_paths.h"
#include "devices/sdk/edge.h"
#include "fmt/format.h"
#include "tools/testbed/client/admin_client.h"

namespace carillon::bench {
namespace {

using std::chrono::nanoseconds;
using std::chrono::seconds;

constexpr std::string_view kRole = "--sharing-device";
constexpr uint32_t kEntries = 1024;
// In wall time; a GPU that goes on, however slowly, has its time.
constexpr seconds kPatience{60};
constexpr seconds kSimulatedPatience{3600};
// A core that slept may be late by this: a device that has one to itself wakes so
// long before, and spins.
constexpr Nanoseconds kWakesBefore = 200'000;

class SharingDevice {
 public:
  SharingDevice(std::string testbed, std::string name)
      : testbed_(std::move(testbed)), name_(std::move(name)) {}

  absl::StatusOr<Json> Prepare(const Json& plan);
  absl::StatusOr<Json> Run(Nanoseconds start);

 private:
  absl::Status PrepareEvents();
  absl::Status PrepareBackground();
  absl::Status PrepareCopies();
  absl::StatusOr<Json> Events();
  absl::StatusOr<Json> Background();
  absl::StatusOr<Json> Copies();
  // Waits until that time from start_ on.
  absl::Status WaitUntil(Nanoseconds at);
  Nanoseconds now() const { return device_->Now() - start_; }
  nanoseconds Until(Nanoseconds at) const {
    const Nanoseconds woken = now() + (spins_ ? kWakesBefore : 0);
    return nanoseconds(at > woken ? at - woken : 0);
  }
  // How much later than start_ the event's stamp is.
  Nanoseconds Since(uint64_t stamp) const {
    return stamp > start_ ? stamp - start_ : 0;
  }
  nanoseconds patience() const {
    return device_->in_simulated_time() ? kSimulatedPatience : kPatience;
  }
  template <class Number = uint64_t>
  Number Of(const char* key) const {
    return plan_.at(key).get<Number>();
  }

  const std::string testbed_, name_;
  Json plan_;
  bool spins_ = false;
  Json about_;  // of the back-end, where it was asked for
  std::unique_ptr<edge::Device> device_;
  edge::EventQueue* queue_ = nullptr;
  edge::Device::LaunchSpec launch_;  // of a background
  edge::Buffer from_, to_;           // of copies
  Nanoseconds start_ = 0;
};

absl::StatusOr<Json> SharingDevice::Prepare(const Json& plan) {
  plan_ = plan;
  spins_ = plan.value("spins", false);
  const uint64_t copied = plan.value("bytes", uint64_t{0});
  ASSIGN_OR_RETURN(device_,
                   edge::Device::Attach({.testbed_directory = testbed_,
                                         .name = name_,
                                         .kind = "bench",
                                         .submission_bytes = copied + (2 << 20),
                                         .completion_bytes = 2 << 20,
                                         .takes_simulated_time = true}));
  if (plan.contains("policy")) {
    testbed::AdminClient admin{TestbedPaths(testbed_)};
    const auto set = admin.SetPolicy(Of<std::string>("policy"));
    // Not of this back-end, or a GPU of this size has no room for its parts.
    if (absl::IsUnimplemented(set.status()) ||
        absl::IsInvalidArgument(set.status())) {
      return Json{{"refused", set.status().message()}};
    }
    RETURN_IF_ERROR(set.status());
  }
  if (plan.contains("describe")) {
    testbed::AdminClient admin{TestbedPaths(testbed_)};
    ASSIGN_OR_RETURN(const auto status, admin.GetStatus());
    const auto& gpu = status.gpu();
    about_ = {{"description", status.backend_description()},
              {"places",
               uint64_t{gpu.sms()} *
                   std::min(gpu.blocks_per_sm(),
                            gpu.threads_per_sm() / Of<uint32_t>("threads"))}};
  }
  const auto what = Of<std::string>("do");
  if (what == "events") RETURN_IF_ERROR(PrepareEvents());
  if (what == "background") RETURN_IF_ERROR(PrepareBackground());
  if (what == "copies") RETURN_IF_ERROR(PrepareCopies());
  return Json::object();
}

absl::Status SharingDevice::PrepareEvents() {
  ASSIGN_OR_RETURN(
      queue_,
      edge::edgeRegisterEvent(
          *device_,
          {.kernel = "busy",
           .grid = {Of<uint32_t>("blocks"), 1, 1},
           .block = {Of<uint32_t>("threads"), 1, 1},
           .max_in_flight = kEntries,
           .priority = Of<uint32_t>("priority"),
           .launch_path = Of<std::string>("launch_path"),
           .parameters = {edge::Constant("iterations", Of("iterations"))}}));
  return absl::OkStatus();
}

absl::Status SharingDevice::PrepareBackground() {
  launch_ = {.grid = {Of<uint32_t>("blocks"), 1, 1},
             .block = {Of<uint32_t>("threads"), 1, 1},
             .priority = plan_.value("priority", 0u),
             .timeout = kPatience};
  if (!plan_.contains("mandelbrot")) {
    launch_.kernel = "busy";
    launch_.parameters = {edge::Constant("iterations", Of("iterations"))};
    return absl::OkStatus();
  }
  const auto side = Of<uint32_t>("mandelbrot");
  ASSIGN_OR_RETURN(
      const auto counts,
      device_->AllocateBuffer(edge::Place::kGpuMemory,
                              uint64_t{side} * side * sizeof(uint32_t)));
  launch_.kernel = "mandelbrot";
  launch_.parameters = {edge::Fixed("counts", counts),
                        edge::Constant("width", side),
                        edge::Constant("height", side),
                        edge::Constant("most", 1000),
                        edge::ConstantFloat("first_real", -2),
                        edge::ConstantFloat("first_imaginary", -1.25),
                        edge::ConstantFloat("step", 2.5 / side)};
  return absl::OkStatus();
}

absl::Status SharingDevice::PrepareCopies() {
  ASSIGN_OR_RETURN(from_,
                   device_->AllocateBuffer(edge::Place::kInput, Of("bytes")));
  ASSIGN_OR_RETURN(
      to_, device_->AllocateBuffer(edge::Place::kGpuMemory, Of("bytes")));
  return absl::OkStatus();
}

absl::StatusOr<Json> SharingDevice::Run(Nanoseconds start) {
  start_ = start;
  const Nanoseconds before = device_->Now();
  if (before < start) {
    device_->WaitForCompletion([] { return false; },
                               nanoseconds(start - before));
  }
  RETURN_IF_ERROR(device_->status());
  // A machine that is busy may begin late.
  if (device_->Now() > start) start_ = device_->Now();
  if (queue_ != nullptr) return Events();
  return Of<std::string>("do") == "background" ? Background() : Copies();
}

absl::Status SharingDevice::WaitUntil(Nanoseconds at) {
  while (now() < at) {
    device_->WaitForCompletion([] { return false; }, Until(at));
    RETURN_IF_ERROR(device_->status());
  }
  return absl::OkStatus();
}

absl::StatusOr<Json> SharingDevice::Events() {
  const bool closed = plan_.contains("gap");
  const auto due_list = closed ? std::vector<Nanoseconds>{Of("gap")}
                               : Of<std::vector<Nanoseconds>>("due");
  std::vector<Nanoseconds> due_of(kEntries);
  Json served = Json::array();
  size_t rung = 0;
  std::optional<Nanoseconds> next;  // when the next event is due
  if (!due_list.empty()) next = due_list[0];
  const auto ready = [&] { return queue_->Poll().has_value(); };
  while (next.has_value() || queue_->in_flight() > 0) {
    while (next.has_value() && *next <= now() && queue_->free_slots() > 0) {
      due_of[queue_->next_slot()] = *next;
      queue_->RingDoorbell();
      ++rung;
      next.reset();
      if (!closed && rung < due_list.size()) next = due_list[rung];
    }
    nanoseconds wait = patience();
    if (next.has_value() && queue_->free_slots() > 0) {
      wait = Until(*next);
    }
    const bool ended = device_->WaitForCompletion(ready, wait);
    RETURN_IF_ERROR(device_->status());
    if (!ended && wait == patience()) {
      return absl::DeadlineExceededError("an event does not end");
    }
    while (const auto completion = queue_->Poll()) {
      if (completion->state != edge::EventState::kDone) {
        return absl::InternalError(fmt::format(
            "event {} ended in state {} with status {}",
            completion->sequence.value(), static_cast<int>(completion->state),
            completion->status));
      }
      const auto life = queue_->life();
      const Nanoseconds due = due_of[queue_->SlotOf(completion->sequence)];
      const Nanoseconds end = Since(life.finished_ns);
      served.push_back(
          {due, std::max(due, Since(life.dispatched_ns)), std::max(due, end)});
      queue_->Free();
      if (closed && end + Of("gap") < Of("end")) next = end + Of("gap");
    }
  }
  return Json{{"served", std::move(served)}};
}

absl::StatusOr<Json> SharingDevice::Background() {
  RETURN_IF_ERROR(WaitUntil(plan_.value("begin", Nanoseconds{0})));
  Json launches = Json::array();
  const auto count = Of("launches");
  for (uint64_t i = 0; i < count; ++i) {
    const Nanoseconds launched = now();
    ASSIGN_OR_RETURN(const auto times, device_->LaunchKernel(launch_));
    launches.push_back({launched, launched + times.dispatched_ns,
                        launched + times.finished_ns});
  }
  Json seen = {{"launches", std::move(launches)}};
  if (!about_.is_null()) seen["about"] = about_;
  return seen;
}

absl::StatusOr<Json> SharingDevice::Copies() {
  Json copies = Json::array();
  for (const Nanoseconds due : Of<std::vector<Nanoseconds>>("due")) {
    RETURN_IF_ERROR(WaitUntil(due));
    const Nanoseconds called = now();
    ASSIGN_OR_RETURN(const auto times,
                     device_->Copy({.from = from_,
                                    .to = to_,
                                    .bytes = Of("bytes"),
                                    .priority = Of<uint32_t>("priority"),
                                    .timeout = kPatience}));
    copies.push_back(
        {due, called + times.started_ns, called + times.finished_ns});
  }
  return Json{{"copies", std::move(copies)}};
}

void Print(const absl::StatusOr<Json>& answer) {
  const Json json =
      answer.ok() ? *answer
                  : Json{{"error",
                          {{"code", static_cast<int>(answer.status().code())},
                           {"message", answer.status().message()}}}};
  fmt::print("{}\n", json.dump());
  std::fflush(stdout);
}

}  // namespace

std::vector<std::string> SharingDeviceArguments(const std::string& testbed,
                                                const std::string& name) {
  return {OwnProgram(), std::string(kRole), testbed, name};
}

std::optional<int> PlaySharingDevice(int argc, char** argv) {
  if (argc != 4 || argv[1] != kRole) return std::nullopt;
  // By default the kernel adds 50 us to every sleep.
  prctl(PR_SET_TIMERSLACK, 1);
  SharingDevice device(argv[2], argv[3]);
  std::string line;
  std::getline(std::cin, line);
  const Json plan = Json::parse(line, nullptr, false);
  if (!plan.is_object()) return 1;
  const auto prepared = device.Prepare(plan);
  Print(prepared);
  if (!prepared.ok() || prepared->contains("refused")) return 1;
  std::getline(std::cin, line);
  const Json start = Json::parse(line, nullptr, false);
  if (!start.is_object()) return 1;
  Print(device.Run(start.at("start_ns").get<Nanoseconds>()));
  return 0;
}

}  // namespace carillon::bench

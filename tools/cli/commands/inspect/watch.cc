#include <fmt/chrono.h>
#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/status.h"
#include "base/text.h"
#include "devices/sdk/cancel_calls.h"
#include "tools/cli/commands/inspect/commands.h"
#include "tools/cli/commands/inspect/inspect.h"
#include "tools/cli/ui/proto_json.h"
#include "tools/testbed/supervisor/process_identity.h"
#include "tools/testbed/supervisor/state.h"
#include "tools/testbed/supervisor/stop_signals.h"

namespace carillon::cli {
namespace {

constexpr int kLookAgainMs = 50;

// As wide as a time.
constexpr char kWasThere[] = "was there   ";

// "12:00:01.123  device_ready  device=nic0 note='udp 127.0.0.1:11211'". When
// what was there before has come about, nobody has noted.
std::string Line(const Json& event) {
  const uint64_t time_ns = event["time_ns"];
  std::string line =
      event["was_there"].get<bool>()
          ? kWasThere
          : fmt::format(
                "{:%H:%M:%S}.{:03}",
                fmt::localtime(static_cast<time_t>(time_ns / 1'000'000'000)),
                time_ns / 1'000'000 % 1000);
  for (const auto& [name, value] : event.items()) {
    if (!value.is_object()) continue;
    line += fmt::format("  {:<18}", name);
    for (const auto& [key, part] : value.items()) {
      line += fmt::format(
          " {}={}", key,
          part.is_string() ? Quote(part.get<std::string>()) : part.dump());
    }
  }
  return line + "\n";
}

// Whether its supervisor will have another gpud up when this one has died.
bool AnotherGpudComes(const testbed::Testbed& testbed) {
  if (!testbed.supervisor || !testbed::IsAlive(*testbed.supervisor)) {
    return false;
  }
  const auto state = testbed::ReadState(testbed.paths.state_file());
  if (!state.ok() || state->phase != testbed::Phase::kUp) return false;
  const auto gpud = std::ranges::find(state->processes, "gpud",
                                      &testbed::ProcessRecord::name);
  return gpud != state->processes.end() && !gpud->given_up &&
         gpud->restart == testbed::RestartPolicy::kOnFailure;
}

// Says when a signal has stopped gpud, which then sends nothing, and when it
// goes on.
class StopTeller {
 public:
  // `gpud` is a process of this machine; 0: of another one, nothing is said.
  StopTeller(pid_t gpud, Console* console) : gpud_(gpud), console_(console) {}

  void Look() {
    const auto now = Clock::now();
    if (gpud_ == 0 || now < next_look_) return;
    next_look_ = now + kLook;
    const auto facts = testbed::LookAtProcess(gpud_);
    const bool stopped = facts && (facts->state == 'T' || facts->state == 't');
    if (stopped == stopped_) return;
    stopped_ = stopped;
    console_->Say(stopped
                      ? fmt::format("gpud (pid {}) is stopped: nothing comes "
                                    "until it goes on",
                                    gpud_)
                      : fmt::format("gpud (pid {}) goes on", gpud_));
  }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::milliseconds kLook{500};

  const pid_t gpud_;
  Console* const console_;
  bool stopped_ = false;
  Clock::time_point next_look_;
};

// The gpud of a testbed of this machine, by its lock file; 0 without one.
pid_t GpudOf(const testbed::Testbed& testbed) {
  pid_t pid = 0;
  std::ifstream(testbed.paths.gpud_lock()) >> pid;
  return pid;
}

}  // namespace

Run MakeWatch(Arguments& arguments, Console& console) {
  // Made before gRPC starts its threads.
  auto requests = std::make_shared<std::unique_ptr<testbed::StopSignals>>();
  return [requests, open_testbed = AddTestbedOption(arguments),
          &console]() -> absl::Status {
    *requests = std::make_unique<testbed::StopSignals>();
    const edge::CancelCalls cancel_calls((*requests)->fd());
    ASSIGN_OR_RETURN(auto open, open_testbed());
    std::optional<StopTeller> teller;
    const auto show = [&](const v1::TelemetryEvent* event) {
      if ((*requests)->Take() > 0) return false;
      if (event == nullptr) {
        teller->Look();
        return true;
      }
      const Json json = ToJson(*event);
      if (console.json()) {
        console.PrintJsonLine(json);
      } else {
        console.Print(Line(json));
      }
      return console.out_ok();
    };
    for (;;) {
      teller.emplace(GpudOf(open.testbed), &console);
      const absl::Status status = open.client->Watch(show);
      if (!absl::IsUnavailable(status) || !AnotherGpudComes(open.testbed)) {
        return status;
      }
      console.Say("gpud has gone; its supervisor starts another one");
      // Its supervisor gives up after some failures, or ends.
      while (!open.client->CheckHealth().ok()) {
        pollfd end{(*requests)->fd(), POLLIN, 0};
        if (poll(&end, 1, kLookAgainMs) > 0) return absl::OkStatus();
        if (!AnotherGpudComes(open.testbed)) return status;
      }
    }
  };
}

}  // namespace carillon::cli

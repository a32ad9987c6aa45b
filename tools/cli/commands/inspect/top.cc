#include <fmt/chrono.h>
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <memory>
#include <optional>

#include "base/status.h"
#include "base/text.h"
#include "devices/sdk/cancel_calls.h"
#include "tools/cli/commands/inspect/commands.h"
#include "tools/cli/commands/inspect/inspect.h"
#include "tools/cli/top/figures.h"
#include "tools/cli/top/screen.h"
#include "tools/cli/top/terminal.h"
#include "tools/cli/ui/terminal_text.h"
#include "tools/testbed/supervisor/stop_signals.h"

namespace carillon::cli {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kLookAgain{50};
// A picture that comes so much too late is missed.
constexpr milliseconds kLate{1000};
// How long is told that another gpud has come.
constexpr std::chrono::seconds kTell{10};
// A gpud that takes a call and does not answer must not hold up the keys.
constexpr milliseconds kHealthLimit{500};
constexpr uint32_t kMostFrames = 1'000'000;

struct Options {
  uint32_t frames = 0;
  double interval_s = 1;
};

// Shows what comes: on a terminal, or as text.
class Top {
 public:
  // No terminal: `frames` frames of text.
  Top(OpenTestbed open, std::unique_ptr<top::Terminal> terminal,
      const Options& options, testbed::StopSignals* signals, Console* console)
      : open_(std::move(open)),
        terminal_(std::move(terminal)),
        interval_(static_cast<int64_t>(options.interval_s * 1000)),
        frames_left_(options.frames),
        signals_(signals),
        console_(console) {
    figures_.testbed =
        ForTerminal(open_.testbed.name.empty() ? open_.testbed.paths.directory()
                                               : open_.testbed.name);
  }

  absl::Status Run() {
    for (;;) {
      const absl::Status status =
          FollowPictures(*open_.client, interval_,
                         [&](const auto* picture, const auto& rates) {
                           if (picture == nullptr) return Tick();
                           return Take(*picture, rates);
                         });
      if (status.ok()) return status;
      const bool passes =
          absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status);
      if (!came_ || !passes) return status;
      if (!MayReturn(open_)) return Down();
      if (absl::IsUnavailable(status)) {
        if (!AwaitAnother()) return absl::OkStatus();
        if (!MayReturn(open_)) return Down();
      }
    }
  }

 private:
  // These return false at the end: of the frames, by Ctrl-C or 'q'.
  bool Take(const testbed::SnapshotPicture& picture,
            const testbed::SnapshotRates& rates) {
    const auto now = Clock::now();
    if (gone_) told_until_ = now + kTell;
    gone_ = false;
    came_ = now;
    const bool first = !rates.all();
    top::ShowPicture(picture, rates, &figures_);
    figures_.notice = now < told_until_ ? back_ : "";
    LookAtProcesses();
    // A first picture has no rates: text waits for the next one.
    return Show(/*frame=*/!first);
  }

  // Between pictures.
  bool Tick() {
    const auto now = Clock::now();
    if (came_ && now - *came_ > interval_ + kLate) {
      figures_.notice = fmt::format(
          "no picture for {}: is gpud stopped or overloaded?",
          FormatAge(static_cast<uint64_t>((now - *came_) / milliseconds(1)) *
                    1'000'000));
      return ShowWithoutPicture();
    }
    return Show(/*frame=*/false);
  }

  absl::Status Down() const {
    return absl::UnavailableError(
        fmt::format("testbed '{}' has gone down", figures_.testbed));
  }

  // Until another gpud serves, or none can come.
  bool AwaitAnother() {
    gone_ = true;
    figures_.notice = fmt::format(
        "gpud has gone at {}: the figures are its last ones; "
        "waiting for another",
        Now());
    // Over TCP, with the client that has the credentials.
    std::optional<testbed::AdminClient> quick;
    if (!open_.testbed.paths.directory().empty()) {
      quick.emplace(open_.testbed.paths, kHealthLimit);
    }
    testbed::AdminClient& client = quick ? *quick : *open_.client;
    while (!client.CheckHealth().ok()) {
      if (!ShowWithoutPicture()) return false;
      pollfd end{signals_->fd(), POLLIN, 0};
      poll(&end, 1, static_cast<int>(kLookAgain.count()));
      if (!MayReturn(open_)) break;
    }
    came_ = Clock::now();
    back_ = fmt::format("another gpud since {}", Now());
    return true;
  }

  // Processes are looked at each interval, whether gpud answers or not.
  bool ShowWithoutPicture() {
    if (Clock::now() - looked_ < interval_) return Show(/*frame=*/false);
    // What was so at the last picture is not so now; counts stay.
    figures_.events_per_s = {};
    for (top::Event& event : figures_.events) {
      event.events_per_s = {};
      event.peak = {};
      event.mean_ns = {};
      event.p50_ns = {};
      event.p99_ns = {};
    }
    for (top::Process& process : figures_.processes) {
      process.events_per_s = {};
      process.peak = {};
    }
    LookAtProcesses();
    return Show(/*frame=*/true);
  }

  void LookAtProcesses() {
    looked_ = Clock::now();
    processes_.Look(open_.testbed, &figures_);
  }

  bool Show(bool frame) {
    if (signals_->Take() > 0 || !console_->out_ok()) return false;
    if (terminal_ != nullptr) return ShowOnTerminal();
    if (!frame) return true;
    if (framed_) console_->Print("\n");
    framed_ = true;
    console_->Print(top::DrawText(figures_));
    return --frames_left_ != 0;
  }

  bool ShowOnTerminal() {
    while (const auto key = terminal_->Key()) {
      if (!settings_.Press(*key)) return false;
    }
    if (!settings_.paused()) shown_ = figures_;
    shown_.notice = figures_.notice;
    terminal_->Show(
        top::Draw(shown_, &settings_, terminal_->width(), terminal_->height()));
    return true;
  }

  static std::string Now() {
    return fmt::format("{:%H:%M:%S}", fmt::localtime(std::time(nullptr)));
  }

  OpenTestbed open_;
  const std::unique_ptr<top::Terminal> terminal_;
  const milliseconds interval_;
  uint32_t frames_left_;
  testbed::StopSignals* const signals_;
  Console* const console_;
  top::ProcessLooker processes_;
  top::Figures figures_;
  top::Figures shown_;  // not those that came during a pause
  top::Settings settings_;
  bool framed_ = false;
  // When the last picture came, and when the processes were looked at.
  std::optional<Clock::time_point> came_;
  Clock::time_point looked_{};
  bool gone_ = false;
  std::string back_;
  Clock::time_point told_until_{};
};

}  // namespace

Run MakeTop(Arguments& arguments, Console& console) {
  auto options = std::make_shared<Options>();
  arguments.Number("--frames N", options->frames, 1, kMostFrames,
                   "Print so many pictures as text: no terminal is needed");
  arguments.Seconds("--interval SECONDS", options->interval_s, 0.05, 3600,
                    "Between two pictures");
  return [options, open_testbed = AddTestbedOption(arguments),
          &console]() -> absl::Status {
    if (console.json()) {
      return absl::InvalidArgumentError(
          "top draws for people; for programs: carillon rings -w -o json");
    }
    const bool text = options->frames != 0;
    if (!text && !(console.out_is_terminal() && isatty(STDIN_FILENO) == 1)) {
      return WithHint(
          absl::InvalidArgumentError(
              "top draws on a terminal, and stdin or stdout is none"),
          "plain text: carillon top --frames 1");
    }
    // Made before gRPC starts its threads.
    testbed::StopSignals signals;
    const edge::CancelCalls cancel_calls(signals.fd());
    ASSIGN_OR_RETURN(auto open, open_testbed());
    std::unique_ptr<top::Terminal> terminal;
    if (!text) {
      // The error that there is no gpud is for the screen of the shell.
      const absl::Status health = open.client->CheckHealth();
      if (absl::IsCancelled(health)) return absl::OkStatus();  // Ctrl-C
      RETURN_IF_ERROR(health);
      ASSIGN_OR_RETURN(terminal, top::Terminal::Open());
    }
    return Top(std::move(open), std::move(terminal), *options, &signals,
               &console)
        .Run();
  };
}

}  // namespace carillon::cli

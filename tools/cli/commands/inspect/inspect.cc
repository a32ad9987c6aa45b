#include "tools/cli/commands/inspect/inspect.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "base/status.h"
#include "tools/cli/ui/terminal_text.h"
#include "tools/testbed/supervisor/process_identity.h"
#include "tools/testbed/supervisor/state.h"

namespace carillon::cli {
namespace {

// Of the pictures that a rate is told from.
constexpr std::chrono::milliseconds kBetweenTwo{250};
constexpr std::chrono::milliseconds kAnswer{5000};

// Where gpud cannot be reached, its supervisor may know why.
absl::Status Explain(const OpenTestbed& open, const absl::Status& status) {
  if (!absl::IsUnavailable(status) || !open.testbed.supervisor) return status;
  auto state = testbed::ReadState(open.testbed.paths.state_file());
  if (!state.ok()) return status;
  const auto* const gpud = state->Find("gpud");
  if (gpud == nullptr || gpud->restarts == 0 ||
      gpud->state != testbed::ProcessState::kStarting) {
    return status;
  }
  return absl::UnavailableError(
      "gpud is starting again: carillon logs gpud says for what it waits");
}

}  // namespace

std::function<absl::StatusOr<OpenTestbed>()> AddTestbedOption(
    Arguments& arguments) {
  auto option = std::make_shared<TestbedOption>(
      arguments, "Instead: the directory of a gpud that was started by hand");
  return [option]() -> absl::StatusOr<OpenTestbed> {
    ASSIGN_OR_RETURN(auto chosen, option->Choose(testbed::ChooseTestbed));
    OpenTestbed open{.testbed = std::move(chosen.testbed), .client = {}};
    open.client =
        chosen.gpud
            ? std::make_unique<testbed::AdminClient>(*std::move(chosen.gpud))
            : std::make_unique<testbed::AdminClient>(open.testbed.paths);
    return open;
  };
}

Run MakeInspection(
    const std::string& command, Arguments& arguments, Console& console,
    std::function<absl::Status(OpenTestbed& open, Console& console)> show) {
  auto inspection = std::make_shared<Inspection>(command, arguments, console);
  return [inspection, show = std::move(show), &console] {
    return inspection->Run(
        [&](OpenTestbed& open) { return show(open, console); });
  };
}

Run MakeInspection(
    Arguments& arguments, Console& console,
    std::function<absl::Status(OpenTestbed& open, Console& console)> show) {
  return [open_testbed = AddTestbedOption(arguments), show = std::move(show),
          &console]() -> absl::Status {
    ASSIGN_OR_RETURN(auto open, open_testbed());
    return Explain(open, show(open, console));
  };
}

Inspection::Inspection(std::string command, Arguments& arguments,
                       Console& console)
    : command_(std::move(command)),
      console_(&console),
      open_testbed_(AddTestbedOption(arguments)),
      repeat_(arguments) {}

absl::Status Inspection::Run(const Show& show) const {
  std::optional<OpenTestbed> open;
  return repeat_.Run(
      command_, *console_,
      [&]() -> absl::Status {
        if (!open) {
          ASSIGN_OR_RETURN(auto opened, open_testbed_());
          open = std::move(opened);
        }
        return Explain(*open, show(*open));
      },
      [&] { return MayReturn(*open); });
}

absl::Status Inspection::RunOnPictures(const ShowPicture& show) const {
  absl::Status shown;
  if (!repeat_.wanted()) {
    ASSIGN_OR_RETURN(auto open, open_testbed_());
    bool first = true;
    const absl::Status followed = FollowPictures(
        *open.client, kBetweenTwo, [&](const auto* picture, const auto& rates) {
          if (picture == nullptr || std::exchange(first, false)) return true;
          shown = show(open, *picture, rates);
          return false;
        });
    return Explain(open, followed.ok() ? shown : followed);
  }
  Blocks blocks(repeat_.Title(command_), console_);
  ASSIGN_OR_RETURN(auto open, open_testbed_());
  const auto may_return = [&] { return MayReturn(open); };
  while (shown.ok() && !blocks.Stopped()) {
    const absl::Status ended = FollowPictures(
        *open.client, repeat_.interval(),
        [&](const auto* picture, const auto& rates) {
          if (picture != nullptr) {
            shown = blocks.Draw([&] { return show(open, *picture, rates); },
                                may_return);
          }
          return shown.ok() && !blocks.Stopped();
        });
    if (ended.ok()) continue;
    shown = blocks.Draw([&] { return Explain(open, ended); }, may_return);
    if (shown.ok()) {
      blocks.Wait(std::chrono::steady_clock::now() + repeat_.interval());
    }
  }
  console_->EndBlocks(/*error=*/!shown.ok());
  return shown;
}

absl::Status FollowPictures(
    testbed::AdminClient& client, std::chrono::milliseconds interval,
    const std::function<bool(const testbed::SnapshotPicture*,
                             const testbed::SnapshotRates&)>& on_picture) {
  testbed::SnapshotPicture picture;
  testbed::SnapshotRates rates;
  v1::StreamSnapshotsRequest request;
  request.set_interval_ms(static_cast<uint32_t>(interval.count()));
  request.set_histograms_ms(std::max<uint32_t>(500, request.interval_ms()));
  const std::chrono::milliseconds limit = kAnswer + interval;
  auto last = std::chrono::steady_clock::now();
  absl::Status status;
  bool wanted = true;
  RETURN_IF_ERROR(
      client.StreamSnapshots(request, [&](const v1::Snapshot* message) {
        if (message == nullptr) {
          if (std::chrono::steady_clock::now() - last > limit) {
            status = absl::DeadlineExceededError(fmt::format(
                "gpud did not answer StreamSnapshots within {} ms; is it "
                "stopped or overloaded?",
                limit.count()));
          }
          return wanted = status.ok() && on_picture(nullptr, rates);
        }
        last = std::chrono::steady_clock::now();
        status = picture.Apply(*message);
        if (status.ok()) rates.Look(picture);
        return wanted = status.ok() && on_picture(&picture, rates);
      }));
  // A gpud that goes down in order ends its streams in order.
  if (wanted) {
    return absl::UnavailableError("gpud has ended the stream of snapshots");
  }
  return status;
}

bool MayReturn(const OpenTestbed& open) {
  return !open.testbed.supervisor || testbed::IsAlive(*open.testbed.supervisor);
}

std::string FormatDim3(const v1::Dim3& dim) {
  if (dim.z() != 1) return fmt::format("{}x{}x{}", dim.x(), dim.y(), dim.z());
  if (dim.y() != 1) return fmt::format("{}x{}", dim.x(), dim.y());
  return fmt::format("{}", dim.x());
}

std::string FormatWait(uint64_t ns) {
  return ns < 1'000'000'000 ? FormatNanoseconds(ns) : FormatAge(ns);
}

std::string WithLabel(const std::string& kernel, const std::string& label) {
  return label.empty() ? kernel
                       : fmt::format("{} ({})", kernel, ForTerminal(label));
}

}  // namespace carillon::cli

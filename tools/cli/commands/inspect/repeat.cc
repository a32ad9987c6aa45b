#include "tools/cli/commands/inspect/repeat.h"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/status.h"
#include "tools/cli/ui/failures.h"

namespace carillon::cli {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kLeast = 0.05;
constexpr double kMost = 3600;

}  // namespace

bool Blocks::Stopped() {
  stopped_ |= signals_.Take() > 0 || !console_->out_ok();
  return stopped_;
}

void Blocks::Wait(Clock::time_point deadline) {
  while (!Stopped()) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
    if (left.count() <= 0) return;
    pollfd end{signals_.fd(), POLLIN, 0};
    poll(&end, 1, static_cast<int>(left.count()));
  }
}

absl::Status Blocks::Draw(const std::function<absl::Status()>& show,
                          const std::function<bool()>& may_return) {
  console_->BeginBlock(title_);
  const absl::Status status = show();
  // It was for nobody any more.
  if (absl::IsCancelled(status) && Stopped()) return absl::OkStatus();
  const bool passes =
      absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status);
  if (!status.ok() && (!shown_ || !passes || !may_return())) return status;
  if (status.ok()) {
    shown_ = true;
  } else if (console_->json()) {
    console_->PrintJsonLine({{"error", ErrorToJson(status)}});
  } else {
    console_->Say(std::string(status.message()));
  }
  console_->EndBlock(/*result=*/status.ok());
  return absl::OkStatus();
}

Repeat::Repeat(Arguments& arguments) {
  arguments.OptionalSeconds("-w,--watch SECONDS", seconds_, 1, kLeast, kMost,
                            "Again and again, until Ctrl-C");
}

std::chrono::milliseconds Repeat::interval() const {
  return std::chrono::milliseconds(static_cast<int64_t>(seconds_ * 1000));
}

std::string Repeat::Title(const std::string& command) const {
  return fmt::format("carillon {}, every {} s; Ctrl-C ends it", command,
                     seconds_);
}

absl::Status Repeat::Run(const std::string& command, Console& console,
                         const std::function<absl::Status()>& show,
                         const std::function<bool()>& may_return) const {
  if (!wanted()) return show();
  Blocks blocks(Title(command), &console);
  absl::Status status;
  while (status.ok() && !blocks.Stopped()) {
    const auto next = Clock::now() + interval();
    status = blocks.Draw(show, may_return);
    if (status.ok()) blocks.Wait(next);
  }
  console.EndBlocks(/*error=*/!status.ok());
  return status;
}

}  // namespace carillon::cli

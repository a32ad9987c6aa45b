#include "tools/cli/commands/testbed/up_report.h"

#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "base/status.h"
#include "tools/cli/ui/exit_code.h"

namespace carillon::cli {

void UpReportWriter::Write(const Json& line) {
  const std::string text =
      line.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
  if (fd_) (void)!write(fd_.get(), text.data(), text.size());
}

void UpReportWriter::Say(const std::string& line) { Write({{"say", line}}); }

void UpReportWriter::Up(const Json& document) {
  Write({{"up", document}});
  fd_.reset();
}

void UpReportWriter::Failed(const absl::Status& status) {
  Write({{"failed",
          {{"code", static_cast<int>(status.code())},
           {"message", status.message()},
           {"hint", HintOf(status)}}}});
  fd_.reset();
}

void UpReportReader::TakeLine(const std::string& line) {
  const Json json = Json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) {
    say_(line);
  } else if (json.contains("say")) {
    say_(json.value("say", ""));
  } else if (json.contains("up")) {
    status_ = absl::OkStatus();
    document_ = json["up"];
    done_ = true;
  } else if (json.contains("failed")) {
    const Json& failed = json["failed"];
    status_ = WithHint(
        absl::Status(static_cast<absl::StatusCode>(failed.value(
                         "code", static_cast<int>(absl::StatusCode::kUnknown))),
                     failed.value("message", "")),
        failed.value("hint", ""));
    done_ = true;
  }
}

bool UpReportReader::Read(int other_fd) {
  pollfd fds[2] = {{fd_, POLLIN, 0}, {other_fd, POLLIN, 0}};
  poll(fds, 2, -1);
  if (fds[0].revents == 0) return true;
  char bytes[4096];
  const ssize_t got = read(fd_, bytes, sizeof(bytes));
  if (got <= 0) {
    if (!buffer_.empty()) say_(buffer_);
    return false;
  }
  buffer_.append(bytes, got);
  for (size_t end; !done_ && (end = buffer_.find('\n')) != std::string::npos;) {
    TakeLine(buffer_.substr(0, end));
    buffer_.erase(0, end + 1);
  }
  return !done_;
}

}  // namespace carillon::cli

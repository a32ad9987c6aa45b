// The pipe through which a detached supervisor reports to the waiting `carillon
// up -d`: lines of JSON, the last of them {"up": document} or {"failed": ...}.
#ifndef CARILLON_TOOLS_CLI_COMMANDS_TESTBED_UP_REPORT_H_
#define CARILLON_TOOLS_CLI_COMMANDS_TESTBED_UP_REPORT_H_

#include <functional>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/status/status.h"
#include "base/unique_fd.h"
#include "tools/cli/ui/console.h"

namespace carillon::cli {

// The supervisor's end. It is no error if the reader has gone.
class UpReportWriter {
 public:
  explicit UpReportWriter(int fd) : fd_(fd) {}
  void Say(const std::string& line);
  // Writes the last line and closes the pipe.
  void Up(const Json& document);
  void Failed(const absl::Status& status);

 private:
  void Write(const Json& line);

  UniqueFd fd_;
};

// The waiting end. Passes on lines that are no report (a crash) unchanged.
class UpReportReader {
 public:
  UpReportReader(int fd, std::function<void(const std::string&)> say)
      : fd_(fd), say_(std::move(say)) {}

  // Waits until there is something to read, or `other_fd` is readable. Returns
  // false after the last line or the supervisor's death.
  bool Read(int other_fd);

  // The result of the bring-up, after the last line.
  const absl::Status& status() const { return status_; }
  const Json& document() const { return document_; }

 private:
  void TakeLine(const std::string& line);

  const int fd_;
  const std::function<void(const std::string&)> say_;
  std::string buffer_;
  bool done_ = false;
  absl::Status status_ =
      absl::InternalError("the supervisor has ended without a word");
  Json document_;
};

}  // namespace carillon::cli

#endif  // CARILLON_TOOLS_CLI_COMMANDS_TESTBED_UP_REPORT_H_

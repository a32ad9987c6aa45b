// What a detached supervisor tells the `carillon up -d` that waits for it:
// lines of JSON through a pipe, at last either {"up": document} or {"failed":
// ...}.
#ifndef CARILLON_TOOLS_CLI_COMMANDS_TESTBED_UP_REPORT_H_
#define CARILLON_TOOLS_CLI_COMMANDS_TESTBED_UP_REPORT_H_

#include <functional>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/status/status.h"
#include "base/unique_fd.h"
#include "tools/cli/ui/console.h"

namespace carillon::cli {

// The supervisor's end. A reader that has gone away is no error.
class UpReportWriter {
 public:
  explicit UpReportWriter(int fd) : fd_(fd) {}
  void Say(const std::string& line);
  // The last words: closes the pipe.
  void Up(const Json& document);
  void Failed(const absl::Status& status);

 private:
  void Write(const Json& line);

  UniqueFd fd_;
};

// The waiting end. Lines that are no report (a crash) are passed on as they
// are.
class UpReportReader {
 public:
  UpReportReader(int fd, std::function<void(const std::string&)> say)
      : fd_(fd), say_(std::move(say)) {}

  // Waits until there is something, or `other_fd` is readable. False after the
  // last words or the supervisor's death.
  bool Read(int other_fd);

  // How it went, after the last words.
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

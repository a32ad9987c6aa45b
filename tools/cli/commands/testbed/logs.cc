#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/status.h"
#include "base/text.h"
#include "tools/cli/commands/testbed/commands.h"
#include "tools/cli/ui/exit_code.h"
#include "tools/testbed/supervisor/stop_signals.h"
#include "tools/testbed/supervisor/testbeds.h"

namespace carillon::cli {
namespace {

namespace fs = std::filesystem;

// The delay after which a new line is shown.
constexpr int kFollowMs = 100;
// A log may be large, so older lines are only in the file.
constexpr std::streamoff kMaxRead = 16 << 20;

struct Options {
  std::string testbed;
  std::vector<std::string> names;
  uint32_t lines = 20;
  bool follow = false;
};

struct Log {
  std::string name;
  std::ifstream file;
  std::string unfinished;  // a line without its end
};

// Skips to the first whole line of the last kMaxRead bytes.
void SkipToTheEnd(std::ifstream& file) {
  file.seekg(0, std::ios::end);
  if (file.tellg() <= kMaxRead) {
    file.seekg(0);
    return;
  }
  file.seekg(-kMaxRead, std::ios::end);
  std::string rest_of_line;
  std::getline(file, rest_of_line);
}

// The logs that were asked for, by name.
absl::StatusOr<std::vector<Log>> OpenLogs(const testbed::Testbed& testbed,
                                          const Options& options) {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry :
       fs::directory_iterator(testbed.paths.log_directory(), error)) {
    if (entry.path().extension() == ".log") {
      names.push_back(entry.path().stem());
    }
  }
  std::sort(names.begin(), names.end());
  for (const std::string& name : options.names) {
    if (std::find(names.begin(), names.end(), name) != names.end()) continue;
    const std::vector<std::string_view> known(names.begin(), names.end());
    return WithHint(absl::NotFoundError(fmt::format(
                        "testbed '{}' has no log of {}{}", testbed.name,
                        Quote(name), DidYouMean(name, known))),
                    fmt::format("there are: {}", JoinWords(names)));
  }
  if (!options.names.empty()) names = options.names;
  std::vector<Log> logs;
  for (const std::string& name : names) {
    Log log{.name = name};
    log.file.open(
        fmt::format("{}/{}.log", testbed.paths.log_directory(), name));
    SkipToTheEnd(log.file);
    logs.push_back(std::move(log));
  }
  return logs;
}

// The lines that were completed since the last call.
std::vector<std::string> NewLines(Log& log) {
  std::vector<std::string> lines;
  log.file.clear();
  for (char c; log.file.get(c);) {
    if (c != '\n') {
      log.unfinished += c;
      continue;
    }
    lines.push_back(std::exchange(log.unfinished, ""));
  }
  return lines;
}

class Printer {
 public:
  Printer(const std::vector<Log>& logs, Console& console) : console_(console) {
    for (const Log& log : logs) width_ = std::max(width_, log.name.size());
    prefixed_ = logs.size() > 1;
  }

  void Print(const std::string& name, const std::string& line) {
    if (console_.json()) {
      console_.PrintJsonLine({{"process", name}, {"line", line}});
    } else if (prefixed_) {
      console_.Print(fmt::format("{:<{}} | {}\n", name, width_, line));
    } else {
      console_.Print(line + "\n");
    }
  }

 private:
  Console& console_;
  size_t width_ = 0;
  bool prefixed_;
};

void PrintLast(std::vector<Log>& logs, const Options& options,
               Console& console) {
  Printer printer(logs, console);
  Json document = Json::array();
  for (Log& log : logs) {
    std::vector<std::string> lines = NewLines(log);
    if (!log.unfinished.empty() && !options.follow) {
      lines.push_back(log.unfinished);
    }
    const size_t skip =
        lines.size() > options.lines ? lines.size() - options.lines : 0;
    for (size_t i = skip; i < lines.size(); ++i) {
      if (console.json() && !options.follow) {
        document.push_back({{"process", log.name}, {"line", lines[i]}});
      } else {
        printer.Print(log.name, lines[i]);
      }
    }
  }
  if (console.json() && !options.follow) {
    console.PrintDocument({{"lines", std::move(document)}});
  }
}

absl::Status Show(const Options& options, Console& console) {
  testbed::StopSignals requests;
  ASSIGN_OR_RETURN(const auto testbed, testbed::ChooseTestbed(options.testbed));
  ASSIGN_OR_RETURN(auto logs, OpenLogs(testbed, options));
  PrintLast(logs, options, console);
  if (!options.follow) return absl::OkStatus();
  Printer printer(logs, console);
  while (requests.Take() == 0 && console.out_ok()) {
    for (Log& log : logs) {
      for (const std::string& line : NewLines(log)) {
        printer.Print(log.name, line);
      }
    }
    // The files disappear with the testbed.
    if (!testbed.supervisor || !testbed::IsAlive(*testbed.supervisor)) break;
    pollfd end{requests.fd(), POLLIN, 0};
    poll(&end, 1, kFollowMs);
  }
  return absl::OkStatus();
}

}  // namespace

Run MakeLogs(Arguments& arguments, Console& console) {
  auto options = std::make_shared<Options>();
  arguments.Texts("process PROCESS", options->names,
                  "gpud, supervisor or a device; all without it");
  arguments.Flag("-f,--follow", options->follow,
                 "Go on with new lines, until Ctrl-C or the testbed's end");
  arguments.Number("-n,--lines", options->lines, 0, 1'000'000,
                   "How many of each, from the end");
  AddNameOption(arguments, options->testbed);
  return [options, &console] { return Show(*options, console); };
}

}  // namespace carillon::cli

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/log/log_line.h"
#include "base/option_table.h"
#include "base/status.h"
#include "base/text.h"
#include "tools/cli/commands/testbed/commands.h"
#include "tools/cli/commands/testbed/log_files.h"
#include "tools/cli/ui/exit_code.h"
#include "tools/cli/ui/terminal_text.h"
#include "tools/testbed/supervisor/state.h"
#include "tools/testbed/supervisor/stop_signals.h"
#include "tools/testbed/supervisor/testbeds.h"

namespace carillon::cli {
namespace {

// The delay after which a new line is shown.
constexpr int kFollowMs = 100;
constexpr size_t kLines = 20;
constexpr size_t kAll = SIZE_MAX;

struct Options {
  std::string testbed;
  std::vector<std::string> names;
  std::string lines;
  std::string since;
  bool follow = false;
};

// The logs that were asked for, by name.
absl::StatusOr<std::vector<LogFile>> OpenLogs(const testbed::Testbed& testbed,
                                              const Options& options) {
  const std::string folder = testbed.paths.log_directory();
  std::vector<std::string> names = LogNames(folder);
  std::vector<std::string> wanted = options.names;
  const auto state = testbed::ReadState(testbed.paths.state_file());
  for (std::string& name : wanted) {
    if (state.ok()) name = std::string(testbed::WithoutOwnHost(*state, name));
    if (std::find(names.begin(), names.end(), name) != names.end()) continue;
    if (state.ok()) {
      RETURN_IF_ERROR(testbed::CheckIsHere(*state, name, "logs"));
    }
    const std::vector<std::string_view> known(names.begin(), names.end());
    return WithHint(absl::NotFoundError(fmt::format(
                        "testbed '{}' has no log of {}{}", testbed.name,
                        Quote(name), DidYouMean(name, known))),
                    fmt::format("there are: {}", JoinWords(names)));
  }
  if (!wanted.empty()) names = std::move(wanted);
  std::vector<LogFile> logs;
  for (const std::string& name : names) logs.emplace_back(folder, name);
  return logs;
}

// The new lines of all logs, by time.
std::vector<LogEntry> ReadAll(std::vector<LogFile>& logs, uint64_t since_ns,
                              size_t most, bool with_rest) {
  std::vector<std::vector<LogEntry>> entries;
  for (LogFile& log : logs) {
    entries.push_back(log.Read(since_ns, most, with_rest));
  }
  return MergeByTime(std::move(entries));
}

Json ToJson(const LogEntry& entry) {
  Json json = {{"time_ns", nullptr},
               {"level", nullptr},
               {"process", entry.process},
               {"line", entry.line}};
  if (entry.time_ns) {
    json["time_ns"] = *entry.time_ns;
    json["level"] = entry.level;
  }
  return json;
}

class Printer {
 public:
  Printer(const std::vector<LogFile>& logs, Console& console)
      : console_(console) {
    for (const LogFile& log : logs) {
      width_ = std::max(width_, log.name().size());
    }
    prefixed_ = logs.size() > 1;
  }

  void Print(const LogEntry& entry) {
    if (console_.json()) {
      console_.PrintJsonLine(ToJson(entry));
    } else if (prefixed_) {
      console_.Print(fmt::format("{:<{}} | {}\n", entry.process, width_,
                                 ForTerminal(entry.line)));
    } else {
      console_.Print(ForTerminal(entry.line) + "\n");
    }
  }

 private:
  Console& console_;
  size_t width_ = 0;
  bool prefixed_;
};

absl::Status Show(const Options& options, Console& console) {
  size_t most = options.since.empty() ? kLines : kAll;
  if (!options.lines.empty()) {
    const auto lines = ReadInteger(options.lines, 0, 1'000'000);
    if (!lines.ok()) {
      return absl::InvalidArgumentError(
          fmt::format("--lines: {}", lines.status().message()));
    }
    most = static_cast<size_t>(*lines);
  }
  uint64_t since_ns = 0;
  if (!options.since.empty()) {
    ASSIGN_OR_RETURN(since_ns, ParseSince(options.since, RealtimeNs()));
  }
  testbed::StopSignals requests;
  ASSIGN_OR_RETURN(const auto testbed, testbed::ChooseTestbed(options.testbed));
  ASSIGN_OR_RETURN(auto logs, OpenLogs(testbed, options));
  const auto first = ReadAll(logs, since_ns, most, !options.follow);
  if (console.json() && !options.follow) {
    Json lines = Json::array();
    for (const LogEntry& entry : first) lines.push_back(ToJson(entry));
    console.PrintDocument({{"lines", std::move(lines)}});
    return absl::OkStatus();
  }
  Printer printer(logs, console);
  for (const LogEntry& entry : first) printer.Print(entry);
  while (options.follow && requests.Take() == 0 && console.out_ok()) {
    for (const LogEntry& entry : ReadAll(logs, since_ns, kAll, false)) {
      printer.Print(entry);
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
  arguments.Texts("process LOG...", options->names,
                  "gpud, supervisor or a device; all without it");
  arguments.Flag("-f,--follow", options->follow,
                 "Go on with new lines, until Ctrl-C or the testbed's end");
  arguments
      .Text("-n,--lines N", options->lines,
            "How many of each, from the end; 20, or with --since all")
      .NotEmpty();
  arguments
      .Text("--since 10s|TIME", options->since,
            "Only lines from then on: 03:19, '2026-11-27 03:19:01.5'")
      .NotEmpty();
  AddNameOption(arguments, options->testbed);
  return [options, &console] { return Show(*options, console); };
}

}  // namespace carillon::cli

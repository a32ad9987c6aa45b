#include "tools/cli/app.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "absl/status/status.h"
#include "base/status.h"
#include "base/text.h"
#include "base/version.h"
#include "tools/cli/arguments.h"
#include "tools/cli/command.h"
#include "tools/cli/ui/exit_code.h"
#include "tools/cli/ui/failures.h"

namespace carillon::cli {
namespace {

constexpr char kShortHelp[] =
    R"(Carillon, an event-driven GPU testbed: every device is a process, every launch is a doorbell.

  carillon demo          bring up a GPU, a NIC, an FPGA and a CPU host; drive and report
  carillon up -d         bring them up for you to play with
  carillon status        see what the GPU does
  carillon down          end it all

)";

size_t LongestName() {
  size_t longest = 0;
  for (const Command& command : Commands()) {
    longest = std::max(longest, command.name.size());
  }
  return longest;
}

std::string CommandLine(const Command& command) {
  return fmt::format("  {:<{}} {}\n", command.name, LongestName(),
                     command.summary);
}

void PrintHelp(Console& console, bool full) {
  std::string text = kShortHelp;
  std::string_view group;
  for (const Command& command : Commands()) {
    if (command.group.empty()) continue;
    if (command.group != group) {
      if (!group.empty()) text += "\n";
      group = command.group;
      text += full ? fmt::format("{}:\n", group)
                   : fmt::format("{:<20} ", fmt::format("{}:", group));
    }
    text += full ? CommandLine(command) : fmt::format(" {}", command.name);
  }
  text += full ? "\ncarillon help COMMAND says more; docs/cli.md says all.\n"
               : "\n\ncarillon help lists the commands, carillon help COMMAND "
                 "explains one.\n";
  console.Print(text);
}

// The examples come first, because most people look for them.
std::string Description(const Command& command) {
  std::string text = fmt::format("carillon {}: {}\n\nExamples:\n", command.name,
                                 command.summary);
  std::istringstream lines{std::string(command.examples)};
  for (std::string line; std::getline(lines, line);) text += "  " + line + "\n";
  return text;
}

absl::Status UsageError(const Command& command, const std::string& message) {
  return WithHint(absl::InvalidArgumentError(message),
                  fmt::format("carillon {} --help", command.name));
}

absl::Status ParseFailure(const Command& command, const CLI::App& app,
                          const CLI::ParseError& error) {
  if (dynamic_cast<const CLI::ExtrasError*>(&error) == nullptr) {
    return UsageError(command, error.what());
  }
  const std::vector<std::string> extras = app.remaining();
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_group().empty()) continue;
    for (const std::string& name : option->get_lnames()) {
      names.push_back("--" + name);
    }
  }
  const std::string extra = extras.empty() ? "" : extras[0];
  const std::vector<std::string_view> candidates(names.begin(), names.end());
  return UsageError(command,
                    fmt::format("{} {}{}",
                                extra.starts_with('-') ? "unknown option"
                                                       : "unexpected argument",
                                Quote(extra), DidYouMean(extra, candidates)));
}

// CLI11 throws; no exception leaves this function.
absl::Status RunCommand(const Command& command,
                        std::vector<std::string> arguments, Console& console) {
  try {
    CLI::App app(Description(command),
                 fmt::format("carillon {}", command.name));
    app.get_formatter()->column_width(26);
    Arguments taken(&app);
    const Run run = command.make(taken, console);
    // It applies to errors of parsing, too (WantsJson).
    AddOutputOption(command, taken, console);
    std::reverse(arguments.begin(), arguments.end());
    try {
      app.parse(std::move(arguments));
    } catch (const CLI::CallForHelp&) {
      console.Print(app.help());
      return absl::OkStatus();
    } catch (const CLI::ParseError& error) {
      return ParseFailure(command, app, error);
    }
    return run();
  } catch (const CLI::Error& error) {
    return absl::InternalError(error.what());
  }
}

// The two-word commands whose first word is `word`.
std::vector<const Command*> FamilyOf(const std::string& word) {
  std::vector<const Command*> family;
  for (const Command& command : Commands()) {
    if (command.name.starts_with(word + " ")) family.push_back(&command);
  }
  return family;
}

absl::Status UnknownCommand(const std::string& name) {
  std::vector<std::string_view> names;
  for (const Command& command : Commands()) {
    if (!command.group.empty()) names.push_back(command.name);
  }
  return WithHint(
      absl::InvalidArgumentError(fmt::format(
          "unknown command {}{}", Quote(name), DidYouMean(name, names))),
      "carillon help");
}

void PrintFamily(const std::vector<const Command*>& family, Console& console) {
  for (const Command* command : family) console.Print(CommandLine(*command));
  console.Print(
      fmt::format("\ncarillon help {} says more.\n", family.front()->name));
}

// The command that `words` begin with, and the number of its words. Null with
// an error, or after showing the help of its family.
absl::StatusOr<const Command*> ChooseCommand(
    const std::vector<std::string>& words, size_t* taken, Console& console) {
  const std::string& first = words[0];
  // `trace export` is not what `trace` does with an argument.
  if (words.size() > 1) {
    *taken = 2;
    const Command* const command = FindCommand(first + " " + words[1]);
    if (command != nullptr) return command;
  }
  *taken = 1;
  if (const Command* command = FindCommand(first)) return command;
  const auto family = FamilyOf(first);
  if (family.empty()) return UnknownCommand(first);
  const bool only = words.size() == 1;
  if (only || words[1] == "--help" || words[1] == "-h") {
    PrintFamily(family, console);
    return nullptr;
  }
  return UnknownCommand(first + " " + words[1]);
}

absl::Status Dispatch(const std::vector<std::string>& arguments,
                      Console& console) {
  if (arguments.empty()) {
    PrintHelp(console, /*full=*/false);
    return absl::OkStatus();
  }
  const std::string& first = arguments[0];
  if (first == "--version" || first == "version") {
    console.Print(fmt::format("carillon {}\n", kVersion));
    return absl::OkStatus();
  }
  const bool help = first == "--help" || first == "-h" || first == "help";
  const std::vector<std::string> words(arguments.begin() + (help ? 1 : 0),
                                       arguments.end());
  if (words.empty()) {
    PrintHelp(console, /*full=*/true);
    return absl::OkStatus();
  }
  size_t taken = 0;
  ASSIGN_OR_RETURN(const auto command, ChooseCommand(words, &taken, console));
  if (command == nullptr) return absl::OkStatus();
  if (help) return RunCommand(*command, {"--help"}, console);
  return RunCommand(*command, {words.begin() + taken, words.end()}, console);
}

bool IsOutput(const std::string& argument) {
  return argument == "-o" || argument == "--output";
}

// The format may also stand before the command, and as -o=json.
std::vector<std::string> OutputLast(std::vector<std::string> arguments) {
  for (std::string& argument : arguments) {
    if (argument == "--") break;
    if (argument.starts_with("-o=")) argument = "--output" + argument.substr(2);
  }
  size_t before = 0;
  if (!arguments.empty() && IsOutput(arguments[0])) {
    before = std::min<size_t>(2, arguments.size());
  } else if (!arguments.empty() && (arguments[0].starts_with("--output=") ||
                                    arguments[0] == "-ojson")) {
    before = 1;
  }
  // Before a "--", behind which all are arguments of something else.
  const auto end = std::find(arguments.begin(), arguments.end(), "--");
  std::rotate(arguments.begin(), arguments.begin() + before, end);
  return arguments;
}

// -o json applies to errors too, even to those of parsing.
bool WantsJson(const std::vector<std::string>& arguments) {
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string& argument = arguments[i];
    if (argument == "--") break;
    if (argument == "-ojson" || argument == "-o=json" ||
        argument == "--output=json") {
      return true;
    }
    if (IsOutput(argument) && i + 1 < arguments.size() &&
        arguments[i + 1] == "json") {
      return true;
    }
  }
  return false;
}

}  // namespace

int RunCommandLine(const std::vector<std::string>& arguments,
                   Console& console) {
  absl::Status status = Dispatch(OutputLast(arguments), console);
  if (status.ok()) status = console.OutStatus();
  const ExitCode code = ExitCodeOf(status);
  const std::string message(status.message());
  const std::string hint = HintOf(status);
  if (!status.ok() && !message.empty()) {
    console.Say(fmt::format("carillon: {}", message));
    if (!hint.empty()) console.Say(fmt::format("  hint: {}", hint));
  }
  if (!status.ok() && WantsJson(arguments) && !console.document_printed()) {
    console.PrintDocument({{"error", ErrorToJson(status)}});
  }
  return static_cast<int>(code);
}

}  // namespace carillon::cli

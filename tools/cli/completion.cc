#include "tools/cli/completion.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace carillon::cli {
namespace {

// What is no option is left to bash, which completes names of files.
constexpr char kBash[] = R"(# Completes the command line of carillon in bash:
#   source <(carillon completion bash)
_carillon() {{
  local word=${{COMP_WORDS[COMP_CWORD]}} command=${{COMP_WORDS[1]}}
  local -A followers=(
{followers}  )
  local -A options=(
{options}  )
  COMPREPLY=()
  if ((COMP_CWORD == 1)); then
    COMPREPLY=($(compgen -W "{commands} help version" -- "$word"))
    return
  fi
  if [[ -n ${{followers[$command]-}} ]]; then
    if ((COMP_CWORD == 2)); then
      COMPREPLY=($(compgen -W "${{followers[$command]}}" -- "$word"))
      return
    fi
    command+=" ${{COMP_WORDS[2]}}"
  fi
  if [[ $word == -* ]]; then
    COMPREPLY=($(compgen -W "${{options[$command]-}}" -- "$word"))
  fi
}}
complete -o default -F _carillon carillon ./carillon
)";

std::string OptionsOf(const Command& command, Console& console) {
  CLI::App app;
  Arguments taken(&app);
  const Run run = command.make(taken, console);
  std::vector<std::string> names = {"--output"};
  for (const CLI::Option* const option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) {
      names.push_back("--" + name);
    }
  }
  return fmt::format("{}", fmt::join(names, " "));
}

std::string BashScript(Console& console) {
  std::vector<std::string> first_words;
  std::map<std::string, std::vector<std::string>> families;
  std::string options;
  for (const Command& command : Commands()) {
    if (command.group.empty()) continue;
    const std::string name(command.name);
    const size_t space = name.find(' ');
    const std::string first = name.substr(0, space);
    if (first_words.empty() || first_words.back() != first) {
      first_words.push_back(first);
    }
    if (space != name.npos) families[first].push_back(name.substr(space + 1));
    options +=
        fmt::format("    [\"{}\"]=\"{}\"\n", name, OptionsOf(command, console));
  }
  families["help"] = first_words;
  std::string followers;
  for (const auto& [first, words] : families) {
    followers += fmt::format("    [{}]=\"{}\"\n", first, fmt::join(words, " "));
  }
  return fmt::format(kBash, fmt::arg("followers", followers),
                     fmt::arg("options", options),
                     fmt::arg("commands", fmt::join(first_words, " ")));
}

}  // namespace

Run MakeCompletion(Arguments& arguments, Console& console) {
  auto shell = std::make_shared<std::string>();
  arguments.Choice("shell SHELL", *shell, {"bash"}, "Whose: bash").Required();
  return [shell, &console] {
    console.Print(BashScript(console));
    return absl::OkStatus();
  };
}

}  // namespace carillon::cli

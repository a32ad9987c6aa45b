#include "tools/cli/candidates.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <set>
#include <string_view>
#include <utility>

#include "tools/cli/arguments.h"
#include "tools/cli/command.h"
#include "tools/cli/testbed_words.h"

namespace carillon::cli {
namespace {

using Words = std::vector<std::string>;

std::vector<std::string> Split(const std::string& text, std::string_view at) {
  std::vector<std::string> parts;
  size_t from = 0;
  for (size_t to; (to = text.find(at, from)) != text.npos;
       from = to + at.size()) {
    parts.push_back(text.substr(from, to - from));
  }
  parts.push_back(text.substr(from));
  return parts;
}

// The words that can stand for the `index`-th value of a "TARGET ACTION | PLAN":
// TARGET and PLAN, then ACTION. "FAULT..." can stand for any.
std::vector<std::string> WordsAt(const std::string& word, size_t index) {
  std::vector<std::string> found;
  for (const std::string& way : Split(word, " | ")) {
    const std::vector<std::string> steps = Split(way, " ");
    std::string step = steps[std::min(index, steps.size() - 1)];
    const bool repeats = step.ends_with("...");
    if (repeats) step.resize(step.size() - 3);
    if (index < steps.size() || repeats) found.push_back(step);
  }
  return found;
}

bool IsMany(const CLI::Option& option) {
  return option.get_items_expected_max() > 1;
}

std::string FirstPart(const std::string& text) {
  return text.substr(0, text.find_first_of(";\n"));
}

// One command's line, from behind its name.
class CommandLine {
 public:
  CommandLine(const Command& command, Console& console) : arguments_(&app_) {
    // What it would run is dropped.
    command.make(arguments_, console);
    AddOutputOption(command, arguments_, console);
    for (const CLI::Option* const option : app_.get_options()) {
      if (option->get_group().empty()) continue;
      (option->get_positional() ? values_ : options_).push_back(option);
    }
  }

  // A word before the one that is typed.
  void Pass(const std::string& word) {
    const CLI::Option* const pending = std::exchange(pending_, nullptr);
    if (Takes(pending, word)) {
      Note(*pending, word);
    } else if (only_values_ || !word.starts_with('-') || word == "-") {
      const CLI::Option* const value = Value();
      if (value == nullptr) return;
      if (IsMany(*value)) {
        ++of_many_;
      } else {
        ++value_;
      }
    } else if (word == "--") {
      only_values_ = true;
    } else {
      const size_t equals = word.find('=');
      const CLI::Option* const option = Find(word.substr(0, equals));
      if (option == nullptr) return;
      used_.insert(option);
      if (equals != word.npos) {
        Note(*option, word.substr(equals + 1));
      } else if (arguments_.ValueOf(option) != nullptr &&
                 (word.starts_with("--") || word.size() == 2)) {
        pending_ = option;
      }
    }
  }

  Candidates Complete(const std::string& word) const {
    Candidates found;
    if (Takes(pending_, word)) {
      AddValues(*pending_, 0, "", &found);
    } else if (const size_t equals = word.find('=');
               !only_values_ && word.starts_with("--") && equals != word.npos) {
      const CLI::Option* const option = Find(word.substr(0, equals));
      if (option != nullptr) {
        AddValues(*option, 0, word.substr(0, equals + 1), &found);
      }
    } else if (!only_values_ && word.starts_with('-')) {
      AddOptions(&found);
    } else if (const CLI::Option* const value = Value(); value != nullptr) {
      AddValues(*value, of_many_, "", &found);
    } else if (!only_values_) {
      AddOptions(&found);
    }
    return found;
  }

 private:
  // The positional argument that comes next; null: none.
  const CLI::Option* Value() const {
    return value_ < values_.size() ? values_[value_] : nullptr;
  }

  // Whether `word` is the value of the option before it: one that may do without
  // leaves words with a dash to others.
  static bool Takes(const CLI::Option* pending, const std::string& word) {
    return pending != nullptr &&
           (pending->get_expected_min() > 0 || !word.starts_with('-'));
  }

  const CLI::Option* Find(const std::string& word) const {
    for (const CLI::Option* const option : options_) {
      // "-n5" is "-n 5".
      if (option->check_name(word) || (word.size() > 2 && word[1] != '-' &&
                                       option->check_name(word.substr(0, 2)))) {
        return option;
      }
    }
    return nullptr;
  }

  void Note(const CLI::Option& option, const std::string& value) {
    if (option.check_lname("name")) choice_.name = value;
    if (option.check_lname("dir")) choice_.directory = value;
    if (option.check_lname("gpud")) choice_.elsewhere = true;
  }

  void AddOptions(Candidates* found) const {
    for (const CLI::Option* const option : options_) {
      if (used_.contains(option) && !IsMany(*option)) continue;
      for (const std::string& name : option->get_lnames()) {
        found->words.push_back(
            {"--" + name, FirstPart(option->get_description())});
      }
    }
  }

  // `before` comes before each.
  void AddValues(const CLI::Option& option, size_t index,
                 const std::string& before, Candidates* found) const {
    const ValueWords* const value = arguments_.ValueOf(&option);
    if (value == nullptr) return;
    for (const std::string& choice : value->choices) {
      found->words.push_back({before + choice, ""});
    }
    if (!value->choices.empty()) return;
    for (const std::string& word : WordsAt(value->word, index)) {
      found->files |= word == "FILE" || word == "DIR" || word == "PLAN";
      // Elsewhere the same words mean others: a KERNEL of a file.
      if (Find("--name") == nullptr && word != "POINT" && word != "BENCHMARK") {
        continue;
      }
      for (Candidate& candidate : FindTestbedWords(word, choice_)) {
        candidate.word.insert(0, before);
        found->words.push_back(std::move(candidate));
      }
    }
  }

  CLI::App app_;
  Arguments arguments_;
  std::vector<const CLI::Option*> options_;
  std::vector<const CLI::Option*> values_;
  std::set<const CLI::Option*> used_;
  const CLI::Option* pending_ = nullptr;  // whose value comes next
  bool only_values_ = false;              // behind a "--"
  size_t value_ = 0;                      // how many of values_ are there
  size_t of_many_ = 0;                    // of the last one
  TestbedChoice choice_;
};

// "--name", "=", "x", as bash cuts it, is "--name=x". Whether the last word was
// one of these.
bool JoinAtEquals(Words* words) {
  Words joined;
  bool last = false;
  for (size_t i = 0; i < words->size(); ++i) {
    const std::string& word = (*words)[i];
    last = word == "=" && !joined.empty() && joined.back().starts_with("--") &&
           joined.back().find('=') == std::string::npos;
    if (!last) {
      joined.push_back(word);
      continue;
    }
    joined.back() += word;
    if (i + 1 < words->size()) joined.back() += (*words)[++i];
  }
  *words = std::move(joined);
  return last;
}

// The command's name, or the next word of it.
Candidates FindCommands(const Words& before, bool with_others) {
  Candidates found;
  const std::string family = before.empty() ? "" : before[0] + " ";
  for (const Command& command : Commands()) {
    if (command.group.empty() || !command.name.starts_with(family)) continue;
    const std::string rest(command.name.substr(family.size()));
    const std::string word = rest.substr(0, rest.find(' '));
    const auto same = [&](const Candidate& other) {
      return other.word == word;
    };
    if (std::ranges::any_of(found.words, same)) continue;
    found.words.push_back(
        {word, std::string(word == rest ? command.summary : command.group)});
  }
  if (with_others) {
    found.words.push_back({"help", "explain a command"});
    found.words.push_back({"version", "say which version this is"});
  }
  return found;
}

Candidates Find(const Words& words, Console& console) {
  const std::string& typed = words.back();
  Words before(words.begin(), words.end() - 1);
  if (!before.empty() && (before[0] == "-o" || before[0] == "--output")) {
    if (before.size() == 1) return {.words = {{"table", ""}, {"json", ""}}};
    before.erase(before.begin(), before.begin() + 2);
  } else if (!before.empty() && before[0].starts_with("-o")) {
    before.erase(before.begin());
  }
  const bool help = !before.empty() && before[0] == "help";
  if (help) before.erase(before.begin());
  if (before.empty()) {
    if (!typed.starts_with('-')) return FindCommands(before, !help);
    return {.words = {{"--help", ""}, {"--version", ""}, {"--output", ""}}};
  }
  // The second words of `before`'s commands, as export of trace.
  Candidates found;
  if (before.size() == 1) found = FindCommands(before, false);
  size_t taken = 2;
  const Command* command = nullptr;
  if (before.size() > 1) command = FindCommand(before[0] + " " + before[1]);
  if (command == nullptr) {
    taken = 1;
    command = FindCommand(before[0]);
  }
  if (command == nullptr || command->group.empty() || help) return found;
  CommandLine line(*command, console);
  for (size_t i = taken; i < before.size(); ++i) line.Pass(before[i]);
  Candidates own = line.Complete(typed);
  if (!typed.starts_with('-')) {
    own.words.insert(own.words.end(), found.words.begin(), found.words.end());
  }
  return own;
}

}  // namespace

Candidates FindCandidates(Words words, Console& console) {
  if (words.empty()) return {};
  const bool cut = JoinAtEquals(&words);
  const std::string typed = words.back();
  Candidates found = Find(words, console);
  std::erase_if(found.words, [&](const Candidate& candidate) {
    return !candidate.word.starts_with(typed);
  });
  if (cut) {
    for (Candidate& candidate : found.words) {
      candidate.word.erase(0, candidate.word.find('=') + 1);
    }
  }
  return found;
}

}  // namespace carillon::cli

#include "tools/cli/arguments.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "base/option_table.h"

namespace carillon::cli {
namespace {

std::string NamesIn(const std::string& names) {
  return names.substr(0, names.find(' '));
}

// Refuses what `read` refuses, in the same words. CLI11's own range check lets
// NaN pass.
template <class T, class Read>
CLI::Option* AddNumber(CLI::App* app, const std::string& names, T& value,
                       const std::string& help, Read read) {
  CLI::Option* const option = app->add_option_function<std::string>(
      NamesIn(names),
      [&value, names, read](const std::string& text) {
        const auto number = read(text);
        if (!number.ok()) {
          throw CLI::ValidationError(NamesIn(names),
                                     std::string(number.status().message()));
        }
        value = static_cast<T>(*number);
      },
      help);
  option->default_str(fmt::format("{}", value));
  return option;
}

}  // namespace

// Shows the word in `names` instead of what CLI11 would make of types and
// validators.
Argument Arguments::Note(CLI::Option* option, const std::string& names,
                         const std::string& otherwise) {
  const size_t space = names.find(' ');
  const std::string word =
      space == names.npos ? otherwise : names.substr(space + 1);
  const std::string fallback = option->get_default_str();
  if (!word.empty()) {
    option->option_text(fallback.empty() ? word : word + " (" + fallback + ")");
  }
  values_[option].word = word;
  return Argument(option);
}

const ValueWords* Arguments::ValueOf(const CLI::Option* option) const {
  const auto found = values_.find(option);
  return found == values_.end() ? nullptr : &found->second;
}

Argument& Argument::Excludes(const std::string& other) {
  option_->excludes(other);
  return *this;
}

Argument& Argument::Required() {
  option_->required();
  return *this;
}

Argument& Argument::OneAtATime() {
  option_->allow_extra_args(false);
  return *this;
}

Argument& Argument::NotEmpty() {
  option_->check([](const std::string& value) {
    return value.empty() ? std::string("must not be empty") : std::string();
  });
  return *this;
}

Argument& Argument::Hidden() {
  option_->group("");
  return *this;
}

Argument Arguments::Flag(const std::string& names, bool& value,
                         const std::string& help) {
  return Argument(app_->add_flag(names, value, help));
}

Argument Arguments::Text(const std::string& names, std::string& value,
                         const std::string& help) {
  return Note(app_->add_option(NamesIn(names), value, help), names);
}

Argument Arguments::Texts(const std::string& names,
                          std::vector<std::string>& values,
                          const std::string& help) {
  return Note(app_->add_option(NamesIn(names), values, help), names);
}

Argument Arguments::Choice(const std::string& names, std::string& value,
                           const std::vector<std::string>& choices,
                           const std::string& help) {
  CLI::Option* const option = app_->add_option(NamesIn(names), value, help)
                                  ->check(CLI::IsMember(choices));
  values_[option].choices = choices;
  return Note(option, names);
}

Argument Arguments::Number(const std::string& names, uint32_t& value,
                           uint32_t min, uint32_t max,
                           const std::string& help) {
  const auto read = [=](const auto& text) {
    return ReadInteger(text, min, max);
  };
  return Note(AddNumber(app_, names, value, help, read), names, "N");
}

Argument Arguments::Seconds(const std::string& names, double& value, double min,
                            double max, const std::string& help) {
  const auto read = [=](const auto& text) {
    return ReadDecimal(text, min, max);
  };
  return Note(AddNumber(app_, names, value, help, read), names, "SECONDS");
}

Argument Arguments::OptionalSeconds(const std::string& names, double& value,
                                    double otherwise, double min, double max,
                                    const std::string& help) {
  const auto read = [=](const auto& text) {
    return ReadDecimal(text, min, max);
  };
  CLI::Option* const option = AddNumber(app_, names, value, help, read);
  option->default_str(fmt::format("{}", otherwise))->expected(0, 1);
  return Note(option, names, "SECONDS");
}

}  // namespace carillon::cli

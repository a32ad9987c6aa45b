#include "base/option_flags.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>

namespace carillon {
namespace {

constexpr int kUsage = 2;

// Returns what the help shows between the flag and its meaning.
std::string HelpOfValue(const Option& option) {
  std::string text = option.type == OptionType::kBoolean
                         ? ""
                         : fmt::format("{} ", AllowedValues(option));
  text +=
      option.required ? "(required)" : fmt::format("({})", DefaultOf(option));
  if (!option.environment.empty()) {
    text += fmt::format(" ${}", option.environment);
  }
  return text;
}

CLI::Option* AddFlag(CLI::App& app, const Option& option) {
  const std::string flag(option.flag);
  const std::string help(option.help);
  if (option.type == OptionType::kBoolean) {
    return app.add_flag(flag, *std::get<bool*>(option.field), help);
  }
  return app.add_option_function<std::string>(
      flag,
      [option](const std::string& text) {
        const auto setting = ReadSetting(option, text);
        if (!setting.ok()) {
          throw CLI::ValidationError(std::string(option.flag),
                                     std::string(setting.status().message()));
        }
        Store(*setting, option);
      },
      help);
}

}  // namespace

void AddFlags(CLI::App& app, std::span<const Option> options) {
  for (const Option& option : options) {
    CLI::Option* const flag = AddFlag(app, option)
                                  ->option_text(HelpOfValue(option))
                                  ->required(option.required);
    if (!option.environment.empty()) {
      flag->envname(std::string(option.environment));
    }
    if (!option.section.empty()) flag->group(std::string(option.section));
  }
}

std::optional<int> ReadFlags(const std::string& program,
                             const std::string& description,
                             std::span<const Option> options, int argc,
                             char** argv) {
  CLI::App app(description, program);
  AddFlags(app, options);
  return ReadFlags(app, argc, argv);
}

std::optional<int> ReadFlags(CLI::App& app, int argc, char** argv) {
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kUsage;  // --help is such an "error", too
  }
  return std::nullopt;
}

}  // namespace carillon

#include "tools/cli/arguments.h"

#include <CLI/CLI.hpp>

namespace carillon::cli {

Argument& Argument::Placeholder(const std::string& word) {
  // Replaces what CLI11 would make of types and validators.
  const std::string fallback = option_->get_default_str();
  option_->option_text(fallback.empty() ? word : word + " (" + fallback + ")");
  return *this;
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

Argument Arguments::Flag(const std::string& names, bool& value,
                         const std::string& help) {
  return Argument(app_->add_flag(names, value, help));
}

Argument Arguments::Text(const std::string& names, std::string& value,
                         const std::string& help) {
  return Argument(app_->add_option(names, value, help));
}

Argument Arguments::Texts(const std::string& names,
                          std::vector<std::string>& values,
                          const std::string& help) {
  return Argument(app_->add_option(names, values, help));
}

Argument Arguments::Choice(const std::string& names, std::string& value,
                           const std::vector<std::string>& choices,
                           const std::string& help) {
  return Argument(
      app_->add_option(names, value, help)->check(CLI::IsMember(choices)));
}

Argument Arguments::Number(const std::string& names, uint32_t& value,
                           uint32_t min, uint32_t max,
                           const std::string& help) {
  Argument argument(app_->add_option(names, value, help)
                        ->check(CLI::Range(min, max))
                        ->capture_default_str());
  return argument.Placeholder("N");
}

Argument Arguments::Seconds(const std::string& names, double& value, double min,
                            double max, const std::string& help) {
  Argument argument(app_->add_option(names, value, help)
                        ->check(CLI::Range(min, max))
                        ->capture_default_str());
  return argument.Placeholder("SECONDS");
}

}  // namespace carillon::cli

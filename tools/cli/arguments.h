// The options and arguments of a command. A thin face of CLI11, which costs
// every file that includes it five seconds of compilation.
#ifndef CARILLON_TOOLS_CLI_ARGUMENTS_H_
#define CARILLON_TOOLS_CLI_ARGUMENTS_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace carillon::cli {

// One option or positional argument, for the uncommon settings.
class Argument {
 public:
  explicit Argument(CLI::Option* option) : option_(option) {}
  Argument& Excludes(const std::string& other);
  Argument& Required();
  // Each use of the option takes one value, not all up to the next option.
  Argument& OneAtATime();
  // An empty value is refused: a shell's variable that is not set, mostly.
  Argument& NotEmpty();
  // The help does not show it, and the shell does not complete it.
  Argument& Hidden();

 private:
  CLI::Option* option_;
};

// What may stand in the place of a value.
struct ValueWords {
  std::string word;  // "FILE"; empty: none was given
  std::vector<std::string> choices;
};

// `names` is "-f,--file", or "file" for a positional argument. After a space may
// come the word for the value in the help: "-f,--file FILE". By some words the
// shell knows what completes a value (completion.h). The variables must live
// until the command has run; their values are the defaults.
class Arguments {
 public:
  explicit Arguments(CLI::App* app) : app_(app) {}

  Argument Flag(const std::string& names, bool& value, const std::string& help);
  Argument Text(const std::string& names, std::string& value,
                const std::string& help);
  Argument Texts(const std::string& names, std::vector<std::string>& values,
                 const std::string& help);
  Argument Choice(const std::string& names, std::string& value,
                  const std::vector<std::string>& choices,
                  const std::string& help);
  Argument Number(const std::string& names, uint32_t& value, uint32_t min,
                  uint32_t max, const std::string& help);
  Argument Seconds(const std::string& names, double& value, double min,
                   double max, const std::string& help);
  // An option whose value may be left out: `otherwise`. Without the option,
  // `value` stays as it is.
  Argument OptionalSeconds(const std::string& names, double& value,
                           double otherwise, double min, double max,
                           const std::string& help);

  // Null for a flag.
  const ValueWords* ValueOf(const CLI::Option* option) const;

 private:
  // Of an option with a value.
  Argument Note(CLI::Option* option, const std::string& names,
                const std::string& otherwise = "");

  CLI::App* const app_;
  std::map<const CLI::Option*, ValueWords> values_;
};

}  // namespace carillon::cli

#endif  // CARILLON_TOOLS_CLI_ARGUMENTS_H_

// Makes a program's flags from its table of options. CLI11 reads them; it costs
// each file that includes it four seconds of compilation, so this header hides
// it.
#ifndef CARILLON_BASE_OPTION_FLAGS_H_
#define CARILLON_BASE_OPTION_FLAGS_H_

#include <optional>
#include <span>
#include <string>

#include "base/option_table.h"

namespace CLI {
class App;
}

namespace carillon {

// Adds a flag for each option; parsing `app` then sets the fields. The flags
// refuse what ReadSetting() refuses, in the same words.
void AddFlags(CLI::App& app, std::span<const Option> options);

// Reads a command line and sets the fields. Returns the exit code if the program
// is to end: 0 after --help, 2 after an error, which it has printed.
std::optional<int> ReadFlags(const std::string& program,
                             const std::string& description,
                             std::span<const Option> options, int argc,
                             char** argv);
// The same for an `app` that has all its flags.
std::optional<int> ReadFlags(CLI::App& app, int argc, char** argv);

}  // namespace carillon

#endif  // CARILLON_BASE_OPTION_FLAGS_H_

// Flags of a program, from its table of options. CLI11, which reads them, costs
// every file that includes it four seconds of compilation: no other has to.
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

// Parsing `app` sets the fields of `options`. A value that ReadSetting() refuses
// is refused in its words.
void AddFlags(CLI::App& app, std::span<const Option> options);

// Reads the command line of `program`. A value: the program ends with it, 0
// after --help and 2 after a wrong line, which was told.
std::optional<int> ReadFlags(const std::string& program,
                             const std::string& description,
                             std::span<const Option> options, int argc,
                             char** argv);
// The same of an `app` that has all its flags.
std::optional<int> ReadFlags(CLI::App& app, int argc, char** argv);

}  // namespace carillon

#endif  // CARILLON_BASE_OPTION_FLAGS_H_

// Loads PTX files for the `carillon sim` commands.
#ifndef CARILLON_TOOLS_CLI_SIM_LOAD_PROGRAM_H_
#define CARILLON_TOOLS_CLI_SIM_LOAD_PROGRAM_H_

#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "sim/exec/memory.h"
#include "sim/exec/program.h"
#include "sim/ptx/module.h"

namespace carillon::cli {

// Loads a PTX file for the simulated GPU. Errors: those of ptx::ParseModuleFile
// and sim::Lower.
absl::StatusOr<std::shared_ptr<const sim::ptx::Module>> LoadModule(
    const std::string& file);
absl::StatusOr<std::shared_ptr<const sim::Program>> LoadProgram(
    const std::string& file, sim::Memory* memory);

// The name in C++ of a mangled one: "scale" of _Z5scalePf, "sum<float>"; others
// stay.
std::string PlainName(std::string_view symbol);

// Finds a kernel of it by its symbol or its plain name; "" is the only one.
// Errors: NotFound, naming those there are; InvalidArgument (several have the
// name).
absl::StatusOr<const sim::ptx::Function*> ChooseKernel(
    const sim::ptx::Module& module, std::string_view name);

}  // namespace carillon::cli

#endif  // CARILLON_TOOLS_CLI_SIM_LOAD_PROGRAM_H_

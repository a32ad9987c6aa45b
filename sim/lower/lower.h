// Lowers a PTX module to an executable program: each instruction becomes one
// operation, or is refused with its place and the reason.
#ifndef CARILLON_SIM_LOWER_LOWER_H_
#define CARILLON_SIM_LOWER_LOWER_H_

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "sim/exec/memory.h"
#include "sim/exec/program.h"
#include "sim/ptx/module.h"

namespace carillon::sim {

// For the files of others, whose variables take the host's memory.
inline constexpr uint64_t kMaxVariableBytes = uint64_t{256} << 20;

struct LowerOptions {
  // There is a cudaGraphLaunch() for kernels to call: Core::launch_graph.
  bool device_graphs = false;
  // Of all variables of the module together.
  uint64_t max_variable_bytes = ~uint64_t{0};
  // Nothing else gets code and memory, but for what this kernel calls and
  // reads. Empty: everything does.
  std::string_view kernel = {};
};

// Places the module's variables and their first values in `memory`, which must
// outlive everything that executes the program. A kernel that does what is not
// supported cannot be launched (ProgramFunction::refused); the others can. Errors:
// InvalidArgument and, for variables, Unimplemented ("FILE:LINE:COLUMN: what"),
// ResourceExhausted, NotFound (LowerOptions::kernel).
absl::StatusOr<std::shared_ptr<const Program>> Lower(
    std::shared_ptr<const ptx::Module> module, Memory* memory,
    LowerOptions options = {});

// As Lower() has done once. Nothing may execute the program meanwhile. Errors:
// those of Lower() for variables.
absl::Status StoreFirstValues(const Program& program, Memory* memory);

std::vector<std::string_view> KnownOpcodes();

}  // namespace carillon::sim

#endif  // CARILLON_SIM_LOWER_LOWER_H_

#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "base/status.h"
#include "sim/ptx/control_flow.h"
#include "tools/cli/commands/sim/commands.h"
#include "tools/cli/sim/load_program.h"

namespace carillon::cli {

Run MakeSimCfg(Arguments& arguments, Console& console) {
  struct Options {
    std::string file;
    std::string kernel;
  };
  auto options = std::make_shared<Options>();
  arguments.Text("file FILE", options->file, "PTX text, made by nvcc -ptx")
      .Required();
  arguments.Text("kernel KERNEL", options->kernel,
                 "Which; not needed when the file has one");
  return [options, &console]() -> absl::Status {
    ASSIGN_OR_RETURN(const auto module, LoadModule(options->file));
    ASSIGN_OR_RETURN(const auto kernel, ChooseKernel(*module, options->kernel));
    const std::string dot = sim::ptx::ToDot(
        *module, *kernel, sim::ptx::AnalyzeControlFlow(*kernel));
    if (console.json()) {
      console.PrintDocument({{"kernel", kernel->name}, {"dot", dot}});
    } else {
      console.Print(dot);
    }
    return absl::OkStatus();
  };
}

}  // namespace carillon::cli

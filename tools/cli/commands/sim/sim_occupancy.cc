#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "base/status.h"
#include "sim/exec/functional.h"
#include "sim/timing/occupancy.h"
#include "tools/cli/commands/sim/commands.h"
#include "tools/cli/sim/kernel_arguments.h"
#include "tools/cli/sim/load_program.h"

namespace carillon::cli {
namespace {

struct Options {
  std::string file;
  std::string block = "256";
  std::string gpu = "edge_table2";
  uint32_t shared_bytes = 0;
  uint32_t registers = 0;
};

absl::Status ShowOccupancy(const Options& options, Console& console) {
  using namespace sim::timing;
  ASSIGN_OR_RETURN(const auto block, ParseDimensions(options.block));
  ASSIGN_OR_RETURN(const auto config, LoadConfig(options.gpu));
  sim::Memory memory;
  ASSIGN_OR_RETURN(const auto program, LoadProgram(options.file, &memory));
  Table table({"KERNEL", ">REGISTERS", ">SHARED", ">LOCAL", ">BLOCKS/SM",
               ">WARPS/SM", ">OF ITS WARPS", "LIMITED BY"});
  Json kernels = Json::array();
  for (const sim::ProgramFunction& kernel : program->functions) {
    if (!kernel.is_entry) continue;
    sim::Launch launch{.program = program.get(),
                       .kernel = &kernel,
                       .block = block,
                       .dynamic_shared_bytes = options.shared_bytes};
    launch.parameters.resize(kernel.source->ParameterBytes());
    // The block may be wrong for one kernel and right for the others.
    const absl::Status fits = sim::CheckLaunch(launch);
    const Contexts taken = ContextsOfBlock(launch, options.registers, config);
    const Occupancy occupancy =
        fits.ok() ? OccupancyOf(taken, config) : Occupancy{};
    const uint32_t registers =
        options.registers != 0 ? options.registers : kernel.registers;
    const uint32_t warps = occupancy.blocks * launch.block_warps();
    const std::string limit = fits.ok() ? std::string(NameOf(occupancy.limit))
                                        : std::string(fits.message());
    table.AddRow(kernel.name, registers, launch.shared_bytes(),
                 kernel.local_bytes, occupancy.blocks, warps,
                 fmt::format("{:.0f} %", 100.0 * warps / config.sm.warps),
                 limit);
    kernels.push_back({{"kernel", kernel.name},
                       {"registers_per_thread", registers},
                       {"shared_bytes", launch.shared_bytes()},
                       {"local_bytes_per_thread", kernel.local_bytes},
                       {"blocks_per_sm", occupancy.blocks},
                       {"warps_per_sm", warps},
                       {"limited_by", limit}});
  }
  console.Print({{"gpu", config.name}, {"kernels", kernels}}, table);
  return absl::OkStatus();
}

}  // namespace

Run MakeSimOccupancy(Arguments& arguments, Console& console) {
  auto options = std::make_shared<Options>();
  arguments.Text("file FILE", options->file, "PTX text, made by nvcc -ptx")
      .Required();
  arguments.Text("--block DIM", options->block,
                 "Threads of a block: 256, 16x16");
  arguments.Text("--gpu GPU", options->gpu,
                 "edge_table2, gtx980, tiny, or a file");
  arguments.Number("--shared BYTES", options->shared_bytes, 0, 227 << 10,
                   "Bytes of shared memory beside the kernels' own");
  arguments.Number("--registers COUNT", options->registers, 0, 255,
                   "Of a thread, instead of what each kernel needs (0)");
  return [options, &console]() { return ShowOccupancy(*options, console); };
}

}  // namespace carillon::cli

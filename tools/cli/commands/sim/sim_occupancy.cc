#include <fmt/format.h>

#include <algorithm>
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
  Table table({{"KERNEL"},
               {"REGISTERS", Align::kRight},
               {"SHARED", Align::kRight},
               {"LOCAL", Align::kRight},
               {"BLOCKS/SM", Align::kRight},
               {"WARPS/SM", Align::kRight},
               {"OF ITS WARPS", Align::kRight},
               {"LIMITED BY"}});
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
    table.AddRow({std::string(kernel.name), fmt::format("{}", registers),
                  fmt::format("{}", launch.shared_bytes()),
                  fmt::format("{}", kernel.local_bytes),
                  fmt::format("{}", occupancy.blocks), fmt::format("{}", warps),
                  fmt::format("{:.0f} %", 100.0 * warps / config.sm.warps),
                  limit});
    kernels.push_back({{"kernel", kernel.name},
                       {"registers_per_thread", registers},
                       {"shared_bytes", launch.shared_bytes()},
                       {"local_bytes_per_thread", kernel.local_bytes},
                       {"blocks_per_sm", occupancy.blocks},
                       {"warps_per_sm", warps},
                       {"limited_by", limit}});
  }
  if (console.json()) {
    console.PrintDocument({{"gpu", config.name}, {"kernels", kernels}});
  } else {
    console.Print(table);
  }
  return absl::OkStatus();
}

}  // namespace

Run MakeSimOccupancy(Arguments& arguments, Console& console) {
  auto options = std::make_shared<Options>();
  arguments.Text("file", options->file, "PTX text, made by nvcc -ptx")
      .Placeholder("FILE")
      .Required();
  arguments.Text("--block", options->block, "Threads of a block: 256, 16x16")
      .Placeholder("DIM");
  arguments.Text("--gpu", options->gpu, "edge_table2, gtx980, tiny, or a file")
      .Placeholder("GPU");
  arguments
      .Number("--shared", options->shared_bytes, 0, 227 << 10,
              "Bytes of shared memory beside the kernels' own")
      .Placeholder("BYTES");
  arguments
      .Number("--registers", options->registers, 0, 255,
              "Of a thread, instead of what each kernel needs (0)")
      .Placeholder("COUNT");
  AddOutputOption(arguments, console);
  return [options, &console]() { return ShowOccupancy(*options, console); };
}

}  // namespace carillon::cli

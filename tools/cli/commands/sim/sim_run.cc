#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/option_table.h"
#include "base/status.h"
#include "base/text.h"
#include "sim/exec/functional.h"
#include "sim/timing/config.h"
#include "sim/timing/gpu.h"
#include "tools/cli/commands/sim/commands.h"
#include "tools/cli/sim/kernel_arguments.h"
#include "tools/cli/sim/load_program.h"

namespace carillon::cli {
namespace {

using Clock = std::chrono::steady_clock;

struct Options {
  std::string file;
  std::string kernel;
  std::vector<std::string> arguments;
  std::string grid = "1";
  std::string block = "1";
  uint32_t shared_bytes = 0;
  uint32_t heap_bytes = sim::Heap::kDefaultBytes;
  bool cooperative = false;
  std::vector<std::string> set;
  std::string gpu;
  std::vector<std::string> show;
  uint32_t values = 8;
};

// The buffers that --show names, by their positions on the command line.
absl::StatusOr<std::vector<size_t>> Shown(const Options& options,
                                          const KernelArguments& arguments) {
  std::vector<size_t> shown;
  for (const std::string& text : options.show) {
    const auto which = ReadInteger(text, 1, arguments.buffers.size());
    if (!which.ok()) {
      return absl::InvalidArgumentError(
          fmt::format("--show {}: there are buffers 1 to {}", Quote(text),
                      arguments.buffers.size()));
    }
    shown.push_back(*which - 1);
  }
  return shown;
}

// The interval between reports of progress.
constexpr auto kSayEvery = std::chrono::milliseconds(500);
// A timed run looks at the clock for its reports after so many cycles.
constexpr sim::timing::Cycle kTurn = 1 << 16;

struct Outcome {
  uint64_t warp_instructions = 0;
  std::optional<sim::timing::Cycle> cycles;
  std::string statistics;  // JSON
};

absl::StatusOr<Outcome> RunFunctionally(const sim::Launch& launch,
                                        sim::Memory& memory,
                                        sim::PrintBuffer* printed,
                                        Console& console) {
  auto said = Clock::now();
  sim::FunctionalGpu gpu(
      &memory, {.alone = true,
                .progress =
                    [&](uint64_t blocks) {
                      const auto now = Clock::now();
                      if (now - said < kSayEvery) return;
                      said = now;
                      console.SayInPlace(fmt::format("{} of {} blocks", blocks,
                                                     launch.grid.count()));
                    },
                .printed = printed});
  ASSIGN_OR_RETURN(const auto result, gpu.Run(launch));
  return Outcome{.warp_instructions = result.warp_instructions};
}

absl::StatusOr<Outcome> RunTimed(const sim::Launch& launch,
                                 const sim::timing::Config& config,
                                 sim::Memory& memory, sim::PrintBuffer* printed,
                                 Console& console) {
  sim::timing::Gpu gpu(config, &memory, {.alone = true, .printed = printed});
  ASSIGN_OR_RETURN(const auto grid, gpu.Submit(launch, {}));
  auto said = Clock::now();
  for (sim::timing::Cycle until = kTurn; !gpu.Run(until); until += kTurn) {
    const auto now = Clock::now();
    if (now - said < kSayEvery) continue;
    said = now;
    console.SayInPlace(fmt::format("cycle {}", gpu.cycle()));
  }
  const sim::timing::GridResult& result = *gpu.result(grid);
  if (!result.status.ok()) return result.status;
  return Outcome{.warp_instructions = result.warp_instructions,
                 .cycles = result.completed - result.submitted,
                 .statistics = ToJson(gpu.statistics())};
}

// Prints why schedulers issued nothing, the most frequent reason first.
void PrintStalls(const std::string& statistics, Console& console) {
  const Json stalls = Json::parse(statistics)["total"]["stalls"];
  std::vector<std::pair<uint64_t, std::string>> order;
  for (const auto& [name, count] : stalls.items()) {
    if (count.get<uint64_t>() != 0) order.emplace_back(count, name);
  }
  std::sort(order.rbegin(), order.rend());
  Table table({"WHY NOTHING WAS ISSUED", ">CYCLES"});
  for (const auto& [count, name] : order) {
    table.AddRow(name, count);
  }
  if (!order.empty()) console.Print(table);
}

absl::Status RunKernel(const Options& options, Console& console) {
  ASSIGN_OR_RETURN(const auto grid, ParseDimensions(options.grid));
  ASSIGN_OR_RETURN(const auto block, ParseDimensions(options.block));
  std::optional<sim::timing::Config> config;
  if (!options.gpu.empty()) {
    ASSIGN_OR_RETURN(config, sim::timing::LoadConfig(options.gpu));
  }
  sim::Memory memory;
  RETURN_IF_ERROR(memory.SetHeapBytes(options.heap_bytes));
  ASSIGN_OR_RETURN(const auto program, LoadProgram(options.file, &memory));
  ASSIGN_OR_RETURN(const auto function,
                   ChooseKernel(*program->module, options.kernel));
  ASSIGN_OR_RETURN(const auto arguments,
                   ParseKernelArguments(*function, options.arguments, &memory));
  ASSIGN_OR_RETURN(const auto shown, Shown(options, arguments));
  for (const std::string& text : options.set) {
    const absl::Status status = SetVariable(*program, text, &memory);
    if (!status.ok()) {
      return absl::Status(status.code(),
                          fmt::format("--set: {}", status.message()));
    }
  }

  sim::DeviceAddress workspace = 0;
  if (options.cooperative) {
    ASSIGN_OR_RETURN(workspace,
                     memory.Allocate(sim::Launch::kGridWorkspaceBytes,
                                     "workspace of a cooperative launch"));
  }
  const sim::Launch launch{
      .program = program.get(),
      .kernel = program->FindEntry(function->name),
      .grid = grid,
      .block = block,
      .dynamic_shared_bytes = options.shared_bytes,
      .parameters = arguments.bytes,
      .grid_workspace = workspace,
  };
  sim::PrintBuffer buffer;
  const auto begin = Clock::now();
  const auto outcome = config
                           ? RunTimed(launch, *config, memory, &buffer, console)
                           : RunFunctionally(launch, memory, &buffer, console);
  const double seconds =
      std::chrono::duration<double>(Clock::now() - begin).count();
  const std::string printed = buffer.Take();
  // The output of a kernel that failed may show why.
  if (!console.json()) console.Print(printed);
  if (!outcome.ok()) return outcome.status();
  const double rate = static_cast<double>(outcome->warp_instructions) / seconds;
  if (console.json()) {
    Json buffers = Json::array();
    for (const size_t which : shown) {
      buffers.push_back({{"buffer", which + 1},
                         {"values", FirstValues(arguments.buffers[which],
                                                memory, options.values)}});
    }
    Json document{{"kernel", function->name},
                  {"blocks", grid.count()},
                  {"threads_per_block", block.count()},
                  {"warp_instructions", outcome->warp_instructions},
                  {"seconds", seconds},
                  {"warp_instructions_per_second", rate},
                  {"registers_per_thread", launch.kernel->registers},
                  {"shared_bytes", launch.shared_bytes()},
                  {"printed", printed},
                  {"buffers", std::move(buffers)}};
    if (outcome->cycles) {
      document["gpu"] = config->name;
      document["cycles"] = *outcome->cycles;
      document["statistics"] = Json::parse(outcome->statistics);
    }
    console.PrintDocument(document);
    return absl::OkStatus();
  }
  Table table({"KERNEL", ">BLOCKS", ">THREADS", ">WARP INSTRUCTIONS", ">CYCLES",
               ">SECONDS", ">M/S"});
  table.AddRow(function->name, grid.count(), grid.count() * block.count(),
               outcome->warp_instructions,
               outcome->cycles ? fmt::format("{}", *outcome->cycles) : "-",
               fmt::format("{:.3f}", seconds),
               fmt::format("{:.1f}", rate / 1e6));
  console.Print(table);
  if (outcome->cycles) PrintStalls(outcome->statistics, console);
  for (const size_t which : shown) {
    console.Print(fmt::format(
        "buffer {}: {}\n", which + 1,
        FirstValues(arguments.buffers[which], memory, options.values)));
  }
  return absl::OkStatus();
}

}  // namespace

Run MakeSimRun(Arguments& arguments, Console& console) {
  auto options = std::make_shared<Options>();
  arguments.Text("file FILE", options->file, "PTX text, made by nvcc -ptx")
      .Required();
  arguments.Text("kernel KERNEL", options->kernel, "A kernel of it").Required();
  arguments.Texts(
      "arguments ARGUMENT", options->arguments,
      "One for each parameter: a number; a buffer, f32[1024] (zeros), "
      "f32[1024]=1.5, =iota, =random, =1,2,3, or @FILE; a struct, "
      "{u32:16;f32[8];span:f32[8]}. After -- if one begins with a minus");
  arguments.Text("--grid DIM", options->grid,
                 "Thread blocks: 16, 16x16, 4x4x2");
  arguments.Text("--block DIM", options->block,
                 "Threads of each, 1024 at most");
  arguments.Number("--shared BYTES", options->shared_bytes, 0, 227 << 10,
                   "Bytes of shared memory beside the kernel's own");
  arguments.Number("--heap BYTES", options->heap_bytes, 0, 1u << 31,
                   "Bytes that malloc() of the kernel takes from");
  arguments.Flag("--cooperative", options->cooperative,
                 "Launch it as cudaLaunchCooperativeKernel() does, for "
                 "grid.sync(): all blocks must have room at once");
  arguments
      .Texts("--set NAME=VALUES", options->set,
             "The value of a __constant__ or __device__ variable: "
             "weights=f32:0.5,0.25, as a buffer's, or weights=@FILE; may be "
             "repeated")
      .OneAtATime();
  arguments.Text("--gpu GPU", options->gpu,
                 "Count its cycles, too: edge_table2, gtx980, tiny, or a file "
                 "(docs/sim_calibration.md). Without: only what it computes");
  arguments
      .Texts(
          "--show N", options->show,
          "Print the first values of this buffer, 1 for the first named; may "
          "be repeated")
      .OneAtATime();
  arguments.Number("--values COUNT", options->values, 1, 1 << 20,
                   "How many --show prints");
  return [options, &console]() { return RunKernel(*options, console); };
}

}  // namespace carillon::cli

#include <fmt/format.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "gpu_daemon/backends/sim/exec/functional.h"
#include "tools/cli/commands.h"
#include "tools/cli/sim/kernel_arguments.h"
#include "tools/cli/sim/load_program.h"
#include "tools/cli/ui/text.h"

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
  std::vector<std::string> show;
  uint32_t values = 8;
};

// The buffers that --show names, by their places in the line.
absl::StatusOr<std::vector<size_t>> Shown(const Options& options,
                                          const KernelArguments& arguments) {
  std::vector<size_t> shown;
  for (const std::string& text : options.show) {
    size_t which = 0;
    for (const char c : text) {
      which = c >= '0' && c <= '9' && which < 1000
                  ? which * 10 + static_cast<size_t>(c - '0')
                  : 1000;
    }
    if (text.empty() || which == 0 || which > arguments.buffers.size()) {
      return absl::InvalidArgumentError(
          fmt::format("--show {}: there are buffers 1 to {}", Quote(text),
                      arguments.buffers.size()));
    }
    shown.push_back(which - 1);
  }
  return shown;
}

absl::Status RunKernel(const Options& options, Console& console) {
  const auto grid = ParseDimensions(options.grid);
  if (!grid.ok()) return grid.status();
  const auto block = ParseDimensions(options.block);
  if (!block.ok()) return block.status();
  sim::Memory memory;
  const auto program = LoadProgram(options.file, &memory);
  if (!program.ok()) return program.status();
  const auto function = ChooseKernel(*(*program)->module, options.kernel);
  if (!function.ok()) return function.status();
  const auto arguments =
      ParseKernelArguments(**function, options.arguments, &memory);
  if (!arguments.ok()) return arguments.status();
  const auto shown = Shown(options, *arguments);
  if (!shown.ok()) return shown.status();

  const sim::Launch launch{
      .program = program->get(),
      .kernel = (*program)->FindEntry((*function)->name),
      .grid = *grid,
      .block = *block,
      .dynamic_shared_bytes = options.shared_bytes,
      .parameters = arguments->bytes,
  };
  std::string printed;
  const auto begin = Clock::now();
  auto said = begin;
  sim::FunctionalGpu gpu(&memory,
                         {.progress =
                              [&](uint64_t blocks) {
                                const auto now = Clock::now();
                                if (now - said < std::chrono::milliseconds(500))
                                  return;
                                said = now;
                                console.SayInPlace(fmt::format(
                                    "{} of {} blocks", blocks, grid->count()));
                              },
                          .printed = &printed});
  const auto result = gpu.Run(launch);
  const double seconds =
      std::chrono::duration<double>(Clock::now() - begin).count();
  if (!console.json()) console.Print(printed);
  if (!result.ok()) return result.status();
  const double rate = static_cast<double>(result->warp_instructions) / seconds;
  if (console.json()) {
    Json buffers = Json::array();
    for (const size_t which : *shown) {
      buffers.push_back({{"buffer", which + 1},
                         {"values", FirstValues(arguments->buffers[which],
                                                memory, options.values)}});
    }
    console.PrintDocument({{"kernel", (*function)->name},
                           {"blocks", result->blocks},
                           {"threads_per_block", block->count()},
                           {"warp_instructions", result->warp_instructions},
                           {"seconds", seconds},
                           {"warp_instructions_per_second", rate},
                           {"registers_per_thread", launch.kernel->registers},
                           {"shared_bytes", launch.shared_bytes()},
                           {"printed", printed},
                           {"buffers", std::move(buffers)}});
    return absl::OkStatus();
  }
  Table table({{"KERNEL"},
               {"BLOCKS", Align::kRight},
               {"THREADS", Align::kRight},
               {"WARP INSTRUCTIONS", Align::kRight},
               {"SECONDS", Align::kRight},
               {"M/S", Align::kRight}});
  table.AddRow(
      {std::string((*function)->name), fmt::format("{}", result->blocks),
       fmt::format("{}", grid->count() * block->count()),
       fmt::format("{}", result->warp_instructions),
       fmt::format("{:.3f}", seconds), fmt::format("{:.1f}", rate / 1e6)});
  console.Print(table);
  for (const size_t which : *shown) {
    console.Print(fmt::format(
        "buffer {}: {}\n", which + 1,
        FirstValues(arguments->buffers[which], memory, options.values)));
  }
  return absl::OkStatus();
}

}  // namespace

Run MakeSimRun(Arguments& arguments, Console& console) {
  auto options = std::make_shared<Options>();
  arguments.Text("file", options->file, "PTX text, made by nvcc -ptx")
      .Placeholder("FILE")
      .Required();
  arguments.Text("kernel", options->kernel, "A kernel of it")
      .Placeholder("KERNEL")
      .Required();
  arguments
      .Texts("arguments", options->arguments,
             "One for each parameter: a number; a buffer, f32[1024] (zeros), "
             "f32[1024]=1.5, =iota, =random, =1,2,3, or @FILE; a struct, "
             "{u32:16;f32[8];span:f32[8]}. After -- if one begins with a minus")
      .Placeholder("ARGUMENT");
  arguments.Text("--grid", options->grid, "Thread blocks: 16, 16x16, 4x4x2")
      .Placeholder("DIM");
  arguments.Text("--block", options->block, "Threads of each, 1024 at most")
      .Placeholder("DIM");
  arguments
      .Number("--shared", options->shared_bytes, 0, 227 << 10,
              "Bytes of shared memory beside the kernel's own")
      .Placeholder("BYTES");
  arguments
      .Texts(
          "--show", options->show,
          "Print the first values of this buffer, 1 for the first named; may "
          "be repeated")
      .Placeholder("N")
      .OneAtATime();
  arguments
      .Number("--values", options->values, 1, 1 << 20, "How many --show prints")
      .Placeholder("COUNT");
  AddOutputOption(arguments, console);
  return [options, &console]() { return RunKernel(*options, console); };
}

}  // namespace carillon::cli

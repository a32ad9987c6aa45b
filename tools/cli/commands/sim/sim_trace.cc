#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/status.h"
#include "base/text.h"
#include "sim/experiments/job.h"
#include "sim/timing/timeline.h"
#include "tools/cli/commands/sim/commands.h"
#include "tools/cli/sim/warp_trace.h"
#include "tools/testbed/perfetto/trace_writer.h"

namespace carillon::cli {
namespace {

struct Options {
  std::string background;
  std::string event;
  std::string out;
  std::string gpu = "edge_table2";
  std::vector<std::string> set;
  uint32_t period = 3000;
  uint32_t concurrent = 1;
  uint32_t seed = 1;
  bool full = false;
};

absl::StatusOr<sim::figures::Overrides> Overrides(const Options& options) {
  sim::figures::Overrides overrides;
  if (!options.full) overrides.emplace_back("sm.count", "2");
  for (const std::string& text : options.set) {
    const size_t equals = text.find('=');
    if (equals == 0 || equals == std::string::npos) {
      return absl::InvalidArgumentError(fmt::format(
          "--set {}: say KEY=VALUE, as edge.victim=newest", Quote(text)));
    }
    overrides.emplace_back(text.substr(0, equals), text.substr(equals + 1));
  }
  return overrides;
}

// Perfetto's own format by its usual ending, or Chrome's trace events.
using OutFile =
    std::variant<std::ofstream, std::unique_ptr<perfetto::TraceWriter>>;

absl::StatusOr<OutFile> OpenOut(const std::string& path) {
  if (path.ends_with(".pftrace")) {
    ASSIGN_OR_RETURN(auto writer, perfetto::TraceWriter::Create(path, {}));
    return OutFile(std::move(writer));
  }
  std::ofstream file(path);
  if (file) return OutFile(std::move(file));
  return absl::InvalidArgumentError(
      fmt::format("{}: {}", path, std::strerror(errno)));
}

absl::Status Write(const sim::timing::Timeline& timeline,
                   const std::string& path, OutFile& out) {
  if (auto* const writer =
          std::get_if<std::unique_ptr<perfetto::TraceWriter>>(&out)) {
    WriteWarpTrace(timeline.Slices(), timeline.core_mhz(), **writer);
    return (*writer)->Finish();
  }
  auto& file = std::get<std::ofstream>(out);
  timeline.Write(file);
  file.close();
  if (file) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      fmt::format("{}: {}", path, std::strerror(errno)));
}

absl::Status Trace(const Options& options, Console& console) {
  ASSIGN_OR_RETURN(const auto preset, sim::timing::LoadConfig(options.gpu));
  ASSIGN_OR_RETURN(const auto overrides, Overrides(options));
  ASSIGN_OR_RETURN(const auto config,
                   sim::figures::Override(preset, overrides));
  // Open the file first: a run may take long, and would be lost.
  ASSIGN_OR_RETURN(auto file, OpenOut(options.out));
  const sim::figures::Job job{
      .name = "trace",
      .overrides = overrides,
      .background = options.background,
      .event = options.event,
      .arrivals = {.least = options.period,
                   .most = options.period,
                   .concurrent = options.concurrent},
      .size =
          options.full ? sim::figures::Size::kFull : sim::figures::Size::kSmall,
      .seed = options.seed,
  };
  sim::timing::Timeline timeline(config);
  ASSIGN_OR_RETURN(const auto result,
                   sim::figures::RunJob(job, preset, {.timeline = &timeline}));
  RETURN_IF_ERROR(Write(timeline, options.out, file));
  const Json& events = (result)["events"];
  if (console.json()) {
    console.PrintDocument({{"file", options.out},
                           {"observations", timeline.size()},
                           {"cycles", (result)["cycles"]},
                           {"events", events["completed"]},
                           {"places", events["places"]}});
    return absl::OkStatus();
  }
  console.Print(fmt::format(
      "{}: {} cycles, {} events ({} preempted a warp), in {}\n",
      options.background, (result)["cycles"].dump(), events["completed"].dump(),
      events["places"]["preempted"].dump(), options.out));
  return absl::OkStatus();
}

}  // namespace

Run MakeSimTrace(Arguments& arguments, Console& console) {
  auto options = std::make_shared<Options>();
  arguments
      .Text(
          "background BACKGROUND", options->background,
          "BP, BFS, KMN, LUD, SRAD, SC, MM, CONV1, CONV2, HRTWL, HOTSP, or one "
          "of PEP's kernels, as CP")
      .Required();
  arguments.Text("event EVENT", options->event, "IPv4, IPv6, MemC, IPSec")
      .Required();
  arguments
      .Text("--out FILE", options->out,
            "The trace, for ui.perfetto.dev: FILE.pftrace is Perfetto's "
            "own format, any other is JSON")
      .Required();
  arguments.Number("--period CYCLES", options->period, 1, 1 << 30,
                   "Cycles from an event to the next");
  arguments.Number("--concurrent", options->concurrent, 1, 64,
                   "Events under way at once, at most");
  arguments
      .Texts("--set KEY=VALUE", options->set,
             "Changes a key of the GPU, as edge.victim=newest; may be repeated")
      .OneAtATime();
  arguments.Flag("--full", options->full,
                 "The papers' sizes. Without: small workloads on 2 SMs");
  arguments.Text("--gpu GPU", options->gpu,
                 "edge_table2, or another: see sim run");
  arguments.Number("--seed SEED", options->seed, 0, 1u << 31,
                   "Of the workloads' data");
  return [options, &console]() { return Trace(*options, console); };
}

}  // namespace carillon::cli

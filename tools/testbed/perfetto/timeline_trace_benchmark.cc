// How long the export of full recorders takes: five processes, 65,536 records
// each.
#include <benchmark/benchmark.h>

#include <filesystem>
#include <string>

#include "base/temp_directory.h"
#include "base/testbed_paths.h"
#include "tools/testbed/ledger/timeline_view.h"
#include "tools/testbed/perfetto/full_recorders.h"
#include "tools/testbed/perfetto/timeline_trace.h"
#include "tools/testbed/perfetto/trace_writer.h"

namespace carillon::perfetto {
namespace {

void BM_Export(benchmark::State& state) {
  const TempDirectory folder;
  const TestbedPaths paths(folder.path());
  if (!FillRecorders(paths.recorder_directory()).ok()) {
    state.SkipWithError("cannot record");
    return;
  }
  const std::string out = folder.path() + "/lab.pftrace";
  TraceFigures figures;
  for (auto _ : state) {
    const auto writer = TraceWriter::Create(out, {});
    figures = WriteTimeline(testbed::ReadSteps("lab", paths), {}, **writer);
    if (!(*writer)->Finish().ok()) state.SkipWithError("cannot write");
  }
  state.counters["events"] = static_cast<double>(figures.events);
  state.counters["flows"] = static_cast<double>(figures.flows);
  state.counters["bytes"] =
      static_cast<double>(std::filesystem::file_size(out));
}
BENCHMARK(BM_Export)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace carillon::perfetto

BENCHMARK_MAIN();

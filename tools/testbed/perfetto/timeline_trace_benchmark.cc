// How long the export of full recorders takes: five processes, 65,536 records
// each.
#include <benchmark/benchmark.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/temp_directory.h"
#include "base/testbed_paths.h"
#include "shm/recorder/flight_recorder.h"
#include "tools/testbed/ledger/timeline_view.h"
#include "tools/testbed/perfetto/timeline_trace.h"
#include "tools/testbed/perfetto/trace_writer.h"

namespace carillon::perfetto {
namespace {

using shm::EventState;
using shm::Generation;
using shm::Step;

constexpr uint64_t kRecords = 65536;
constexpr int kDevices = 4;

// Four devices that ring one event after the other, and their gpud.
void Fill(const std::string& folder) {
  std::vector<std::unique_ptr<shm::FlightRecorder>> recorders;
  const auto add = [&](const std::string& name) {
    recorders.push_back(*shm::FlightRecorder::Create(folder, name, kRecords));
  };
  add("gpud");
  shm::FlightRecorder& gpud = *recorders[0];
  for (uint32_t i = 1; i <= kDevices; ++i) {
    const std::string name = "nic" + std::to_string(i);
    add(name);
    shm::FlightRecorder& device = *recorders[i];
    device.Record(Step::kAttached, 0, Generation(i), getpid());
    gpud.Record(Step::kRingMade, i, Generation(10 + i), getpid(),
                EventState::kNone, 1);
    for (shm::FlightRecorder* const recorder : {&device, &gpud}) {
      recorder->NameRing(i, Generation(10 + i), name, "memc_get", "get");
    }
    device.Record(Step::kRegistered, i, Generation(10 + i), 0,
                  EventState::kNone, 64);
  }
  for (uint64_t sequence = 1; sequence < kRecords / 2; ++sequence) {
    for (uint32_t i = 1; i <= kDevices; ++i) {
      const Generation ring(10 + i);
      shm::FlightRecorder& device = *recorders[i];
      device.Record(Step::kRung, i, ring, sequence, EventState::kNone, 1);
      gpud.Record(Step::kEnded, i, ring, sequence, EventState::kDone);
      device.Record(Step::kTaken, i, ring, sequence, EventState::kDone);
    }
  }
}

void BM_Export(benchmark::State& state) {
  const TempDirectory folder;
  const TestbedPaths paths(folder.path());
  Fill(paths.recorder_directory());
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

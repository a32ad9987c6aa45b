// Measures Pagoda's narrow tasks on all paths of a back-end.
#include <CLI/CLI.hpp>

#include "tools/bench/bench_main.h"
#include "tools/bench/launch/device_role.h"
#include "tools/bench/narrow/narrow_run.h"

int main(int argc, char** argv) {
  using namespace carillon::bench;
  if (const auto played = PlayLaunchDevice(argc, argv)) return *played;
  NarrowOptions options;
  return BenchMain(
      argc, argv,
      {.name = "narrow",
       .summary = "Pagoda's narrow tasks on all paths of a back-end: tasks a "
                  "second, and how long each takes.",
       .run =
           [&options](const BenchRun& run) { return RunNarrow(run, options); },
       .add_options =
           [&options](CLI::App& app) {
             app.add_option("--backend", options.backend,
                            "cpu and cuda: a gpud of its own, in wall time; "
                            "auto: cuda where there is a GPU, else cpu; sim: a "
                            "simulated GPU, in its own time")
                 ->check(CLI::IsMember({"auto", "cpu", "sim", "cuda"}))
                 ->capture_default_str();
             app.add_option("--workloads", options.workloads,
                            "Only these, separated by commas: mb, fb, bf, "
                            "conv, dct, mm, slud, 3des, mpe")
                 ->delimiter(',');
             app.add_option("--paths", options.paths,
                            "Only these paths, separated by commas")
                 ->delimiter(',');
             app.add_option("--parts", options.parts,
                            "Only these parts, separated by commas. threads: "
                            "32 to 1,024 threads a task; an MTB of Pagoda's "
                            "paths has 992 and refuses more")
                 ->delimiter(',')
                 ->check(CLI::IsMember(NarrowParts()));
             app.add_option("--tasks", options.tasks,
                            "Tasks of a workload; more where a group needs "
                            "them")
                 ->capture_default_str();
             app.add_option("--batch", options.batch, "Tasks of a batch")
                 ->capture_default_str();
             app.add_option("--timing", options.timing,
                            "The simulated GPU: a preset, or a file of its "
                            "keys")
                 ->capture_default_str();
             app.add_option("--call-us", options.call_us,
                            "What a call of the driver takes the simulated "
                            "host: a launch, a copy")
                 ->check(CLI::Range(0.0, 1e6))
                 ->capture_default_str();
             app.add_option("--store-us", options.store_us,
                            "What a task's entry takes it that is written by "
                            "stores, or an event's with its doorbell")
                 ->check(CLI::Range(0.0, 1e6))
                 ->capture_default_str();
             app.add_option("--empty-update-us", options.empty_update_us,
                            "After how long without another task Pagoda's "
                            "simulated host releases the last one")
                 ->check(CLI::Range(0.0, 1e6))
                 ->capture_default_str();
             app.add_option("--copy-back-us", options.copy_back_us,
                            "How old what it knows of the TaskTable may be "
                            "before it copies states back")
                 ->check(CLI::Range(0.0, 1e6))
                 ->capture_default_str();
           },
       // Its rounds go there and back, as bench launch's.
       .patience = std::chrono::seconds(0),
       .plotter = "tools/plots/plot_narrow.py"});
}

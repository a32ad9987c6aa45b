// Measures the launch paths of gpud's back-end side by side.
#include <CLI/CLI.hpp>

#include "tools/bench/bench_main.h"
#include "tools/bench/launch/co_runner.h"
#include "tools/bench/launch/device_role.h"
#include "tools/bench/launch/launch_run.h"

int main(int argc, char** argv) {
  using namespace carillon::bench;
  if (const auto played = PlayLaunchDevice(argc, argv)) return *played;
  if (const auto played = PlayCoRunner(argc, argv)) return *played;
  LaunchOptions options;
  return BenchMain(
      argc, argv,
      {.name = "launch",
       .summary =
           "The launch paths of gpud's back-end side by side: latency, rate, "
           "CPU time, what they do to others and others to them, power.",
       .run =
           [&options](const BenchRun& run) {
             return LaunchRun(run, options).Run();
           },
       .add_options =
           [&options](CLI::App& app) {
             app.add_option("--backend", options.backend,
                            "What runs the kernels")
                 ->check(CLI::IsMember({"auto", "cpu", "cuda"}))
                 ->capture_default_str();
             app.add_option("--reserve-sms", options.reserved_sms,
                            "SMs that launch path edge has to itself (cuda "
                            "back-end); 0: none")
                 ->check(CLI::Range(0u, 1024u))
                 ->capture_default_str();
             app.add_option("--paths", options.paths,
                            "Only these launch paths, separated by commas")
                 ->delimiter(',');
             app.add_option("--parts", options.parts,
                            "Only these parts, separated by commas")
                 ->delimiter(',')
                 ->check(CLI::IsMember(LaunchParts()));
             app.add_option("--packet-rate", options.packets_per_second,
                            "Packets a second of the breakdown; 0: 8 Gbps of "
                            "64-byte frames on a GPU, 1 million on CPUs")
                 ->check(CLI::Range(0.0, 1e9))
                 ->capture_default_str();
           },
       // It does not wait for a quiet moment: the order of the rounds lets a
       // disturbance hit all paths alike.
       .patience = std::chrono::seconds(0),
       .plotter = "tools/plots/plot_launch.py"});
}

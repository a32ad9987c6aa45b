// Measures what a dashboard costs its testbed, and itself.
#include "tools/bench/bench_main.h"
#include "tools/bench/dashboard/dashboard_run.h"
#include "tools/bench/dashboard/idle_devices.h"
#include "tools/bench/launch/device_role.h"
#include "tools/bench/launch/interrupt.h"
#include "tools/plots/document.h"

int main(int argc, char** argv) {
  using namespace carillon::bench;
  if (const auto played = PlayLaunchDevice(argc, argv)) return *played;
  if (const auto played = PlayIdleDevices(argc, argv)) return *played;
  CatchInterrupts();
  const DashboardPrograms programs = {
      .dashboard = carillon::plots::Runfile("tools/dashboard/dashboard"),
      .carillon = carillon::plots::Runfile("tools/cli/carillon")};
  return BenchMain(
      argc, argv,
      {.name = "dashboard",
       .summary = "What a dashboard costs: events and gpud with a page open, "
                  "its own CPU time and memory, a trace of full recorders.",
       .run = [&](const BenchRun& run) { return RunDashboard(run, programs); },
       // The order of the rounds lets a disturbance hit all alike.
       .patience = std::chrono::seconds(0),
       .plotter = ""});
}

// Simulates testbeds, one seed after another: to replay a failing test, or to
// search for more failures.
#include <spdlog/spdlog.h>

#include <CLI/CLI.hpp>
#include <cstdint>
#include <filesystem>
#include <string>

#include "base/clock.h"
#include "base/status.h"
#include "base/temp_directory.h"
#include "fmt/format.h"
#include "integration_tests/simulation/simulation.h"
#include "tools/testbed/ledger/checker.h"

namespace carillon::simulation {
namespace {

int Main(int argc, char** argv) {
  CLI::App app(
      "Simulates a testbed in one thread: gpud's control plane and front-end, "
      "devices and their deaths, in an order that a seed decides.");
  uint64_t seed = 1;
  uint64_t seeds = 1;
  uint32_t steps = 2000;
  app.add_option("--seed", seed, "The first seed")->capture_default_str();
  app.add_option("--seeds", seeds, "How many, one after another")
      ->capture_default_str();
  app.add_option("--steps", steps, "Of each")->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  spdlog::set_level(spdlog::level::off);

  const auto directory =
      TempDirectory::Make(std::filesystem::temp_directory_path().string());
  if (!directory.ok()) {
    fmt::print(stderr, "{}\n", directory.status().message());
    return 1;
  }
  auto bus =
      gpud::TelemetryBus::Start({.socket_path = directory->path() + "/bus"});
  if (!bus.ok()) {
    fmt::print(stderr, "{}\n", bus.status().message());
    return 1;
  }
  int exit = 0;
  uint64_t events = 0;
  Nanoseconds said = NowNs();
  uint64_t last = seed;
  for (; last < seed + seeds && exit == 0; ++last) {
    const std::string recorders = directory->path() + "/recorders";
    const Outcome outcome =
        Simulate(last, steps, {.bus = bus->get(), .directory = recorders});
    std::filesystem::remove_all(recorders);
    events += outcome.ledger.total.ok + outcome.ledger.total.failed;
    if (seeds == 1) {
      fmt::print("trace {:016x}\n", outcome.trace);
      for (size_t i = 0; i < kSteps; ++i) {
        fmt::print("{:>16} {}\n", StepName(Step(i)), outcome.steps[i]);
      }
    }
    for (const std::string& problem : outcome.problems) {
      fmt::print("seed {}: {}\n", last, problem);
    }
    for (const ledger::Violation& violation : outcome.ledger.violations) {
      fmt::print("seed {}: {}: {}\n", last, ledger::FaultName(violation.fault),
                 violation.sentence);
    }
    if (!outcome.ok()) exit = 6;
    if (NowNs() > said + 2'000'000'000) {
      said = NowNs();
      fmt::print(stderr, "\r{} seeds, {} events", last + 1 - seed, events);
    }
  }
  fmt::print("{} seeds, {} events: {}\n", last - seed, events,
             exit == 0 ? "nothing lost, nothing twice" : "FAILED");
  return exit;
}

}  // namespace
}  // namespace carillon::simulation

int main(int argc, char** argv) {
  return carillon::simulation::Main(argc, argv);
}

// Kills the processes of a testbed under load, again and again, and reports the
// outcome (docs/results has a run). Start it in the workspace's root, or by
// `bazel run`.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>

#include "integration_tests/soak/soak.h"

int main(int argc, char** argv) {
  using carillon::soak::Options;
  constexpr int kViolated = 6;
  // The testbed library is made for tests.
  testing::InitGoogleTest();
  Options options;
  options.kills = 1000;
  int before_ms = static_cast<int>(options.before.count());
  int after_ms = static_cast<int>(options.after.count());
  double bound_s = 20;
  CLI::App app("Kills the processes of a testbed under load, again and again.");
  app.add_option("--kills", options.kills, "How many")->capture_default_str();
  app.add_option("--seed", options.seed, "Of the order and the passages")
      ->capture_default_str();
  app.add_option("--only", options.only,
                 "Roles and points: kill only these, or only there");
  app.add_option("--before-ms", before_ms, "Under load before each kill")
      ->check(CLI::Range(0, 60'000))
      ->capture_default_str();
  app.add_option("--after-ms", after_ms, "Under load behind each kill")
      ->check(CLI::Range(0, 60'000))
      ->capture_default_str();
  app.add_option("--bound", bound_s, "Seconds; what takes longer hangs")
      ->check(CLI::Range(1.0, 3600.0))
      ->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  options.before = std::chrono::milliseconds(before_ms);
  options.after = std::chrono::milliseconds(after_ms);
  options.bound =
      std::chrono::milliseconds(static_cast<int64_t>(bound_s * 1000));
  options.say = [](const std::string& line) {
    fmt::print("{}\n", line);
    std::fflush(stdout);
  };
  const auto result = carillon::soak::Soak(options);
  fmt::print("\n{}", carillon::soak::ReportText(options, result));
  return result.wrong.empty() ? EXIT_SUCCESS : kViolated;
}

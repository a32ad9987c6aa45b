#include "tools/bench/bench_main.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/status.h"
#include "tools/bench/roles.h"
#include "tools/cli/ui/exit_code.h"
#include "tools/plots/document.h"

namespace carillon::bench {
namespace {

constexpr std::chrono::milliseconds kQuick{50};

std::string Describe(const Measurement& measurement) {
  const Json& result = measurement.result;
  return NumberText(result, "/round_trip_ns/p50", 1e-3, " p50 {:.2f} us") +
         NumberText(result, "/round_trip_ns/p99", 1e-3, " p99 {:.2f} us") +
         NumberText(result, "/pipelined/per_second", 1e-6, " {:.3f} M/s");
}

int Fail(const absl::Status& status) {
  fmt::print(stderr, "{}\n", status.message());
  return static_cast<int>(cli::ExitCodeOf(status));
}

int Report(const BenchRun& run, const BenchResult& result,
           const BenchProgram& program, const std::string& command, bool json,
           const std::string& out) {
  Json document =
      MakeDocument(program.name, run.session, result.parts, result.figures);
  document["command"] = command;
  document["quick"] = run.quick;
  document.update(result.extra);
  if (json) {
    fmt::print("{}\n", document.dump(2));
  } else {
    for (const Part& part : result.parts) {
      const auto base = result.bases.find(part.name());
      fmt::print("{}\n{}\n", part.name(),
                 base == result.bases.end() ? part.Table(std::nullopt)
                                            : part.Table(base->second));
    }
    fmt::print("{}{}", result.extra_table, FigureTable(result.figures));
  }
  if (!out.empty()) {
    std::vector<std::string> written;
    const absl::Status status =
        plots::WriteDocument(out, document["bench"].get<std::string>(),
                             document, program.plotter, &written);
    for (const std::string& path : written) {
      fmt::print(stderr, "wrote {}\n", path);
    }
    if (!status.ok()) {
      fmt::print(stderr, "{}\n", status.message());
      if (result.status.ok()) return 1;
    }
  }
  return result.status.ok() ? 0 : Fail(result.status);
}

}  // namespace

absl::StatusOr<Part> BenchRun::Measure(
    std::string name, std::vector<Contender> contenders) const {
  if (quick) {
    for (Contender& contender : contenders) {
      ClientJob& job = contender.job;
      job.round_trip_time = std::min(job.round_trip_time, kQuick);
      job.pipeline_time = std::min(job.pipeline_time, kQuick);
      job.idle_time = std::min(job.idle_time, kQuick);
    }
  }
  fmt::print(stderr, "{}\n", name);
  ASSIGN_OR_RETURN(
      auto measurements,
      RunSession(
          contenders, session,
          [&](const Contender& contender, const auto& one) {
            fmt::print(
                stderr,
                "  round {} {:<18}{}  (probe {:.0f} ns, others {:.0f} %{})\n",
                one.round + 1, contender.name, Describe(one), one.probe_ns,
                one.foreign * 100, one.disturbed ? ", disturbed" : "");
          }));
  return Part(std::move(name), std::move(contenders), std::move(measurements));
}

int BenchMain(int argc, char** argv, const BenchProgram& program) {
  if (const auto played = PlayRole(argc, argv)) return *played;
  BenchRun bench;
  SessionOptions& session = bench.session;
  session.gpud = plots::Runfile("gpu_daemon/gpud");
  bool json = false;
  std::string out;
  int64_t patience_s = program.patience.count();
  double max_foreign_percent = 5;
  CLI::App app{std::string(program.summary), std::string(program.name)};
  app.add_flag("--json", json, "Print a JSON document instead of tables");
  app.add_option("--out", out, "Also write JSON and a plot (PNG) there");
  app.add_option("--rounds", session.rounds,
                 "Rounds; each measures everything twice, there and back")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_flag("--quick", bench.quick, "One short round: a look, no figures");
  app.add_option("--gpud", session.gpud, "The GPU daemon's program");
  app.add_option("--max-foreign", max_foreign_percent,
                 "Percent of the machine that others may use before a "
                 "measurement counts as disturbed")
      ->check(CLI::Range(0.0, 100.0))
      ->capture_default_str();
  app.add_option("--attempts", session.attempts,
                 "How often a disturbed measurement is taken again")
      ->check(CLI::Range(1, 100))
      ->capture_default_str();
  app.add_option("--patience", patience_s,
                 "Seconds to wait for a quiet moment before each measurement")
      ->check(CLI::Range(0, 3600))
      ->capture_default_str();
  app.add_flag("--realtime", session.realtime,
               "Give what is measured real-time priority (needs root): for a "
               "machine that others use");
  if (program.add_options) program.add_options(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  session.patience = std::chrono::seconds(patience_s);
  session.max_foreign = max_foreign_percent / 100;
  if (bench.quick) {
    session.rounds = 1;
    session.attempts = 1;
    session.patience = {};
  }
  // The options that decide the figures, without the program's path and the
  // output folder.
  std::string command(program.name);
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument(argv[i]);
    if (argument == "--out") ++i;
    if (argument.starts_with("--out")) continue;
    command += fmt::format(" {}", argument);
  }

  // Before minutes are spent.
  if (!out.empty()) {
    if (const auto status = plots::CheckWritable(out); !status.ok()) {
      return Fail(status);
    }
  }
  const auto result = program.run(bench);
  if (!result.ok()) return Fail(result.status());
  return Report(bench, *result, program, command, json, out);
}

}  // namespace carillon::bench

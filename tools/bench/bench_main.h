// What the bench binaries share: their options, their main() and their exit
// codes.
#ifndef CARILLON_TOOLS_BENCH_BENCH_MAIN_H_
#define CARILLON_TOOLS_BENCH_BENCH_MAIN_H_

#include <chrono>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "tools/bench/report.h"
#include "tools/bench/session.h"

namespace CLI {
class App;
}

namespace carillon::bench {

struct BenchRun {
  SessionOptions session;
  bool quick = false;  // one short round: shows that it works, measures little
  // Runs a session and prints a line on stderr for every measurement.
  absl::StatusOr<Part> Measure(std::string name,
                               std::vector<Contender> contenders) const;
};

struct BenchResult {
  std::vector<Part> parts;
  std::vector<Figure> figures;
  // The base that a part's Table() compares with: part, contender.
  std::map<std::string, std::string> bases;
  // Further contents of the document, and what people see of them.
  Json extra = Json::object();
  std::string extra_table;
  // Not OK: something went wrong, but the measurements are worth showing.
  absl::Status status;
};

struct BenchProgram {
  std::string_view name;
  std::string_view summary;
  std::function<absl::StatusOr<BenchResult>(const BenchRun&)> run;
  std::function<void(CLI::App&)> add_options;  // may be null
  std::chrono::seconds patience{20};           // the value of --patience
  std::string_view plotter = "tools/plots/plot_bench.py";
};

// The main() of a bench binary. It plays a role (roles.h), or reads options and
// calls run(); the results go as tables or JSON to stdout, and as files below
// --out. Exit codes: 0 measured (whatever the figures say), 2 usage, otherwise
// that of run()'s status (docs/cli.md).
int BenchMain(int argc, char** argv, const BenchProgram& program);

}  // namespace carillon::bench

#endif  // CARILLON_TOOLS_BENCH_BENCH_MAIN_H_

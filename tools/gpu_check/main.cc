// gpu_check: runs everything of Carillon that needs a GPU.
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/subprocess.h"
#include "base/unique_fd.h"
#include "fmt/chrono.h"
#include "fmt/format.h"
#include "tools/gpu_check/collected.h"
#include "tools/gpu_check/held_gpu.h"
#include "tools/gpu_check/info.h"
#include "tools/gpu_check/limited_run.h"
#include "tools/gpu_check/lookups.h"
#include "tools/gpu_check/parts.h"
#include "tools/gpu_check/runner.h"

namespace carillon::gpu_check {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

struct Options {
  std::vector<std::string> only;
  std::string out = "gpu_check_results";
  std::string driver;
  uint64_t seed = 0;
  int seconds = 540;
  bool list = false;
  bool resume = false;
  bool dry_run = false;
};

// Asks whether there is a driver that will do, and a GPU: before all else, and in
// another process, since a driver that hangs must not hang this one. Returns the
// exit code for the answer, which is a sentence.
int AskDriver(const std::string& self, std::string* sentence) {
  constexpr std::chrono::seconds kLimit{30};
  const UniqueFd said(memfd_create("driver", MFD_CLOEXEC));
  const LimitedResult run = RunLimited({.argv = {self, "--part-driver"},
                                        .out = said.get(),
                                        .err = said.get(),
                                        .limit = kLimit});
  char bytes[4096];
  const ssize_t size = pread(said.get(), bytes, sizeof(bytes), 0);
  sentence->assign(bytes, size > 0 ? static_cast<size_t>(size) : 0);
  while (sentence->ends_with('\n')) sentence->pop_back();
  using End = LimitedResult::End;
  if (run.end == End::kExited) return run.code;
  if (run.end == End::kInterrupted) return 130;
  *sentence =
      run.end == End::kSignalled
          ? fmt::format("the driver ends the process that opens it (SIG{})",
                        sigabbrev_np(run.code))
          : fmt::format("the driver does not answer within {} s {}",
                        kLimit.count(), *sentence);
  return 1;
}

std::string FindSanitizer() {
  for (const char* const folder :
       {"/usr/local/cuda/bin", "/usr/local/cuda/compute-sanitizer",
        "/opt/nvidia/compute-sanitizer"}) {
    std::string program = fmt::format("{}/compute-sanitizer", folder);
    if (access(program.c_str(), X_OK) == 0) return program;
  }
  return FindProgram("compute-sanitizer").value_or("");
}

std::string FindNvidiaSmi() {
  const std::string beside_the_driver = "/usr/local/nvidia/bin/nvidia-smi";
  if (access(beside_the_driver.c_str(), X_OK) == 0) return beside_the_driver;
  return FindProgram("nvidia-smi").value_or("");
}

std::string Now() {
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)));
}

// The bundle's manifest, if this is a bundle.
Json ReadManifest(const std::string& programs) {
  std::ifstream file(programs + "/../MANIFEST.json");
  Json manifest = Json::parse(file, nullptr, false);
  return manifest.is_discarded() ? Json() : manifest;
}

int Run(const Options& options) {
  const std::string self = OwnProgram();
  PartOptions of_parts{.self = self,
                       .programs = self.substr(0, self.rfind('/')),
                       .sanitizer = FindSanitizer(),
                       .nvidia_smi = FindNvidiaSmi(),
                       .seed = options.seed,
                       .dry_run = options.dry_run,
                       .driver = options.driver};
  if (const char* const chosen = std::getenv("CARILLON_BIN_DIR");
      chosen != nullptr && *chosen != '\0') {
    of_parts.programs = chosen;
  }
  if (of_parts.seed == 0) of_parts.seed = std::random_device()();
  std::error_code error;
  of_parts.directory = fs::absolute(options.out, error).string();
  absl::StatusOr<std::vector<CheckPart>> chosen =
      ChooseParts(MakeParts(of_parts), options.only);
  if (!chosen.ok()) {
    fmt::print(stderr, "{}\n", chosen.status().message());
    return 2;
  }
  const std::vector<CheckPart>& parts = *chosen;
  if (options.list) {
    for (const CheckPart& part : parts) {
      fmt::print("{:<10} {}\n", part.name, part.summary);
      if (part.steps.size() == 1) continue;
      std::string steps;
      for (const CheckStep& step : part.steps) steps += " " + step.name;
      fmt::print("          {}\n", steps);
    }
    return 0;
  }
  BlockSignalsOfRuns();
  std::string about = "dry run";
  if (!options.dry_run) {
    const int code = AskDriver(self, &about);
    fmt::print(stderr, "gpu_check: {}\n", about);
    if (code != 0) return code;
  }
  const HeldGpu held(self, "/dev");
  fmt::print(stderr, "gpu_check: {}\n", held.about());
  fs::create_directories(of_parts.directory, error);
  if (error) {
    fmt::print(stderr, "gpu_check: cannot make {}: {}; --out takes another\n",
               of_parts.directory, error.message());
    return 1;
  }
  std::ofstream(of_parts.directory + "/run.json")
      << Json{{"when", Now()},
              {"seed", of_parts.seed},
              {"dry_run", options.dry_run},
              {"bundle", ReadManifest(of_parts.programs)},
              {"driver", about},
              {"held_open", held.about()}}
             .dump(2)
      << "\n";
  Results results;
  const absl::Status status =
      RunParts(parts,
               {.directory = of_parts.directory,
                .resume = options.resume,
                .total = std::chrono::seconds(options.seconds)},
               &results);
  if (!status.ok() && !absl::IsCancelled(status)) {
    fmt::print(stderr, "gpu_check: {}\n", status.message());
    return 1;
  }
  const std::string table = ResultTable(parts, results);
  std::ofstream(of_parts.directory + "/table.txt") << table;
  if (auto collected = Collect(of_parts.directory, parts, results);
      !collected.ok()) {
    fmt::print(stderr, "gpu_check: {}\n", collected.message());
  }
  fmt::print("{}{}results: {}/ all.txt, all.json, results.tar.gz\n", table,
             LeftOut(results), of_parts.directory);
  return status.ok() ? ExitCodeOf(results) : 130;
}

// What of a bench's document the table has room for: latency and rate of one
// path's workloads, or of one warp on several paths.
std::string FindingOf(const Json& document) {
  const Json cells = document.value("latency", Json::array());
  std::set<std::string> paths;
  for (const Json& cell : cells) paths.insert(cell.value("path", ""));
  std::string finding;
  for (const Json& cell : cells) {
    const std::string workload = cell.value("workload", "");
    if (paths.size() > 1 && workload != "warp") continue;
    finding +=
        fmt::format("{}{}", finding.empty() ? "" : "; ",
                    paths.size() > 1 ? cell.value("path", "") : workload);
    if (cell.value("status", "") != "measured") {
      finding += fmt::format(" {}", cell.value("reason", "not measured"));
      continue;
    }
    const auto median = [&](const char* at) {
      const Json::json_pointer pointer(at);
      return cell.contains(pointer) && cell[pointer].is_number()
                 ? cell[pointer].get<double>() / 1000
                 : 0;
    };
    finding += fmt::format(" p50 {:.2f} p99 {:.2f} us, {:.0f} k/s",
                           median("/latency/p50_ns/median"),
                           median("/latency/p99_ns/median"),
                           median("/per_second/median"));
  }
  return finding;
}

// The same of bench sharing: what an event waits for, and what is left of the
// background.
std::string FindingOfSharing(const Json& document) {
  std::string finding;
  const auto add = [&finding](const Json& row, const std::string& text) {
    finding += fmt::format("{}{} {}", finding.empty() ? "" : "; ",
                           row.value("policy", ""),
                           row.value("status", "measured") == "measured"
                               ? text
                               : row.value("reason", "not measured"));
  };
  const auto number = [](const Json& row, const char* at) {
    const Json::json_pointer pointer(at);
    return row.contains(pointer) && row[pointer].is_number()
               ? row[pointer].get<double>()
               : 0;
  };
  for (const Json& cell : document.value("cells", Json::array())) {
    add(cell, fmt::format("{} {} p99 wait {:.1f} us, response {:.1f} us, keeps "
                          "{:.2f}",
                          cell.value("load", ""), cell.value("rate", ""),
                          number(cell, "/preemption_us/p99"),
                          number(cell, "/response_us/p99"),
                          number(cell, "/background_kept")));
  }
  for (const Json& row : document.value("pending", Json::array())) {
    add(row, fmt::format("{} waves pending {:.3f}", number(row, "/waves"),
                         number(row, "/worst")));
  }
  for (const Json& row : document.value("losses", Json::array())) {
    const std::string block =
        row.contains("block_us")
            ? fmt::format(" of {} us", number(row, "/block_us"))
            : "";
    add(row, fmt::format("{}{} loses {:.1f} %", row.value("kernel", ""), block,
                         number(row, "/loss_percent")));
  }
  for (const Json& row : document.value("copies", Json::array())) {
    add(row, fmt::format("{} chunks {:+.1f} %", number(row, "/chunks"),
                         number(row, "/slower_percent")));
  }
  return finding;
}

// The same of bench narrow: tasks a second, beside the base.
std::string FindingOfNarrow(const Json& document) {
  std::string finding;
  std::string row;  // of one workload, and one number of threads
  for (const Json& cell : document.value("cells", Json::array())) {
    const std::string now =
        fmt::format("{}{}", cell.value("workload", ""),
                    cell.contains("threads")
                        ? fmt::format(" {} threads", cell.value("threads", 0))
                        : "");
    if (now != row) finding += finding.empty() ? now : "; " + now;
    row = now;
    const std::string path = cell.value("path", "");
    const Json::json_pointer rate("/tasks_per_second/median");
    const Json::json_pointer ratio("/over_baseline/median");
    if (!cell.contains(rate)) {
      finding += fmt::format(" {} {}", path, cell.value("status", ""));
      continue;
    }
    finding +=
        fmt::format(" {} {:.0f} k/s", path, cell[rate].get<double>() / 1000);
    if (cell.contains(ratio) && path != document.value("base", "")) {
      finding += fmt::format(" ({:.2f}x)", cell[ratio].get<double>());
    }
  }
  return finding;
}

// Runs a bench if there is a GPU: it has no exit code of its own for a missing one,
// and its findings are in a document.
int RunBench(const std::vector<std::string>& argv) {
  const int code = ExitCodeOfGpuElsewhere();
  if (code != 0) return code;
  auto bench = Subprocess::Start({.argv = argv});
  if (!bench.ok()) {
    fmt::print(stderr, "{}\n", bench.status().message());
    return 1;
  }
  const ExitReport end = bench->Reap();
  constexpr std::string_view kOut = "--out=";
  for (const std::string& argument : argv) {
    if (!argument.starts_with(kOut)) continue;
    for (const auto& [name, find] : {std::pair("launch", &FindingOf),
                                     {"sharing", &FindingOfSharing},
                                     {"narrow", &FindingOfNarrow}}) {
      std::ifstream file(
          fmt::format("{}/{}.json", argument.substr(kOut.size()), name));
      const Json document = Json::parse(file, nullptr, false);
      if (!document.is_object()) continue;
      const std::string finding = find(document);
      if (!finding.empty()) fmt::print("finding: {}\n", finding);
    }
  }
  return end.ShellCode();
}

}  // namespace
}  // namespace carillon::gpu_check

int main(int argc, char** argv) {
  using namespace carillon::gpu_check;
  if (argc == 2 && std::string_view(argv[1]) == "--part-info") {
    return PrintInfo();
  }
  if (argc == 2 && std::string_view(argv[1]) == "--part-driver") {
    return PrintDriver();
  }
  if (argc == 3 && std::string_view(argv[1]) == "--part-hold") {
    return HoldGpu(argv[2]);
  }
  if (argc > 2 && std::string_view(argv[1]) == "--part-bench") {
    return RunBench({argv + 2, argv + argc});
  }
  if (argc > 3 && std::string_view(argv[1]) == "--part-lookups") {
    const int code = ExitCodeOfGpuElsewhere();
    const std::vector<std::string> arguments(argv + 4, argv + argc);
    return code != 0 ? code : RunLookups(argv[2], argv[3], arguments);
  }
  Options options;
  CLI::App app{
      "Runs on a machine with an NVIDIA GPU what Carillon's tests cannot run "
      "without one, and its benches. Exit codes: 0 all passed, 1 something "
      "failed, 2 usage, 77 there is no GPU or no driver, 130 interrupted."};
  app.add_option("--only", options.only,
                 "Only these parts or PART/STEPs, with commas")
      ->delimiter(',');
  app.add_flag("--list", options.list, "Say what the parts are");
  app.add_option("--out", options.out, "Where raw results go")
      ->capture_default_str();
  app.add_flag("--resume", options.resume,
               "Go on with a run in the same --out: skip whatever has ended "
               "there, well or not");
  app.add_option("--seed", options.seed, "Of random inputs; 0: a new one")
      ->capture_default_str();
  app.add_option("--seconds", options.seconds, "For everything together")
      ->check(CLI::Range(10, 3600))
      ->capture_default_str();
  app.add_flag("--dry-run", options.dry_run,
               "Start everything without a GPU: on the driver in --driver, or "
               "to see it say that there is none");
  app.add_option("--driver", options.driver,
                 "Folder of another libcuda.so.1 than NVIDIA's, for --dry-run");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  return Run(options);
}

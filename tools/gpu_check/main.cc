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
#include <string>
#include <vector>

#include "base/status.h"
#include "base/subprocess.h"
#include "base/unique_fd.h"
#include "fmt/chrono.h"
#include "fmt/format.h"
#include "tools/gpu_check/info.h"
#include "tools/gpu_check/limited_run.h"
#include "tools/gpu_check/parts.h"
#include "tools/gpu_check/runner.h"

namespace carillon::gpu_check {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

struct Options {
  std::vector<std::string> only;
  std::string out = "gpu_check_results";
  std::string fake;
  uint64_t seed = 0;
  int seconds = 540;
  bool list = false;
  bool resume = false;
  bool dry_run = false;
};

// Uses another process: a driver that hangs must not hang this one.
int LookForGpu(const std::string& self, std::string* text) {
  const UniqueFd said(memfd_create("info", MFD_CLOEXEC));
  const LimitedResult run = RunLimited({.argv = {self, "--part-info"},
                                        .out = said.get(),
                                        .err = said.get(),
                                        .limit = std::chrono::seconds(30)});
  char bytes[16384];
  const ssize_t size = pread(said.get(), bytes, sizeof(bytes), 0);
  text->assign(bytes, size > 0 ? static_cast<size_t>(size) : 0);
  while (text->ends_with('\n')) text->pop_back();
  using End = LimitedResult::End;
  if (run.end == End::kExited) return run.code;
  if (run.end == End::kInterrupted) return 130;
  *text = "the driver does not answer: " + *text;
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
                       .seed = options.seed,
                       .dry_run = options.dry_run,
                       .fake_driver = options.fake};
  if (const char* const chosen = std::getenv("CARILLON_BIN_DIR");
      chosen != nullptr && *chosen != '\0') {
    of_parts.programs = chosen;
  }
  if (of_parts.seed == 0) of_parts.seed = std::random_device()();
  std::error_code error;
  of_parts.directory = fs::absolute(options.out, error).string();
  const std::vector<CheckPart> parts = MakeParts(of_parts);
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
  if (auto status = CheckParts(parts, options.only); !status.ok()) {
    fmt::print(stderr, "{}\n", status.message());
    return 2;
  }
  BlockSignalsOfRuns();
  std::string about = "dry run";
  if (!options.dry_run) {
    const int code = LookForGpu(self, &about);
    if (code == kNoGpuCode || code == 130) {
      fmt::print(stderr, "gpu_check: {}\n", about);
      return code;
    }
  }
  fs::create_directories(of_parts.directory, error);
  std::ofstream(of_parts.directory + "/run.json")
      << Json{{"when", Now()},
              {"seed", of_parts.seed},
              {"dry_run", options.dry_run},
              {"bundle", ReadManifest(of_parts.programs)},
              {"about", about}}
             .dump(2)
      << "\n";
  Results results;
  const absl::Status status =
      RunParts(parts,
               {.directory = of_parts.directory,
                .only = options.only,
                .resume = options.resume,
                .total = std::chrono::seconds(options.seconds)},
               &results);
  if (!status.ok() && !absl::IsCancelled(status)) {
    fmt::print(stderr, "gpu_check: {}\n", status.message());
    return 1;
  }
  const std::string table = ResultTable(parts, options.only, results);
  std::ofstream(of_parts.directory + "/table.txt") << table;
  fmt::print("{}raw results: {}\n", table, of_parts.directory);
  return status.ok() ? ExitCodeOf(results) : 130;
}

// Runs launch_bench if there is a GPU: it has no exit code of its own for a
// missing one.
int RunBench(char** argv) {
  const int code = ExitCodeOfGpuElsewhere();
  if (code != 0) return code;
  execv(argv[0], argv);
  fmt::print(stderr, "cannot start {}: {}\n", argv[0], strerror(errno));
  return 1;
}

}  // namespace
}  // namespace carillon::gpu_check

int main(int argc, char** argv) {
  using namespace carillon::gpu_check;
  if (argc == 2 && std::string_view(argv[1]) == "--part-info") {
    return PrintInfo();
  }
  if (argc > 2 && std::string_view(argv[1]) == "--part-bench") {
    return RunBench(argv + 2);
  }
  Options options;
  CLI::App app{
      "Runs on a machine with an NVIDIA GPU what Carillon's tests cannot run "
      "without one, and its benches. Exit codes: 0 all passed, 1 something "
      "failed, 2 usage, 77 there is no GPU or no driver, 130 interrupted."};
  app.add_option("--only", options.only, "Only these parts, with commas")
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
      ->check(CLI::Range(10, 540))
      ->capture_default_str();
  app.add_flag("--dry-run", options.dry_run,
               "Start everything without a GPU: on the driver in --fake, or to "
               "see it say that there is none");
  app.add_option("--fake", options.fake,
                 "Folder of a fake libcuda.so.1, for --dry-run");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  return Run(options);
}

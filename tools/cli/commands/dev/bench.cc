#include <fmt/format.h>
#include <fmt/ranges.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "base/subprocess.h"
#include "base/text.h"
#include "tools/cli/commands/dev/commands.h"
#include "tools/cli/testing/bazel.h"
#include "tools/cli/ui/exit_code.h"
#include "tools/testbed/supervisor/launch_plan.h"

namespace carillon::cli {
namespace {

// A program that measures something, prints a table to stdout (or, with
// --json, one JSON document) and, with --out DIR, leaves files there. Exit code
// 0: it could measure, whatever the figures say.
struct Benchmark {
  std::string_view name;
  std::string_view summary;
  std::string_view program;  // "tools/bench/..."
  // The back-ends that it has, if it takes --backend.
  std::vector<std::string_view> backends = {};
};

// A new benchmark is one line here.
const Benchmark kBenchmarks[] = {
    {"dashboard",
     "what an open page costs its testbed; the dashboard's own CPU and memory",
     "tools/bench/dashboard_bench"},
    {"event", "what an event costs: spinning, from idle, pipelined",
     "tools/bench/event_bench"},
    {"ipc", "rings and events beside gRPC, ZeroMQ, Boost and Unix sockets",
     "tools/bench/ipc_bench"},
    {"launch",
     "the back-end's launch paths side by side",
     "tools/bench/launch_bench",
     {"auto", "cpu", "cuda"}},
    {"link", "events over a link between two hosts beside its TLS stream",
     "tools/bench/link_bench"},
    {"memcached", "GETs over UDP beside Debian's memcached",
     "tools/bench/memcached_bench"},
    {"narrow",
     "Pagoda's narrow tasks on all paths of a back-end",
     "tools/bench/narrow_bench",
     {"auto", "cpu", "sim", "cuda"}},
    {"python", "events of a device in Python: one at a time, and in batches",
     "tools/python/carillon_sdk_bench"},
    {"sharing",
     "events beside background kernels, by sharing policy",
     "tools/bench/sharing_bench",
     {"cpu", "sim", "cuda"}},
};

struct Options {
  std::vector<std::string> names;
  std::string out;
  std::string backend;
  bool list = false;
  bool quick = false;
};

absl::Status List(Console& console) {
  Json document = Json::array();
  Table table({"BENCHMARK", "WHAT IT MEASURES"});
  for (const Benchmark& benchmark : kBenchmarks) {
    document.push_back(
        {{"name", benchmark.name}, {"summary", benchmark.summary}});
    table.AddRow(benchmark.name, benchmark.summary);
  }
  console.Print({{"benchmarks", std::move(document)}}, table);
  return absl::OkStatus();
}

bool Takes(const Benchmark& benchmark, std::string_view backend) {
  return std::ranges::find(benchmark.backends, backend) !=
         benchmark.backends.end();
}

absl::StatusOr<std::vector<Benchmark>> Choose(const Options& options) {
  std::vector<Benchmark> chosen;
  std::vector<std::string_view> known;
  for (const Benchmark& benchmark : kBenchmarks) {
    known.push_back(benchmark.name);
    if (options.names.empty()) chosen.push_back(benchmark);
  }
  for (const std::string& name : options.names) {
    const auto found = std::ranges::find(kBenchmarks, name, &Benchmark::name);
    if (found == std::end(kBenchmarks)) {
      return WithHint(absl::NotFoundError(
                          fmt::format("there is no benchmark {}{}", Quote(name),
                                      DidYouMean(name, known))),
                      "carillon bench --list");
    }
    chosen.push_back(*found);
  }
  if (options.names.empty() || options.backend.empty()) return chosen;
  for (const Benchmark& benchmark : chosen) {
    if (benchmark.backends.empty() || Takes(benchmark, options.backend)) {
      continue;
    }
    return absl::InvalidArgumentError(
        fmt::format("{} runs on --backend {}, not {}", benchmark.name,
                    fmt::join(benchmark.backends, ", "), options.backend));
  }
  if (std::ranges::all_of(chosen, [](const Benchmark& benchmark) {
        return benchmark.backends.empty();
      })) {
    return absl::InvalidArgumentError(
        fmt::format("{} always runs on the cpu back-end: --backend is for "
                    "launch, narrow and sharing",
                    chosen[0].name));
  }
  return chosen;
}

// How a program that did not end well did end (docs/cli.md).
absl::StatusCode CodeOf(const ExitReport& report) {
  const auto code = static_cast<ExitCode>(report.code);
  if (report.signal == SIGINT || code == ExitCode::kInterrupted) {
    return absl::StatusCode::kCancelled;
  }
  return code == ExitCode::kViolated ? absl::StatusCode::kDataLoss
                                     : absl::StatusCode::kFailedPrecondition;
}

// Hands SIGINT and SIGTERM on to a program while this lives, so that it is the
// one that ends first, and in order. One at a time.
class SignalRelay {
 public:
  SignalRelay() {
    sigset_t both;
    sigemptyset(&both);
    sigaddset(&both, SIGINT);
    sigaddset(&both, SIGTERM);
    sigprocmask(SIG_BLOCK, &both, &mask_);
  }
  // What came since the constructor is handed on too.
  void Start(pid_t pid) {
    program_.store(pid, std::memory_order_relaxed);
    struct sigaction action {};
    action.sa_handler = [](int signal) {
      kill(program_.load(std::memory_order_relaxed), signal);
    };
    sigaction(SIGINT, &action, &interrupt_);
    sigaction(SIGTERM, &action, &terminate_);
    sigprocmask(SIG_SETMASK, &mask_, nullptr);
    started_ = true;
  }
  ~SignalRelay() {
    if (started_) {
      sigaction(SIGINT, &interrupt_, nullptr);
      sigaction(SIGTERM, &terminate_, nullptr);
    } else {
      sigprocmask(SIG_SETMASK, &mask_, nullptr);
    }
  }

 private:
  // Writer: Start(); reader: the handler, in the same thread. Relaxed.
  static inline std::atomic<pid_t> program_{0};
  sigset_t mask_;
  struct sigaction interrupt_, terminate_;
  bool started_ = false;
};

// With this terminal; under -o json, what it prints is taken.
absl::StatusOr<std::string> RunProgram(
    const std::vector<std::string>& arguments, bool take_output) {
  Pipe pipe;
  if (take_output) {
    ASSIGN_OR_RETURN(pipe, MakePipe());
  }
  SignalRelay relay;
  ASSIGN_OR_RETURN(auto program,
                   Subprocess::Start({.argv = arguments,
                                      .in = STDIN_FILENO,
                                      .out = take_output ? pipe.writer.get()
                                                         : STDOUT_FILENO}));
  relay.Start(program.pid());
  pipe.writer.reset();
  std::string output;
  char bytes[4096];
  while (take_output) {
    const ssize_t got = read(pipe.reader.get(), bytes, sizeof(bytes));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    output.append(bytes, got);
  }
  const ExitReport report = program.Reap();
  if (!report.ok()) {
    return absl::Status(
        CodeOf(report),
        fmt::format("{} failed ({})", arguments[0], report.ToString()));
  }
  return output;
}

// ./carillon builds what a testbed runs, not these. Elsewhere they are taken as
// they are.
absl::Status Build(const std::vector<Benchmark>& benchmarks) {
  const char* const root = std::getenv("CARILLON_ROOT");
  if (root == nullptr || *root == '\0') return absl::OkStatus();
  std::vector<std::string> arguments = {"build", "--show_result=0"};
  for (const Benchmark& benchmark : benchmarks) {
    // A program's path is its label, but for the last slash.
    std::string label = fmt::format("//{}", benchmark.program);
    label[label.rfind('/')] = ':';
    arguments.push_back(std::move(label));
  }
  ASSIGN_OR_RETURN(const auto exit_code, RunBazel(std::move(arguments), root,
                                                  /*output_to_stderr=*/true));
  if (exit_code == kBazelInterrupted) return absl::CancelledError();
  if (exit_code != 0) {
    return absl::FailedPreconditionError("the benchmarks do not build");
  }
  return absl::OkStatus();
}

absl::Status Bench(const Options& options, Console& console) {
  if (options.list) return List(console);
  ASSIGN_OR_RETURN(const auto chosen, Choose(options));
  Json results = Json::object();
  RETURN_IF_ERROR(Build(chosen));
  for (const Benchmark& benchmark : chosen) {
    ASSIGN_OR_RETURN(const auto program,
                     testbed::FindCarillonProgram(benchmark.program));
    console.Say(fmt::format("{}: {}", benchmark.name, benchmark.summary));
    std::vector<std::string> arguments = {program};
    if (!options.out.empty()) arguments.push_back("--out=" + options.out);
    if (options.quick) arguments.push_back("--quick");
    // Of all benchmarks, those that have no such back-end take their own.
    if (Takes(benchmark, options.backend)) {
      arguments.push_back("--backend=" + options.backend);
    }
    if (console.json()) arguments.push_back("--json");
    ASSIGN_OR_RETURN(const auto output, RunProgram(arguments, console.json()));
    if (!console.json()) continue;
    Json result = Json::parse(output, nullptr, /*allow_exceptions=*/false);
    if (result.is_discarded()) {
      return absl::InternalError(
          fmt::format("{} printed no JSON document", program));
    }
    results[std::string(benchmark.name)] = std::move(result);
  }
  if (console.json()) console.PrintDocument(results);
  return absl::OkStatus();
}

}  // namespace

std::vector<std::pair<std::string, std::string>> Benchmarks() {
  std::vector<std::pair<std::string, std::string>> benchmarks;
  for (const Benchmark& benchmark : kBenchmarks) {
    benchmarks.emplace_back(benchmark.name, benchmark.summary);
  }
  return benchmarks;
}

Run MakeBench(Arguments& arguments, Console& console) {
  auto options = std::make_shared<Options>();
  arguments.Texts("benchmark BENCHMARK...", options->names, "Only these");
  arguments.Flag("--list", options->list, "Say which there are");
  arguments.Text("--out DIR", options->out,
                 "Folder for result files and plots");
  arguments.Flag("--quick", options->quick,
                 "One short round: a look, no figures");
  arguments.Choice("--backend auto|cpu|sim|cuda", options->backend,
                   {"auto", "cpu", "sim", "cuda"},
                   "What runs the kernels of launch, narrow and sharing: each "
                   "has some of them (docs/cli.md)");
  return [options, &console] { return Bench(*options, console); };
}

}  // namespace carillon::cli

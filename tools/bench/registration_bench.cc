// Measures how long edgeRegisterEvent takes while a device registers one event
// kernel after the other, through the SDK and the control socket of a gpud that
// runs. Each round is a session of its own. Writes a line of CSV for each
// registration, with the median and the least of all rounds: on a machine that
// others use, the least is what it costs.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

#include "base/status.h"
#include "devices/sdk/edge.h"
#include "fmt/format.h"

namespace carillon {
namespace {

using Clock = std::chrono::steady_clock;

struct Options {
  std::string directory;
  size_t kernels = 1000;
  size_t rounds = 9;
  uint32_t max_in_flight = 64;
};

double Median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<long>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// Microseconds of each registration, in turn.
absl::StatusOr<std::vector<double>> RunRound(const Options& options) {
  edge::AttachOptions attach;
  attach.testbed_directory = options.directory;
  attach.name = "registrar";
  attach.kind = "bench";
  ASSIGN_OR_RETURN(const auto device, edge::Device::Attach(attach));
  edge::EventSpec spec;
  spec.kernel = "null_event";
  spec.max_in_flight = options.max_in_flight;
  spec.parameters = {edge::Constant("token", uint64_t{1})};
  std::vector<double> took;
  while (took.size() < options.kernels) {
    const auto began = Clock::now();
    RETURN_IF_ERROR(edge::edgeRegisterEvent(*device, spec).status());
    took.push_back(
        std::chrono::duration<double, std::micro>(Clock::now() - began)
            .count());
  }
  return took;
}

absl::Status Run(const Options& options) {
  std::vector<std::vector<double>> by_kernel(options.kernels);
  for (size_t round = 0; round < options.rounds; ++round) {
    ASSIGN_OR_RETURN(const auto took, RunRound(options));
    for (size_t i = 0; i < took.size(); ++i) by_kernel[i].push_back(took[i]);
  }
  const auto least = [](const std::vector<double>& values) {
    return *std::min_element(values.begin(), values.end());
  };
  fmt::print("registration,median_us,least_us\n");
  for (size_t i = 0; i < by_kernel.size(); ++i) {
    fmt::print("{},{:.1f},{:.1f}\n", i + 1, Median(by_kernel[i]),
               least(by_kernel[i]));
  }
  // The first few pay for connections and threads that begin.
  const size_t some = std::min<size_t>(50, options.kernels);
  const auto typical = [&](size_t begin) {
    std::vector<double> all;
    for (size_t i = begin; i < begin + some; ++i) {
      all.push_back(least(by_kernel[i]));
    }
    return Median(std::move(all));
  };
  const double first = typical(0);
  const double last = typical(options.kernels - some);
  fmt::print(stderr,
             "the least of {} rounds, median of the first {} registrations: "
             "{:.1f} us, of the last {}: {:.1f} us, {:.2f} x\n",
             options.rounds, some, first, some, last, last / first);
  return absl::OkStatus();
}

int Main(int argc, char** argv) {
  Options options;
  CLI::App app("registration_bench: what registering an event kernel costs.");
  app.add_option("--dir", options.directory, "the testbed's directory")
      ->required();
  app.add_option("--kernels", options.kernels, "event kernels of a round")
      ->check(CLI::Range(1, 1024));
  app.add_option("--rounds", options.rounds, "sessions")
      ->check(CLI::Range(1, 1000));
  app.add_option("--max-in-flight", options.max_in_flight,
                 "slots of each ring");
  CLI11_PARSE(app, argc, argv);
  const absl::Status ran = Run(options);
  if (ran.ok()) return 0;
  fmt::print(stderr, "registration_bench: {}\n", ran.message());
  return 1;
}

}  // namespace
}  // namespace carillon

int main(int argc, char** argv) { return carillon::Main(argc, argv); }

// gpu_probes NAME: asks one question of the GPU, in a process of its own.
#include <stdlib.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <span>
#include <string_view>

#include "base/status.h"
#include "fmt/format.h"
#include "tools/gpu_check/info.h"
#include "tools/gpu_check/probes/probe.h"

namespace carillon::gpu_check {
namespace {

std::array<std::span<const Probe>, 6> AllProbes() {
  return {MemoryProbes(), LaunchProbes(),   GreenProbes(),
          FaultProbes(),  ResidentProbes(), TimingProbes()};
}

int Usage(int code) {
  fmt::print("usage: gpu_probes NAME\n");
  for (const auto probes : AllProbes()) {
    for (const Probe& probe : probes) {
      fmt::print("  {:<20} {}\n", probe.name, probe.question);
    }
  }
  return code;
}

int Ask(const Probe& probe) {
  // The same values as gpud's.
  setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 1);
  setenv("CUDA_MODULE_LOADING", "EAGER", 1);
  Answer answer;
  if (probe.ask_by_children != nullptr) {
    // A process that has opened the GPU has no children that could.
    const int code = ExitCodeOfGpuElsewhere();
    if (code != 0) return code;
    answer = probe.ask_by_children();
  } else {
    const auto driver = OpenGpu();
    if (!driver.ok()) {
      fmt::print(stderr, "{}\n", driver.status().message());
      return ExitCodeOf(driver.status());
    }
    // Not destroyed: the process ends below.
    Kit& kit = *new Kit(*new gpud::cuda::Driver(*driver));
    answer = probe.ask(kit);
  }
  if (answer.text.empty()) answer.text = SoFar();
  for (const auto& [name, value] : Noted().items()) {
    answer.numbers[name] = value;
  }
  fmt::print("{}\n", nlohmann::json{{"probe", probe.name},
                                    {"question", probe.question},
                                    {"answer", answer.text},
                                    {"numbers", answer.numbers},
                                    {"as_the_back_end_needs", !answer.bad}}
                         .dump(2));
  fmt::print("finding: {}\n", answer.text);
  std::fflush(stdout);
  // Skip the clean-up, which a broken context could hang.
  _exit(answer.bad ? 1 : 0);
}

}  // namespace
}  // namespace carillon::gpu_check

int main(int argc, char** argv) {
  using namespace carillon::gpu_check;
  if (argc != 2) return Usage(2);
  const std::string_view name = argv[1];
  if (name == "--help") return Usage(0);
  for (const auto probes : AllProbes()) {
    for (const Probe& probe : probes) {
      if (probe.name == name) return Ask(probe);
    }
  }
  fmt::print(stderr, "there is no probe '{}'\n", name);
  return Usage(2);
}

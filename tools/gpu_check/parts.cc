#include "tools/gpu_check/parts.h"

#include <utility>

#include "fmt/format.h"

namespace carillon::gpu_check {
namespace {

using std::chrono::seconds;

// One question of gpu_probes.
struct ProbeStep {
  std::string_view name;
  int seconds;  // the time limit
};

constexpr ProbeStep kProbes[] = {
    {"registered_memory", 10},
    {"whole_store", 10},
    {"poll_rtt", 10},
    {"memory_operations", 10},
    {"launch_budget", 10},
    {"sibling_budget", 10},
    {"exec_memory", 15},
    {"exec_busy", 10},
    {"tail_relaunch", 10},
    {"green_split", 10},
    {"green_launch", 10},
    {"fault_reset", 15},
    {"fault_memory", 15},
    {"trap_kills", 15},
    {"unregister_resident", 15},
    {"cdp_spinning", 15},
};

constexpr const char* kPathScenarios[] = {"load", "churn", "device_killed",
                                          "gpud_killed"};

// Makes the steps of one mode.
class Maker {
 public:
  explicit Maker(const PartOptions& options) : options_(options) {}

  // `on_fake` says whether the fake driver can do it.
  CheckStep Make(std::string name, std::vector<std::string> argv, int limit_s,
                 bool on_fake) const {
    CheckStep step{.name = std::move(name),
                   .argv = std::move(argv),
                   .limit = seconds(limit_s)};
    if (!options_.dry_run) return step;
    // The fake driver comes before the system's own, if that exists.
    if (!options_.fake_driver.empty()) {
      step.environment = {"LD_LIBRARY_PATH=" + options_.fake_driver};
    }
    if (!on_fake || options_.fake_driver.empty()) {
      step.environment.push_back("CARILLON_FAKE_CUDA=devices=0");
      step.environment.push_back("CUDA_VISIBLE_DEVICES=");
      step.expects_no_gpu = true;
    }
    return step;
  }
  std::string Program(const char* name) const {
    return fmt::format("{}/{}", options_.programs, name);
  }
  std::vector<std::string> Kernels(const char* amount) const {
    return {Program("gpu_kernels"), fmt::format("--seed={}", options_.seed),
            fmt::format("--rounds={}", amount)};
  }

 private:
  const PartOptions& options_;
};

CheckPart Probes(const Maker& maker) {
  CheckPart part{"probes", "questions that NVIDIA's documents leave open", {}};
  for (const ProbeStep& probe : kProbes) {
    const char* const program =
        probe.name == "cdp_spinning" ? "cdp_probe" : "gpu_probes";
    part.steps.push_back(maker.Make(
        std::string(probe.name),
        {maker.Program(program), std::string(probe.name)}, probe.seconds,
        /*on_fake=*/false));
  }
  return part;
}

CheckPart Paths(const Maker& maker, const PartOptions& options) {
  CheckPart part{
      "paths",
      "every launch path under load, with a ledger; devices and gpud "
      "killed",
      {}};
  const auto add = [&](const char* name, std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), maker.Program("gpu_paths"));
    arguments.push_back("--backend=cuda");
    if (options.dry_run) arguments.push_back("--quick");
    part.steps.push_back(
        maker.Make(name, std::move(arguments), 60, /*on_fake=*/true));
  };
  for (const char* const scenario : kPathScenarios) add(scenario, {scenario});
  add("reserved_sms", {"load", "--paths=edge,graph", "--reserve-sms=8"});
  return part;
}

// These plans need no fault point of gpud's: on a GPU, gpud does not launch.
constexpr const char* kFaultPlans[] = {"kill-nic",      "stop-nic",
                                       "stop-gpud",     "doorbell-storm",
                                       "corrupt-entry", "lossy-network"};

CheckPart Faults(const Maker& maker, const PartOptions& options) {
  CheckPart part{
      "faults",
      "fault plans on the cuda back-end (carillon fault run), judged by "
      "the ledger",
      {}};
  for (const char* const plan : kFaultPlans) {
    if (options.dry_run && plan != kFaultPlans[0]) break;
    CheckStep step =
        maker.Make(plan,
                   {maker.Program("carillon"), "fault", "run",
                    maker.Program(plan) + ".yaml", "--backend", "cuda",
                    fmt::format("--keep={}/faults", options.directory)},
                   90, /*on_fake=*/true);
    if (step.expects_no_gpu) step.skip = "a plan needs a GPU to break";
    part.steps.push_back(std::move(step));
  }
  return part;
}

CheckPart Hostile(const Maker& maker, const PartOptions& options) {
  CheckStep step = maker.Make(
      "tricks",
      {maker.Program("hostile_test"),
       options.dry_run
           ? "--gtest_filter=*/doorbell_*:*/punch_holes:*/scribble_all"
           : "--gtest_filter=Tricks/*"},
      180, /*on_fake=*/true);
  if (step.expects_no_gpu) step.skip = "a device needs a GPU to be hostile to";
  step.environment.push_back("CARILLON_TEST_PROGRAMS=" + options.programs);
  step.environment.push_back("CARILLON_TEST_BACKEND=cuda");
  return {"hostile",
          "a device that tries every trick it can beside an honest one",
          {step}};
}

CheckPart Sanitizer(const Maker& maker, const PartOptions& options) {
  std::vector<std::string> argv = {options.sanitizer, "--tool=memcheck",
                                   "--error-exitcode=9",
                                   "--target-processes=all"};
  for (std::string& argument : maker.Kernels("1")) {
    argv.push_back(std::move(argument));
  }
  CheckStep step =
      maker.Make("memcheck", std::move(argv), 90, /*on_fake=*/false);
  if (options.sanitizer.empty()) {
    step.skip = "compute-sanitizer is not present";
  } else if (options.dry_run) {
    step.skip = "not in a dry run";
  }
  return {"sanitizer", "compute-sanitizer over the kernels", {step}};
}

CheckPart Bench(const Maker& maker, const PartOptions& options) {
  CheckPart part{
      "bench", "the launch paths side by side (carillon bench launch)", {}};
  const auto add = [&](const char* name, int limit_s,
                       std::vector<std::string> arguments) {
    arguments.insert(
        arguments.begin(),
        {options.self, "--part-bench", maker.Program("launch_bench"),
         "--backend=cuda",
         fmt::format("--out={}/bench_{}", options.directory, name)});
    part.steps.push_back(
        maker.Make(name, std::move(arguments), limit_s, /*on_fake=*/true));
  };
  if (options.dry_run) {
    add("quick", 120, {"--quick", "--parts=latency", "--paths=baseline"});
    return part;
  }
  add("quick", 60, {"--quick"});
  // Each is a part of its own, so that finished ones count when time runs out.
  for (const auto& [name, limit_s] :
       {std::pair{"latency", 180}, std::pair{"background", 60},
        std::pair{"breakdown", 90}, std::pair{"idle", 45},
        std::pair{"power", 60}, std::pair{"co_runner", 90}}) {
    add(name, limit_s, {fmt::format("--parts={}", name), "--rounds=1"});
  }
  add("reserved_sms", 60,
      {"--parts=latency,background", "--paths=edge", "--reserve-sms=8",
       "--rounds=1"});
  return part;
}

}  // namespace

std::vector<CheckPart> MakeParts(const PartOptions& options) {
  const Maker maker(options);
  std::vector<CheckPart> parts;
  parts.push_back({"info",
                   "the GPU, its driver, what the back-end needs of them",
                   {maker.Make("device", {options.self, "--part-info"}, 30,
                               /*on_fake=*/true)}});
  parts.push_back(Probes(maker));
  parts.push_back({"kernels",
                   "every kernel on the GPU against its CPU form",
                   {maker.Make("compare", maker.Kernels("20"), 60,
                               /*on_fake=*/true)}});
  parts.push_back(Paths(maker, options));
  parts.push_back(Faults(maker, options));
  parts.push_back(Hostile(maker, options));
  parts.push_back(Sanitizer(maker, options));
  parts.push_back(Bench(maker, options));
  return parts;
}

}  // namespace carillon::gpu_check

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

// Those whose answers decide most come first; what takes a context away, last.
constexpr ProbeStep kProbes[] = {
    {"beside_resident", 60}, {"aliasing", 25},
    {"fence_cost", 15},      {"host_reads", 15},
    {"poll_rtt", 10},        {"beside_pollers", 10},
    {"htod_order", 15},      {"launch_budget", 10},
    {"launch_rate", 10},     {"stream_query", 10},
    {"stream_behind", 10},   {"graph_priority", 10},
    {"reserved_where", 10},  {"globaltimer", 15},
    {"sm_clock", 10},        {"register_time", 15},
    {"punch", 10},           {"registered_memory", 10},
    {"whole_store", 10},     {"memory_operations", 15},
    {"sibling_budget", 10},  {"exec_memory", 15},
    {"exec_busy", 10},       {"tail_relaunch", 10},
    {"green_split", 10},     {"green_launch", 10},
    {"graph_set", 10},       {"unregister_resident", 15},
    {"cdp_spinning", 15},    {"fault_memory", 15},
    {"trap_kills", 15},      {"trap_full_gpu", 15},
    {"fault_reset", 25},
};

// In the order in which their figures are wanted.
constexpr const char* kPaths[] = {"edge",        "baseline_flag", "baseline",
                                  "persistent",  "graph",         "stream_wait",
                                  "pagoda_ring", "pagoda"};
// A launch path that hangs takes so long away from the others, and no more.
constexpr int kPathSeconds = 25;

// Makes the steps of one mode.
class Maker {
 public:
  explicit Maker(const PartOptions& options) : options_(options) {}

  // `on_other`: it needs nothing of NVIDIA's but a libcuda.so.1.
  CheckStep Make(std::string name, std::vector<std::string> argv, int limit_s,
                 bool on_other = true) const {
    CheckStep step{.name = std::move(name),
                   .argv = std::move(argv),
                   .limit = seconds(limit_s)};
    if (!options_.dry_run) return step;
    // What a dry run shows must not depend on how busy its machine is.
    step.limit *= 10;
    // That driver comes before the system's own, if there is one.
    if (!options_.driver.empty()) {
      step.environment = {"LD_LIBRARY_PATH=" + options_.driver};
    }
    if (!on_other || options_.driver.empty()) {
      step.environment.push_back("CARILLON_FAKE_CUDA=devices=0");
      step.environment.push_back("CUDA_VISIBLE_DEVICES=");
      step.expects_no_gpu = true;
    }
    step.may_lack = !step.expects_no_gpu;
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
    const bool runtime = probe.name == "cdp_spinning";
    part.steps.push_back(
        maker.Make(std::string(probe.name),
                   {maker.Program(runtime ? "cdp_probe" : "gpu_probes"),
                    std::string(probe.name)},
                   probe.seconds, /*on_other=*/!runtime));
  }
  return part;
}

// A dry run of what fills a GPU: its GPU has so few SMs, as each block of a wave,
// and each warp that stays there, is work of this machine.
CheckStep OnFewSms(CheckStep step, int sms) {
  if (step.may_lack) {
    step.environment.push_back(fmt::format("CARILLON_FAKE_CUDA=sms={}", sms));
  }
  return step;
}
// Of a launch path: 3 MTBs where it has some.
CheckStep OnItsSms(CheckStep step, std::string_view path) {
  return path.starts_with("pagoda") ? OnFewSms(std::move(step), 8) : step;
}

// A bench of that name, on some launch paths or policies.
CheckStep BenchStep(const Maker& maker, const PartOptions& options,
                    const std::string& part, const std::string& name,
                    int limit_s, std::vector<std::string> arguments,
                    const char* bench = "launch_bench") {
  arguments.insert(
      arguments.begin(),
      {options.self, "--part-bench", maker.Program(bench), "--backend=cuda",
       fmt::format("--out={}/bench_{}_{}", options.directory, part, name)});
  if (options.dry_run) arguments.push_back("--quick");
  return maker.Make(name, std::move(arguments), limit_s);
}

CheckPart Latency(const Maker& maker, const PartOptions& options) {
  CheckPart part{"latency", "latency and rate of each launch path alone", {}};
  for (const char* const path : kPaths) {
    part.steps.push_back(OnItsSms(
        BenchStep(
            maker, options, part.name, path, kPathSeconds,
            {"--parts=latency", fmt::format("--paths={}", path), "--rounds=1"}),
        path));
  }
  return part;
}

// `gpu_paths` on one launch path.
CheckStep PathStep(const Maker& maker, const PartOptions& options,
                   std::string name, const char* scenario, const char* path,
                   std::vector<std::string> arguments = {}) {
  arguments.insert(arguments.begin(),
                   {maker.Program("gpu_paths"), scenario, "--backend=cuda",
                    fmt::format("--paths={}", path)});
  if (options.dry_run) arguments.push_back("--quick");
  return OnItsSms(
      maker.Make(std::move(name), std::move(arguments), kPathSeconds), path);
}

CheckPart Load(const Maker& maker, const PartOptions& options) {
  CheckPart part{"load", "each launch path under load, with a ledger", {}};
  for (const char* const path : kPaths) {
    part.steps.push_back(PathStep(maker, options, path, "load", path));
  }
  return part;
}

CheckPart Paths(const Maker& maker, const PartOptions& options) {
  CheckPart part{"paths",
                 "registering and unregistering meanwhile, a device killed, "
                 "gpud killed, SMs reserved",
                 {}};
  for (const char* const scenario : {"churn", "device_killed", "gpud_killed"}) {
    for (const char* const path : kPaths) {
      part.steps.push_back(PathStep(maker, options,
                                    fmt::format("{}.{}", scenario, path),
                                    scenario, path));
    }
  }
  for (const char* const path : {"edge", "graph"}) {
    part.steps.push_back(PathStep(maker, options,
                                  fmt::format("reserved_sms.{}", path), "load",
                                  path, {"--reserve-sms=8"}));
  }
  return part;
}

// A kernel that faults, or does not end: gpud ends, and is started again. 10 s of that
// are the kernel's.
CheckPart Recoveries(const Maker& maker, const PartOptions& options) {
  CheckPart part{"recovery",
                 "a device whose kernel faults, or does not end, beside an "
                 "honest one",
                 {}};
  for (const char* const scenario : {"fault", "endless", "endless_full"}) {
    for (const char* const path : {"edge", "graph"}) {
      part.steps.push_back(OnFewSms(
          PathStep(maker, options, fmt::format("{}.{}", scenario, path),
                   scenario, path,
                   {"--carillon=" + maker.Program("carillon"),
                    "--kernels=" + maker.Program("rogue.fatbin")}),
          8));
      if (options.dry_run && part.steps.size() > 1) {
        part.steps.back().skip = "not in a dry run";
      }
    }
  }
  return part;
}

// Parts of `sharing_bench`, by policy where one takes long. A dry run has the two
// policies for which a kernel needs another form.
CheckPart Sharing(const Maker& maker, const PartOptions& options) {
  struct Step {
    const char* name;
    const char* part;
    const char* policy;  // nullptr: all
    const char* rounds;
    bool in_dry_run;
    const char* more = nullptr;
  };
  constexpr Step kSteps[] = {
      {"wait.priority", "load", "priority", "1", false},
      {"wait.gpes", "load", "gpes", "1", true},
      {"wait.bound", "load", "gpes", "1", false, "--preempt-us=200"},
      {"wait.ptb", "load", "ptb", "1", true},
      {"wait.reservation", "load", "reservation", "1", false},
      {"pending", "pending", nullptr, "2", false},
      {"losses", "losses", nullptr, "1", false},
      {"losses.bound", "losses", "gpes", "1", false, "--preempt-us=200"},
      {"copies", "copies", nullptr, "1", false}};
  CheckPart part{"sharing", "events beside a background, by policy", {}};
  for (const Step& step : kSteps) {
    std::vector<std::string> arguments = {
        fmt::format("--parts={}", step.part),
        fmt::format("--rounds={}", step.rounds)};
    if (step.policy != nullptr) {
      arguments.push_back(fmt::format("--policies={}", step.policy));
    }
    if (step.more != nullptr) arguments.push_back(step.more);
    part.steps.push_back(
        OnFewSms(BenchStep(maker, options, part.name, step.name, 60,
                           std::move(arguments), "sharing_bench"),
                 1));
    if (options.dry_run && !step.in_dry_run) {
      part.steps.back().skip = "not in a dry run";
    }
  }
  return part;
}

// Pagoda's figures (TOPC'19, Figs. 6 to 9 and 11). With a task's data of 48 KiB and
// more, a quarter of the paper's 32,768 tasks: to make, hide and compare gigabytes
// takes longer than to run the tasks.
CheckPart Narrow(const Maker& maker, const PartOptions& options) {
  struct Step {
    const char* name;
    const char* part;
    const char* workloads;
    int tasks;
  };
  constexpr Step kSteps[] = {
      {"mb", "copies", "mb", 32'768},
      {"mm", "copies", "mm", 8'192},
      {"fb", "copies", "fb", 32'768},
      {"3des", "copies", "3des", 8'192},
      {"conv", "copies", "conv", 8'192},
      {"dct", "copies", "dct", 8'192},
      {"bf", "copies", "bf", 32'768},
      {"mpe", "copies", "mpe", 16'384},
      {"slud", "copies", "slud", 32'768},
      {"threads", "threads", "mm,conv", 2'048},
      {"irregular", "irregular", "mb,fb,mm,3des", 8'192}};
  CheckPart part{
      "narrow",
      "Pagoda's narrow tasks on all paths, with copies, by threads a "
      "task, and irregular",
      {}};
  for (const Step& step : kSteps) {
    part.steps.push_back(OnFewSms(
        BenchStep(maker, options, part.name, step.name, 60,
                  {fmt::format("--parts={}", step.part),
                   fmt::format("--workloads={}", step.workloads),
                   fmt::format("--tasks={}", step.tasks), "--rounds=1"},
                  "gpu_narrow"),
        8));
    if (options.dry_run && std::string_view(step.part) == "copies" &&
        part.steps.size() > 2) {
      part.steps.back().skip = "not in a dry run";
    }
  }
  return part;
}

// MemcachedGPU's GETs flat out (thesis, Table 4.3 and Fig. 4.15), by the length of
// a key.
CheckPart Workloads(const Maker& maker, const PartOptions& options) {
  CheckPart part{"workloads",
                 "MemcachedGPU's lookups without a network, batches of 512",
                 {}};
  for (const int key_bytes : {16, 128}) {
    std::vector<std::string> argv = {
        options.self,
        "--part-lookups",
        maker.Program("gpud"),
        maker.Program("gnom_offline"),
        fmt::format("--key-bytes={}", key_bytes),
        "--batch=512",
        options.dry_run ? "--in-flight=1" : "--in-flight=64",
        options.dry_run ? "--keys=512" : "--keys=100000",
        options.dry_run ? "--milliseconds=1" : "--milliseconds=500",
        options.dry_run ? "--rounds=1" : "--rounds=2"};
    part.steps.push_back(
        OnFewSms(maker.Make(fmt::format("get_{}_byte_keys", key_bytes),
                            std::move(argv), 25),
                 8));
  }
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
                   90);
    if (step.expects_no_gpu) step.skip = "a plan needs a GPU to break";
    part.steps.push_back(std::move(step));
  }
  return part;
}

CheckPart User(const Maker& maker, const PartOptions& options) {
  std::vector<std::string> argv = {maker.Program("user_kernels.sh"),
                                   "saxpy.ptx"};
  // A driver that executes PTX takes no machine code.
  if (!options.dry_run) {
    argv.insert(argv.end(), {"saxpy.fatbin", "saxpy.cubin"});
  }
  CheckStep step = maker.Make("kernels", std::move(argv), 60);
  if (step.expects_no_gpu) step.skip = "a testbed needs a GPU to come up";
  return {"user",
          "a testbed, a kernel of the user's own, devices that ring for it",
          {step}};
}

// A trick that hangs takes no other step's tricks along. A dry run plays some.
CheckPart Hostile(const Maker& maker, const PartOptions& options) {
  struct Step {
    const char* name;
    const char* filter;
    int seconds;
    const char* in_dry_run;  // nullptr: nothing
  };
  constexpr Step kSteps[] = {
      {"memory", "Memory/*", 60, "*/punch_holes:*/scribble_all"},
      {"rings", "Rings/*", 60, "*/doorbell_*"},
      {"hand_over", "HandOver/*", 60, nullptr},
      {"registrations", "Registrations/*", 120, nullptr},
      {"calls", "Calls/*", 60, nullptr}};
  CheckPart part{"hostile",
                 "a device that tries every trick it can beside an honest one",
                 {}};
  for (const Step& of : kSteps) {
    const char* const filter = options.dry_run ? of.in_dry_run : of.filter;
    CheckStep step = maker.Make(
        of.name,
        {maker.Program("hostile_test"),
         fmt::format("--gtest_filter={}", filter == nullptr ? "" : filter)},
        of.seconds);
    if (filter == nullptr) {
      step.skip = "not in a dry run";
    } else if (step.expects_no_gpu) {
      step.skip = "a device needs a GPU to be hostile to";
    }
    step.environment.push_back("CARILLON_TEST_PROGRAMS=" + options.programs);
    step.environment.push_back("CARILLON_TEST_BACKEND=cuda");
    part.steps.push_back(std::move(step));
  }
  return part;
}

CheckPart Sanitizer(const Maker& maker, const PartOptions& options) {
  std::vector<std::string> argv = {options.sanitizer, "--tool=memcheck",
                                   "--error-exitcode=9",
                                   "--target-processes=all"};
  for (std::string& argument : maker.Kernels("1")) {
    argv.push_back(std::move(argument));
  }
  CheckStep step =
      maker.Make("memcheck", std::move(argv), 90, /*on_other=*/false);
  if (options.sanitizer.empty()) {
    step.skip = "compute-sanitizer is not present";
  } else if (options.dry_run) {
    step.skip = "not in a dry run";
  }
  return {"sanitizer", "compute-sanitizer over the kernels", {step}};
}

// The launch paths side by side.
CheckPart Quick(const Maker& maker, const PartOptions& options) {
  if (options.dry_run) {
    return {"quick",
            "all launch paths side by side, in short",
            {BenchStep(maker, options, "quick", "all", 120,
                       {"--parts=latency", "--paths=baseline"})}};
  }
  return {"quick",
          "all launch paths side by side, in short",
          {BenchStep(maker, options, "quick", "all", 60, {"--quick"})}};
}

// Parts of `launch_bench`, each a step, so that finished ones count when time
// runs out. A dry run leaves them out: `quick` has shown that the bench runs.
CheckPart Bench(const Maker& maker, const PartOptions& options, CheckPart part,
                const std::vector<std::pair<std::string, int>>& names) {
  for (const auto& [name, limit_s] : names) {
    std::vector<std::string> arguments = {"--parts=" + name, "--rounds=1"};
    if (name == "reserved_sms") {
      arguments = {"--parts=latency,background", "--paths=edge",
                   "--reserve-sms=8", "--rounds=1"};
    }
    CheckStep step = BenchStep(maker, options, part.name, name, limit_s,
                               std::move(arguments));
    if (options.dry_run) step.skip = "not in a dry run";
    part.steps.push_back(std::move(step));
  }
  return part;
}

}  // namespace

std::vector<CheckPart> MakeParts(const PartOptions& options) {
  const Maker maker(options);
  std::vector<CheckPart> parts;
  CheckPart info{"info",
                 "the GPU, its driver, the machine, what the back-end needs",
                 {maker.Make("device", {options.self, "--part-info"}, 30)}};
  CheckStep smi = maker.Make("nvidia_smi", {options.nvidia_smi, "-q"}, 20);
  if (options.dry_run) {
    smi.skip = "not in a dry run";
  } else if (options.nvidia_smi.empty()) {
    smi.skip = "nvidia-smi is not present";
  }
  info.steps.push_back(std::move(smi));
  parts.push_back(std::move(info));
  parts.push_back(Probes(maker));
  parts.push_back({"kernels",
                   "every kernel on the GPU against its CPU form",
                   {maker.Make("compare", maker.Kernels("5"), 60)}});
  parts.push_back(Latency(maker, options));
  parts.push_back(Load(maker, options));
  parts.push_back(Quick(maker, options));
  parts.push_back(Paths(maker, options));
  parts.push_back(Bench(
      maker, options,
      {"bench", "beside background kernels, Fig. 5, idle, SMs reserved", {}},
      {{"background", 60},
       {"breakdown", 90},
       {"idle", 45},
       {"reserved_sms", 60}}));
  parts.push_back(Sharing(maker, options));
  parts.push_back(Workloads(maker, options));
  parts.push_back(User(maker, options));
  parts.push_back(Faults(maker, options));
  parts.push_back(Recoveries(maker, options));
  parts.push_back(Hostile(maker, options));
  parts.push_back(Narrow(maker, options));
  parts.push_back(Bench(maker, options,
                        {"power", "power, and processes beside it", {}},
                        {{"power", 60}, {"co_runner", 90}}));
  parts.push_back(Sanitizer(maker, options));
  return parts;
}

}  // namespace carillon::gpu_check

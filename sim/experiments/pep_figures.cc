// PEP (DAC'18): Table 1 and Figs. 2 and 5 to 9.
#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "fmt/format.h"
#include "sim/experiments/figures.h"
#include "sim/experiments/metrics.h"
#include "sim/experiments/workloads/pep_kernels.h"

namespace carillon::sim::figures {
namespace {

constexpr const char* kGpu = "gtx980";

struct Setting {
  const char* name;
  const char* technique;
  bool dirty = false;
  bool in_place = false;
  uint32_t deadline_us = 15;
  uint32_t predicted_us = 20;
  bool one_sm = false;
};
struct Family {
  const char* name;
  std::vector<Setting> settings;
};

const std::vector<Family>& Families() {
  static const std::vector<Family> families = {
      {"Chimera",
       {{"Chimera, 5 us", "chimera", false, false, 5},
        {"Chimera, 10 us", "chimera", false, false, 10},
        {"Chimera, 15 us", "chimera", false, false, 15}}},
      {"Chimera+Dirty",
       {{"Chimera+Dirty, 5 us", "chimera", true, false, 5},
        {"Chimera+Dirty, 10 us", "chimera", true, false, 10},
        {"Chimera+Dirty, 15 us", "chimera", true, false, 15}}},
      {"PEP",
       {{"PEP, 20 us", "pep", false, false, 15, 20},
        {"PEP, 25 us", "pep", false, false, 15, 25},
        {"PEP, 30 us", "pep", false, false, 15, 30}}},
      {"PEP+in-place",
       {{"PEP+in-place, 20 us", "pep", false, true, 15, 20},
        {"PEP+in-place, 25 us", "pep", false, true, 15, 25},
        {"PEP+in-place, 30 us", "pep", false, true, 15, 30}}},
  };
  return families;
}
// The same with one SM that makes room, which has memory's bandwidth for itself.
const std::vector<Family>& OneSmFamilies() {
  static const std::vector<Family> families = {
      {"Chimera", {{"Chimera, 1 SM", "chimera", false, false, 15, 20, true}}},
      {"Chimera+Dirty",
       {{"Chimera+Dirty, 1 SM", "chimera", true, false, 15, 20, true}}},
      {"PEP", {{"PEP, 1 SM", "pep", false, false, 15, 20, true}}},
      {"PEP+in-place",
       {{"PEP+in-place, 1 SM", "pep", false, true, 15, 20, true}}},
  };
  return families;
}
constexpr size_t kChimera = 0, kDirty = 1, kPep = 2, kInPlace = 3;

std::span<const PepKernel> KernelsOf(const ExperimentOptions& options) {
  const auto all = PepKernels();
  return options.quick ? all.subspan(0, 2) : all;
}

Job KernelJob(std::string name, const PepKernel& kernel,
              const ExperimentOptions& options) {
  Job job = MakeJob(std::move(name), options);
  job.gpu = kGpu;
  job.preempted = kernel.name;
  // Until the first announcement or arrival; nothing makes room before.
  job.overrides.emplace_back("preemption.technique", "drain");
  if (options.quick) {
    // Small workloads end soon.
    job.launch_ns = {1000};
    job.progress = {25};
    job.overrides.emplace_back("preemption.trap_ns", "100");
  } else {
    job.launch_ns = {5000, 15000, 25000, 35000};
    job.progress = {25, 50, 75};
  }
  return job;
}

std::string NameOf(const PepKernel& kernel) {
  return JobName("pep/{}", kernel.name);
}

Overrides OverridesOf(const Setting& setting,
                      const ExperimentOptions& options) {
  const auto number = [](uint64_t value) { return std::to_string(value); };
  return {
      {"preemption.technique", setting.technique},
      {"preemption.dirty", number(setting.dirty)},
      {"preemption.in_place", number(setting.in_place)},
      {"preemption.sms", number(setting.one_sm)},
      {"preemption.deadline_ns", number(setting.deadline_us * 1000)},
      {"preemption.predicted_ns",
       number(setting.predicted_us * (options.quick ? 1 : 1000))},
  };
}

Json Conditions() {
  return {
      "gtx980; the kernel fills the GPU, and a grid of higher priority that "
      "fills it, too, arrives: all SMs make room at once and share memory's "
      "bandwidth (PEP does not say how many do)",
      "launch times of 5, 15, 25 and 35 us, progress of 25, 50 and 75 %; "
      "Chimera and Chimera+Dirty with deadlines of 5, 10 and 15 us, PEP with "
      "predictions of 20, 25 and 30 us: means over all, as in the paper",
      "Chimera does not flush; blocks' mean times and instructions are known "
      "from a run alone",
      "a context: registers, shared memory, and 128 bytes a warp for PC, SIMT "
      "stack and predicates",
      "long kernels: PEP's first nine"};
}

// The sums of all runs of a kernel with the settings of a family.
struct Sum {
  std::vector<double> latency_us;  // of each run
  double blocks = 0;
  double saved_blocks = 0;  // those of which something was saved
  double base = 0, incremental = 0, in_place = 0;  // KB
  double base_us = 0, incremental_us = 0;
  double shared_written = 0, shared_whole = 0;
  std::map<std::string, double> cases;
};

Sum SumOf(const Results& results, const PepKernel& kernel,
          const Family& family) {
  Sum sum;
  const Json& job = results.at(NameOf(kernel));
  const double mhz = job["mhz"].get<double>();
  for (const Setting& setting : family.settings) {
    for (const Json& run : job["runs"][setting.name]) {
      if (run["latency"].is_null()) continue;
      const auto number = [&](const char* key) {
        return run[key].get<double>();
      };
      constexpr double kLinesOfKb = 8;
      sum.latency_us.push_back(number("latency") / mhz);
      sum.blocks += number("blocks");
      sum.base += number("base") / kLinesOfKb;
      sum.incremental += number("incremental") / kLinesOfKb;
      sum.in_place += number("in_place") / kLinesOfKb;
      sum.base_us += number("base_cycles") / mhz;
      sum.incremental_us += number("incremental_cycles") / mhz;
      sum.shared_written += number("shared_written") / kLinesOfKb;
      sum.shared_whole += number("shared_whole") / kLinesOfKb;
      for (const auto& [name, count] : run["cases"].items()) {
        sum.cases[name] += count.get<double>();
        if (name != "drain") sum.saved_blocks += count.get<double>();
      }
    }
  }
  return sum;
}

std::optional<double> PerBlock(double value, double blocks) {
  if (blocks == 0) return std::nullopt;
  return value / blocks;
}

// How much less than `to`, in %, negative for less.
std::optional<double> Change(std::optional<double> of,
                             std::optional<double> to) {
  const auto ratio = Ratio(of, to);
  if (!ratio.has_value()) return std::nullopt;
  return (*ratio - 1) * 100;
}

std::optional<double> MeanOf(const std::vector<std::optional<double>>& of) {
  std::vector<double> values;
  for (const auto& value : of) {
    if (value.has_value()) values.push_back(*value);
  }
  return Mean(values);
}

// A value of each kernel and family: a table, a panel, and means over kernels.
struct Values {
  std::vector<std::vector<std::optional<double>>> of;  // [family][kernel]
  Json rows = Json::array();
  Json groups = Json::array();
  Json bars = Json::array();

  std::optional<double> Over(std::span<const PepKernel> kernels, size_t family,
                             bool only_long) const {
    std::vector<std::optional<double>> values;
    for (size_t k = 0; k < kernels.size(); ++k) {
      if (only_long && !kernels[k].long_blocks) continue;
      values.push_back(of[family][k]);
    }
    return MeanOf(values);
  }
};

template <class Value>
Values ValuesOf(const Results& results, const ExperimentOptions& options,
                Value value, const std::vector<Family>& families = Families()) {
  Values values;
  const auto kernels = KernelsOf(options);
  values.of.resize(families.size());
  values.bars = EmptyBars(families, &Family::name);
  for (const PepKernel& kernel : kernels) {
    Json row = Json::array({kernel.name});
    values.groups.push_back(kernel.name);
    for (size_t f = 0; f < families.size(); ++f) {
      const auto one = value(SumOf(results, kernel, families[f]));
      values.of[f].push_back(one);
      row.push_back(Number(one));
      values.bars[f]["values"].push_back(Number(one));
    }
    values.rows.push_back(std::move(row));
  }
  return values;
}

// A figure of this GPU, whatever others are made with.
Json PepFigure(Json conditions, Json tables, Json summary, Json panels) {
  Json figure = Figure(std::move(conditions), std::move(tables),
                       std::move(summary), std::move(panels));
  figure["gpu"] = kGpu;
  return figure;
}

Json ColumnsOf(const char* first) {
  Json columns = Json::array({first});
  for (const Family& family : Families()) columns.push_back(family.name);
  return columns;
}

}  // namespace

std::vector<Job> PepJobs(const ExperimentOptions& options) {
  std::vector<Job> jobs;
  for (const PepKernel& kernel : KernelsOf(options)) {
    Job job = KernelJob(NameOf(kernel), kernel, options);
    for (const auto* families : {&Families(), &OneSmFamilies()}) {
      for (const Family& family : *families) {
        for (const Setting& setting : family.settings) {
          job.techniques.emplace_back(setting.name,
                                      OverridesOf(setting, options));
        }
      }
    }
    jobs.push_back(std::move(job));
  }
  return jobs;
}

Json Pep5(const Results& results, const ExperimentOptions& options) {
  constexpr const char* kCases[] = {"two checkpoints", "one checkpoint",
                                    "drain", "drain, one checkpoint",
                                    "drain, two checkpoints"};
  Json rows = Json::array();
  Json groups = Json::array();
  Json bars = EmptyBars(kCases, [](const char* name) { return name; });
  std::vector<double> two, drains;
  for (const PepKernel& kernel : KernelsOf(options)) {
    Sum sum = SumOf(results, kernel, Families()[kPep]);
    Json row = Json::array({kernel.name});
    groups.push_back(kernel.name);
    for (size_t i = 0; i < std::size(kCases); ++i) {
      const auto share = PerBlock(100 * sum.cases[kCases[i]], sum.blocks);
      row.push_back(Number(share));
      bars[i]["values"].push_back(Number(share));
      if (!share.has_value()) continue;
      if (i == 0 && kernel.long_blocks) two.push_back(*share);
      if (i == 2 && !kernel.long_blocks) drains.push_back(*share);
    }
    rows.push_back(std::move(row));
  }
  Json summary = Json::array({SummaryRow("long kernels: two checkpoints", "%",
                                         100, Number(Mean(two)))});
  if (!options.quick) {
    summary.push_back(
        SummaryRow("short kernels: drain", "%", 100, Number(Mean(drains))));
  }
  return PepFigure(Conditions(),
                   Json::array({Table("how PEP's blocks make room, %",
                                      {"kernel", kCases[0], kCases[1],
                                       kCases[2], kCases[3], kCases[4]},
                                      rows)}),
                   summary,
                   Json::array({Panel("how PEP's blocks make room, %", false,
                                      groups, bars)}));
}

Json Pep6(const Results& results, const ExperimentOptions& options) {
  const auto kernels = KernelsOf(options);
  const Values values = ValuesOf(
      results, options, [](const Sum& sum) { return Mean(sum.latency_us); });
  Json rows = values.rows;
  Json summary = Json::array();
  constexpr double kMeans[] = {8.9, 0, 4.5, 3.6};
  constexpr double kLong[] = {0, -31.8, -58.5, -70.3};
  for (const size_t f : {kChimera, kPep, kInPlace}) {
    summary.push_back(SummaryRow(fmt::format("{}: mean", Families()[f].name),
                                 "us", kMeans[f],
                                 Number(values.Over(kernels, f, false))));
  }
  for (const size_t f : {kDirty, kPep, kInPlace}) {
    summary.push_back(SummaryRow(
        fmt::format("long kernels: {} to Chimera", Families()[f].name), "%",
        kLong[f],
        Number(Change(values.Over(kernels, f, true),
                      values.Over(kernels, kChimera, true)))));
  }
  return PepFigure(
      Conditions(),
      Json::array({Table("preemption latency, us", ColumnsOf("kernel"), rows)}),
      summary,
      Json::array({Panel("preemption latency, us", false, values.groups,
                         values.bars)}));
}

Json Pep7(const Results& results, const ExperimentOptions& options) {
  const auto kernels = KernelsOf(options);
  const Values values = ValuesOf(results, options, [](const Sum& sum) {
    return PerBlock(sum.base + sum.incremental, sum.saved_blocks);
  });
  Json summary = Json::array();
  const auto compare = [&](size_t family, double paper) {
    summary.push_back(SummaryRow(
        fmt::format("long kernels: {} to Chimera", Families()[family].name),
        "%", paper,
        Number(Change(values.Over(kernels, family, true),
                      values.Over(kernels, kChimera, true)))));
  };
  compare(kDirty, -34.4);
  compare(kPep, 0);
  compare(kInPlace, -16.2);
  return PepFigure(Conditions(),
                   Json::array({Table("context sent to memory, KB a block",
                                      ColumnsOf("kernel"), values.rows)}),
                   summary,
                   Json::array({Panel("context sent to memory, KB a block",
                                      false, values.groups, values.bars)}));
}

Json Pep8(const Results& results, const ExperimentOptions& options) {
  Json rows = Json::array();
  Json groups = Json::array();
  constexpr const char* kParts[] = {"base", "incremental, to memory",
                                    "incremental, in place"};
  Json bars = EmptyBars(kParts, [](const char* name) { return name; });
  std::vector<double> incrementals, bases;
  for (const PepKernel& kernel : KernelsOf(options)) {
    const Sum sum = SumOf(results, kernel, Families()[kInPlace]);
    const auto base = PerBlock(sum.base, sum.saved_blocks);
    const auto sent = PerBlock(sum.incremental, sum.saved_blocks);
    const auto kept = PerBlock(sum.in_place, sum.saved_blocks);
    groups.push_back(kernel.name);
    size_t i = 0;
    for (const auto& value : {base, sent, kept}) {
      bars[i++]["values"].push_back(Number(value));
    }
    rows.push_back({kernel.name, Number(base), Number(sent), Number(kept),
                    Number(PerBlock(sum.shared_written, sum.saved_blocks)),
                    Number(PerBlock(sum.shared_whole, sum.saved_blocks))});
    if (!kernel.long_blocks || !base.has_value()) {
      continue;
    }
    incrementals.push_back(*sent + *kept);
    bases.push_back(*base);
  }
  const auto share = Ratio(Mean(incrementals), Mean(bases));
  return PepFigure(
      Conditions(),
      Json::array({Table(
          "PEP+in-place, KB a block",
          {"kernel", "base", "incremental, to memory", "incremental, in place",
           "shared memory in it, if written lines", "if all of it"},
          rows)}),
      Json::array(
          {SummaryRow("long kernels: incremental checkpoint", "KB", 3.34,
                      Number(Mean(incrementals))),
           SummaryRow("long kernels: incremental to base", "%", 29.4,
                      Number(share.has_value() ? std::optional(*share * 100)
                                               : std::nullopt))}),
      Json::array({Panel("PEP+in-place, KB a block", false, groups, bars)}));
}

Json Pep9(const Results& results, const ExperimentOptions& options) {
  const auto kernels = KernelsOf(options);
  const Values values = ValuesOf(results, options, [](const Sum& sum) {
    return PerBlock(sum.base_us + sum.incremental_us, sum.saved_blocks);
  });
  const Values bases = ValuesOf(results, options, [](const Sum& sum) {
    return PerBlock(sum.base_us, sum.saved_blocks);
  });
  Json rows = Json::array();
  for (size_t k = 0; k < kernels.size(); ++k) {
    Json row = values.rows[k];
    row.push_back(Number(bases.of[kPep][k]));
    rows.push_back(std::move(row));
  }
  Json columns = ColumnsOf("kernel");
  columns.push_back("PEP's base alone");
  const auto chimera = values.Over(kernels, kChimera, true);
  const auto pep = values.Over(kernels, kPep, true);
  return PepFigure(
      Conditions(),
      Json::array(
          {Table("time for which a block stands still, us", columns, rows)}),
      Json::array(
          {SummaryRow("long kernels: base checkpoint to Chimera", "%", -37.9,
                      Number(Change(bases.Over(kernels, kPep, true), chimera))),
           SummaryRow("long kernels: PEP to Chimera", "%", -6.3,
                      Number(Change(pep, chimera))),
           SummaryRow(
               "long kernels: PEP+in-place to PEP", "%", -16.4,
               Number(Change(values.Over(kernels, kInPlace, true), pep)))}),
      Json::array({Panel("time for which a block stands still, us", false,
                         values.groups, values.bars)}));
}

// --- Table 1.

namespace {
constexpr const char* kSwitch = "switch";
}  // namespace

std::vector<Job> PepTableJobs(const ExperimentOptions& options) {
  std::vector<Job> jobs;
  for (const PepKernel& kernel : KernelsOf(options)) {
    Job job = KernelJob(JobName("pep/{}/switch", kernel.name), kernel, options);
    job.techniques = {{kSwitch, {{"preemption.technique", "switch"}}}};
    job.launch_ns.resize(1);
    jobs.push_back(std::move(job));
  }
  return jobs;
}

Json PepTable(const Results& results, const ExperimentOptions& options) {
  Json rows = Json::array();
  Json groups = Json::array();
  Json bars = Json::array({Bar("a block's time", Json::array()),
                           Bar("a block's switch", Json::array())});
  Json summary = Json::array();
  for (const PepKernel& kernel : KernelsOf(options)) {
    const Json& job = results.at(JobName("pep/{}/switch", kernel.name));
    const double mhz = job["mhz"].get<double>();
    const double block = job["alone"]["block_cycles"].get<double>() / mhz;
    double cycles = 0, blocks = 0;
    for (const Json& run : job["runs"][kSwitch]) {
      cycles += run["base_cycles"].get<double>() / mhz;
      blocks += run["blocks"].get<double>();
    }
    const auto switch_time = PerBlock(cycles, blocks);
    rows.push_back({kernel.name, kernel.launch_us, kernel.block_us,
                    Number(block), kernel.switch_us, Number(switch_time),
                    job["alone"]["blocks_per_sm"]});
    groups.push_back(kernel.name);
    bars[0]["values"].push_back(Number(block));
    bars[1]["values"].push_back(Number(switch_time));
    summary.push_back(SummaryRow(fmt::format("{}: a block's time", kernel.name),
                                 "us", kernel.block_us, Number(block)));
    if (!switch_time.has_value()) continue;
    summary.push_back(
        SummaryRow(fmt::format("{}: a block's switch", kernel.name), "us",
                   kernel.switch_us, Number(switch_time)));
  }
  return PepFigure(
      {"gtx980; blocks' times are of a run alone, of as many as the GPU holds "
       "at once; a switch saves all that is allocated, of all blocks of all "
       "SMs at once, and its time is what a block waits for its end",
       "launch times are the paper's, of a host's driver: an input here"},
      Json::array({Table("times, us",
                         {"kernel", "launch (paper)", "block (paper)", "block",
                          "switch (paper)", "switch", "blocks an SM"},
                         rows)}),
      summary, Json::array({Panel("times, us", true, groups, bars)}));
}

// --- Fig. 2.

namespace {

constexpr const char* kFig2 = "pep/fig2";
constexpr uint32_t kSwitching[] = {1, 2, 3, 4, 5, 6, 7, 8, 9};

const PepKernel& Fig2Kernel() {
  return *std::ranges::find(PepKernels(), "LBM", &PepKernel::name);
}

}  // namespace

std::vector<Job> Pep2Jobs(const ExperimentOptions& options) {
  Job job = KernelJob(kFig2, Fig2Kernel(), options);
  for (const uint32_t switching : kSwitching) {
    const std::string blocks = std::to_string(switching);
    job.techniques.push_back({blocks,
                              {{"preemption.technique", "switch"},
                               {"preemption.switch_blocks", blocks}}});
  }
  job.launch_ns.resize(1);
  job.progress = {options.quick ? 25u : 50u};
  return {job};
}

Json Pep2(const Results& results, const ExperimentOptions&) {
  Json rows = Json::array();
  Json groups = Json::array();
  Json values = Json::array();
  std::vector<double> times;
  const Json& job = results.at(kFig2);
  const double mhz = job["mhz"].get<double>();
  for (const uint32_t switching : kSwitching) {
    const Json& run = job["runs"][std::to_string(switching)][0];
    double switched = 0;
    for (const auto& [name, count] : run["cases"].items()) {
      if (name != "drain") switched += count.get<double>();
    }
    const auto each =
        PerBlock(run["base_cycles"].get<double>() / mhz, switched);
    // Sent one after the other, so a block's own time is its part of the whole.
    const auto part =
        PerBlock(each.value_or(0),
                 std::min<double>(switching,
                                  job["alone"]["blocks_per_sm"].get<double>()));
    rows.push_back({switching, Number(each), Number(part)});
    groups.push_back(std::to_string(switching));
    values.push_back(Number(part));
    if (part.has_value()) times.push_back(*part);
  }
  return PepFigure(
      {"LBM, of which an SM has nine blocks; those that do not switch drain; "
       "all SMs at once",
       "the paper has a plot without numbers: a block's switch takes less time "
       "the more blocks of an SM switch"},
      Json::array({Table("switch time, us",
                         {"blocks that switch", "until a block is saved",
                          "of it, "
                          "for each"},
                         rows)}),
      Json::array({SummaryRow(
          "time for each block, all to one", "%", Json(),
          Number(times.size() < 2 ? std::nullopt
                                  : Change(times.back(), times.front())))}),
      Json::array({Panel("switch time of a block, us", false, groups,
                         Json::array({Bar("switch", values)}))}));
}

}  // namespace carillon::sim::figures

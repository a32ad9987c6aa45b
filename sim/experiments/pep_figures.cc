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

// PEP does not say how many SMs make room. All share memory's bandwidth; one
// has what the others' blocks leave.
struct Scope {
  const char* name;
  bool one_sm;
};
constexpr Scope kScopes[] = {{"all SMs", false}, {"one SM", true}};

struct Family {
  const char* name;
  const char* technique;
  bool dirty = false;
  bool in_place = false;
  bool flush = false;
};
// PEP does not say whether its Chimera flushes, and has no such series.
constexpr Family kFamilies[] = {
    {.name = "Chimera", .technique = "chimera"},
    {.name = "Chimera+Dirty", .technique = "chimera", .dirty = true},
    {.name = "PEP", .technique = "pep"},
    {.name = "PEP+in-place", .technique = "pep", .in_place = true},
    {.name = "Chimera+flush", .technique = "chimera", .flush = true},
};
// Chimera's deadlines, and PEP's predictions of the launch time.
constexpr uint32_t kDeadlinesUs[] = {5, 10, 15};
constexpr uint32_t kPredictionsUs[] = {20, 25, 30};

struct Setting {
  std::string name;
  Overrides overrides;
};

std::vector<Setting> SettingsOf(const Family& family, const Scope& scope,
                                const ExperimentOptions& options) {
  const bool pep = std::string_view(family.technique) == "pep";
  std::vector<Setting> settings;
  for (const uint32_t us : pep ? kPredictionsUs : kDeadlinesUs) {
    const char* const key =
        pep ? "preemption.predicted_ns" : "preemption.deadline_ns";
    const uint32_t ns = us * (pep && options.quick ? 1 : 1000);
    settings.push_back(
        {fmt::format("{}, {} us, {}", family.name, us, scope.name),
         {{"preemption.technique", family.technique},
          {"preemption.dirty", family.dirty ? "1" : "0"},
          {"preemption.in_place", family.in_place ? "1" : "0"},
          {"preemption.flush", family.flush ? "1" : "0"},
          {"preemption.sms", scope.one_sm ? "1" : "0"},
          {key, std::to_string(ns)}}});
  }
  return settings;
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
    // Small workloads end soon, and fill one SM.
    job.overrides.emplace_back("sm.count", "1");
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

Json Conditions() {
  return {
      "gtx980; the kernel fills the GPU, and a grid of higher priority "
      "arrives that fills it, too, or one SM: PEP does not say how many SMs "
      "make room; all at once share memory's bandwidth, and one has what the "
      "others' blocks leave",
      "launch times of 5, 15, 25 and 35 us, progress of 25, 50 and 75 %; "
      "Chimera and Chimera+Dirty with deadlines of 5, 10 and 15 us, PEP with "
      "predictions of 20, 25 and 30 us: means over all, as in the paper",
      "Chimera flushes in Chimera+flush only; blocks' mean times and "
      "instructions are known "
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

Sum SumOf(const Results& results, const PepKernel& kernel, const Family& family,
          const Scope& scope, const ExperimentOptions& options) {
  Sum sum;
  const Json& job = results.at(NameOf(kernel));
  const double mhz = job["mhz"].get<double>();
  for (const Setting& setting : SettingsOf(family, scope, options)) {
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
        if (name != "drain" && name != "flush") {
          sum.saved_blocks += count.get<double>();
        }
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
                const Scope& scope, Value value) {
  Values values;
  values.of.resize(std::size(kFamilies));
  values.bars = EmptyBars(kFamilies, &Family::name);
  for (const PepKernel& kernel : KernelsOf(options)) {
    Json row = Json::array({kernel.name});
    values.groups.push_back(kernel.name);
    for (size_t f = 0; f < std::size(kFamilies); ++f) {
      const auto one =
          value(SumOf(results, kernel, kFamilies[f], scope, options));
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
  for (const Family& family : kFamilies) columns.push_back(family.name);
  return columns;
}

// Adds to each part of a figure what belongs to one scope.
struct Parts {
  Json tables = Json::array();
  Json summary = Json::array();
  Json panels = Json::array();

  void Add(const Scope& scope, const std::string& what, Json columns, Json rows,
           Json groups, Json bars) {
    const std::string title = fmt::format("{}: {}", scope.name, what);
    tables.push_back(Table(title, std::move(columns), std::move(rows)));
    panels.push_back(Panel(title, false, std::move(groups), std::move(bars)));
  }
  void Compare(const Scope& scope, const std::string& what, const char* unit,
               double paper, std::optional<double> here) {
    summary.push_back(SummaryRow(fmt::format("{}, {}", scope.name, what), unit,
                                 paper, Number(here)));
  }
  Json AsFigure() { return PepFigure(Conditions(), tables, summary, panels); }
};

}  // namespace

std::vector<Job> PepJobs(const ExperimentOptions& options) {
  std::vector<Job> jobs;
  for (const PepKernel& kernel : KernelsOf(options)) {
    Job job = KernelJob(NameOf(kernel), kernel, options);
    for (const Scope& scope : kScopes) {
      for (const Family& family : kFamilies) {
        for (Setting& setting : SettingsOf(family, scope, options)) {
          job.techniques.emplace_back(std::move(setting.name),
                                      std::move(setting.overrides));
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
  Parts parts;
  for (const Scope& scope : kScopes) {
    Json rows = Json::array();
    Json groups = Json::array();
    Json bars = EmptyBars(kCases, [](const char* name) { return name; });
    std::vector<double> two, drains;
    for (const PepKernel& kernel : KernelsOf(options)) {
      Sum sum = SumOf(results, kernel, kFamilies[kPep], scope, options);
      Json row = Json::array({kernel.name});
      groups.push_back(kernel.name);
      for (size_t i = 0; i < std::size(kCases); ++i) {
        const auto share = PerBlock(100 * sum.cases[kCases[i]], sum.blocks);
        row.push_back(Number(share));
        bars[i]["values"].push_back(Number(share));
        if (!share.has_value()) continue;
        // The six whose blocks take more than 100 us.
        if (i == 0 && kernel.block_us > 100) two.push_back(*share);
        if (i == 2 && !kernel.long_blocks) drains.push_back(*share);
      }
      rows.push_back(std::move(row));
    }
    parts.Add(scope, "how PEP's blocks make room, %",
              {"kernel", kCases[0], kCases[1], kCases[2], kCases[3], kCases[4]},
              rows, groups, bars);
    parts.Compare(scope, "blocks > 100 us: two checkpoints", "%", 100,
                  Mean(two));
    if (!options.quick) {
      parts.Compare(scope, "short kernels: drain", "%", 100, Mean(drains));
    }
  }
  return parts.AsFigure();
}

Json Pep6(const Results& results, const ExperimentOptions& options) {
  const auto kernels = KernelsOf(options);
  constexpr double kMeans[] = {8.9, 0, 4.5, 3.6};
  constexpr double kLong[] = {0, -31.8, -58.5, -70.3};
  Parts parts;
  for (const Scope& scope : kScopes) {
    const Values values = ValuesOf(results, options, scope, [](const Sum& sum) {
      return Mean(sum.latency_us);
    });
    parts.Add(scope, "preemption latency, us", ColumnsOf("kernel"), values.rows,
              values.groups, values.bars);
    for (const size_t f : {kChimera, kPep, kInPlace}) {
      parts.Compare(scope, fmt::format("{}: mean", kFamilies[f].name), "us",
                    kMeans[f], values.Over(kernels, f, false));
    }
    for (const size_t f : {kDirty, kPep, kInPlace}) {
      parts.Compare(
          scope, fmt::format("long kernels: {} to Chimera", kFamilies[f].name),
          "%", kLong[f],
          Change(values.Over(kernels, f, true),
                 values.Over(kernels, kChimera, true)));
    }
  }
  return parts.AsFigure();
}

Json Pep7(const Results& results, const ExperimentOptions& options) {
  const auto kernels = KernelsOf(options);
  Parts parts;
  for (const Scope& scope : kScopes) {
    const Values values = ValuesOf(results, options, scope, [](const Sum& sum) {
      return PerBlock(sum.base + sum.incremental, sum.saved_blocks);
    });
    parts.Add(scope, "context sent to memory, KB a block", ColumnsOf("kernel"),
              values.rows, values.groups, values.bars);
    const auto compare = [&](size_t family, double paper) {
      parts.Compare(
          scope,
          fmt::format("long kernels: {} to Chimera", kFamilies[family].name),
          "%", paper,
          Change(values.Over(kernels, family, true),
                 values.Over(kernels, kChimera, true)));
    };
    compare(kDirty, -34.4);
    compare(kPep, 0);
    compare(kInPlace, -16.2);
  }
  return parts.AsFigure();
}

Json Pep8(const Results& results, const ExperimentOptions& options) {
  constexpr const char* kParts[] = {"base", "incremental, to memory",
                                    "incremental, in place"};
  Parts parts;
  for (const Scope& scope : kScopes) {
    Json rows = Json::array();
    Json groups = Json::array();
    Json bars = EmptyBars(kParts, [](const char* name) { return name; });
    std::vector<double> incrementals, bases;
    for (const PepKernel& kernel : KernelsOf(options)) {
      const Sum sum =
          SumOf(results, kernel, kFamilies[kInPlace], scope, options);
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
      if (!kernel.long_blocks || !base.has_value()) continue;
      incrementals.push_back(*sent + *kept);
      bases.push_back(*base);
    }
    parts.Add(
        scope, "PEP+in-place, KB a block",
        {"kernel", "base", "incremental, to memory", "incremental, in place",
         "shared memory in it, if written lines", "if all of it"},
        rows, groups, bars);
    parts.Compare(scope, "long kernels: incremental checkpoint", "KB", 3.34,
                  Mean(incrementals));
    const auto share = Ratio(Mean(incrementals), Mean(bases));
    parts.Compare(
        scope, "long kernels: incremental to base", "%", 29.4,
        share.has_value() ? std::optional(*share * 100) : std::nullopt);
  }
  return parts.AsFigure();
}

Json Pep9(const Results& results, const ExperimentOptions& options) {
  const auto kernels = KernelsOf(options);
  Parts parts;
  for (const Scope& scope : kScopes) {
    const Values values = ValuesOf(results, options, scope, [](const Sum& sum) {
      return PerBlock(sum.base_us + sum.incremental_us, sum.saved_blocks);
    });
    const Values bases = ValuesOf(results, options, scope, [](const Sum& sum) {
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
    parts.Add(scope, "time for which a block stands still, us", columns, rows,
              values.groups, values.bars);
    const auto chimera = values.Over(kernels, kChimera, true);
    const auto pep = values.Over(kernels, kPep, true);
    parts.Compare(scope, "long kernels: base checkpoint to Chimera", "%", -37.9,
                  Change(bases.Over(kernels, kPep, true), chimera));
    parts.Compare(scope, "long kernels: PEP to Chimera", "%", -6.3,
                  Change(pep, chimera));
    parts.Compare(scope, "long kernels: PEP+in-place to PEP", "%", -16.4,
                  Change(values.Over(kernels, kInPlace, true), pep));
  }
  return parts.AsFigure();
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

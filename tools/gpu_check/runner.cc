#include "tools/gpu_check/runner.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "absl/strings/str_split.h"
#include "base/status.h"
#include "base/unique_fd.h"
#include "fmt/format.h"
#include "tools/gpu_check/collected.h"
#include "tools/gpu_check/limited_run.h"

namespace carillon::gpu_check {
namespace {

using Json = nlohmann::json;
using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr std::array<std::string_view, 7> kOutcomes = {
    "passed", "FAILED", "TIMED OUT", "no GPU", "skipped", "not run", "LOST"};
constexpr std::string_view kFinding = "finding: ";
// A step with less time would only be killed.
constexpr milliseconds kMinTime{1000};
constexpr size_t kMaxFinding = 200;

std::string KeyOf(const CheckPart& part, const CheckStep& step) {
  return fmt::format("{}/{}", part.name, step.name);
}

std::vector<std::string> LinesOf(std::string_view text) {
  return absl::StrSplit(std::string(text), '\n', absl::SkipEmpty());
}

std::string FindingIn(std::string_view out) {
  std::string finding;
  for (const std::string& line : LinesOf(out)) {
    if (line.starts_with(kFinding)) finding = line.substr(kFinding.size());
  }
  return finding.substr(0, kMaxFinding);
}

std::string LastLine(std::string_view text) {
  const auto lines = LinesOf(text);
  return lines.empty() ? "" : lines.back().substr(0, kMaxFinding);
}

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

absl::StatusOr<UniqueFd> Create(const std::string& path) {
  UniqueFd file(
      open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (file.get() < 0) {
    return absl::PermissionDeniedError(
        fmt::format("cannot write {}: {}", path, strerror(errno)));
  }
  return file;
}

// What the kernel's log says of the GPU from now on.
class KernelLog {
 public:
  explicit KernelLog(const std::string& path)
      : file_(open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC)) {
    lseek(file_.get(), 0, SEEK_END);
  }

  // The lines of NVIDIA's kernel module since the last call: an Xid says what a
  // GPU has met.
  std::string News() {
    std::string news;
    char record[8192];
    while (true) {
      const ssize_t size = read(file_.get(), record, sizeof(record));
      // EPIPE: records were overwritten; those after them are there.
      if (size < 0 && errno == EPIPE) continue;
      if (size <= 0) return news;
      for (const std::string& line :
           LinesOf({record, static_cast<size_t>(size)})) {
        if (line.find("NVRM") == std::string::npos) continue;
        news += fmt::format("kernel log: {}\n", line);
      }
    }
  }

 private:
  const UniqueFd file_;
};

class Runner {
 public:
  Runner(const std::vector<CheckPart>& parts, const RunnerOptions& options,
         Results* results)
      : parts_(parts),
        options_(options),
        results_(*results),
        kernel_log_(options.kernel_log),
        start_(Clock::now()),
        deadline_(start_ + options.total) {}

  absl::Status Run() {
    if (options_.resume) Load();
    RETURN_IF_ERROR(Store());
    for (const CheckPart& part : parts_) {
      for (const CheckStep& step : part.steps) {
        RETURN_IF_ERROR(Take(part, step));
      }
    }
    return absl::OkStatus();
  }

 private:
  std::string StatePath() const { return options_.directory + "/state.json"; }

  void Load() {
    std::ifstream file(StatePath());
    results_ = FromJson(Json::parse(file, nullptr, false));
    // How long it takes depends on the run before.
    std::erase_if(results_, [](const auto& entry) {
      return entry.second.outcome == Outcome::kNotRun;
    });
  }

  absl::Status Store() const {
    // Rename the file, so that a state file is always complete.
    const std::string next = StatePath() + ".new";
    {
      std::ofstream file(next);
      file << ToJson(results_).dump(2) << "\n";
      if (!file.flush()) {
        return absl::PermissionDeniedError(
            fmt::format("cannot write {}: {}", next, strerror(errno)));
      }
    }
    if (rename(next.c_str(), StatePath().c_str()) != 0) {
      return absl::PermissionDeniedError(
          fmt::format("cannot write {}: {}", StatePath(), strerror(errno)));
    }
    return absl::OkStatus();
  }

  double Elapsed() const {
    return std::chrono::duration<double>(Clock::now() - start_).count();
  }
  void Say(const std::string& key, const StepResult& result) const {
    fmt::print(stderr, "[{:5.1f} s] {:<28} {:<9} {:5.1f} s  {}\n", Elapsed(),
               key, NameOf(result.outcome), result.seconds, result.finding);
  }

  absl::Status Take(const CheckPart& part, const CheckStep& step) {
    const std::string key = KeyOf(part, step);
    if (const auto done = results_.find(key); done != results_.end()) {
      fmt::print(stderr, "[{:5.1f} s] {:<28} was {} before\n", Elapsed(), key,
                 NameOf(done->second.outcome));
      return absl::OkStatus();
    }
    StepResult result;
    absl::Status status;
    const milliseconds left =
        std::chrono::duration_cast<milliseconds>(deadline_ - Clock::now()) -
        options_.grace - options_.kill_grace;
    if (!step.skip.empty()) {
      result = {Outcome::kSkipped, 0, step.skip};
    } else if (left < kMinTime) {
      result = {Outcome::kNotRun, 0,
                fmt::format("no time left of {} s: go on with --resume, or "
                            "run it with --only {}",
                            options_.total.count(), key)};
    } else {
      results_[key] = {Outcome::kLost, 0, "gpu_check ended while this ran"};
      RETURN_IF_ERROR(Store());
      fmt::print(stderr, "[{:5.1f} s] {:<28} ...\n", Elapsed(), key);
      status = Start(part, step, left, &result);
      if (!status.ok() && !absl::IsCancelled(status)) return status;
    }
    results_[key] = result;
    Say(key, result);
    RETURN_IF_ERROR(Store());
    // What a GPU has still to say is worth more than the files that hold it all.
    if (const absl::Status collected =
            Collect(options_.directory, parts_, results_);
        !collected.ok()) {
      fmt::print(stderr, "gpu_check: {}\n", std::string(collected.message()));
    }
    return status;
  }

  absl::Status Start(const CheckPart& part, const CheckStep& step,
                     milliseconds left, StepResult* result) {
    const std::string stem =
        fmt::format("{}/{}.{}", options_.directory, part.name, step.name);
    ASSIGN_OR_RETURN(auto out, Create(stem + ".out"));
    ASSIGN_OR_RETURN(auto err, Create(stem + ".err"));
    const milliseconds limit = std::min<milliseconds>(step.limit, left);
    const LimitedResult run = RunLimited({.argv = step.argv,
                                          .environment = step.environment,
                                          .out = out.get(),
                                          .err = err.get(),
                                          .limit = limit,
                                          .grace = options_.grace,
                                          .kill_grace = options_.kill_grace});
    const std::string said = ReadFile(stem + ".out");
    const std::string complained = ReadFile(stem + ".err");
    if (const std::string news = kernel_log_.News(); !news.empty()) {
      std::ofstream(stem + ".err", std::ios::app) << news;
    }
    using End = LimitedResult::End;
    switch (run.end) {
      case End::kExited:
      case End::kSignalled:
        *result =
            Judge(step, run.code, run.end == End::kSignalled, said, complained);
        break;
      case End::kTimedOut:
      case End::kUnkillable: {
        std::string last = FindingIn(said);
        if (last.empty()) last = LastLine(complained);
        *result = {
            Outcome::kTimedOut, 0,
            fmt::format(
                "killed after {:.0f} s{}{}{}",
                static_cast<double>(limit.count()) / 1000,
                run.end == End::kUnkillable ? ", and it is still there" : "",
                last.empty() ? "" : "; last: ", last)};
        break;
      }
      case End::kInterrupted:
        *result = {Outcome::kNotRun, 0, "interrupted"};
        break;
      case End::kNotStarted:
        *result = {Outcome::kFailed, 0, run.why};
        break;
    }
    result->seconds = static_cast<double>(run.time.count()) / 1000;
    if (run.end == End::kInterrupted) {
      return absl::CancelledError("interrupted");
    }
    return absl::OkStatus();
  }

  const std::vector<CheckPart>& parts_;
  const RunnerOptions& options_;
  Results& results_;
  KernelLog kernel_log_;
  const Clock::time_point start_;
  const Clock::time_point deadline_;
};

// The line of the table for the part.
StepResult Summarize(const CheckPart& part, const Results& results) {
  StepResult sum{Outcome::kSkipped, 0, ""};
  size_t bad = 0;
  for (const CheckStep& step : part.steps) {
    const auto found = results.find(KeyOf(part, step));
    const StepResult result =
        found == results.end() ? StepResult{} : found->second;
    sum.seconds += result.seconds;
    if (result.bad()) {
      if (bad++ == 0) {
        sum.outcome = result.outcome;
        sum.finding = part.steps.size() == 1
                          ? result.finding
                          : fmt::format("{}: {}", step.name, result.finding);
      }
      continue;
    }
    if (bad > 0) continue;
    if (result.outcome == Outcome::kPassed) sum.outcome = Outcome::kPassed;
    if (!result.finding.empty()) sum.finding = result.finding;
  }
  if (bad > 1) sum.finding += fmt::format(" (and {} more)", bad - 1);
  if (bad == 0 && part.steps.size() > 1) {
    sum.finding = fmt::format("all {} steps", part.steps.size());
  }
  return sum;
}

}  // namespace

std::string_view NameOf(Outcome outcome) {
  return kOutcomes[static_cast<size_t>(outcome)];
}

absl::StatusOr<std::vector<CheckPart>> ChooseParts(
    std::vector<CheckPart> parts, const std::vector<std::string>& only) {
  if (only.empty()) return parts;
  std::set<std::string> unknown(only.begin(), only.end());
  std::vector<CheckPart> chosen;
  std::vector<std::string> known;
  for (CheckPart& part : parts) {
    known.push_back(part.name);
    const bool whole = unknown.erase(part.name) > 0;
    std::erase_if(part.steps, [&](const CheckStep& step) {
      return unknown.erase(KeyOf(part, step)) == 0 && !whole;
    });
    if (!part.steps.empty()) chosen.push_back(std::move(part));
  }
  if (unknown.empty()) return chosen;
  return absl::InvalidArgumentError(fmt::format(
      "there is no part or PART/STEP '{}': the parts are {}; --list says "
      "their steps",
      *unknown.begin(), fmt::join(known, ", ")));
}

absl::Status RunParts(const std::vector<CheckPart>& parts,
                      const RunnerOptions& options, Results* results) {
  results->clear();
  return Runner(parts, options, results).Run();
}

StepResult Judge(const CheckStep& step, int exit_code, bool signalled,
                 std::string_view out, std::string_view err) {
  StepResult result;
  result.finding = FindingIn(out);
  if (!signalled && exit_code == kNoGpuCode) {
    result.outcome = step.expects_no_gpu ? Outcome::kPassed : Outcome::kNoGpu;
    if (result.finding.empty()) result.finding = LastLine(err);
    return result;
  }
  if (!signalled && exit_code == 0) {
    result.outcome = Outcome::kPassed;
    if (step.expects_no_gpu) {
      result = {Outcome::kFailed, 0, "ran, where it should have found no GPU"};
    }
    return result;
  }
  if (!signalled && exit_code == kLacksCode && step.may_lack) {
    result.outcome = Outcome::kPassed;
    result.finding = LastLine(err);
    return result;
  }
  result.outcome = Outcome::kFailed;
  const std::string how =
      signalled
          ? fmt::format("killed by SIG{}", sigabbrev_np(exit_code) == nullptr
                                               ? "?"
                                               : sigabbrev_np(exit_code))
          : fmt::format("exit code {}", exit_code);
  const std::string why =
      result.finding.empty() ? LastLine(err) : result.finding;
  result.finding = why.empty() ? how : fmt::format("{} ({})", why, how);
  return result;
}

std::string ResultTable(const std::vector<CheckPart>& parts,
                        const Results& results) {
  constexpr size_t kMostCharacters = 11'000;
  std::string table;
  // Of steps that passed, as much as fits; of others all.
  for (const size_t length : {kMaxFinding, size_t{120}, size_t{90}, size_t{60},
                              size_t{40}, size_t{0}}) {
    table = fmt::format("{:<26} {:<9} {:>7}  {}\n", "PART", "RESULT", "SECONDS",
                        "FINDING");
    for (const CheckPart& part : parts) {
      const StepResult sum = Summarize(part, results);
      table += fmt::format("{:<26} {:<9} {:>7.1f}  {}\n", part.name,
                           NameOf(sum.outcome), sum.seconds, sum.finding);
      if (part.steps.size() == 1) continue;
      for (const CheckStep& step : part.steps) {
        const auto found = results.find(KeyOf(part, step));
        if (found == results.end()) continue;
        const StepResult& result = found->second;
        table += fmt::format(
            "  {:<24} {:<9} {:>7.1f}  {}\n", step.name, NameOf(result.outcome),
            result.seconds,
            result.finding.substr(0, result.bad() ? kMaxFinding : length));
      }
    }
    if (table.size() <= kMostCharacters) break;
  }
  return table;
}

std::string LeftOut(const Results& results) {
  std::string names;
  for (const auto& [key, result] : results) {
    if (result.outcome == Outcome::kNotRun) {
      names += (names.empty() ? "" : ", ") + key;
    }
  }
  return names.empty() ? ""
                       : fmt::format("not run (--resume goes on): {}\n", names);
}

int ExitCodeOf(const Results& results) {
  bool bad = false;
  bool no_gpu_alone = true;
  bool no_gpu = false;
  for (const auto& [key, result] : results) {
    if (result.outcome == Outcome::kNoGpu) no_gpu = true;
    if (result.outcome != Outcome::kNoGpu &&
        result.outcome != Outcome::kSkipped) {
      no_gpu_alone = false;
    }
    bad = bad || result.bad();
  }
  if (no_gpu && no_gpu_alone) return kNoGpuCode;
  return bad ? 1 : 0;
}

nlohmann::json ToJson(const Results& results) {
  Json steps = Json::object();
  for (const auto& [key, result] : results) {
    steps[key] = {{"result", NameOf(result.outcome)},
                  {"seconds", result.seconds},
                  {"finding", result.finding}};
  }
  return {{"steps", std::move(steps)}};
}

Results FromJson(const nlohmann::json& json) {
  Results results;
  if (!json.is_object() || !json.contains("steps")) return results;
  for (const auto& [key, entry] : json["steps"].items()) {
    if (!entry.is_object()) continue;
    const auto result = entry.find("result");
    if (result == entry.end() || !result->is_string()) continue;
    const auto known = std::ranges::find(kOutcomes, result->get<std::string>());
    if (known == kOutcomes.end()) continue;
    const auto seconds = entry.find("seconds");
    const auto finding = entry.find("finding");
    results[key] = {static_cast<Outcome>(known - kOutcomes.begin()),
                    seconds != entry.end() && seconds->is_number()
                        ? seconds->get<double>()
                        : 0,
                    finding != entry.end() && finding->is_string()
                        ? finding->get<std::string>()
                        : ""};
  }
  return results;
}

}  // namespace carillon::gpu_check

// What a machine must have for Carillon. Each check is a function and a line in
// the table.
#ifndef CARILLON_TOOLS_CLI_DOCTOR_CHECKS_H_
#define CARILLON_TOOLS_CLI_DOCTOR_CHECKS_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/tls_files.h"

namespace carillon::cli {

enum class Verdict {
  kGood,
  kFact,     // neither good nor bad: a GPU that is not there
  kWarning,  // works, but not as well as it could
  kProblem,  // something will not work
};

struct CheckResult {
  Verdict verdict = Verdict::kGood;
  std::string text;
  // What to do about it; empty for kGood and kFact.
  std::string advice;
};

struct Check {
  std::string_view name;
  CheckResult (*look)();
};

std::span<const Check> Checks();
std::string_view VerdictName(Verdict verdict);

// The verdicts on figures, apart from the code that reads the figures.
CheckResult JudgeCores(int cores);
CheckResult JudgeFreeMemory(uint64_t bytes);
CheckResult JudgeSharedMemory(uint64_t total_bytes, uint64_t free_bytes);
CheckResult JudgeOpenFiles(uint64_t limit);
// `path` is the program's path; empty if it was not found.
CheckResult JudgeClient(std::string_view program, const std::string& path);

// Whether the files of `mesh: tls` open a link as one of `hosts`: what gpud and
// linkd look at when they start.
CheckResult LookAtLinkFiles(const TlsFiles& files,
                            std::span<const std::string> hosts);

}  // namespace carillon::cli

#endif  // CARILLON_TOOLS_CLI_DOCTOR_CHECKS_H_

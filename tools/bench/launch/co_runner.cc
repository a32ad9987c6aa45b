#include "tools/bench/launch/co_runner.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <iostream>
#include <string>

#include "base/clock.h"
#include "base/status.h"
#include "fmt/format.h"
#include "tools/bench/launch/interrupt.h"
#include "tools/bench/machine.h"

namespace carillon::bench {
namespace {

constexpr std::string_view kRole = "--co-runner";
constexpr uint64_t kChunk = 20'000;  // steps between two looks
constexpr size_t kWords = (64u << 20) / sizeof(uint64_t);  // beyond a cache
constexpr std::chrono::seconds kAnswerTime{20};

uint64_t NextState(uint64_t state) {  // xorshift64
  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  return state;
}

// Runs for `ns`; the steps a second. `state` keeps the work from being dropped.
double Work(CoRunnerKind kind, std::vector<uint64_t>& memory, uint64_t ns,
            uint64_t* state) {
  const Nanoseconds start = NowNs();
  uint64_t steps = 0;
  Nanoseconds now = start;
  while (now - start < ns) {
    if (kind == CoRunnerKind::kCompute) {
      for (uint64_t i = 0; i < kChunk; ++i) *state = NextState(*state);
    } else {
      for (uint64_t i = 0; i < kChunk; ++i) {
        *state = NextState(*state);
        memory[*state % kWords] += *state;
      }
    }
    steps += kChunk;
    now = NowNs();
  }
  return static_cast<double>(steps) * 1e9 / static_cast<double>(now - start);
}

}  // namespace

std::string_view NameOf(CoRunnerKind kind) {
  return kind == CoRunnerKind::kCompute ? "compute" : "memory";
}

absl::StatusOr<CoRunners> CoRunners::Start(CoRunnerKind kind,
                                           const std::vector<int>& cpus) {
  CoRunners runners;
  const size_t count =
      cpus.empty() ? std::max<size_t>(UsableCpus().size(), 2) - 1 : cpus.size();
  for (size_t i = 0; i < count; ++i) {
    SpawnOptions spec{
        .argv = {OwnProgram(), std::string(kRole), std::string(NameOf(kind))}};
    if (!cpus.empty()) spec.cpus = {cpus[i]};
    ASSIGN_OR_RETURN(auto child, LineProcess::Start(spec));
    runners.children_.push_back(std::move(child));
  }
  for (LineProcess& child : runners.children_) {
    ASSIGN_OR_RETURN(const auto line, AwaitLine(child, kAnswerTime));
  }
  return runners;
}

absl::Status CoRunners::Run(std::chrono::milliseconds time) {
  time_ = time;
  for (LineProcess& child : children_) {
    RETURN_IF_ERROR(child.WriteLine(std::to_string(time.count())));
  }
  return absl::OkStatus();
}

absl::StatusOr<double> CoRunners::StepsPerSecond() {
  double sum = 0;
  for (LineProcess& child : children_) {
    ASSIGN_OR_RETURN(const auto line, AwaitLine(child, time_ + kAnswerTime));
    sum += std::strtod(line.c_str(), nullptr);
  }
  return sum / static_cast<double>(children_.size());
}

std::optional<int> PlayCoRunner(int argc, char** argv) {
  if (argc != 3 || argv[1] != kRole) return std::nullopt;
  const CoRunnerKind kind = argv[2] == NameOf(CoRunnerKind::kMemory)
                                ? CoRunnerKind::kMemory
                                : CoRunnerKind::kCompute;
  std::vector<uint64_t> memory;
  if (kind == CoRunnerKind::kMemory) memory.assign(kWords, 1);
  uint64_t state = 1;
  fmt::print("ready\n");
  std::fflush(stdout);
  for (std::string line; std::getline(std::cin, line);) {
    const uint64_t ms = std::strtoull(line.c_str(), nullptr, 10);
    fmt::print("{} {}\n", Work(kind, memory, ms * 1'000'000, &state), state);
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace carillon::bench

// CPU time of other processes.
#ifndef CARILLON_BASE_PROCESS_CPU_H_
#define CARILLON_BASE_PROCESS_CPU_H_

#include <time.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <optional>
#include <vector>

namespace carillon {

// User and system time that all threads of `pid` have used so far, ended ones
// included, in nanoseconds as the scheduler counts them (not in ticks). Nothing
// if there is no such process.
inline std::optional<uint64_t> ProcessCpuNs(pid_t pid) {
  clockid_t clock;
  timespec time;
  if (clock_getcpuclockid(pid, &clock) != 0) return std::nullopt;
  if (clock_gettime(clock, &time) != 0) return std::nullopt;
  return static_cast<uint64_t>(time.tv_sec) * 1'000'000'000u +
         static_cast<uint64_t>(time.tv_nsec);
}

// Sum over `pids`; nothing if one of them is gone.
inline std::optional<uint64_t> ProcessCpuNs(const std::vector<pid_t>& pids) {
  uint64_t sum = 0;
  for (const pid_t pid : pids) {
    const auto one = ProcessCpuNs(pid);
    if (!one) return std::nullopt;
    sum += *one;
  }
  return sum;
}

// Time that all CPUs of the machine were busy, interrupts included, in
// nanoseconds; kept by the kernel in ticks.
inline uint64_t MachineBusyNs() {
  std::FILE* file = std::fopen("/proc/stat", "r");
  if (file == nullptr) return 0;
  unsigned long long user = 0, nice = 0, system = 0, idle = 0, iowait = 0,
                     irq = 0, softirq = 0;
  const int fields =
      std::fscanf(file, "cpu %llu %llu %llu %llu %llu %llu %llu", &user, &nice,
                  &system, &idle, &iowait, &irq, &softirq);
  std::fclose(file);
  if (fields != 7) return 0;
  const auto tick =
      1'000'000'000u / static_cast<uint64_t>(sysconf(_SC_CLK_TCK));
  return (user + nice + system + irq + softirq) * tick;
}

}  // namespace carillon

#endif  // CARILLON_BASE_PROCESS_CPU_H_

#include "tools/bench/machine.h"

#include <pthread.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>

#include "base/clock.h"
#include "base/process_cpu.h"
#include "fmt/format.h"
#include "shm/waiting.h"

namespace carillon::bench {
namespace {

// The value of `key` in a file with lines "key<spaces>separator value".
std::string FieldOf(const char* path, std::string_view key, char separator) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(key)) continue;
    size_t at = line.find_first_not_of(" \t", key.size());
    if (at == std::string::npos || line[at] != separator) continue;
    at = line.find_first_not_of(" \t\"", at + 1);
    if (at == std::string::npos) return "";
    return line.substr(at, line.find_last_not_of("\" \t") + 1 - at);
  }
  return "";
}

uint64_t ToNs(const timeval& time) {
  return static_cast<uint64_t>(time.tv_sec) * 1'000'000'000u +
         static_cast<uint64_t>(time.tv_usec) * 1000u;
}

void PinThisThread(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  pthread_setaffinity_np(pthread_self(), sizeof(set), &set);
}

}  // namespace

std::string DriverOf(std::string_view description) {
  // As the drivers name their GPUs.
  if (description.starts_with("Fake GPU")) return "fake driver: function only";
  if (description.starts_with("Simulated GPU")) {
    return "simulated GPU's driver: function only";
  }
  return "";
}

Json DescribeMachine() {
  utsname kernel{};
  uname(&kernel);
  const std::string flags = FieldOf("/proc/cpuinfo", "flags", ':');
  const std::string memory = FieldOf("/proc/meminfo", "MemTotal", ':');
  return {
      {"cpu", FieldOf("/proc/cpuinfo", "model name", ':')},
      {"cpu_family", FieldOf("/proc/cpuinfo", "cpu family", ':')},
      {"cpu_model", FieldOf("/proc/cpuinfo", "model\t", ':')},
      {"cpus", UsableCpus().size()},
      {"virtual_machine", flags.find(" hypervisor") != std::string::npos},
      {"memory_gib", std::atoll(memory.c_str()) / (1024 * 1024)},
      {"architecture", kernel.machine},
      {"kernel", std::string(kernel.sysname) + " " + kernel.release},
      {"distribution", FieldOf("/etc/os-release", "PRETTY_NAME", '=')},
  };
}

std::vector<int> UsableCpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> cpus;
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
  }
  return cpus;
}

uint64_t MachineCpuNs() {
  std::ifstream file("/proc/stat");
  std::string name;
  uint64_t user = 0, nice = 0, system = 0, idle = 0, iowait = 0, irq = 0,
           softirq = 0, steal = 0;
  file >> name >> user >> nice >> system >> idle >> iowait >> irq >> softirq >>
      steal;
  const auto tick =
      1'000'000'000u / static_cast<uint64_t>(sysconf(_SC_CLK_TCK));
  return (user + nice + system + irq + softirq + steal) * tick;
}

uint64_t OwnCpuNs() {
  uint64_t sum = 0;
  for (const auto who : {RUSAGE_SELF, RUSAGE_CHILDREN}) {
    rusage usage{};
    getrusage(who, &usage);
    sum += ToNs(usage.ru_utime) + ToNs(usage.ru_stime);
  }
  return sum;
}

uint64_t TreeCpuNs(pid_t pid) {
  uint64_t sum = ProcessCpuNs(pid).value_or(0);
  std::error_code gone;
  const auto threads = std::filesystem::directory_iterator(
      fmt::format("/proc/{}/task", pid), gone);
  if (gone) return sum;
  for (const auto& thread : threads) {
    std::ifstream children(thread.path() / "children");
    for (pid_t child; children >> child;) sum += TreeCpuNs(child);
  }
  return sum;
}

double PlacementProbeNs(int cpu_a, int cpu_b) {
  if (cpu_a == cpu_b) return 0;
  constexpr uint32_t kTrips = 200;
  constexpr uint32_t kBursts = 20;
  // An odd value means that it is the other side's turn.
  struct alignas(128) Line {
    std::atomic<uint32_t> turn{0};
  } line;
  std::thread other([&] {
    PinThisThread(cpu_b);
    for (uint32_t trip = 0; trip < kTrips * kBursts; ++trip) {
      while (line.turn.load(std::memory_order_acquire) != 2 * trip + 1) {
        shm::CpuRelax();
      }
      line.turn.store(2 * trip + 2, std::memory_order_release);
    }
  });
  uint64_t best = ~uint64_t{0};
  std::thread mine([&] {
    PinThisThread(cpu_a);
    uint32_t trip = 0;
    for (uint32_t burst = 0; burst < kBursts; ++burst) {
      const uint64_t start = NowNs();
      for (uint32_t i = 0; i < kTrips; ++i, ++trip) {
        line.turn.store(2 * trip + 1, std::memory_order_release);
        while (line.turn.load(std::memory_order_acquire) != 2 * trip + 2) {
          shm::CpuRelax();
        }
      }
      best = std::min(best, NowNs() - start);
    }
  });
  mine.join();
  other.join();
  return static_cast<double>(best) / kTrips;
}

}  // namespace carillon::bench

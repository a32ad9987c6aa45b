// How long after gpud's SIGKILL a device learns of its death, beside what the
// kernel itself takes to end a bare process with the same memory and threads:
// interleaved pairs, so that both meet the same machine.
#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "devices/sdk/edge.h"
#include "integration_tests/soak/death_watch.h"
#include "integration_tests/testbed_process.h"

namespace carillon::soak {
namespace {

using testing::kBound;
using testing::Process;
using testing::Testbed;

// What a process's end has to take down.
struct Footprint {
  uint64_t anonymous_kb = 0;
  uint64_t shared_kb = 0;
  uint64_t threads = 0;
};

Footprint FootprintOf(pid_t pid) {
  std::ifstream file(fmt::format("/proc/{}/status", pid));
  Footprint footprint;
  for (std::string line; std::getline(file, line);) {
    const auto read = [&](const char* name, uint64_t& value) {
      if (line.starts_with(name)) {
        value = std::strtoull(line.c_str() + line.find(':') + 1, nullptr, 10);
      }
    };
    read("RssAnon:", footprint.anonymous_kb);
    read("RssShmem:", footprint.shared_kb);
    read("Threads:", footprint.threads);
  }
  return footprint;
}

// The bare process: has that much memory, and sleeps. Its shared memory is the
// file `shared`, which outlives it, as a device's apertures do.
int RunBare(const Footprint& footprint, const std::string& shared) {
  const UniqueFd file(open(shared.c_str(), O_RDWR | O_CLOEXEC));
  const auto map = [](uint64_t kb, int flags, int fd) {
    return kb == 0 || mmap(nullptr, kb << 10, PROT_READ | PROT_WRITE,
                           flags | MAP_POPULATE, fd, 0) != MAP_FAILED;
  };
  if (!map(footprint.anonymous_kb, MAP_PRIVATE | MAP_ANONYMOUS, -1) ||
      !map(footprint.shared_kb, MAP_SHARED, file.get())) {
    return 1;
  }
  for (uint64_t i = 1; i < footprint.threads; ++i) {
    std::thread([] {
      while (true) pause();
    }).detach();
  }
  fmt::print("ready\n");
  std::fflush(stdout);
  while (true) pause();
}

absl::StatusOr<Nanoseconds> KillBare(const Footprint& footprint) {
  const UniqueFd shared(memfd_create("bare", 0));
  if (!shared || ftruncate(shared.get(), static_cast<off_t>(footprint.shared_kb
                                                            << 10)) != 0) {
    return absl::InternalError("cannot make the bare process's memory");
  }
  ASSIGN_OR_RETURN(
      auto process,
      Process::Start(
          "bare",
          {"/proc/self/exe", "--bare-anonymous-kb",
           fmt::format("{}", footprint.anonymous_kb), "--bare-shared-kb",
           fmt::format("{}", footprint.shared_kb), "--bare-threads",
           fmt::format("{}", footprint.threads), "--bare-shared",
           fmt::format("/proc/{}/fd/{}", getpid(), shared.get())}));
  if (!process->WaitForOutput("ready")) {
    return absl::InternalError("the bare process does not start: " +
                               process->output());
  }
  DeathWatch watch(process->pid());
  (void)watch.Told(std::chrono::milliseconds(2));  // so that it sleeps
  const Nanoseconds killed = NowNs();
  process->Signal(SIGKILL);
  const auto told = watch.Told(kBound);
  if (!told) return absl::DeadlineExceededError("it does not die");
  return *told - killed;
}

// Makes gpud touch so much memory, half of it the apertures'.
absl::Status Touch(edge::Device& device, uint64_t bytes) {
  if (bytes == 0) return absl::OkStatus();
  ASSIGN_OR_RETURN(const auto in,
                   device.AllocateBuffer(edge::Place::kInput, bytes));
  ASSIGN_OR_RETURN(const auto memory,
                   device.AllocateBuffer(edge::Place::kGpuMemory, bytes));
  return device
      .LaunchKernel(
          {.kernel = "echo",
           .grid = {64, 1, 1},
           .block = {128, 1, 1},
           .parameters = {edge::Fixed("in", in), edge::Fixed("out", memory)}})
      .status();
}

struct Measured {
  Footprint footprint;
  Nanoseconds device_ns = 0;
};

absl::StatusOr<Measured> KillGpud(Testbed& testbed, uint64_t bytes) {
  edge::AttachOptions options;
  options.testbed_directory = testbed.directory();
  options.name = "device0";
  options.kind = "test";
  options.submission_bytes = bytes + (1 << 20);
  ASSIGN_OR_RETURN(const auto device, edge::Device::Attach(options));
  RETURN_IF_ERROR(Touch(*device, bytes));
  Measured measured{.footprint = FootprintOf(testbed.gpud().pid())};
  std::atomic<Nanoseconds> told{0};  // writer: the waiter, once
  std::thread waiter([&] {
    (void)device->WaitForEnd(kBound);
    told.store(NowNs(), std::memory_order_relaxed);
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(5));  // it sleeps
  const Nanoseconds killed = NowNs();
  testbed.gpud().Signal(SIGKILL);
  waiter.join();
  measured.device_ns = told.load(std::memory_order_relaxed) - killed;
  if (device->status().ok()) return absl::DeadlineExceededError("not told");
  return measured;
}

double Ms(int64_t time) { return static_cast<double>(time) / 1e6; }

int64_t Percentile(std::vector<int64_t> times, double part) {
  std::ranges::sort(times);
  return times[static_cast<size_t>(static_cast<double>(times.size() - 1) *
                                   part)];
}

absl::Status Compare(uint64_t mib, int pairs) {
  const std::vector<std::string> flags = {"--backend", "cpu", "--log-level",
                                          "error"};
  ASSIGN_OR_RETURN(const auto testbed, Testbed::Start(flags));
  std::vector<int64_t> device;
  std::vector<int64_t> bare;
  std::vector<int64_t> more;  // of each pair; negative: gpud's was the sooner
  Footprint footprint;
  for (int pair = 0; pair < pairs; ++pair) {
    ASSIGN_OR_RETURN(const Measured measured, KillGpud(*testbed, mib << 20));
    footprint = measured.footprint;
    ASSIGN_OR_RETURN(const Nanoseconds bare_ns, KillBare(footprint));
    device.push_back(static_cast<int64_t>(measured.device_ns));
    bare.push_back(static_cast<int64_t>(bare_ns));
    more.push_back(device.back() - bare.back());
    RETURN_IF_ERROR(testbed->RestartGpud(flags));
  }
  fmt::print("{:>9} {:>9} {:>8} {:>6}", footprint.anonymous_kb >> 10,
             footprint.shared_kb >> 10, footprint.threads, pairs);
  for (const auto* times : {&device, &bare, &more}) {
    for (const double part : {0.5, 0.9, 1.0}) {
      fmt::print(" {:>7.2f}", Ms(Percentile(*times, part)));
    }
  }
  fmt::print("\n");
  std::fflush(stdout);
  return absl::OkStatus();
}

int Main(int argc, char** argv) {
  CLI::App app(
      "Measures how long after gpud's death a device learns of it, beside the "
      "death of a bare process with the same memory.");
  int pairs = 40;
  std::vector<uint64_t> sizes = {0, 64, 256};
  Footprint bare;
  app.add_option("--pairs", pairs)->check(CLI::PositiveNumber);
  app.add_option("--mib", sizes, "Memory of the device in gpud, in MiB");
  app.add_option("--bare-anonymous-kb", bare.anonymous_kb)->group("");
  app.add_option("--bare-shared-kb", bare.shared_kb)->group("");
  app.add_option("--bare-threads", bare.threads)->group("");
  std::string shared;
  app.add_option("--bare-shared", shared)->group("");
  CLI11_PARSE(app, argc, argv);
  if (bare.threads != 0) return RunBare(bare, shared);
  fmt::print(
      "GPUD: ANON    SHARED                  DEVICE TOLD, ms       BARE TOLD, "
      "ms        DIFFERENCE, ms\n"
      "      MiB       MiB  THREADS  PAIRS     P50     P90     MAX     P50     "
      "P90     MAX     P50     P90     MAX\n");
  for (const uint64_t mib : sizes) {
    if (const absl::Status status = Compare(mib, pairs); !status.ok()) {
      fmt::print(stderr, "{}\n", std::string(status.message()));
      return 1;
    }
  }
  return 0;
}

}  // namespace
}  // namespace carillon::soak

int main(int argc, char** argv) { return carillon::soak::Main(argc, argv); }

// gpud: the GPU daemon.
#include <poll.h>
#include <signal.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <functional>
#include <initializer_list>
#include <new>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "base/headroom.h"
#include "base/log/log_line.h"
#include "base/option_flags.h"
#include "base/status.h"
#include "base/unique_fd.h"
#include "gpu_daemon/control/run_gpud.h"
#include "gpu_daemon/grpc_log.h"
#include "gpu_daemon/options/gpud_options.h"
#include "gpu_daemon/relay/run_relay.h"

namespace carillon::gpud {
namespace {

constexpr int kFailed = 1;
constexpr std::chrono::seconds kMaxShutdown{5};
// For a gpud with a few devices.
constexpr size_t kDescriptors = 64;
constexpr size_t kThreadsBesideWorkers = 24;

// Readable when one of these signals arrives. Before any thread starts: they
// inherit the mask.
UniqueFd Block(std::initializer_list<int> signals) {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : signals) sigaddset(&set, signal);
  sigprocmask(SIG_BLOCK, &set, nullptr);
  return UniqueFd(signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
}

void StartLogging(const std::string& level) {
  auto logger = spdlog::stderr_color_mt("gpud");
  logger->set_pattern(kLogPattern);
  logger->set_level(spdlog::level::from_str(level));
  logger->flush_on(spdlog::level::trace);
  spdlog::set_default_logger(std::move(logger));
}

// No kernel can be stopped on a CPU core: one that runs too long does not keep
// gpud up, not even when the main thread is among those who wait for it.
// `begin`, in a thread of its own, returns when the time begins.
void ExitAfterGrace(const std::atomic<bool>* closed,
                    std::function<void()> begin) {
  std::thread([closed, begin = std::move(begin)] {
    begin();
    std::this_thread::sleep_for(kMaxShutdown);
    spdlog::warn("a kernel still runs after {} s: going down without it",
                 kMaxShutdown.count());
    std::_Exit(closed->load(std::memory_order_relaxed) ? 0 : kFailed);
  }).detach();
}

// Where there is no memory there is no message to build, and nothing to be done.
void OutOfMemory() {
  static constexpr char kMessage[] =
      "gpud: out of memory; raise the limit (ulimit -v), or free some\n";
  [[maybe_unused]] const ssize_t written =
      write(STDERR_FILENO, kMessage, sizeof(kMessage) - 1);
  std::_Exit(kFailed);
}

// gRPC's allocator aborts without a word where it finds no memory.
void Aborted(int signal) {
  constexpr size_t kBytes = 1 << 20;  // malloc asks the kernel for less
  if (mmap(nullptr, kBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) ==
      MAP_FAILED) {
    OutOfMemory();
  }
  ::signal(signal, SIG_DFL);
  raise(signal);
}

// Before main(), too: libraries allocate when they are loaded.
[[gnu::section(".preinit_array"),
  gnu::used]] void (*const before_libraries)(int, char**,
                                             char**) = [](int, char**, char**) {
  std::set_new_handler(OutOfMemory);
  ::signal(SIGABRT, Aborted);
};

// A thread that finds no room for its stack throws; nobody can go on without it.
// Written before any other thread is there.
std::terminate_handler otherwise_terminate = nullptr;
[[noreturn]] void Terminate() {
  try {
    if (const std::exception_ptr thrown = std::current_exception()) {
      std::rethrow_exception(thrown);
    }
  } catch (const std::system_error& error) {
    if (error.code() == std::errc::resource_unavailable_try_again) {
      OutOfMemory();
    }
  } catch (...) {
  }
  otherwise_terminate();
  std::abort();
}

absl::Status CheckMachine(uint32_t workers) {
  RaiseDescriptorLimit();
  const size_t threads =
      workers != 0 ? workers : std::thread::hardware_concurrency();
  return CheckHeadroom(kDescriptors, threads + kThreadsBesideWorkers);
}

int Main(int argc, char** argv) {
  otherwise_terminate = std::set_terminate(Terminate);
  GpudOptions options;
  std::string simulation;
  std::vector<Option> table = OptionTable(options);
  table.push_back(
      {.flag = "--link-simulation",
       .type = OptionType::kText,
       .field = &simulation,
       .min = 1,
       .max = 64,
       .help = "what tells the topology, as linkd's --simulation, where the "
               "other host lives in simulated time (remote back-end)"});
  if (const auto code =
          ReadFlags("gpud", "gpud: the GPU daemon of a Carillon testbed.",
                    table, argc, argv)) {
    return *code;
  }
  StartLogging(options.log_level);
  LimitGrpcLog();
  umask(0077);
  signal(SIGPIPE, SIG_IGN);
  const UniqueFd stop = Block({SIGTERM, SIGINT});
  const UniqueFd restart = Block({SIGUSR1});
  options.stop_fd = stop.get();
  options.restart_fd = restart.get();
  if (auto status = CheckMachine(options.backend_options.workers);
      !status.ok()) {
    spdlog::error("{}", status.message());
    return kFailed;
  }
  // Writer: this thread, once everybody was told; readers: the threads of
  // ExitAfterGrace(), which may outlive this function. Relaxed: it only decides the
  // exit status.
  static std::atomic<bool> closed{false};
  ExitAfterGrace(&closed, [stop = stop.get(), restart = restart.get()] {
    pollfd signals[] = {{.fd = stop, .events = POLLIN, .revents = 0},
                        {.fd = restart, .events = POLLIN, .revents = 0}};
    while (poll(signals, 2, -1) < 0) {
    }
  });
  const auto ending = [] { ExitAfterGrace(&closed, [] {}); };
  const auto told = [] { closed.store(true, std::memory_order_relaxed); };
  const absl::Status ran = simulation.empty()
                               ? RunGpud(options, ending, told)
                               : RunRelay(options, simulation, ending, told);
  // Cancelled: before it served.
  if (ran.ok() || absl::IsCancelled(ran)) return 0;
  spdlog::error("{}", ran.message());
  return kFailed;
}

}  // namespace
}  // namespace carillon::gpud

int main(int argc, char** argv) { return carillon::gpud::Main(argc, argv); }

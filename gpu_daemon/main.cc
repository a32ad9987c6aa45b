// gpud: the GPU daemon.
#include <poll.h>
#include <signal.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <functional>
#include <new>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "base/headroom.h"
#include "base/status.h"
#include "base/unique_fd.h"
#include "gpu_daemon/control/control_plane.h"
#include "gpu_daemon/grpc_log.h"
#include "shm/layout.h"
#include "shm/recorder/flight_recorder.h"

namespace carillon::gpud {
namespace {

constexpr int kFailed = 1;
constexpr int kUsage = 2;
constexpr std::chrono::seconds kMaxShutdown{5};
// For a gpud with a few devices.
constexpr size_t kDescriptors = 64;
constexpr size_t kThreadsBesideWorkers = 24;

struct Settings {
  ControlPlane::Options plane;
  uint32_t lease_timeout_s = 0;
  std::string log_level = "info";
};

void AddOptions(CLI::App& app, Settings& settings) {
  ControlPlane::Options& plane = settings.plane;
  const std::string simulated = "Simulated time (docs/simulated_time.md)";
  app.add_option("--dir", plane.directory,
                 "The testbed's directory: made if missing, private to you")
      ->required();
  app.add_option("--testbed", plane.testbed, "The testbed's name")
      ->capture_default_str();
  app.add_option("--backend", plane.backend,
                 "What runs the kernels: auto, cuda, cpu or sim")
      ->capture_default_str();
  app.add_option("--timing", plane.timing,
                 "Live in the time of this simulated GPU (with --backend sim): "
                 "edge_table2, gtx980, tiny, or a file")
      ->group(simulated);
  app.add_option("--first-devices", plane.first_devices,
                 "Its time begins when so many devices have attached")
      ->check(CLI::Range(1u, 64u))
      ->capture_default_str()
      ->group(simulated);
  app.add_option("--event-log", plane.event_log,
                 "Receives the times of each event and kernel: a CSV file")
      ->group(simulated);
  app.add_option("--workers", plane.workers,
                 "Threads that run thread blocks; 0: the cores but one")
      ->check(CLI::Range(0u, 1024u))
      ->capture_default_str();
  app.add_option("--ekt-entries", plane.ekt_entries,
                 "Size of the event kernel table")
      ->check(CLI::Range(1u, shm::kMaxDoorbells))
      ->capture_default_str();
  app.add_option("--policy", plane.policy,
                 "Sharing policy: first_come or priority")
      ->capture_default_str();
  app.add_option("--reserve-sms", plane.reserved_sms,
                 "SMs that launch path edge has to itself (cuda back-end); 0: "
                 "none")
      ->check(CLI::Range(0u, 1024u))
      ->capture_default_str();
  app.add_option("--memory", plane.memory_bytes,
                 "Memory for all apertures and GPU memory (512M, 4G); 0: half "
                 "of what is "
                 "available, at most 4 GiB")
      ->transform(CLI::AsSizeValue(false))
      ->capture_default_str();
  app.add_option("--record", plane.record,
                 "Keep the last so many steps of every ring in the testbed's "
                 "directory (carillon postmortem); 0: none")
      ->envname(shm::FlightRecorder::kVariable)
      ->check(CLI::Range(uint64_t{0}, shm::FlightRecorder::kMaxRecords))
      ->capture_default_str();
  app.add_flag("--faults", plane.faults,
               "Let faults be injected on purpose (carillon fault)");
  const std::string tcp = "Over TCP, with TLS only (docs/security.md)";
  app.add_option("--listen", plane.listen,
                 "HOST:PORT to serve on beside the control socket, HOST in "
                 "numbers; port 0: any free one")
      ->group(tcp);
  app.add_option("--tls-cert", plane.tls.certificate,
                 "gpud's certificate: a PEM file")
      ->group(tcp);
  app.add_option("--tls-key", plane.tls.key, "Its key: a PEM file")->group(tcp);
  app.add_option("--tls-client-ca", plane.tls.ca,
                 "Whose certificates clients show: a PEM file")
      ->group(tcp);
  app.add_option("--lease-timeout", settings.lease_timeout_s,
                 "Close a device that gives no sign of life for so many "
                 "seconds: it is stopped or wedged; 0: never")
      ->check(CLI::Range(0u, 86400u))
      ->capture_default_str();
  app.add_flag("--trace", plane.tracing, "Stamp the stages of every event");
  app.add_option("--log-level", settings.log_level, "How much is logged")
      ->check(CLI::IsMember({"debug", "info", "warn", "error", "off"}))
      ->capture_default_str();

  GpuModel& gpu = plane.gpu;
  const std::string group = "The emulated GPU (defaults: EDGE Table II)";
  const auto limit = [&](const char* name, uint32_t& value, uint32_t most,
                         const char* what) {
    app.add_option(name, value, what)
        ->check(CLI::Range(1u, most))
        ->capture_default_str()
        ->group(group);
  };
  limit("--sms", gpu.sms, 1024, "SMs");
  limit("--blocks-per-sm", gpu.blocks_per_sm, 64, "Thread blocks of an SM");
  limit("--threads-per-sm", gpu.threads_per_sm, 4096, "Threads of an SM");
  limit("--registers-per-sm", gpu.registers_per_sm, 1u << 20,
        "Registers of an SM");
  limit("--shared-per-sm", gpu.shared_bytes_per_sm, 1u << 20,
        "Bytes of shared memory of an SM");
}

// Readable when SIGTERM or SIGINT arrives. Before any thread starts: they
// inherit the mask.
UniqueFd BlockStopSignals() {
  sigset_t stop;
  sigemptyset(&stop);
  sigaddset(&stop, SIGTERM);
  sigaddset(&stop, SIGINT);
  sigprocmask(SIG_BLOCK, &stop, nullptr);
  return UniqueFd(signalfd(-1, &stop, SFD_CLOEXEC | SFD_NONBLOCK));
}

void StartLogging(const std::string& level) {
  auto logger = spdlog::stderr_color_mt("gpud");
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
  std::set_new_handler(OutOfMemory);
  otherwise_terminate = std::set_terminate(Terminate);
  Settings settings;
  CLI::App app("gpud: the GPU daemon of a Carillon testbed.", "gpud");
  AddOptions(app, settings);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kUsage;
  }
  StartLogging(settings.log_level);
  LimitGrpcLog();
  umask(0077);
  signal(SIGPIPE, SIG_IGN);
  const UniqueFd stop = BlockStopSignals();
  settings.plane.stop_fd = stop.get();
  settings.plane.lease_ns =
      Nanoseconds{settings.lease_timeout_s} * 1'000'000'000;
  if (auto status = CheckMachine(settings.plane.workers); !status.ok()) {
    spdlog::error("{}", status.message());
    return kFailed;
  }
  // Writer: this thread, once everybody was told; readers: the threads of
  // ExitAfterGrace(), which may outlive this function. Relaxed: it only decides the
  // exit status.
  static std::atomic<bool> closed{false};
  ExitAfterGrace(&closed, [stop = stop.get()] {
    pollfd signal{.fd = stop, .events = POLLIN, .revents = 0};
    while (poll(&signal, 1, -1) < 0) {
    }
  });
  auto plane = ControlPlane::Start(settings.plane);
  if (!plane.ok()) {
    spdlog::error("{}", plane.status().message());
    return kFailed;
  }
  (*plane)->Run();
  ExitAfterGrace(&closed, [] {});
  (*plane)->ShutDown();
  closed.store(true, std::memory_order_relaxed);
  plane->reset();
  return 0;
}

}  // namespace
}  // namespace carillon::gpud

int main(int argc, char** argv) { return carillon::gpud::Main(argc, argv); }

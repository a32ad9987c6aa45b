#include "tools/cli/doctor/checks.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/memfd.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_replace.h"
#include "base/status.h"
#include "base/subprocess.h"
#include "base/text.h"
#include "base/unique_fd.h"
#include "mesh/tls_stream.h"
#include "shm/waiting.h"
#include "tools/cli/ui/exit_code.h"
#include "tools/testbed/supervisor/directory.h"
#include "tools/testbed/supervisor/launch_plan.h"
#include "tools/testbed/topology/keys.h"

// Debian 12's headers do not name them all.
#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

namespace carillon::cli {
namespace {

constexpr uint64_t kMiB = 1 << 20;
constexpr char kClientPackage[] = "apt-get install libmemcached-tools";

CheckResult Good(std::string text) {
  return {Verdict::kGood, std::move(text), ""};
}
CheckResult Fact(std::string text) {
  return {Verdict::kFact, std::move(text), ""};
}
CheckResult Problem(std::string text, std::string advice) {
  return {Verdict::kProblem, std::move(text), std::move(advice)};
}
CheckResult Warning(std::string text, std::string advice) {
  return {Verdict::kWarning, std::move(text), std::move(advice)};
}

std::string KernelRelease() {
  utsname name;
  return uname(&name) == 0 ? name.release : "unknown";
}

CheckResult LookAtCores() {
  cpu_set_t set;
  const int cores = sched_getaffinity(0, sizeof(set), &set) == 0
                        ? CPU_COUNT(&set)
                        : static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
  return JudgeCores(cores);
}

CheckResult LookAtFutexWaitv() {
  if (!shm::FutexWaitvSupported()) {
    return Problem(fmt::format("futex_waitv is missing or forbidden (Linux {})",
                               KernelRelease()),
                   "use Linux 5.16 or newer, and let the container's seccomp "
                   "profile allow it");
  }
  return Good(fmt::format("Linux {}", KernelRelease()));
}

CheckResult LookAtPidfd() {
  const UniqueFd fd(syscall(SYS_pidfd_open, getpid(), 0));
  if (!fd) {
    return Problem(fmt::format("pidfd_open: {}", strerror(errno)),
                   "use Linux 5.3 or newer, and let the container's seccomp "
                   "profile allow it");
  }
  return Good("deaths of processes are seen at once");
}

CheckResult LookAtSeals() {
  const UniqueFd fd(
      memfd_create("carillon-doctor", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd || ftruncate(fd.get(), 4096) != 0) {
    return Problem(fmt::format("memfd_create: {}", strerror(errno)),
                   "let the container's seccomp profile allow memfd_create");
  }
  if (fcntl(fd.get(), F_ADD_SEALS,
            F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE) != 0) {
    return Problem(fmt::format("sealing a memfd: {}", strerror(errno)),
                   "use Linux 5.1 or newer");
  }
  return Good("size and writers of an aperture can be fixed");
}

CheckResult LookAtLockedMemory() {
  rlimit limit;
  getrlimit(RLIMIT_MEMLOCK, &limit);
  return Fact(limit.rlim_cur == RLIM_INFINITY
                  ? "no limit"
                  : fmt::format("limit {}", FormatBytes(limit.rlim_cur)));
}

CheckResult LookAtOpenFiles() {
  rlimit limit;
  getrlimit(RLIMIT_NOFILE, &limit);
  return JudgeOpenFiles(limit.rlim_cur);
}

CheckResult LookAtSharedMemory() {
  struct statvfs facts;
  if (statvfs("/dev/shm", &facts) != 0) {
    return Fact(fmt::format("/dev/shm: {}", strerror(errno)));
  }
  return JudgeSharedMemory(uint64_t{facts.f_blocks} * facts.f_frsize,
                           uint64_t{facts.f_bavail} * facts.f_frsize);
}

CheckResult LookAtFreeMemory() {
  std::ifstream file("/proc/meminfo");
  for (std::string name; file >> name;) {
    uint64_t kib = 0;
    if (name == "MemAvailable:" && file >> kib) {
      return JudgeFreeMemory(kib * 1024);
    }
    file.ignore(1000, '\n');
  }
  return Fact("/proc/meminfo does not tell");
}

CheckResult LookAtRuntimeDirectory() {
  const std::string directory = RuntimeDirectory();
  // A testbed's name may have any length; this is what the demo needs.
  const absl::Status path =
      testbed::CheckSocketPaths(testbed::PathsOf("demo-4194304"));
  if (!path.ok()) return Problem(std::string(path.message()), HintOf(path));
  const absl::Status owner = testbed::CheckDirectoryOwner(directory);
  if (!owner.ok() && !absl::IsNotFound(owner)) {
    return Problem(std::string(owner.message()), HintOf(owner));
  }
  return Good(
      fmt::format("{} ({})", directory, owner.ok() ? "yours" : "will be made"));
}

CheckResult LookAtPrograms() {
  std::vector<std::string_view> programs = {"gpu_daemon/gpud",
                                            "devices/link/linkd"};
  for (const testbed::DeviceKind& kind : testbed::DeviceKinds()) {
    if (!kind.program.empty()) programs.push_back(kind.program);
  }
  for (const std::string_view program : programs) {
    if (const auto path = testbed::FindCarillonProgram(program); !path.ok()) {
      return Problem(std::string(path.status().message()),
                     HintOf(path.status()));
    }
  }
  return Good(fmt::format("gpud, linkd and {} kinds of devices are built",
                          programs.size() - 2));
}

std::string ProgramPath(const char* name) {
  const auto path = FindProgram(name);
  return path.ok() ? *path : "";
}

CheckResult LookAtClient(const char* name) {
  return JudgeClient(name, ProgramPath(name));
}

CheckResult LookAtOpenssl() {
  const std::string path = ProgramPath("openssl");
  if (!path.empty()) return Good(path);
  return Warning(
      "openssl is not there: certificates for links between hosts, and for "
      "gpud over TCP, are made with it (docs/security.md)",
      "apt-get install openssl");
}

CheckResult LookAtBazel() {
  const std::string path = ProgramPath("bazel");
  if (!path.empty()) return Good(path);
  return Warning("bazel is not there: `carillon test` needs it",
                 "apt-get install bazel-bootstrap, or run ./carillon");
}

// A missing GPU is only reported, since the CPU back-end needs none.
CheckResult LookAtCudaDriver() {
  void* const driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
  if (driver == nullptr) return Fact("no driver: kernels run on CPU cores");
  using CuInit = int (*)(unsigned);
  using CuDeviceGetCount = int (*)(int*);
  const auto init = reinterpret_cast<CuInit>(dlsym(driver, "cuInit"));
  const auto get_count =
      reinterpret_cast<CuDeviceGetCount>(dlsym(driver, "cuDeviceGetCount"));
  int count = 0;
  if (init == nullptr || get_count == nullptr || init(0) != 0 ||
      get_count(&count) != 0 || count == 0) {
    return Fact("a driver, but no GPU that it can use");
  }
  return Fact(fmt::format("a driver and {}", FormatPlural(count, "GPU")));
}

CheckResult LookAtCudaToolkit() {
  const char* const home = std::getenv("CUDA_HOME");
  const std::string nvcc =
      std::string(home != nullptr ? home : "/usr/local/cuda") + "/bin/nvcc";
  if (access(nvcc.c_str(), X_OK) == 0) return Fact(nvcc);
  return Fact(
      fmt::format("no {}: kernels are not compiled for CUDA as well", nvcc));
}

constexpr Check kChecks[] = {
    {"cores", LookAtCores},
    {"futex_waitv", LookAtFutexWaitv},
    {"pidfd", LookAtPidfd},
    {"memfd seals", LookAtSeals},
    {"locked memory", LookAtLockedMemory},
    {"open files", LookAtOpenFiles},
    {"free memory", LookAtFreeMemory},
    {"/dev/shm", LookAtSharedMemory},
    {"runtime directory", LookAtRuntimeDirectory},
    {"programs", LookAtPrograms},
    {"memcaslap", [] { return LookAtClient("memcaslap"); }},
    {"memccapable", [] { return LookAtClient("memccapable"); }},
    {"openssl", LookAtOpenssl},
    {"bazel", LookAtBazel},
    {"CUDA driver", LookAtCudaDriver},
    {"CUDA toolkit", LookAtCudaToolkit},
};

}  // namespace

std::span<const Check> Checks() { return kChecks; }

std::string_view VerdictName(Verdict verdict) {
  switch (verdict) {
    case Verdict::kGood:
      return "ok";
    case Verdict::kFact:
      return "fact";
    case Verdict::kWarning:
      return "warning";
    case Verdict::kProblem:
      return "problem";
  }
  return "problem";
}

CheckResult JudgeCores(int cores) {
  if (cores >= 2) return Good(fmt::format("{} cores", cores));
  return Warning(
      "1 core: all processes share it, latencies are its scheduler's",
      "give the machine or the container two cores");
}

CheckResult JudgeFreeMemory(uint64_t bytes) {
  if (bytes >= 512 * kMiB) return Good(FormatBytes(bytes));
  return Problem(fmt::format("only {} free", FormatBytes(bytes)),
                 "end other programs, or set gpu: memory in the topology");
}

CheckResult JudgeSharedMemory(uint64_t total_bytes, uint64_t free_bytes) {
  const std::string text = fmt::format("{} of {} free", FormatBytes(free_bytes),
                                       FormatBytes(total_bytes));
  if (free_bytes >= 64 * kMiB) return Good(text);
  return Warning(text,
                 "remove what lies in /dev/shm, or start the container with a "
                 "larger --shm-size");
}

CheckResult JudgeOpenFiles(uint64_t limit) {
  if (limit == RLIM_INFINITY) return Good("no limit");
  if (limit >= 1024) return Good(fmt::format("limit {}", limit));
  return Warning(fmt::format("limit {}", limit), "ulimit -n 1024");
}

CheckResult JudgeClient(std::string_view program, const std::string& path) {
  if (!path.empty()) return Good(path);
  return Problem(
      fmt::format("{} is not there: demo and tests need it", program),
      kClientPackage);
}

CheckResult LookAtLinkFiles(const TlsFiles& files,
                            std::span<const std::string> hosts) {
  const auto context = mesh::TlsContext::Create(files);
  const auto own = context.ok() ? context->OwnHosts(hosts) : context.status();
  if (own.ok()) {
    return Good(fmt::format("{} is of host {}", files.certificate,
                            fmt::join(*own, ", ")));
  }
  return Problem(absl::StrReplaceAll(own.status().message(),
                                     {{"--tls-cert", "certificate"},
                                      {"--tls-key", "key"},
                                      {"--tls-ca", "ca"}}),
                 "the owner of the CA makes one as docs/security.md shows: "
                 "certificate HOST URI:carillon:role:link,DNS:HOST");
}

}  // namespace carillon::cli

#include "tools/gpu_check/info.h"

#include <sys/resource.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <ios>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>

#include "base/status.h"
#include "fmt/format.h"
#include "tools/gpu_check/runner.h"

namespace carillon::gpu_check {
namespace {

using gpud::cuda::Driver;
using gpud::cuda::ToStatus;
using Clock = std::chrono::steady_clock;
using Json = nlohmann::json;

double MillisSince(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start)
      .count();
}

struct Attribute {
  const char* name;
  CUdevice_attribute attribute;
  bool needed = false;  // by the back-end
};

constexpr Attribute kAttributes[] = {
    {"host_register", CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED, true},
    {"host_pointer_for_registered_memory",
     CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM, true},
    {"unified_addressing", CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, true},
    {"host_native_atomics", CU_DEVICE_ATTRIBUTE_HOST_NATIVE_ATOMIC_SUPPORTED},
    {"pageable_memory_access", CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS},
    {"stream_memory_operations_64_bit",
     CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS},
    {"stream_wait_nor", CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR},
    {"flush_remote_writes", CU_DEVICE_ATTRIBUTE_CAN_FLUSH_REMOTE_WRITES},
    {"compute_preemption", CU_DEVICE_ATTRIBUTE_COMPUTE_PREEMPTION_SUPPORTED},
    {"virtual_memory_management",
     CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED},
    {"concurrent_kernels", CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS},
    {"async_engines", CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT},
    {"clock_khz", CU_DEVICE_ATTRIBUTE_CLOCK_RATE},
    {"l2_bytes", CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE},
    {"threads_per_sm", CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR},
    {"shared_bytes_per_sm",
     CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR},
    {"blocks_per_sm", CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR},
    {"kernel_timeout", CU_DEVICE_ATTRIBUTE_KERNEL_EXEC_TIMEOUT},
    {"compute_mode", CU_DEVICE_ATTRIBUTE_COMPUTE_MODE},
    {"ecc", CU_DEVICE_ATTRIBUTE_ECC_ENABLED},
    {"mps", CU_DEVICE_ATTRIBUTE_MPS_ENABLED},
    {"memory_sync_domains", CU_DEVICE_ATTRIBUTE_MEM_SYNC_DOMAIN_COUNT},
    {"dma_buf", CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED},
    {"gpu_direct_rdma", CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED},
    // CU_DEVICE_ATTRIBUTE_DMA_BUF_MMAP_SUPPORTED of later toolkits: GPU memory
    // that the host can map, for doorbells.
    {"dma_buf_mmap", static_cast<CUdevice_attribute>(152)},
};

// The first line of the file.
Json LineOf(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  return std::getline(file, line) ? Json(line) : Json();
}

// The first line of /proc/cpuinfo that begins so, behind its colon.
Json OfCpu(std::string_view name) {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const size_t colon = line.find(": ");
    if (line.starts_with(name) && colon != std::string::npos) {
      return line.substr(colon + 2);
    }
  }
  return {};
}

// The GPU's place on the bus, as Linux describes it.
Json DescribePci(const Driver& driver, CUdevice device) {
  int place[3] = {};
  const CUdevice_attribute attributes[3] = {CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID,
                                            CU_DEVICE_ATTRIBUTE_PCI_BUS_ID,
                                            CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID};
  for (int i = 0; i < 3; ++i) {
    if (driver.cuDeviceGetAttribute(&place[i], attributes[i], device) !=
        CUDA_SUCCESS) {
      return {};
    }
  }
  const std::string address =
      fmt::format("{:04x}:{:02x}:{:02x}.0", place[0], place[1], place[2]);
  const std::string folder = "/sys/bus/pci/devices/" + address + "/";
  Json pci = {{"address", address}};
  for (const char* const name :
       {"current_link_speed", "max_link_speed", "current_link_width",
        "max_link_width", "numa_node"}) {
    pci[name] = LineOf(folder + name);
  }
  const uint64_t bar = LargestBar(folder);
  pci["bar1_bytes"] = bar == 0 ? Json() : Json(bar);
  return pci;
}

}  // namespace

uint64_t LargestBar(const std::string& pci_folder) {
  constexpr int kBars = 6;  // then come the ROM and those of virtual functions
  std::ifstream regions(pci_folder + "/resource");
  uint64_t largest = 0;
  std::string line;
  for (int bar = 0; bar < kBars && std::getline(regions, line); ++bar) {
    std::istringstream words(line);
    uint64_t first = 0;
    uint64_t last = 0;
    if (words >> std::hex >> first >> last && last > first) {
      largest = std::max(largest, last - first + 1);
    }
  }
  return largest;
}

absl::StatusOr<Driver> OpenGpu() { return Driver::Load(); }

int ExitCodeOf(const absl::Status& status) {
  return absl::IsNotFound(status) || absl::IsUnavailable(status) ? kNoGpuCode
                                                                 : 1;
}

int ExitCodeOfGpuElsewhere() {
  const pid_t pid = fork();
  if (pid == 0) {
    const auto driver = OpenGpu();
    if (driver.ok()) _exit(0);
    fmt::print(stderr, "{}\n", driver.status().message());
    std::fflush(stderr);
    _exit(ExitCodeOf(driver.status()));
  }
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

absl::StatusOr<Json> DescribeGpu(const Driver& driver) {
  CUdevice device = 0;
  RETURN_IF_ERROR(
      ToStatus(driver, driver.cuDeviceGet(&device, 0), "cuDeviceGet"));
  char name[256] = "";
  driver.cuDeviceGetName(name, sizeof(name), device);
  int version = 0;
  driver.cuDriverGetVersion(&version);
  size_t memory = 0;
  driver.cuDeviceTotalMem(&memory, device);
  const auto value = [&](CUdevice_attribute attribute) {
    int result = 0;
    return driver.cuDeviceGetAttribute(&result, attribute, device) ==
                   CUDA_SUCCESS
               ? Json(result)
               : Json();
  };
  Json json = {
      {"gpu", name},
      {"driver", gpud::cuda::VersionName(version)},
      {"toolkit", gpud::cuda::VersionName(CUDA_VERSION)},
      {"memory_bytes", memory},
      {"sms", value(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)},
      {"compute",
       fmt::format(
           "{}.{}", value(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR).dump(),
           value(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR).dump())}};
  Json refused = Json::array();
  for (const Attribute& attribute : kAttributes) {
    Json found = value(attribute.attribute);
    if (attribute.needed && found != 1) refused.push_back(attribute.name);
    json["attributes"][attribute.name] = std::move(found);
  }
  json["refused"] = std::move(refused);
  json["pci"] = DescribePci(driver, device);

  CUcontext context = nullptr;
  for (const char* const name : {"first_context_ms", "second_context_ms"}) {
    if (context != nullptr) driver.cuDevicePrimaryCtxRelease(device);
    const auto start = Clock::now();
    RETURN_IF_ERROR(ToStatus(driver,
                             driver.cuDevicePrimaryCtxRetain(&context, device),
                             "make a context"));
    json[name] = MillisSince(start);
  }
  driver.cuCtxSetCurrent(context);
  int least = 0;
  int greatest = 0;
  driver.cuCtxGetStreamPriorityRange(&least, &greatest);
  json["stream_priorities"] = {least, greatest};
  size_t free = 0;
  size_t total = 0;
  driver.cuMemGetInfo(&free, &total);
  json["free_bytes"] = free;
  driver.cuDevicePrimaryCtxRelease(device);
  return json;
}

Json DescribeMachine() {
  utsname kernel = {};
  uname(&kernel);
  rlimit locked = {};
  getrlimit(RLIMIT_MEMLOCK, &locked);
  const Json flags = OfCpu("flags");
  const std::string dmi = "/sys/class/dmi/id/";
  const Json vendor = LineOf(dmi + "sys_vendor");
  return {
      // "... Open Kernel Module ..." or the proprietary one.
      {"driver_module", LineOf("/proc/driver/nvidia/version")},
      {"kernel", fmt::format("{} {}", kernel.release, kernel.version)},
      // A small virtual machine may have no DMI, and then no name.
      {"machine",
       vendor.is_null() ? Json() : Json{vendor, LineOf(dmi + "product_name")}},
      {"hypervisor",
       flags.is_string() &&
           flags.get<std::string>().find(" hypervisor") != std::string::npos},
      {"cpu", OfCpu("model name")},
      {"cpus", sysconf(_SC_NPROCESSORS_ONLN)},
      // With another than tsc and kvm-clock, asking for the time is a system call.
      {"clock_source", LineOf("/sys/devices/system/clocksource/clocksource0/"
                              "current_clocksource")},
      {"locked_memory_bytes", locked.rlim_cur == RLIM_INFINITY
                                  ? Json("unlimited")
                                  : Json(locked.rlim_cur)},
      {"gdrdrv", access("/dev/gdrdrv", F_OK) == 0}};
}

int PrintDriver() {
  const auto start = Clock::now();
  const auto driver = OpenGpu();
  const double ms = MillisSince(start);
  if (!driver.ok()) {
    fmt::print(
        stderr, "{}{}\n", driver.status().message(),
        ExitCodeOf(driver.status()) == kNoGpuCode
            ? fmt::format("; an NVIDIA driver for CUDA {} or newer is "
                          "needed",
                          gpud::cuda::VersionName(gpud::cuda::kOldestDriver))
            : "");
    return ExitCodeOf(driver.status());
  }
  int version = 0;
  driver->cuDriverGetVersion(&version);
  fmt::print(
      "needs a driver for CUDA {} or newer; this one is for {}, and took "
      "{:.0f} ms to start\n",
      gpud::cuda::VersionName(gpud::cuda::kOldestDriver),
      gpud::cuda::VersionName(version), ms);
  return 0;
}

int PrintInfo() {
  const auto start = Clock::now();
  const auto driver = OpenGpu();
  const double ms = MillisSince(start);
  if (!driver.ok()) {
    fmt::print(stderr, "{}\n", driver.status().message());
    return ExitCodeOf(driver.status());
  }
  auto json = DescribeGpu(*driver);
  if (!json.ok()) {
    fmt::print(stderr, "{}\n", json.status().message());
    return 1;
  }
  (*json)["driver_start_ms"] = ms;
  (*json)["machine"] = DescribeMachine();
  fmt::print("{}\n", json->dump(2));
  fmt::print(
      "finding: {}, {} SMs, compute {}, driver {} ({:.0f} ms to start, "
      "contexts {:.0f} and {:.0f} ms), clock {}{}\n",
      (*json)["gpu"].get<std::string>(), (*json)["sms"].dump(),
      (*json)["compute"].get<std::string>(),
      (*json)["driver"].get<std::string>(), ms,
      (*json)["first_context_ms"].get<double>(),
      (*json)["second_context_ms"].get<double>(),
      (*json)["machine"]["clock_source"].dump(),
      (*json)["refused"].empty()
          ? ""
          : "; the back-end refuses it: " + (*json)["refused"].dump());
  return (*json)["refused"].empty() ? 0 : 1;
}

}  // namespace carillon::gpu_check

#include "tools/gpu_check/info.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "base/status.h"
#include "fmt/format.h"
#include "tools/gpu_check/runner.h"

namespace carillon::gpu_check {
namespace {

using gpud::cuda::Driver;
using gpud::cuda::ToStatus;
using Json = nlohmann::json;

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
};

}  // namespace

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

  CUcontext context = nullptr;
  RETURN_IF_ERROR(ToStatus(driver,
                           driver.cuDevicePrimaryCtxRetain(&context, device),
                           "make a context"));
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

int PrintInfo() {
  const auto driver = OpenGpu();
  if (!driver.ok()) {
    fmt::print(stderr, "{}\n", driver.status().message());
    return ExitCodeOf(driver.status());
  }
  const auto json = DescribeGpu(*driver);
  if (!json.ok()) {
    fmt::print(stderr, "{}\n", json.status().message());
    return 1;
  }
  fmt::print("{}\n", json->dump(2));
  fmt::print("finding: {}, {} SMs, compute {}, driver {}{}\n",
             (*json)["gpu"].get<std::string>(), (*json)["sms"].dump(),
             (*json)["compute"].get<std::string>(),
             (*json)["driver"].get<std::string>(),
             (*json)["refused"].empty()
                 ? ""
                 : "; the back-end refuses it: " + (*json)["refused"].dump());
  return (*json)["refused"].empty() ? 0 : 1;
}

}  // namespace carillon::gpu_check

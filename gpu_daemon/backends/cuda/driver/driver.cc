#include "gpu_daemon/backends/cuda/driver/driver.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include "base/status.h"
#include "gpu_daemon/event/refusal.h"

#define CARILLON_STRING(text) #text

namespace carillon::gpud::cuda {
namespace {

// Closes the library of a driver that is refused.
class Library {
 public:
  explicit Library(const std::string& path)
      : handle_(dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) {}
  ~Library() {
    if (handle_ != nullptr) dlclose(handle_);
  }
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  bool is_open() const { return handle_ != nullptr; }
  template <class Function>
  bool Find(const char* name, Function& function) const {
    function = reinterpret_cast<Function>(dlsym(handle_, name));
    return function != nullptr;
  }
  void Keep() { handle_ = nullptr; }

 private:
  void* handle_;
};

// nullptr, or the name of the first function that the library lacks.
const char* FindFunctions(const Library& library, Driver& driver) {
  // The parameter is expanded on its way through the list, so its text is the
  // versioned name.
#define CARILLON_CUDA_FIND(function)                               \
  if (!library.Find(CARILLON_STRING(function), driver.function)) { \
    return CARILLON_STRING(function);                              \
  }
  CARILLON_CUDA_FUNCTIONS(CARILLON_CUDA_FIND)
#undef CARILLON_CUDA_FIND
  return nullptr;
}

absl::Status CheckVersion(const Library& library, const std::string& path) {
  decltype(&::cuDriverGetVersion) get_version = nullptr;
  if (!library.Find("cuDriverGetVersion", get_version)) {
    return absl::FailedPreconditionError(fmt::format(
        "{} is not an NVIDIA driver: it has no cuDriverGetVersion", path));
  }
  int version = 0;
  const CUresult result = get_version(&version);
  if (result == CUDA_ERROR_STUB_LIBRARY) {
    return absl::FailedPreconditionError(
        fmt::format("{} is the toolkit's stub and not the driver: take it out "
                    "of the library path",
                    path));
  }
  if (result != CUDA_SUCCESS) {
    return absl::FailedPreconditionError(
        fmt::format("{}: cuDriverGetVersion fails with error {}", path,
                    static_cast<int>(result)));
  }
  if (version < kOldestDriver) {
    return absl::FailedPreconditionError(fmt::format(
        "driver {} is too old: needs {} or newer (CUDA versions, as nvidia-smi "
        "shows them)",
        VersionName(version), VersionName(kOldestDriver)));
  }
  return absl::OkStatus();
}

}  // namespace

std::string VersionName(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

absl::StatusOr<Driver> Driver::Load(const std::string& path) {
  Library library(path);
  if (!library.is_open()) {
    const char* why = dlerror();
    return absl::NotFoundError(
        fmt::format("no NVIDIA driver here: {}", why != nullptr ? why : path));
  }
  RETURN_IF_ERROR(CheckVersion(library, path));
  Driver driver;
  if (const char* missing = FindFunctions(library, driver)) {
    return absl::FailedPreconditionError(fmt::format(
        "{} is no whole NVIDIA driver: it has no {}", path, missing));
  }
  CUresult result = driver.cuInit(0);
  int devices = 0;
  if (result == CUDA_SUCCESS) result = driver.cuDeviceGetCount(&devices);
  if (result == CUDA_ERROR_NO_DEVICE ||
      (result == CUDA_SUCCESS && devices == 0)) {
    return absl::UnavailableError(
        "an NVIDIA driver, but no GPU here: nvidia-smi must list one, and "
        "CUDA_VISIBLE_DEVICES must not hide it");
  }
  if (result != CUDA_SUCCESS) return ToStatus(driver, result, "cuInit");
  library.Keep();
  return driver;
}

std::string ErrorText(const Driver& driver, CUresult result) {
  const char* name = nullptr;
  const char* sentence = nullptr;
  if (driver.cuGetErrorName(result, &name) != CUDA_SUCCESS || name == nullptr) {
    return fmt::format("CUDA error {}", static_cast<int>(result));
  }
  if (driver.cuGetErrorString(result, &sentence) != CUDA_SUCCESS ||
      sentence == nullptr) {
    return name;
  }
  return fmt::format("{} ({})", name, sentence);
}

absl::Status ToStatus(const Driver& driver, CUresult result,
                      std::string_view what) {
  absl::StatusCode code = absl::StatusCode::kInternal;
  switch (result) {
    case CUDA_SUCCESS:
      return absl::OkStatus();
    case CUDA_ERROR_OUT_OF_MEMORY:
    case CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES:
    case CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE:
      code = absl::StatusCode::kResourceExhausted;
      break;
    case CUDA_ERROR_NOT_SUPPORTED:
    case CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER:
    case CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE:
    case CUDA_ERROR_UNSUPPORTED_LIMIT:
    case CUDA_ERROR_CDP_NOT_SUPPORTED:
    case CUDA_ERROR_JIT_COMPILER_NOT_FOUND:
    case CUDA_ERROR_JIT_COMPILATION_DISABLED:
      code = absl::StatusCode::kUnimplemented;
      break;
    case CUDA_ERROR_INVALID_VALUE:
    case CUDA_ERROR_INVALID_DEVICE:
    case CUDA_ERROR_INVALID_IMAGE:
    case CUDA_ERROR_INVALID_PTX:
    case CUDA_ERROR_INVALID_SOURCE:
    case CUDA_ERROR_INVALID_HANDLE:
    case CUDA_ERROR_NO_BINARY_FOR_GPU:
    case CUDA_ERROR_UNSUPPORTED_PTX_VERSION:
    case CUDA_ERROR_INVALID_CLUSTER_SIZE:
    case CUDA_ERROR_INVALID_RESOURCE_TYPE:
    case CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION:
      code = absl::StatusCode::kInvalidArgument;
      break;
    case CUDA_ERROR_NOT_FOUND:
    case CUDA_ERROR_FILE_NOT_FOUND:
    case CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND:
      code = absl::StatusCode::kNotFound;
      break;
    case CUDA_ERROR_NOT_INITIALIZED:
    case CUDA_ERROR_DEINITIALIZED:
    case CUDA_ERROR_INVALID_CONTEXT:
    case CUDA_ERROR_CONTEXT_IS_DESTROYED:
    case CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED:
    case CUDA_ERROR_STUB_LIBRARY:
    case CUDA_ERROR_SYSTEM_DRIVER_MISMATCH:
      code = absl::StatusCode::kFailedPrecondition;
      break;
    case CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED:
      code = absl::StatusCode::kAlreadyExists;
      break;
    case CUDA_ERROR_NOT_PERMITTED:
    case CUDA_ERROR_DEVICE_NOT_LICENSED:
      code = absl::StatusCode::kPermissionDenied;
      break;
    case CUDA_ERROR_NO_DEVICE:
    case CUDA_ERROR_DEVICE_UNAVAILABLE:
    case CUDA_ERROR_SYSTEM_NOT_READY:
    case CUDA_ERROR_NOT_READY:
      code = absl::StatusCode::kUnavailable;
      break;
    default:
      break;
  }
  const absl::Status status(
      code, fmt::format("{}: {}", what, ErrorText(driver, result)));
  return result == CUDA_ERROR_OUT_OF_MEMORY ? OnAnyPath(status) : status;
}

bool IsContextFault(CUresult result) {
  switch (result) {
    case CUDA_ERROR_ECC_UNCORRECTABLE:
    case CUDA_ERROR_NVLINK_UNCORRECTABLE:
    case CUDA_ERROR_ILLEGAL_ADDRESS:
    case CUDA_ERROR_LAUNCH_TIMEOUT:
    case CUDA_ERROR_ASSERT:
    case CUDA_ERROR_HARDWARE_STACK_ERROR:
    case CUDA_ERROR_ILLEGAL_INSTRUCTION:
    case CUDA_ERROR_MISALIGNED_ADDRESS:
    case CUDA_ERROR_INVALID_ADDRESS_SPACE:
    case CUDA_ERROR_INVALID_PC:
    case CUDA_ERROR_LAUNCH_FAILED:
    case CUDA_ERROR_EXTERNAL_DEVICE:
#if CUDA_VERSION >= 13000
    case CUDA_ERROR_CONTAINED:
    case CUDA_ERROR_TENSOR_MEMORY_LEAK:
#endif
      return true;
    default:
      return false;
  }
}

}  // namespace carillon::gpud::cuda

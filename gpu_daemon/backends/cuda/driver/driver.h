// NVIDIA's driver, found when gpud runs: one gpud serves hosts with and without
// a GPU, and its tests put a driver of their own in the table.
//
// Functions are called by their names in cuda.h, as members:
//   driver.cuMemAlloc(&address, bytes)
// Macros in cuda.h give many names a version (cuMemAlloc is cuMemAlloc_v2); they
// give it to the members and to the symbols that are looked up as well.
#ifndef CARILLON_GPU_DAEMON_BACKENDS_CUDA_DRIVER_DRIVER_H_
#define CARILLON_GPU_DAEMON_BACKENDS_CUDA_DRIVER_DRIVER_H_

#include <cuda.h>

#include <algorithm>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#if CUDA_VERSION < 12050
#error "The CUDA back-end needs a toolkit of release 12.5 or newer."
#endif

// Every function that the back-end may call.
#define CARILLON_CUDA_FUNCTIONS(X)  \
  X(cuInit)                         \
  X(cuDriverGetVersion)             \
  X(cuGetErrorName)                 \
  X(cuGetErrorString)               \
  X(cuDeviceGetCount)               \
  X(cuDeviceGet)                    \
  X(cuDeviceGetName)                \
  X(cuDeviceGetAttribute)           \
  X(cuDeviceTotalMem)               \
  X(cuDevicePrimaryCtxRetain)       \
  X(cuDevicePrimaryCtxRelease)      \
  X(cuDevicePrimaryCtxReset)        \
  X(cuCtxSetCurrent)                \
  X(cuCtxGetCurrent)                \
  X(cuCtxSynchronize)               \
  X(cuCtxSetLimit)                  \
  X(cuCtxGetStreamPriorityRange)    \
  X(cuMemGetInfo)                   \
  X(cuMemAlloc)                     \
  X(cuMemFree)                      \
  X(cuMemGetAllocationGranularity)  \
  X(cuMemAddressReserve)            \
  X(cuMemAddressFree)               \
  X(cuMemCreate)                    \
  X(cuMemRelease)                   \
  X(cuMemMap)                       \
  X(cuMemUnmap)                     \
  X(cuMemSetAccess)                 \
  X(cuMemHostAlloc)                 \
  X(cuMemFreeHost)                  \
  X(cuMemHostRegister)              \
  X(cuMemHostUnregister)            \
  X(cuMemHostGetDevicePointer)      \
  X(cuMemcpyHtoD)                   \
  X(cuMemcpyDtoH)                   \
  X(cuMemcpyHtoDAsync)              \
  X(cuMemcpyDtoHAsync)              \
  X(cuMemsetD8)                     \
  X(cuMemsetD32)                    \
  X(cuStreamCreateWithPriority)     \
  X(cuStreamDestroy)                \
  X(cuStreamSetAttribute)           \
  X(cuStreamQuery)                  \
  X(cuStreamSynchronize)            \
  X(cuStreamBeginCapture)           \
  X(cuStreamEndCapture)             \
  X(cuStreamWaitValue32)            \
  X(cuStreamWriteValue32)           \
  X(cuEventCreate)                  \
  X(cuEventDestroy)                 \
  X(cuEventRecord)                  \
  X(cuEventQuery)                   \
  X(cuEventSynchronize)             \
  X(cuEventElapsedTime)             \
  X(cuModuleLoadData)               \
  X(cuModuleLoadDataEx)             \
  X(cuModuleUnload)                 \
  X(cuModuleGetFunction)            \
  X(cuModuleGetFunctionCount)       \
  X(cuModuleEnumerateFunctions)     \
  X(cuModuleGetGlobal)              \
  X(cuFuncGetAttribute)             \
  X(cuFuncSetAttribute)             \
  X(cuFuncGetParamInfo)             \
  X(cuLaunchKernel)                 \
  X(cuGraphCreate)                  \
  X(cuGraphDestroy)                 \
  X(cuGraphAddKernelNode)           \
  X(cuGraphGetNodes)                \
  X(cuGraphGetRootNodes)            \
  X(cuGraphKernelNodeSetAttribute)  \
  X(cuGraphInstantiateWithParams)   \
  X(cuGraphExecKernelNodeSetParams) \
  X(cuGraphLaunch)                  \
  X(cuGraphExecDestroy)             \
  X(cuDeviceGetDevResource)         \
  X(cuDevSmResourceSplitByCount)    \
  X(cuDevResourceGenerateDesc)      \
  X(cuGreenCtxCreate)               \
  X(cuGreenCtxDestroy)              \
  X(cuGreenCtxStreamCreate)         \
  X(cuCtxFromGreenCtx)

namespace carillon::gpud::cuda {

// A CUDA version as the driver and the headers write it, 12050, as "12.5".
std::string VersionName(int version);

// The oldest driver that does: 12.5 has all functions above, and a driver need
// not take kernels of a toolkit of the next major release.
inline constexpr int kOldestDriver =
    std::max(12050, CUDA_VERSION / 1000 * 1000);

// Copied freely. Thread safe: the driver is.
struct Driver {
#define CARILLON_CUDA_MEMBER(function) decltype(&::function) function = nullptr;
  CARILLON_CUDA_FUNCTIONS(CARILLON_CUDA_MEMBER)
#undef CARILLON_CUDA_MEMBER

  // Opens the driver, never to close it again, and calls cuInit.
  // Errors: NotFound, no such library; FailedPrecondition, it is too old or not
  // a driver; Unavailable, there is a driver but no GPU; what ToStatus() makes
  // of any other failure of cuInit.
  static absl::StatusOr<Driver> Load(const std::string& path = "libcuda.so.1");
};

// "CUDA_ERROR_INVALID_VALUE (invalid argument)".
std::string ErrorText(const Driver& driver, CUresult result);

// OK, or "<what>: CUDA_ERROR_...". Codes:
//   ResourceExhausted   no device memory, or no registers for a block
//   Unimplemented       this GPU or driver does not have it
//   InvalidArgument     bad value, handle, image or PTX
//   NotFound            no such function or symbol
//   FailedPrecondition  no context, a destroyed one, not initialised, unregistered
//                       memory
//   AlreadyExists       memory that is registered already
//   PermissionDenied, Unavailable (no GPU, busy, not ready)
//   Internal            a kernel's fault (IsContextFault), and all others
// A lack of memory is OnAnyPath().
absl::Status ToStatus(const Driver& driver, CUresult result,
                      std::string_view what);

// A kernel's fault: from now on all calls in its context give this result, until
// the context is destroyed.
bool IsContextFault(CUresult result);

}  // namespace carillon::gpud::cuda

#endif  // CARILLON_GPU_DAEMON_BACKENDS_CUDA_DRIVER_DRIVER_H_

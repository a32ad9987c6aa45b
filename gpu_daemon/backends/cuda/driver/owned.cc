#include "gpu_daemon/backends/cuda/driver/owned.h"

#include <fmt/format.h>

#include <array>
#include <cstring>
#include <string>

#include "base/status.h"

namespace carillon::gpud::cuda {
namespace {

// nullptr for an ordinary result.
const char* InstantiateProblem(CUgraphInstantiateResult result) {
  switch (result) {
    case CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE:
      return "the graph's structure is invalid";
    case CUDA_GRAPH_INSTANTIATE_NODE_OPERATION_NOT_SUPPORTED:
      return "a node is of a kind that a GPU cannot launch";
    case CUDA_GRAPH_INSTANTIATE_MULTIPLE_CTXS_NOT_SUPPORTED:
      return "its nodes belong to several contexts";
    default:
      return nullptr;
  }
}

template <class Owner, class Handle>
absl::StatusOr<Owner> Own(const Driver& driver, CUresult result, Handle handle,
                          std::string_view what) {
  RETURN_IF_ERROR(ToStatus(driver, result, what));
  return Owner(&driver, handle);
}

}  // namespace

absl::StatusOr<Stream> MakeStream(const Driver& driver, int priority) {
  CUstream stream = nullptr;
  const CUresult result = driver.cuStreamCreateWithPriority(
      &stream, CU_STREAM_NON_BLOCKING, priority);
  return Own<Stream>(driver, result, stream, "make a stream");
}

absl::StatusOr<Stream> MakeStream(const Driver& driver,
                                  const GreenContext& green, int priority) {
  CUstream stream = nullptr;
  const CUresult result = driver.cuGreenCtxStreamCreate(
      &stream, green.get(), CU_STREAM_NON_BLOCKING, priority);
  return Own<Stream>(driver, result, stream, "make a stream of reserved SMs");
}

absl::StatusOr<Event> MakeEvent(const Driver& driver, unsigned flags) {
  CUevent event = nullptr;
  const CUresult result = driver.cuEventCreate(&event, flags);
  return Own<Event>(driver, result, event, "make an event");
}

absl::StatusOr<Graph> MakeGraph(const Driver& driver) {
  CUgraph graph = nullptr;
  const CUresult result = driver.cuGraphCreate(&graph, 0);
  return Own<Graph>(driver, result, graph, "make a graph");
}

absl::StatusOr<GraphExec> Instantiate(const Driver& driver, CUgraph graph,
                                      uint64_t flags, CUstream upload) {
  CUDA_GRAPH_INSTANTIATE_PARAMS params = {};
  params.flags = flags;
  params.hUploadStream = upload;
  CUgraphExec exec = nullptr;
  const CUresult result =
      driver.cuGraphInstantiateWithParams(&exec, graph, &params);
  if (result != CUDA_SUCCESS) {
    const char* problem = InstantiateProblem(params.result_out);
    return ToStatus(driver, result,
                    problem != nullptr
                        ? fmt::format("instantiate a graph: {}", problem)
                        : "instantiate a graph");
  }
  return GraphExec(&driver, exec);
}

absl::StatusOr<Module> LoadModule(const Driver& driver,
                                  std::span<const std::byte> image) {
  // PTX is text that the driver reads up to a NUL.
  std::string text;
  const void* data = image.data();
  if (!image.empty() && image.back() != std::byte{0}) {
    text.assign(reinterpret_cast<const char*>(image.data()), image.size());
    data = text.c_str();
  }
  if (image.empty()) {
    return absl::InvalidArgumentError("load a module: the image is empty");
  }
  std::array<char, 4096> log{};
  std::array options = {CU_JIT_ERROR_LOG_BUFFER,
                        CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
  std::array<void*, options.size()> values = {
      log.data(), reinterpret_cast<void*>(uintptr_t{log.size() - 1})};
  CUmodule module = nullptr;
  const CUresult result = driver.cuModuleLoadDataEx(
      &module, data, options.size(), options.data(), values.data());
  if (result != CUDA_SUCCESS) {
    absl::Status status = ToStatus(driver, result, "load a module");
    if (log[0] == '\0') return status;
    return absl::Status(status.code(),
                        fmt::format("{}: {}", status.message(), log.data()));
  }
  return Module(&driver, module);
}

absl::StatusOr<CUfunction> FindFunction(const Driver& driver, CUmodule module,
                                        const char* name) {
  CUfunction function = nullptr;
  RETURN_IF_ERROR(ToStatus(driver,
                           driver.cuModuleGetFunction(&function, module, name),
                           fmt::format("find the kernel {}", name)));
  return function;
}

absl::StatusOr<DeviceBytes> DeviceBytes::Make(const Driver& driver,
                                              uint64_t size) {
  const std::string what = fmt::format("allocate {} bytes of GPU memory", size);
  CUdeviceptr address = 0;
  CUresult result = driver.cuMemAlloc(&address, size);
  if (result != CUDA_SUCCESS) return ToStatus(driver, result, what);
  DeviceBytes bytes;
  bytes.memory_ = {&driver, address};
  bytes.size_ = size;
  // A memset returns before it is done, and streams that do not wait for the
  // default one would overtake it.
  result = driver.cuMemsetD8(address, 0, size);
  if (result == CUDA_SUCCESS) result = driver.cuStreamSynchronize(nullptr);
  if (result != CUDA_SUCCESS) return ToStatus(driver, result, what);
  return bytes;
}

CUresult DeviceBytes::Write(const Driver& driver, const void* from,
                            uint64_t bytes) const {
  const CUresult result = driver.cuMemcpyHtoD(address(), from, bytes);
  if (result != CUDA_SUCCESS) return result;
  // A copy from pageable memory returns while the last of it is on its way in the
  // default stream, for which ours do not wait.
  return driver.cuStreamSynchronize(nullptr);
}

absl::StatusOr<PinnedBytes> PinnedBytes::Make(const Driver& driver,
                                              uint64_t size) {
  void* data = nullptr;
  const CUresult result = driver.cuMemHostAlloc(
      &data, size, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP);
  if (result != CUDA_SUCCESS) {
    return ToStatus(driver, result,
                    fmt::format("allocate {} bytes of pinned memory", size));
  }
  std::memset(data, 0, size);
  PinnedBytes bytes;
  bytes.memory_ = {&driver, data};
  bytes.size_ = size;
  return bytes;
}

absl::StatusOr<HostRegistration> HostRegistration::Make(
    const Driver& driver, std::span<std::byte> memory) {
  const std::string what =
      fmt::format("register {} bytes of the host's memory", memory.size());
  const auto try_to_register = [&] {
    return driver.cuMemHostRegister(
        memory.data(), memory.size(),
        CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP);
  };
  CUresult result = try_to_register();
  // Left behind by a context that was lost: no other object has this memory.
  if (result == CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED &&
      driver.cuMemHostUnregister(memory.data()) == CUDA_SUCCESS) {
    result = try_to_register();
  }
  if (result != CUDA_SUCCESS) return ToStatus(driver, result, what);
  HostRegistration registration;
  registration.memory_ = {&driver, memory.data()};
  CUdeviceptr address = 0;
  result = driver.cuMemHostGetDevicePointer(&address, memory.data(), 0);
  if (result != CUDA_SUCCESS) return ToStatus(driver, result, what);
  if (address != reinterpret_cast<CUdeviceptr>(memory.data())) {
    return absl::UnimplementedError(
        "this GPU does not use the host's addresses of registered memory "
        "(CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM is 0)");
  }
  return registration;
}

}  // namespace carillon::gpud::cuda

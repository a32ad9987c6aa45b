#include "tools/gpu_check/probes/probe.h"

#include <unistd.h>

#include <atomic>
#include <cstdio>

#include "base/status.h"
#include "fmt/format.h"
#include "tools/gpu_check/probes/probe_module.h"
#include "tools/gpu_check/runner.h"

namespace carillon::gpu_check {

using gpud::cuda::Driver;
using gpud::cuda::ToStatus;

nlohmann::ordered_json& Noted() {
  static auto& noted =
      *new nlohmann::ordered_json(nlohmann::ordered_json::object());
  return noted;
}

std::string SoFar() {
  std::string text;
  for (const auto& [name, value] : Noted().items()) {
    if (name.ends_with("_mean_ns")) continue;
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", name,
                        value.is_string() ? value.get<std::string>()
                        : value.is_number_float()
                            ? fmt::format("{:.4g}", value.get<double>())
                            : value.dump());
  }
  return text;
}

Kit::Kit(const Driver& driver) : driver_(driver) {
  Must(driver_.cuDeviceGet(&device_, 0), "find the first GPU");
  Enter();
}

// The process ends, and with it the context and whatever still runs there.
Kit::~Kit() = default;

void Note(const std::string& name, const nlohmann::json& value) {
  Noted()[name] = value;
  fmt::print("{}: {}\n", name, value.dump());
  fmt::print("finding: {}\n", SoFar());
  std::fflush(stdout);
}

void Kit::Die(std::string_view why, int code) {
  std::fflush(stdout);
  fmt::print(stderr, "{}\n", why);
  std::fflush(stderr);
  _exit(code);
}

void Kit::Must(CUresult result, std::string_view what) const {
  if (result == CUDA_SUCCESS) return;
  const bool lacks =
      result == CUDA_ERROR_NOT_SUPPORTED || result == CUDA_ERROR_NOT_FOUND;
  Die(std::string(ToStatus(driver_, result, what).message()),
      lacks ? kLacksCode : 1);
}

CUresult Kit::TryEnter() {
  CUresult result = driver_.cuDevicePrimaryCtxRetain(&context_, device_);
  if (result != CUDA_SUCCESS) return result;
  result = driver_.cuCtxSetCurrent(context_);
  if (result != CUDA_SUCCESS) return result;
  return driver_.cuModuleLoadData(&module_, ProbeModule().data());
}

void Kit::Enter() {
  Must(TryEnter(), "make a context with the probes' kernels");
}

void Kit::Load() {
  Must(driver_.cuModuleLoadData(&module_, ProbeModule().data()),
       "load the probes' kernels");
}

int Kit::Attribute(CUdevice_attribute attribute) const {
  int value = 0;
  driver_.cuDeviceGetAttribute(&value, attribute, device_);
  return value;
}

CUfunction Kit::Function(const char* name) const {
  CUfunction function = nullptr;
  Must(driver_.cuModuleGetFunction(&function, module_, name), name);
  return function;
}

gpud::cuda::Stream Kit::MakeStream(int priority) const {
  return Must(gpud::cuda::MakeStream(driver_, priority));
}

absl::StatusOr<gpud::cuda::GraphExec> Kit::MakeDeviceGraph(
    CUstream upload, CUfunction function, const GraphOptions& options,
    void** parameters) const {
  ASSIGN_OR_RETURN(auto graph, gpud::cuda::MakeGraph(driver_));
  CUDA_KERNEL_NODE_PARAMS node = {};
  node.func = function;
  node.gridDimX = options.blocks;
  node.gridDimY = node.gridDimZ = 1;
  node.blockDimX = options.threads;
  node.blockDimY = node.blockDimZ = 1;
  node.kernelParams = parameters;
  CUgraphNode handle = nullptr;
  RETURN_IF_ERROR(ToStatus(
      driver_,
      driver_.cuGraphAddKernelNode(&handle, graph.get(), nullptr, 0, &node),
      "add a kernel to a graph"));
  uint64_t flags = CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH |
                   CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD;
  if (options.priority) {
    CUkernelNodeAttrValue value = {};
    value.priority = *options.priority;
    RETURN_IF_ERROR(ToStatus(driver_,
                             driver_.cuGraphKernelNodeSetAttribute(
                                 handle, CU_LAUNCH_ATTRIBUTE_PRIORITY, &value),
                             "give a graph's kernel a priority"));
  }
  if (options.use_node_priority) {
    flags |= CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY;
  }
  return gpud::cuda::Instantiate(driver_, graph.get(), flags, upload);
}

CUresult Kit::Await(CUstream stream, std::chrono::milliseconds limit) const {
  const auto deadline = std::chrono::steady_clock::now() + limit;
  while (true) {
    const CUresult result = driver_.cuStreamQuery(stream);
    if (result != CUDA_ERROR_NOT_READY) return result;
    if (std::chrono::steady_clock::now() >= deadline) return result;
  }
}

bool Kit::AwaitWord(const uint32_t* word, uint32_t value,
                    std::chrono::milliseconds limit) {
  const auto deadline = std::chrono::steady_clock::now() + limit;
  // Writer: a kernel. Acquire: the reader then sees what the kernel wrote
  // before.
  const std::atomic_ref shared(*const_cast<uint32_t*>(word));
  while (shared.load(std::memory_order_acquire) != value) {
    if (std::chrono::steady_clock::now() >= deadline) return false;
  }
  return true;
}

std::string ErrorName(const Kit& kit, uint32_t error) {
  return error == 0
             ? "none"
             : fmt::format("{} {}", error,
                           gpud::cuda::ErrorText(kit.driver(),
                                                 static_cast<CUresult>(error)));
}

}  // namespace carillon::gpu_check

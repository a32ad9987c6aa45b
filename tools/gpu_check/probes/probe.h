// A probe asks one question about a GPU and its driver that the documents leave
// open, in a process of its own.
#ifndef CARILLON_TOOLS_GPU_CHECK_PROBES_PROBE_H_
#define CARILLON_TOOLS_GPU_CHECK_PROBES_PROBE_H_

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "gpu_daemon/backends/cuda/driver/driver.h"
#include "gpu_daemon/backends/cuda/driver/owned.h"
#include "nlohmann/json.hpp"

namespace carillon::gpu_check {

// What a graph is made with.
struct GraphOptions {
  uint32_t blocks = 1;
  uint32_t threads = 1;
  // Its node has this priority of CUDA's, with or without the flag that makes it
  // count.
  std::optional<int> priority;
  bool use_node_priority = false;
};

struct Answer {
  std::string text;  // a sentence; empty: what was noted
  nlohmann::json numbers = nlohmann::json::object();
  // The back-end relies on a different answer.
  bool bad = false;
};

// Prints what a probe has so far: a kill then loses only what comes later. All of
// it is in the numbers of the answer.
void Note(const std::string& name, const nlohmann::json& value);
// What was noted, as an object and, without what is only for that, as a sentence.
nlohmann::ordered_json& Noted();
std::string SoFar();

// A driver with a context and the probes' kernels. A failure ends the process
// with exit code 1 and a sentence, since there is nothing to clean up; with
// kLacksCode, if the driver has no such function or kernel.
class Kit {
 public:
  explicit Kit(const gpud::cuda::Driver& driver);
  ~Kit();

  const gpud::cuda::Driver& driver() const { return driver_; }
  CUdevice device() const { return device_; }

  // Ends the process if `result` is not success.
  void Must(CUresult result, std::string_view what) const;
  template <class T>
  T Must(absl::StatusOr<T> value) const {
    if (!value.ok()) Die(std::string(value.status().message()));
    return *std::move(value);
  }
  [[noreturn]] static void Die(std::string_view why, int code = 1);

  // Makes the primary context current in this thread and loads the module; also
  // after a reset.
  void Enter();
  void Load();
  CUresult TryEnter();
  int Attribute(CUdevice_attribute attribute) const;

  CUfunction Function(const char* name) const;
  gpud::cuda::Stream MakeStream(int priority = 0) const;
  // Launches without waiting.
  template <class... Args>
  CUresult Launch(CUstream stream, const char* name, uint32_t blocks,
                  uint32_t threads, Args... args) const {
    void* parameters[] = {static_cast<void*>(&args)..., nullptr};
    return driver_.cuLaunchKernel(Function(name), blocks, 1, 1, threads, 1, 1,
                                  0, stream, parameters, nullptr);
  }
  // Makes a graph of one kernel that the GPU may launch, in the current
  // context.
  template <class... Args>
  absl::StatusOr<gpud::cuda::GraphExec> DeviceGraph(CUstream upload,
                                                    const char* name,
                                                    uint32_t threads,
                                                    Args... args) const {
    void* parameters[] = {static_cast<void*>(&args)..., nullptr};
    return MakeDeviceGraph(upload, Function(name), {.threads = threads},
                           parameters);
  }
  template <class... Args>
  absl::StatusOr<gpud::cuda::GraphExec> DeviceGraph(CUstream upload,
                                                    const GraphOptions& options,
                                                    const char* name,
                                                    Args... args) const {
    void* parameters[] = {static_cast<void*>(&args)..., nullptr};
    return MakeDeviceGraph(upload, Function(name), options, parameters);
  }

  // Waits for the stream for at most so long. NOT_READY: it has not ended.
  CUresult Await(CUstream stream, std::chrono::milliseconds limit) const;
  // Waits until the word, which the GPU writes, is `value`.
  static bool AwaitWord(const uint32_t* word, uint32_t value,
                        std::chrono::milliseconds limit);

 private:
  absl::StatusOr<gpud::cuda::GraphExec> MakeDeviceGraph(
      CUstream upload, CUfunction function, const GraphOptions& options,
      void** parameters) const;

  const gpud::cuda::Driver& driver_;
  CUdevice device_ = 0;
  CUcontext context_ = nullptr;
  CUmodule module_ = nullptr;
};

struct Probe {
  std::string_view name;
  std::string_view question;
  Answer (*ask)(Kit&);
  // In place of `ask`: opens the GPU in children of its own.
  Answer (*ask_by_children)() = nullptr;
};

// The probes by subject; gpu_probes.cc lists them all.
std::span<const Probe> MemoryProbes();
std::span<const Probe> LaunchProbes();
std::span<const Probe> GreenProbes();
std::span<const Probe> FaultProbes();
std::span<const Probe> ResidentProbes();
std::span<const Probe> TimingProbes();

inline double MicrosSince(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::micro>(
             std::chrono::steady_clock::now() - start)
      .count();
}

// The name of the driver's error, or of a device runtime's, which has the
// driver's number.
std::string ErrorName(const Kit& kit, uint32_t error);

template <class T>
T ReadBack(const Kit& kit, const gpud::cuda::DeviceBytes& bytes,
           uint64_t index = 0) {
  T value;
  kit.Must(kit.driver().cuMemcpyDtoH(
               &value, bytes.address() + index * sizeof(T), sizeof(T)),
           "read the result");
  return value;
}

}  // namespace carillon::gpu_check

#endif  // CARILLON_TOOLS_GPU_CHECK_PROBES_PROBE_H_

#include "tools/bench/launch/nvml.h"

#include <dlfcn.h>

#include <array>
#include <cstdlib>
#include <string_view>
#include <utility>

#include "base/status.h"
#include "fmt/format.h"

namespace carillon::bench {
namespace {

// NVML's binary interface (nvml.h of the CUDA toolkit): 0 is success.
using NvmlReturn = int;
using NvmlDevice = void*;
constexpr size_t kText = 96;

// The counter moves every 100 ms or less, so a shorter time would be too
// inexact.
constexpr std::chrono::milliseconds kMinTimeByEnergy{500};

}  // namespace

struct Nvml::Library {
  ~Library() {
    if (initialised) shutdown();
    if (handle != nullptr) dlclose(handle);
  }
  template <class Function>
  bool Find(const char* name, Function*& function) {
    function = reinterpret_cast<Function*>(dlsym(handle, name));
    return function != nullptr;
  }
  template <class Number>
  absl::StatusOr<Number> Read(NvmlReturn (*function)(NvmlDevice,
                                                     Number*)) const {
    Number number = 0;
    const NvmlReturn error = function(device, &number);
    if (error != 0) return absl::UnavailableError(error_string(error));
    return number;
  }

  void* handle = nullptr;
  bool initialised = false;
  NvmlDevice device = nullptr;
  NvmlReturn (*init)() = nullptr;
  NvmlReturn (*shutdown)() = nullptr;
  const char* (*error_string)(NvmlReturn) = nullptr;
  NvmlReturn (*by_index)(unsigned, NvmlDevice*) = nullptr;
  NvmlReturn (*by_uuid)(const char*, NvmlDevice*) = nullptr;
  NvmlReturn (*name)(NvmlDevice, char*, unsigned) = nullptr;
  NvmlReturn (*driver)(char*, unsigned) = nullptr;
  NvmlReturn (*power)(NvmlDevice, unsigned*) = nullptr;
  NvmlReturn (*energy)(NvmlDevice, unsigned long long*) = nullptr;
};

Nvml::Nvml(std::unique_ptr<Library> library) : library_(std::move(library)) {}
Nvml::~Nvml() = default;

absl::StatusOr<std::unique_ptr<Nvml>> Nvml::Load() {
  auto library = std::make_unique<Library>();
  Library& nvml = *library;
  nvml.handle = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  if (nvml.handle == nullptr) return absl::UnavailableError("no NVML");
  if (!nvml.Find("nvmlInit_v2", nvml.init) ||
      !nvml.Find("nvmlShutdown", nvml.shutdown) ||
      !nvml.Find("nvmlErrorString", nvml.error_string) ||
      !nvml.Find("nvmlDeviceGetHandleByIndex_v2", nvml.by_index) ||
      !nvml.Find("nvmlDeviceGetHandleByUUID", nvml.by_uuid) ||
      !nvml.Find("nvmlDeviceGetName", nvml.name) ||
      !nvml.Find("nvmlSystemGetDriverVersion", nvml.driver) ||
      !nvml.Find("nvmlDeviceGetPowerUsage", nvml.power) ||
      !nvml.Find("nvmlDeviceGetTotalEnergyConsumption", nvml.energy)) {
    return absl::UnavailableError("NVML is too old");
  }
  if (const NvmlReturn error = nvml.init(); error != 0) {
    return absl::UnavailableError(
        fmt::format("NVML does not start: {}", nvml.error_string(error)));
  }
  nvml.initialised = true;
  // This is CUDA's first device; without the variable both libraries count from
  // the same device if all GPUs are alike.
  const char* const variable = std::getenv("CUDA_VISIBLE_DEVICES");
  const std::string_view visible = variable == nullptr ? "0" : variable;
  const std::string first(visible.substr(0, visible.find(',')));
  const NvmlReturn error =
      first.starts_with("GPU-") || first.starts_with("MIG-")
          ? nvml.by_uuid(first.c_str(), &nvml.device)
          : nvml.by_index(
                static_cast<unsigned>(std::strtoul(first.c_str(), nullptr, 10)),
                &nvml.device);
  if (error != 0) {
    return absl::UnavailableError(
        fmt::format("NVML finds no GPU: {}", nvml.error_string(error)));
  }
  return std::unique_ptr<Nvml>(new Nvml(std::move(library)));
}

std::string Nvml::gpu() const {
  std::array<char, kText> text{};
  library_->name(library_->device, text.data(), text.size());
  return text.data();
}

std::string Nvml::driver() const {
  std::array<char, kText> text{};
  library_->driver(text.data(), text.size());
  return text.data();
}

absl::StatusOr<double> Nvml::Watts() const {
  ASSIGN_OR_RETURN(const auto milliwatts, library_->Read(library_->power));
  return milliwatts * 1e-3;
}

absl::StatusOr<uint64_t> Nvml::Millijoules() const {
  return library_->Read(library_->energy);
}

PowerMeter::PowerMeter(const Nvml* nvml)
    : nvml_(nvml), start_(std::chrono::steady_clock::now()) {
  if (const auto energy = nvml_->Millijoules(); energy.ok()) {
    start_millijoules_ = *energy;
  }
}

void PowerMeter::Sample() {
  const auto watts = nvml_->Watts();
  if (!watts.ok()) return;
  sum_watts_ += *watts;
  ++samples_;
}

absl::StatusOr<PowerMeter::Result> PowerMeter::Mean() {
  const auto elapsed = std::chrono::steady_clock::now() - start_;
  if (start_millijoules_ && elapsed >= kMinTimeByEnergy) {
    if (const auto energy = nvml_->Millijoules(); energy.ok()) {
      const double seconds = std::chrono::duration<double>(elapsed).count();
      return Result{
          static_cast<double>(*energy - *start_millijoules_) * 1e-3 / seconds,
          true};
    }
  }
  Sample();
  if (samples_ == 0) return absl::UnavailableError("the GPU tells no power");
  return Result{sum_watts_ / static_cast<double>(samples_), false};
}

}  // namespace carillon::bench

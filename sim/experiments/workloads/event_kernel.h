// The event kernels of EDGE's figures: one warp each, with requests and results
// for many events at once.
//
//   auto event = *MakeEventKernel("IPv4", Size::kSmall, /*slots=*/2, &kernels);
//   event->Start(seed);
//   event->Prepare(0);  // new requests
//   Run(event->launch(0));
//   event->Check(0);
#ifndef CARILLON_SIM_EXPERIMENTS_WORKLOADS_EVENT_KERNEL_H_
#define CARILLON_SIM_EXPERIMENTS_WORKLOADS_EVENT_KERNEL_H_

#include <cstdint>
#include <memory>
#include <random>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "sim/experiments/workloads/background.h"
#include "sim/experiments/workloads/kernels.h"

namespace carillon::sim::figures {

// Not thread safe.
class EventKernel {
 public:
  virtual ~EventKernel() = default;

  std::string_view name() const { return name_; }
  uint32_t slots() const { return static_cast<uint32_t>(launches_.size()); }

  // Makes the tables that events share. Slots are empty until Prepare().
  void Start(uint32_t seed);
  // Fills the slot with new requests. The event that used it must have ended.
  void Prepare(uint32_t slot) { PutRequests(slot, random_); }
  // The launch of the slot's event; it stays the same while this object lives.
  const Launch& launch(uint32_t slot) const { return launches_[slot]; }
  // Checks the slot's output after its event has ended. Errors: Internal (the
  // kernel failed), DataLoss (says what is wrong).
  absl::Status Check(uint32_t slot) const;

 protected:
  EventKernel(std::string_view name, uint32_t slots, Kernels* kernels);

  virtual void MakeTables(std::mt19937& random) = 0;
  virtual Launch MakeLaunch(uint32_t slot) const = 0;
  virtual void PutRequests(uint32_t slot, std::mt19937& random) = 0;
  virtual absl::Status CheckResults(uint32_t slot) const = 0;
  template <class Args>
  Launch Make(const simt::KernelInfo& kernel, const Args& args) const {
    return kernels_->Make(kernel, {1, 1, 1}, {simt::kWarpSize, 1, 1}, args,
                          failure_);
  }

 private:
  const std::string_view name_;
  Kernels* const kernels_;
  const Array<uint32_t> failure_;
  std::mt19937 random_;
  std::vector<Launch> launches_;
};

// The names: IPv4, IPv6, MemC, IPSec.
std::vector<std::string_view> EventKernelNames();
// The registers per thread, without making any tables. Errors: NotFound (names
// those there are).
absl::StatusOr<uint32_t> RegistersOfEventKernel(std::string_view name,
                                                Kernels& kernels);
// `kernels` must outlive it. Errors: NotFound (names those there are),
// ResourceExhausted (memory).
absl::StatusOr<std::unique_ptr<EventKernel>> MakeEventKernel(
    std::string_view name, Size size, uint32_t slots, Kernels* kernels);

}  // namespace carillon::sim::figures

#endif  // CARILLON_SIM_EXPERIMENTS_WORKLOADS_EVENT_KERNEL_H_

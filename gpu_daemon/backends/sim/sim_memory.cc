#include "gpu_daemon/backends/sim/sim_memory.h"

#include <cstring>

#include "base/status.h"

namespace carillon::gpud {
namespace {

// A segment of it, until this object goes.
class Held {
 public:
  Held(PtxEngine* ptx, sim::DeviceAddress address)
      : ptx_(ptx), address_(address) {}
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;
  ~Held() {
    ptx_->turns.Between([&] { ptx_->memory.Free(address_).IgnoreError(); });
  }

  sim::DeviceAddress address() const { return address_; }

 private:
  PtxEngine* const ptx_;
  const sim::DeviceAddress address_;
};

std::byte* AsGiven(sim::DeviceAddress address) {
  return reinterpret_cast<std::byte*>(static_cast<uintptr_t>(address));
}
sim::DeviceAddress AddressOf(const std::byte* given) {
  return reinterpret_cast<uintptr_t>(given);
}

struct Mapping final : HostMapping {
  Mapping(PtxEngine* ptx, sim::DeviceAddress address)
      : HostMapping(AsGiven(address)), held(ptx, address) {}
  Held held;
};

struct Allocation final : GpuMemory {
  Allocation(PtxEngine* ptx, sim::DeviceAddress address) : held(ptx, address) {}
  std::byte* data() const override { return AsGiven(held.address()); }
  Held held;
};

}  // namespace

SimMemory::SimMemory(PtxEngine* ptx, const std::vector<std::string>& order)
    : ptx_(ptx) {
  uint32_t index = 0;
  for (const std::string& device : order) {
    devices_[device].reset(new SimMemory(ptx, sim::RangeOf(index++)));
  }
  if (!order.empty()) others_.reset(new SimMemory(ptx, sim::RangeOf(index)));
}

KernelMemory* SimMemory::Of(const std::string& device) {
  const auto found = devices_.find(device);
  if (found != devices_.end()) return found->second.get();
  return others_ != nullptr ? others_.get() : this;
}

absl::StatusOr<std::unique_ptr<HostMapping>> SimMemory::MapHost(
    std::span<std::byte> memory) {
  ASSIGN_OR_RETURN(
      const auto address,
      ptx_->memory.Map(memory, /*writable=*/true, "host memory", range()));
  return std::make_unique<Mapping>(ptx_, address);
}

absl::StatusOr<std::unique_ptr<GpuMemory>> SimMemory::Allocate(uint64_t bytes) {
  ASSIGN_OR_RETURN(const auto address,
                   ptx_->memory.Allocate(bytes, "GPU memory", range()));
  return std::make_unique<Allocation>(ptx_, address);
}

absl::Status SimMemory::Copy(CopyDirection, std::byte* to,
                             const std::byte* from, uint64_t bytes) {
  ASSIGN_OR_RETURN(const auto source, ptx_->memory.At(AddressOf(from), bytes));
  ASSIGN_OR_RETURN(const auto target, ptx_->memory.At(AddressOf(to), bytes));
  std::memcpy(target.data(), source.data(), bytes);
  return absl::OkStatus();
}

}  // namespace carillon::gpud

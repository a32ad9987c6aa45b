#include "gpu_daemon/backends/sim/sim_memory.h"

#include "base/status.h"

namespace carillon::gpud {
namespace {

// A segment of it, until this object goes.
class Held {
 public:
  Held(sim::Memory* memory, sim::DeviceAddress address)
      : memory_(memory), address_(address) {}
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;
  ~Held() { memory_->Free(address_).IgnoreError(); }

  sim::DeviceAddress address() const { return address_; }

 private:
  sim::Memory* const memory_;
  const sim::DeviceAddress address_;
};

std::byte* AsGiven(sim::DeviceAddress address) {
  return reinterpret_cast<std::byte*>(static_cast<uintptr_t>(address));
}

struct Mapping final : HostMapping {
  Mapping(sim::Memory* memory, sim::DeviceAddress address)
      : HostMapping(AsGiven(address)), held(memory, address) {}
  Held held;
};

struct Allocation final : GpuMemory {
  Allocation(sim::Memory* memory, sim::DeviceAddress address)
      : held(memory, address) {}
  std::byte* data() const override { return AsGiven(held.address()); }
  Held held;
};

}  // namespace

absl::StatusOr<std::unique_ptr<HostMapping>> SimMemory::MapHost(
    std::span<std::byte> memory) {
  ASSIGN_OR_RETURN(const auto address,
                   memory_->Map(memory, /*writable=*/true, "host memory"));
  return std::make_unique<Mapping>(memory_, address);
}

absl::StatusOr<std::unique_ptr<GpuMemory>> SimMemory::Allocate(uint64_t bytes) {
  ASSIGN_OR_RETURN(const auto address, memory_->Allocate(bytes, "GPU memory"));
  return std::make_unique<Allocation>(memory_, address);
}

}  // namespace carillon::gpud

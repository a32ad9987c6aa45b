#include "gpu_daemon/backends/cuda/driver/cuda_memory.h"

#include <spdlog/spdlog.h>

#include <utility>

#include "absl/status/status.h"
#include "base/status.h"
#include "fmt/format.h"

namespace carillon::gpud::cuda {

class CudaMemory::Mapping : public HostMapping {
 public:
  Mapping(CudaMemory* owner, std::span<std::byte> memory)
      : HostMapping(memory.data()), owner_(owner), memory_(memory) {}
  ~Mapping() override {
    const Gpu::PauseResidents quiet(owner_->gpu_);
    const Gpu::ContextLease use = owner_->gpu_->Enter();
    MutexLock lock(owner_->mutex_);
    owner_->mappings_.erase(this);
    if (!use) registration_.Abandon();
    registration_ = {};
  }

  absl::Status Register() {
    ASSIGN_OR_RETURN(registration_,
                     HostRegistration::Make(owner_->gpu_->driver(), memory_));
    return absl::OkStatus();
  }
  void Abandon() { registration_.Abandon(); }

 private:
  CudaMemory* const owner_;
  const std::span<std::byte> memory_;
  HostRegistration registration_;
};

// Physical memory mapped at an address of its own (virtual memory management):
// neither belongs to a context.
class CudaMemory::Block : public GpuMemory {
 public:
  explicit Block(CudaMemory* owner) : owner_(owner) {}
  ~Block() override {
    const Gpu::PauseResidents quiet(owner_->gpu_);
    const Gpu::ContextLease use = owner_->gpu_->Enter();
    MutexLock lock(owner_->mutex_);
    owner_->blocks_.erase(this);
    Unmap();
    if (handle_ != 0) driver().cuMemRelease(handle_);
    if (address_ != 0) driver().cuMemAddressFree(address_, size_);
  }

  std::byte* data() const override {
    return reinterpret_cast<std::byte*>(address_);
  }

  absl::Status Make(uint64_t bytes) {
    const CUmemAllocationProp where = Where();
    size_t granularity = 0;
    RETURN_IF_ERROR(
        Checked(driver().cuMemGetAllocationGranularity(
                    &granularity, &where, CU_MEM_ALLOC_GRANULARITY_MINIMUM),
                bytes));
    size_ = (bytes + granularity - 1) / granularity * granularity;
    RETURN_IF_ERROR(Checked(
        driver().cuMemAddressReserve(&address_, size_, 0, 0, 0), bytes));
    return MapNew();
  }

  // After the context was lost: maps the same memory again if the driver has
  // kept it, else zeros. Kept: true.
  absl::StatusOr<bool> MapAgain() {
    Unmap();
    if (handle_ != 0 && Map().ok()) return true;
    Unmap();
    if (handle_ != 0) driver().cuMemRelease(std::exchange(handle_, 0));
    RETURN_IF_ERROR(MapNew());
    return false;
  }

 private:
  const Driver& driver() const { return owner_->gpu_->driver(); }
  CUmemAllocationProp Where() const {
    CUmemAllocationProp where = {};
    where.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    where.location = {CU_MEM_LOCATION_TYPE_DEVICE, owner_->gpu_->device()};
    return where;
  }
  absl::Status Checked(CUresult result, uint64_t bytes) const {
    owner_->gpu_->Check(result);
    return ToStatus(driver(), result,
                    fmt::format("allocate {} bytes of GPU memory", bytes));
  }
  absl::Status MapNew() {
    const CUmemAllocationProp where = Where();
    if (auto status =
            Checked(driver().cuMemCreate(&handle_, size_, &where, 0), size_);
        !status.ok()) {
      handle_ = 0;
      return status;
    }
    RETURN_IF_ERROR(Map());
    // A memset returns before it is done, and streams that do not wait for the
    // default one would overtake it.
    CUresult result = driver().cuMemsetD8(address_, 0, size_);
    if (result == CUDA_SUCCESS) result = driver().cuStreamSynchronize(nullptr);
    return Checked(result, size_);
  }
  absl::Status Map() {
    RETURN_IF_ERROR(
        Checked(driver().cuMemMap(address_, size_, 0, handle_, 0), size_));
    mapped_ = true;
    CUmemAccessDesc access = {};
    access.location = Where().location;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    return Checked(driver().cuMemSetAccess(address_, size_, &access, 1), size_);
  }
  void Unmap() {
    if (std::exchange(mapped_, false)) driver().cuMemUnmap(address_, size_);
  }

  CudaMemory* const owner_;
  uint64_t size_ = 0;
  CUdeviceptr address_ = 0;
  CUmemGenericAllocationHandle handle_ = 0;
  bool mapped_ = false;
};

CudaMemory::CudaMemory(Gpu* gpu) : gpu_(gpu) {
  if (const Gpu::ContextLease use = gpu_->Enter()) MakeLanes();
  gpu_->Add(this);
}

CudaMemory::~CudaMemory() {
  gpu_->Remove(this);
  const Gpu::ContextLease use = gpu_->Enter();
  MutexLock lock(lanes_mutex_);
  for (Lane& lane : lanes_) {
    if (!use) lane.end.Abandon();
    lane.end.Reset();
  }
}

void CudaMemory::MakeLanes() {
  MutexLock lock(lanes_mutex_);
  for (Lane& lane : lanes_) {
    auto end = MakeEvent(gpu_->driver());
    if (end.ok()) lane.end = *std::move(end);
  }
}

CudaMemory::Lane* CudaMemory::TakeLane() {
  MutexLock lock(lanes_mutex_);
  for (Lane& lane : lanes_) {
    if (lane.end && !std::exchange(lane.is_busy, true)) return &lane;
  }
  return nullptr;
}

// Again, if the context was lost on the way.
absl::Status CudaMemory::Try(const std::function<absl::Status()>& action) {
  const Gpu::PauseResidents quiet(gpu_);
  while (true) {
    const Gpu::ContextLease use = gpu_->Enter();
    if (!use) return gpu_->health();
    MutexLock lock(mutex_);
    const absl::Status status = action();
    if (status.ok() || !gpu_->Faulted()) return status;
  }
}

absl::StatusOr<std::unique_ptr<HostMapping>> CudaMemory::MapHost(
    std::span<std::byte> memory) {
  auto mapping = std::make_unique<Mapping>(this, memory);
  const absl::Status status = Try([&] {
    mutex_.AssertHeld();
    const absl::Status tried = mapping->Register();
    if (tried.ok()) mappings_.insert(mapping.get());
    return tried;
  });
  if (!status.ok()) return status;
  return mapping;
}

absl::StatusOr<std::unique_ptr<GpuMemory>> CudaMemory::Allocate(
    uint64_t bytes) {
  auto block = std::make_unique<Block>(this);
  const absl::Status status = Try([&] {
    mutex_.AssertHeld();
    const absl::Status tried = block->Make(bytes);
    if (tried.ok()) blocks_.insert(block.get());
    return tried;
  });
  if (!status.ok()) return status;
  return block;
}

// Not again after a loss: what was copied before may be gone with the context.
absl::Status CudaMemory::Copy(CopyDirection direction, std::byte* to,
                              const std::byte* from, uint64_t bytes) {
  const Gpu::ContextLease use = gpu_->Enter();
  if (!use) return gpu_->health();
  const Driver& driver = gpu_->driver();
  const auto address = [](const std::byte* given) {
    return reinterpret_cast<CUdeviceptr>(given);
  };
  const bool in = direction == CopyDirection::kIn;
  CUresult result;
  if (Lane* const lane = TakeLane()) {
    const CUevent end = lane->end.get();
    result = in ? driver.cuMemcpyHtoDAsync(address(to), from, bytes, nullptr)
                : driver.cuMemcpyDtoHAsync(to, address(from), bytes, nullptr);
    if (result == CUDA_SUCCESS) result = driver.cuEventRecord(end, nullptr);
    if (result == CUDA_SUCCESS) result = driver.cuEventSynchronize(end);
    MutexLock lock(lanes_mutex_);
    lane->is_busy = false;
  } else {
    result = in ? driver.cuMemcpyHtoD(address(to), from, bytes)
                : driver.cuMemcpyDtoH(to, address(from), bytes);
  }
  gpu_->Check(result);
  return ToStatus(driver, result, fmt::format("copy {} bytes", bytes));
}

void CudaMemory::Abandon() {
  MutexLock lock(mutex_);
  for (Mapping* mapping : mappings_) mapping->Abandon();
  MutexLock lanes_lock(lanes_mutex_);
  for (Lane& lane : lanes_) lane.end.Abandon();
}

absl::Status CudaMemory::Settle() {
  MakeLanes();
  MutexLock lock(mutex_);
  for (Mapping* mapping : mappings_) {
    RETURN_IF_ERROR(mapping->Register());
  }
  uint64_t lost = 0;
  for (Block* block : blocks_) {
    ASSIGN_OR_RETURN(const auto kept, block->MapAgain());
    if (!kept) ++lost;
  }
  if (lost != 0) {
    spdlog::warn(
        "{} buffers in GPU memory were lost with the CUDA context: "
        "they are zeros now",
        lost);
  }
  return absl::OkStatus();
}

}  // namespace carillon::gpud::cuda

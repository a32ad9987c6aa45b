// What the seeded worlds have in common: a GPU's code and memory, and the
// device's end of a ring, which knows what each event must come to.
#ifndef CARILLON_GPU_DAEMON_BACKENDS_CUDA_SIM_DRIVER_WORLD_H_
#define CARILLON_GPU_DAEMON_BACKENDS_CUDA_SIM_DRIVER_WORLD_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "gpu_daemon/backends/cuda/edge/edge_table.h"
#include "gpu_daemon/event/test_device.h"
#include "sim/exec/memory.h"
#include "sim/exec/program.h"

namespace carillon::gpud::cuda {

// The code of a GPU, for any number of worlds, one at a time.
class WorldCode {
 public:
  // Errors: those of parser and lowering.
  static absl::StatusOr<std::unique_ptr<WorldCode>> Load(std::string ptx);

  sim::Memory& memory() { return memory_; }
  const sim::Program& program() const { return *program_; }
  // The value of a word in the module's memory; 0: there is none.
  uint64_t Word(std::string_view name) const;

 private:
  sim::Memory memory_{sim::Addresses::kHost};
  std::shared_ptr<const sim::Program> program_;
};

// Device memory, of which nothing is given back, and what devices share.
class WorldMemory {
 public:
  explicit WorldMemory(WorldCode* code);
  ~WorldMemory();

  // Aligned to 256. What lies there at first is anything but zero.
  template <class T>
  T* Take(size_t count) {
    return reinterpret_cast<T*>(TakeBytes(count * sizeof(T)));
  }
  template <class T>
  T* TakeZeros(size_t count) {
    T* const taken = Take<T>(count);
    std::fill_n(taken, count, T{});
    return taken;
  }
  void Map(TestDevice& device);

 private:
  std::byte* TakeBytes(size_t bytes);

  WorldCode* const code_;
  std::vector<std::byte> arena_;
  size_t taken_ = 0;
  std::vector<sim::DeviceAddress> mapped_;
};

// What the host adds to the GPU's timer.
inline constexpr int64_t kWorldClockOffset = 1'000;

enum class WorldKernel {
  kEcho,    // each seventh event is refused
  kFailIf,  // each third event fails
  kMatmul,  // has barriers; of blocks of 16 times 16. Each seventh event fails
};

// A ring of one of these.
struct WorldRing {
  struct Spec {
    uint64_t seed = 0;
    uint32_t id = 0;
    WorldKernel kernel = WorldKernel::kEcho;
    // kMatmul's, or another one that computes the same.
    std::string_view matmul = "matmul";
    uint32_t entries = 4;
    simt::Dim3 grid;
    simt::Dim3 block = {32, 1, 1};
    // Of each input: echo goes byte by byte, unless it is a multiple of 16.
    uint32_t skipped = 0;
    // The longest input, or matrices' order. Where few bytes come late, their
    // completion does not come late with them.
    uint32_t longest = 48;
    // Each tenth entry is of another event, and another tenth of another ring.
    bool bad_headers = false;
  };
  WorldRing(const Spec& spec, TestDevice& device);

  shm::DeviceRing& device() const { return *event.ring; }
  // What the ring's entry in a table has for every path: `frames` frames, each
  // with its scratch. Without `ended`, `execs` and what runs inline.
  EdgeEntry MakeEntry(WorldMemory& memory, uint32_t frames) const;
  // The next event. Requires a free slot.
  void Commit();
  // Counts the end of an event. What is wrong with it; empty: nothing.
  std::string Check(const shm::Completion& completion);
  // The same of the life of the event that the device polls: stamps, if it was
  // traced and ran, else zeros.
  std::string CheckLife(bool traced) const;

  const Spec spec;
  TestDevice::Event event;
  uint64_t refused = 0;
  uint64_t failed = 0;  // with these

 private:
  struct End {
    shm::EventState state = shm::EventState::kDone;
    uint32_t status = 0;
    bool refused = false;
  };
  shm::EventStatus HeaderOf(uint64_t n) const;
  End EndOf(uint64_t n) const;
  uint64_t LengthOf(uint64_t n) const;
  std::byte ByteOf(uint64_t n, uint64_t i) const;
  // Elements of matmul's factors and product.
  static float FactorOf(uint64_t n, uint32_t which, uint64_t i);
  std::string CheckEcho(uint64_t n, const std::byte* out) const;
  std::string CheckMatmul(uint64_t n, const std::byte* out) const;

  uint64_t in_bytes_ = 0;   // of a slot
  uint64_t out_bytes_ = 0;  // as well
  std::byte* in_ = nullptr;
  const std::byte* out_ = nullptr;
};

}  // namespace carillon::gpud::cuda

#endif  // CARILLON_GPU_DAEMON_BACKENDS_CUDA_SIM_DRIVER_WORLD_H_

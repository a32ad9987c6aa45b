// The emulated GPU: how many thread blocks may run at once, and where.
#ifndef CARILLON_GPU_DAEMON_EVENT_GPU_MODEL_H_
#define CARILLON_GPU_DAEMON_EVENT_GPU_MODEL_H_

#include <cstdint>
#include <optional>
#include <vector>

namespace carillon::gpud {

// Defaults: EDGE Table II.
struct GpuModel {
  uint32_t sms = 16;
  uint32_t blocks_per_sm = 16;
  uint32_t threads_per_sm = 2048;
  uint32_t registers_per_sm = 65536;
  uint32_t shared_bytes_per_sm = 48 * 1024;

  bool operator==(const GpuModel&) const = default;
};

// What one thread block takes from its SM.
struct BlockCost {
  uint32_t threads = 0;  // rounded up to warps
  uint32_t registers = 0;
  uint32_t shared_bytes = 0;
};

BlockCost CostOf(uint32_t threads, uint32_t registers_per_thread,
                 uint32_t shared_bytes);

// SMs from `first` on, as far as there are any.
struct SmRange {
  uint32_t first = 0;
  uint32_t end = ~uint32_t{0};
  bool Meets(const SmRange& other) const {
    return first < other.end && other.first < end;
  }
};

// Which blocks are resident where. Not thread safe.
class SmOccupancy {
 public:
  explicit SmOccupancy(const GpuModel& model);

  // Takes room on the SM with the fewest resident blocks that has enough;
  // nothing if none has.
  std::optional<uint32_t> Place(const BlockCost& cost, const SmRange& sms = {});
  void Release(uint32_t sm, const BlockCost& cost);
  // Whether an empty SM could hold the block.
  bool Fits(const BlockCost& cost) const;
  // So many of these blocks fit an empty GPU at once.
  uint64_t Capacity(const BlockCost& cost) const;
  uint32_t resident_blocks() const { return resident_; }
  std::vector<uint32_t> blocks_of_sms() const;

 private:
  struct Sm {
    uint32_t blocks = 0;
    uint32_t threads = 0;
    uint32_t registers = 0;
    uint32_t shared_bytes = 0;
  };

  bool HasRoom(const Sm& sm, const BlockCost& cost) const;

  const GpuModel model_;
  std::vector<Sm> sms_;
  uint32_t resident_ = 0;
};

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_EVENT_GPU_MODEL_H_

// Whose turn it is on a GPU that belongs to one device at a time: Gdev's
// scheduling of contexts, to which GPES compares itself (GPES IV-C), with
// weights.
//
// A device keeps its turn while nobody else waits, and its quantum times its
// weight while somebody does. Then it begins nothing more, and what it has begun
// ends whole. Next comes whoever has had least of the GPU for its weight, so an
// overdrawn turn is paid back, and nobody waits for ever if kernels end.
#ifndef CARILLON_SIM_TIMING_SHARING_DEVICE_TURNS_H_
#define CARILLON_SIM_TIMING_SHARING_DEVICE_TURNS_H_

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace carillon::sim::timing {

// One thread at a time. Time is in any unit.
class DeviceTurns {
 public:
  using Device = uint64_t;  // any number that is the device's own
  // A device with launches.
  struct Party {
    Device device = 0;
    uint32_t weight = 1;  // 1 or more
    bool waits = false;   // it has launches that have not begun
    bool begun = false;   // it has some that have
  };

  explicit DeviceTurns(uint64_t quantum) : quantum_(quantum) {}

  // Looks at who is there, in the order in which ties are broken. Returns
  // whether another device has the turn since.
  bool Advance(uint64_t now, std::span<const Party> parties);
  // Nobody: whatever has begun must end first, or there is nothing.
  std::optional<Device> owner() const { return owner_; }
  // Whether the owner's launches may begin.
  bool may_begin() const { return may_begin_; }

 private:
  struct Account {
    Device device = 0;
    uint64_t used = 0;    // time over weight, in 1/kUnit
    uint32_t weight = 1;  // when it was last there
  };
  static constexpr uint64_t kUnit = 256;

  Account& AccountOf(Device device);
  void Charge(uint64_t now, std::span<const Party> parties);

  const uint64_t quantum_;
  std::vector<Account> accounts_;
  uint64_t floor_ = 0;  // where those who come begin
  std::optional<Device> owner_;
  bool may_begin_ = false;
  bool others_waited_ = false;  // when Advance() last looked
  uint64_t began_ = 0;  // the turn
  uint64_t charged_ = 0;
};

}  // namespace carillon::sim::timing

#endif  // CARILLON_SIM_TIMING_SHARING_DEVICE_TURNS_H_

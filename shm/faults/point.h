// Where the code lets a fault strike:
//
//   if (auto struck = faults::At(Point::kDeviceRing, {.device = name})) {
//     if (struck->action == Action::kLose) return;
//   }
//
// Kill, stop, delay and limit have happened when At() returns; what else it
// returns is for the point to carry out. While no fault of this process waits
// at the point: a load and a branch.
#ifndef CARILLON_SHM_FAULTS_POINT_H_
#define CARILLON_SHM_FAULTS_POINT_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "base/clock.h"
#include "shm/faults/fault.h"

namespace carillon::faults {

// The device, call or event that passes the point.
struct Subject {
  std::string_view device;
  std::string_view method;
  uint32_t event_id = kAnyEvent;
  uint64_t bytes = 0;  // of a datagram: kLimit counts them
};

// The part of a fault that the point itself must carry out.
struct Struck {
  Action action = Action::kLose;
  uint64_t count = 0;
  uint32_t code = 0;
  Nanoseconds duration_ns = 0;
  uint64_t random = 0;  // of the fault's own stream
  uint32_t offset = 0;
  uint8_t bytes_size = 0;
  uint8_t mask_size = 0;
  std::array<uint8_t, kMaxBytes> bytes{};
  std::array<uint8_t, kMaxBytes> mask{};

  // kCorrupt: of what the point handles.
  void Corrupt(std::span<std::byte> data) const;
};

// Bit p: a fault of this process waits at point p. Writer: the thread that
// looks at the board; readers: all. Relaxed: what it leads to is read under a
// lock.
inline std::atomic<uint32_t> armed_points{0};
static_assert(kPoints <= 32);

inline bool Armed(Point point) {
  return (armed_points.load(std::memory_order_relaxed) >>
          static_cast<uint32_t>(point)) &
         1;
}
// One look for neighbouring points.
template <class... Points>
bool AnyArmed(Points... points) {
  const uint32_t mask = ((1u << static_cast<uint32_t>(points)) | ...);
  return (armed_points.load(std::memory_order_relaxed) & mask) != 0;
}
std::optional<Struck> Pass(Point point, const Subject& subject);

inline std::optional<Struck> At(Point point, const Subject& subject = {}) {
  if (!Armed(point)) [[likely]]
    return std::nullopt;
  return Pass(point, subject);
}

// This process has reached a state: faults wait for it. Without a board it does
// nothing.
void Reached(State state);

}  // namespace carillon::faults

#endif  // CARILLON_SHM_FAULTS_POINT_H_

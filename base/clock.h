#ifndef CARILLON_BASE_CLOCK_H_
#define CARILLON_BASE_CLOCK_H_

#include <time.h>

#include <cstdint>

namespace carillon {

// CLOCK_MONOTONIC, comparable between processes of one machine.
using Nanoseconds = uint64_t;

// CLOCK_MONOTONIC in nanoseconds: the same clock in every process of the
// machine.
inline Nanoseconds NowNs() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<Nanoseconds>(now.tv_sec) * 1'000'000'000u + now.tv_nsec;
}

}  // namespace carillon

#endif  // CARILLON_BASE_CLOCK_H_

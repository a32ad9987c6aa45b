#ifndef CARILLON_SHM_CLOCK_H_
#define CARILLON_SHM_CLOCK_H_

#include <time.h>

#include "shm/types.h"

namespace carillon::shm {

// CLOCK_MONOTONIC in nanoseconds: the same clock in every process of the
// machine.
inline Nanoseconds NowNs() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<Nanoseconds>(now.tv_sec) * 1'000'000'000u + now.tv_nsec;
}

}  // namespace carillon::shm

#endif  // CARILLON_SHM_CLOCK_H_

// An atomic load from memory that may be mapped read-only, which atomic_ref does
// not take before C++26.
#ifndef CARILLON_SHM_LOAD_SHARED_H_
#define CARILLON_SHM_LOAD_SHARED_H_

#include <atomic>

namespace carillon::shm {

template <class T>
T LoadShared(const T& shared, std::memory_order order) {
  return std::atomic_ref<T>(const_cast<T&>(shared)).load(order);
}

}  // namespace carillon::shm

#endif  // CARILLON_SHM_LOAD_SHARED_H_

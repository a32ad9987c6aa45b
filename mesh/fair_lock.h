// Lets those who wait for a mutex have it before a thread that frees it for an
// instant only, again and again: a std::mutex goes to whoever runs.
#ifndef CARILLON_MESH_FAIR_LOCK_H_
#define CARILLON_MESH_FAIR_LOCK_H_

#include <atomic>
#include <cstdint>

#include "base/mutex.h"

namespace carillon::mesh {

class FairLock {
 public:
  // Holds the mutex while it lives; GiveWay() waits for it.
  class ABSL_SCOPED_LOCKABLE Holder {
   public:
    Holder(FairLock& fair, Mutex& mutex) ABSL_EXCLUSIVE_LOCK_FUNCTION(mutex)
        : mutex_(mutex) {
      ++fair.asked_;
      mutex_.Lock();
      ++fair.had_;
      fair.had_.notify_all();
    }
    ~Holder() ABSL_UNLOCK_FUNCTION() { mutex_.Unlock(); }
    Holder(const Holder&) = delete;
    Holder& operator=(const Holder&) = delete;

   private:
    Mutex& mutex_;
  };

  // Without the mutex: returns once as many have had the mutex as had asked
  // for it, so that those who come later cannot make it wait for ever.
  void GiveWay() const {
    const uint64_t asked = asked_;
    for (uint64_t had = had_; had < asked; had = had_) had_.wait(had);
  }

  uint64_t waiting() const {
    const uint64_t had = had_;  // read first: it never is the higher one
    return asked_ - had;
  }

 private:
  // Writers: Holders; readers: GiveWay() and waiting(). Sequentially consistent:
  // who has had the mutex is seen to have asked for it.
  std::atomic<uint64_t> asked_{0};
  std::atomic<uint64_t> had_{0};
};

}  // namespace carillon::mesh

#endif  // CARILLON_MESH_FAIR_LOCK_H_

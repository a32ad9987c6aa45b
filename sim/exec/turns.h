// Code that may reach what it was not given runs by turns, between which memory
// can go.
#ifndef CARILLON_SIM_EXEC_TURNS_H_
#define CARILLON_SIM_EXEC_TURNS_H_

#include <cstdint>

#include "absl/base/thread_annotations.h"
#include "base/mutex.h"

namespace carillon::sim {

// Thread safe. Whoever frees a segment that such code may reach does it in
// Between(); whoever runs such code takes the segments anew in each turn
// (Core::Prepare()). So a turn reaches nothing that has gone, and a turn's
// length is what a free may have to wait for.
class Turns {
 public:
  // Many may run at once, in different threads. A thread that has one must
  // neither begin another nor call Between(). Without `turns` it does nothing.
  class Turn {
   public:
    explicit Turn(Turns* turns) : turns_(turns) {
      if (turns_ != nullptr) turns_->Begin();
    }
    ~Turn() {
      if (turns_ != nullptr) turns_->End();
    }
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;

   private:
    Turns* const turns_;
  };

  // Calls `free` while no turn runs: those that run end theirs, and those that
  // would begin wait. `free` must wait for nobody.
  template <class Free>
  void Between(const Free& free) {
    MutexLock lock(mutex_);
    ++waiting_;
    while (running_ != 0) changed_.Wait(mutex_);
    free();
    if (--waiting_ == 0) changed_.NotifyAll();
  }

 private:
  void Begin() {
    MutexLock lock(mutex_);
    while (waiting_ != 0) changed_.Wait(mutex_);
    ++running_;
  }
  void End() {
    MutexLock lock(mutex_);
    if (--running_ == 0 && waiting_ != 0) changed_.NotifyAll();
  }

  Mutex mutex_;
  CondVar changed_;
  uint32_t running_ ABSL_GUARDED_BY(mutex_) = 0;
  uint32_t waiting_ ABSL_GUARDED_BY(mutex_) = 0;  // in Between()
};

}  // namespace carillon::sim

#endif  // CARILLON_SIM_EXEC_TURNS_H_

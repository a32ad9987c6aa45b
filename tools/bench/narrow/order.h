// In which order a workload's tasks may run.
#ifndef CARILLON_TOOLS_BENCH_NARROW_ORDER_H_
#define CARILLON_TOOLS_BENCH_NARROW_ORDER_H_

#include <cstddef>
#include <vector>

#include "tools/bench/narrow/workload.h"

namespace carillon::bench {

// Gives out a workload's tasks in their order, each when those that it needs have
// ended: whoever runs them asks for the next and says what has ended. One thread.
class NarrowOrder {
 public:
  explicit NarrowOrder(const NarrowWorkload& workload);

  // The next task that may begin; kNone: none before another one ends.
  static constexpr size_t kNone = ~size_t{0};
  size_t Next();
  void Ended(size_t task);
  bool may_begin() const { return !ready_.empty(); }
  bool all_begun() const { return begun_ == tasks_.size(); }
  bool all_ended() const { return ended_ == tasks_.size(); }

 private:
  struct Group {
    std::vector<size_t> left;  // by phase: tasks that have not ended
    size_t phase = 0;          // that may run
    std::vector<std::vector<size_t>> waiting;  // by phase
  };
  void Open(Group& group);

  const std::vector<NarrowUnit>& tasks_;
  std::vector<Group> groups_;
  // A heap of those that may begin, the first task on top.
  std::vector<size_t> ready_;
  size_t begun_ = 0;
  size_t ended_ = 0;
};

}  // namespace carillon::bench

#endif  // CARILLON_TOOLS_BENCH_NARROW_ORDER_H_

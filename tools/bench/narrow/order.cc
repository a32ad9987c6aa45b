#include "tools/bench/narrow/order.h"

#include <algorithm>
#include <functional>

namespace carillon::bench {

NarrowOrder::NarrowOrder(const NarrowWorkload& workload)
    : tasks_(workload.tasks()) {
  for (size_t i = 0; i < tasks_.size(); ++i) {
    const NarrowUnit& task = tasks_[i];
    if (task.group >= groups_.size()) groups_.resize(task.group + 1);
    Group& group = groups_[task.group];
    if (task.phase >= group.left.size()) {
      group.left.resize(task.phase + 1);
      group.waiting.resize(task.phase + 1);
    }
    ++group.left[task.phase];
    group.waiting[task.phase].push_back(i);
  }
  for (Group& group : groups_) Open(group);
}

// Lets the tasks of the first phase that has any begin.
void NarrowOrder::Open(Group& group) {
  while (group.phase < group.left.size() && group.left[group.phase] == 0) {
    ++group.phase;
  }
  if (group.phase == group.left.size()) return;
  for (const size_t task : group.waiting[group.phase]) {
    ready_.push_back(task);
    std::ranges::push_heap(ready_, std::greater<>());
  }
}

size_t NarrowOrder::Next() {
  if (ready_.empty()) return kNone;
  std::ranges::pop_heap(ready_, std::greater<>());
  const size_t task = ready_.back();
  ready_.pop_back();
  ++begun_;
  return task;
}

void NarrowOrder::Ended(size_t task) {
  Group& group = groups_[tasks_[task].group];
  ++ended_;
  if (--group.left[group.phase] == 0) Open(group);
}

}  // namespace carillon::bench

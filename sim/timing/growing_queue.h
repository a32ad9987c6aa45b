// A queue in an array that grows when it must.
#ifndef CARILLON_SIM_TIMING_GROWING_QUEUE_H_
#define CARILLON_SIM_TIMING_GROWING_QUEUE_H_

#include <cstddef>
#include <vector>

namespace carillon::sim::timing {

template <class T>
class GrowingQueue {
 public:
  bool empty() const { return size_ == 0; }
  size_t size() const { return size_; }
  T& front() { return items_[first_]; }
  T& at(size_t i) { return items_[(first_ + i) & (items_.size() - 1)]; }
  const T& at(size_t i) const {
    return items_[(first_ + i) & (items_.size() - 1)];
  }

  void push(const T& item) { Add() = item; }
  // Adds a last item and returns it; it still holds what it held before.
  T& Add() {
    if (size_ == items_.size()) Grow();
    return at(size_++);
  }
  void pop() {
    first_ = (first_ + 1) & (items_.size() - 1);
    --size_;
  }

 private:
  void Grow() {
    std::vector<T> items(items_.empty() ? 8 : 2 * items_.size());
    for (size_t i = 0; i < size_; ++i) items[i] = at(i);
    items_ = std::move(items);
    first_ = 0;
  }

  std::vector<T> items_;
  size_t first_ = 0;
  size_t size_ = 0;
};

}  // namespace carillon::sim::timing

#endif  // CARILLON_SIM_TIMING_GROWING_QUEUE_H_

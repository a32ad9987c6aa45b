// A queue in an array that grows when it must.
#ifndef CARILLON_SIM_TIMING_GROWING_QUEUE_H_
#define CARILLON_SIM_TIMING_GROWING_QUEUE_H_

#include <cstddef>
#include <utility>
#include <vector>

namespace carillon::sim::timing {

template <class T>
class GrowingQueue {
 public:
  bool empty() const { return size_ == 0; }
  size_t size() const { return size_; }
  T& front() { return items_[first_]; }
  T& at(size_t i) { return items_[Wrap(first_ + i)]; }
  const T& at(size_t i) const { return items_[Wrap(first_ + i)]; }

  void push(const T& item) { Add() = item; }
  // Adds a last item and returns it; it still holds what it held before.
  T& Add() {
    if (size_ == capacity_) Grow();
    return at(size_++);
  }
  void pop() {
    first_ = Wrap(first_ + 1);
    --size_;
  }

 private:
  size_t Wrap(size_t i) const { return i & (capacity_ - 1); }
  void Grow() {
    std::vector<T> items(capacity_ == 0 ? 8 : 2 * capacity_);
    for (size_t i = 0; i < size_; ++i) items[i] = at(i);
    items_ = std::move(items);
    capacity_ = items_.size();
    first_ = 0;
  }

  std::vector<T> items_;
  size_t capacity_ = 0;  // of items_, a power of two
  size_t first_ = 0;
  size_t size_ = 0;
};

}  // namespace carillon::sim::timing

#endif  // CARILLON_SIM_TIMING_GROWING_QUEUE_H_

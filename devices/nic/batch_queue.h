// Decides when requests leave for the GPU, and how many at a time.
#ifndef CARILLON_DEVICES_NIC_BATCH_QUEUE_H_
#define CARILLON_DEVICES_NIC_BATCH_QUEUE_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>

#include "base/clock.h"
#include "devices/nic/request.h"

namespace carillon::nic {

// Requests of one type that wait for an event. The oldest `limit` of them are
// the open batch. It closes
//   full        at once;
//   partly      when no more requests are waiting outside (the socket is
//               drained) and no event of this type is in flight: a lone request
//               never waits, and under load a batch grows for as long as the
//               GPU is busy with the one before;
//   in any case when its oldest request has waited for `timeout`.
// Not thread safe.
class BatchQueue {
 public:
  // Requires limit >= 1.
  BatchQueue(uint32_t limit, Nanoseconds timeout)
      : limit_(limit), timeout_(timeout) {}

  void Push(const Request& request) { queue_.push_back(request); }
  size_t size() const { return queue_.size(); }

  // How many requests the next event should take now; 0: none yet.
  uint32_t Ready(Nanoseconds now, bool drained, uint32_t in_flight) const;
  // When Ready() becomes positive without any other event; nothing while the
  // queue is empty.
  std::optional<Nanoseconds> Deadline() const;
  // Moves the oldest requests into `batch`. Requires batch.size() <= size().
  void Pop(std::span<Request> batch);

 private:
  const uint32_t limit_;
  const Nanoseconds timeout_;
  std::deque<Request> queue_;
};

}  // namespace carillon::nic

#endif  // CARILLON_DEVICES_NIC_BATCH_QUEUE_H_

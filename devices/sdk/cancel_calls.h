// Has a user's wish to end not wait for a gpud that does not answer.
#ifndef CARILLON_DEVICES_SDK_CANCEL_CALLS_H_
#define CARILLON_DEVICES_SDK_CANCEL_CALLS_H_

namespace carillon::edge {

// During its life every call to gpud that the thread which made it waits for (no
// stream) ends with Cancelled once `fd` is readable. At most one a thread.
class CancelCalls {
 public:
  // `fd` outlives it; nobody reads from it meanwhile but this thread.
  explicit CancelCalls(int fd);
  ~CancelCalls();
  CancelCalls(const CancelCalls&) = delete;
  CancelCalls& operator=(const CancelCalls&) = delete;

  // Of this thread's, or -1.
  static int fd();
};

}  // namespace carillon::edge

#endif  // CARILLON_DEVICES_SDK_CANCEL_CALLS_H_

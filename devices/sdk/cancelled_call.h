// One call to gpud that CancelCalls may end.
#ifndef CARILLON_DEVICES_SDK_CANCELLED_CALL_H_
#define CARILLON_DEVICES_SDK_CANCELLED_CALL_H_

#include <grpcpp/client_context.h>

#include <thread>

#include "base/unique_fd.h"

namespace carillon::edge {

// Cancels a call when this thread's CancelCalls, if it has one, says so.
class CancelledCall {
 public:
  // `context` outlives it.
  explicit CancelledCall(grpc::ClientContext* context);
  ~CancelledCall();
  CancelledCall(const CancelledCall&) = delete;
  CancelledCall& operator=(const CancelledCall&) = delete;

 private:
  UniqueFd over_;
  std::thread watcher_;
};

}  // namespace carillon::edge

#endif  // CARILLON_DEVICES_SDK_CANCELLED_CALL_H_

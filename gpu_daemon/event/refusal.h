// Why a launch path does not take an event kernel: a reason of its own, or one
// that every path has.
#ifndef CARILLON_GPU_DAEMON_EVENT_REFUSAL_H_
#define CARILLON_GPU_DAEMON_EVENT_REFUSAL_H_

#include "absl/status/status.h"

namespace carillon::gpud {

// Marks an error that is about the request or about the machine: no other path
// would do better, or should (a GPU without memory).
absl::Status OnAnyPath(absl::Status status);

// Whether another path may take what this error has refused: it is one of those
// that LaunchPath::Add() names for a path's own limits, and not marked.
bool AnotherPathMayServe(const absl::Status& status);

// What LaunchPath::Add() says while it waits for somebody else: it is to be called
// again in a moment with the same event kernel, by a caller that holds no lock
// meanwhile, until it says something else.
absl::Status NotYet();
bool IsNotYet(const absl::Status& status);

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_EVENT_REFUSAL_H_

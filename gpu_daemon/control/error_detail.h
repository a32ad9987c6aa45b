// An error on its way to a client: a canonical code, a sentence that says what
// to do, and an ErrorDetail that a program can act on. The detail travels
// inside absl::Status as a payload and leaves gpud in the trailer
// "carillon-error-bin".
#ifndef CARILLON_GPU_DAEMON_CONTROL_ERROR_DETAIL_H_
#define CARILLON_GPU_DAEMON_CONTROL_ERROR_DETAIL_H_

#include <grpcpp/server_context.h>
#include <grpcpp/support/status.h>

#include <cstddef>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "proto/common.pb.h"

namespace carillon::gpud {

inline constexpr char kErrorTrailer[] = "carillon-error-bin";

// Stable reasons. An error without one carries its canonical code's name.
namespace reason {
inline constexpr char kBadBinding[] = "BAD_BINDING";
inline constexpr char kBadCount[] = "BAD_COUNT";
inline constexpr char kBadCopy[] = "BAD_COPY";
inline constexpr char kBadDimensions[] = "BAD_DIMENSIONS";
inline constexpr char kBadFault[] = "BAD_FAULT";
inline constexpr char kBadImage[] = "BAD_IMAGE";
inline constexpr char kBadInterval[] = "BAD_INTERVAL";
inline constexpr char kBadLaunchPath[] = "BAD_LAUNCH_PATH";
inline constexpr char kBadName[] = "BAD_NAME";
inline constexpr char kBadPriority[] = "BAD_PRIORITY";
inline constexpr char kBadRingSize[] = "BAD_RING_SIZE";
inline constexpr char kBadSize[] = "BAD_SIZE";
inline constexpr char kBufferInUse[] = "BUFFER_IN_USE";
inline constexpr char kDeviceNameTaken[] = "DEVICE_NAME_TAKEN";
inline constexpr char kEktFull[] = "EKT_FULL";
inline constexpr char kGpuLost[] = "GPU_LOST";
inline constexpr char kInjectedFault[] = "INJECTED_FAULT";
inline constexpr char kKernelLost[] = "KERNEL_LOST";
inline constexpr char kKernelNameTaken[] = "KERNEL_NAME_TAKEN";
inline constexpr char kLayoutVersion[] = "LAYOUT_VERSION";
inline constexpr char kLivesInWallTime[] = "LIVES_IN_WALL_TIME";
inline constexpr char kMemoryBudget[] = "MEMORY_BUDGET";
inline constexpr char kNoBarrier[] = "NO_WAIT_RELEASE_BARRIER";
inline constexpr char kNoChains[] = "NO_CHAINS";
inline constexpr char kNoFaults[] = "NO_FAULTS";
inline constexpr char kNoGpuCode[] = "NO_GPU_CODE";
inline constexpr char kNoHeapRoom[] = "NO_HEAP_ROOM";
inline constexpr char kNotAttached[] = "NOT_ATTACHED";
inline constexpr char kNotDrained[] = "NOT_DRAINED";
inline constexpr char kNotForDevices[] = "NOT_FOR_DEVICES";
inline constexpr char kOtherProcess[] = "OTHER_PROCESS";
inline constexpr char kSessionEnded[] = "SESSION_ENDED";
inline constexpr char kShuttingDown[] = "SHUTTING_DOWN";
inline constexpr char kSlowWatcher[] = "SLOW_WATCHER";
inline constexpr char kTooMany[] = "TOO_MANY";
inline constexpr char kUnknownBuffer[] = "UNKNOWN_BUFFER";
inline constexpr char kUnknownEvent[] = "UNKNOWN_EVENT";
inline constexpr char kUnknownFault[] = "UNKNOWN_FAULT";
inline constexpr char kUnknownKernel[] = "UNKNOWN_KERNEL";
inline constexpr char kUnknownLaunchPath[] = "UNKNOWN_LAUNCH_PATH";
inline constexpr char kUnknownPeer[] = "UNKNOWN_PEER";
inline constexpr char kUnknownPolicy[] = "UNKNOWN_POLICY";
inline constexpr char kUnknownSession[] = "UNKNOWN_SESSION";
}  // namespace reason

// An error with all three parts of its detail; `subject` is the field or name
// at fault, `hint` one command or sentence.
absl::Status Error(absl::StatusCode code, std::string_view message,
                   std::string_view reason, std::string_view subject = "",
                   std::string_view hint = "");

// Adds a detail to an error that a lower layer made; one that has a detail
// keeps it.
absl::Status WithDetail(absl::Status status, std::string_view reason,
                        std::string_view subject = "",
                        std::string_view hint = "");

v1::ErrorDetail DetailOf(const absl::Status& status);

// Makes a text fit for people to read: what a client sent must not steer a
// terminal. Returns at most `limit` bytes, whole UTF-8 characters.
std::string Printable(std::string_view text, size_t limit);

// Adds the trailer to the call and returns the status for the handler to
// return.
grpc::Status ToGrpc(const absl::Status& status,
                    grpc::ServerContextBase* context);

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_CONTROL_ERROR_DETAIL_H_

// Numbers for those who come one after the other in one place: each is higher
// than all before, even where the clock goes back.
#ifndef CARILLON_BASE_INCARNATION_INCARNATION_H_
#define CARILLON_BASE_INCARNATION_INCARNATION_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace carillon {

// Beside a testbed's sockets, where its processes keep the last one.
inline constexpr char kIncarnationFile[] = "incarnation";

// The numbers that follow one are its owner's, too, for what it begins anew.
inline constexpr uint64_t kIncarnationRoom = 1'000'000'000;

// The time of day in ns, by which those of other places are mostly lower if they
// are older; or the last that the file has and the room of that. Works between
// processes, too. Errors: PermissionDenied, ResourceExhausted (the file).
absl::StatusOr<uint64_t> NextIncarnation(const std::string& file);
// The same at that time.
absl::StatusOr<uint64_t> NextIncarnation(const std::string& file, uint64_t now);

}  // namespace carillon

#endif  // CARILLON_BASE_INCARNATION_INCARNATION_H_

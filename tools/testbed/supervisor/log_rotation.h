// Keeps the logs of a testbed short, whatever its processes write.
#ifndef CARILLON_TOOLS_TESTBED_SUPERVISOR_LOG_ROTATION_H_
#define CARILLON_TOOLS_TESTBED_SUPERVISOR_LOG_ROTATION_H_

#include <cstdint>
#include <string>

namespace carillon::testbed {

// A log that is longer than this is rotated.
inline constexpr uint64_t kMaxLogBytes = 8 << 20;

// Moves the contents of each log in the folder that is longer than
// kMaxLogBytes to NAME.old.log, in place of what was there, and no more of them
// than kMaxLogBytes: the newest. Its process keeps the file and goes on in it,
// from its beginning; a line that it writes at this very moment may be missing.
void RotateLogs(const std::string& folder);

}  // namespace carillon::testbed

#endif  // CARILLON_TOOLS_TESTBED_SUPERVISOR_LOG_ROTATION_H_

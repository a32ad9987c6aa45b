// Checks one value of a topology file against its key's type and limits.
#ifndef CARILLON_TOOLS_TESTBED_TOPOLOGY_VALUE_H_
#define CARILLON_TOOLS_TESTBED_TOPOLOGY_VALUE_H_

#include <string_view>

#include "absl/status/statusor.h"
#include "tools/testbed/topology/topology.h"

namespace carillon::testbed {

// InvalidArgument: "'2048' is out of range; allowed: 1 to 1024".
absl::StatusOr<Setting> ReadSetting(const Key& key, std::string_view text);

// InvalidArgument if it is neither "true" nor "false".
absl::StatusOr<bool> ReadBoolean(std::string_view text);
// Reads a decimal number from min to max.
absl::StatusOr<uint64_t> ReadInteger(std::string_view text, uint64_t min,
                                     uint64_t max);

}  // namespace carillon::testbed

#endif  // CARILLON_TOOLS_TESTBED_TOPOLOGY_VALUE_H_

// The names of the sharing policies. They are apart from the policies, so that
// tools can read them.
#ifndef CARILLON_GPU_DAEMON_OPTIONS_POLICY_NAMES_H_
#define CARILLON_GPU_DAEMON_OPTIONS_POLICY_NAMES_H_

#include <array>
#include <string_view>

namespace carillon::gpud {

inline constexpr std::string_view kFirstComePolicy = "first_come";
inline constexpr std::string_view kPriorityPolicy = "priority";
inline constexpr std::array kPolicyNames = {kFirstComePolicy, kPriorityPolicy};

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_OPTIONS_POLICY_NAMES_H_

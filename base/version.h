#ifndef CARILLON_BASE_VERSION_H_
#define CARILLON_BASE_VERSION_H_

#include <string_view>

namespace carillon {

inline constexpr std::string_view kVersion = "0.1.0";

}  // namespace carillon

#endif  // CARILLON_BASE_VERSION_H_

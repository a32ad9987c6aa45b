// Where gpud keeps users' kernels for the next gpud: in that folder of the
// testbed's directory, in files with that extension.
#ifndef CARILLON_BASE_MODULE_FOLDER_H_
#define CARILLON_BASE_MODULE_FOLDER_H_

#include <string_view>

namespace carillon {

inline constexpr std::string_view kModuleFolder = "modules";
inline constexpr std::string_view kModuleExtension = ".module";

}  // namespace carillon

#endif  // CARILLON_BASE_MODULE_FOLDER_H_

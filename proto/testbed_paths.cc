#include "proto/testbed_paths.h"

#include <unistd.h>

#include <cstdlib>

namespace carillon {

std::string RuntimeDirectory() {
  if (const char* own = std::getenv("CARILLON_RUNTIME_DIR");
      own != nullptr && *own != '\0') {
    return own;
  }
  if (const char* xdg = std::getenv("XDG_RUNTIME_DIR");
      xdg != nullptr && *xdg != '\0') {
    return std::string(xdg) + "/carillon";
  }
  return "/tmp/carillon-" + std::to_string(getuid());
}

}  // namespace carillon

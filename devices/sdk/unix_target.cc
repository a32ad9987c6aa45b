#include "devices/sdk/unix_target.h"

#include <cctype>

#include "fmt/format.h"

namespace carillon::edge {

std::string UnixTarget(const std::string& socket_path) {
  // The target is a URI: a path with a space or a % in it would not parse.
  std::string target = "unix:";
  for (const char c : socket_path) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '/' ||
        c == '-' || c == '_' || c == '.') {
      target += c;
    } else {
      target += fmt::format("%{:02X}", static_cast<unsigned char>(c));
    }
  }
  return target;
}

}  // namespace carillon::edge

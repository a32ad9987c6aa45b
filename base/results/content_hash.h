// Names for what something was made of.
#ifndef CARILLON_BASE_RESULTS_CONTENT_HASH_H_
#define CARILLON_BASE_RESULTS_CONTENT_HASH_H_

#include <cstddef>
#include <cstdint>
#include <fstream>
#include <string>
#include <string_view>

#include "base/subprocess.h"
#include "fmt/format.h"

namespace carillon {

// FNV-1a. `hash`: of what stands before, in parts.
inline uint64_t ContentHash(std::string_view bytes,
                            uint64_t hash = 0xcbf29ce484222325) {
  for (const char byte : bytes) {
    hash = (hash ^ static_cast<uint8_t>(byte)) * 0x100000001b3;
  }
  return hash;
}

// Of nothing, if it cannot be read.
inline uint64_t HashOfFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string part(1 << 20, '\0');
  uint64_t hash = ContentHash("");
  // The last part is shorter, and a failure.
  while (file.good()) {
    file.read(part.data(), static_cast<std::streamsize>(part.size()));
    hash = ContentHash(
        std::string_view(part).substr(0, static_cast<size_t>(file.gcount())),
        hash);
  }
  return hash;
}

// Of this program's file: another build may do otherwise.
inline const std::string& OwnProgramHash() {
  static const auto* const hash = [] {
    return new std::string(fmt::format("{:016x}", HashOfFile(OwnProgram())));
  }();
  return *hash;
}

}  // namespace carillon

#endif  // CARILLON_BASE_RESULTS_CONTENT_HASH_H_

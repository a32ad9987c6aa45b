#include "base/read_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "base/file_error.h"
#include "base/text.h"
#include "base/unique_fd.h"
#include "fmt/format.h"

namespace carillon {

absl::StatusOr<std::string> ReadFile(const std::string& path,
                                     std::string_view thing, size_t most) {
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) return FileError("read", thing, path);
  std::string text;
  std::array<char, 1 << 16> block;
  for (;;) {
    const ssize_t got = read(fd.get(), block.data(), block.size());
    if (got == 0) return text;
    if (got > 0) {
      if (static_cast<size_t>(got) > most - text.size()) {
        return absl::InvalidArgumentError(
            fmt::format("{} is larger than {}: the {} must be a smaller file",
                        path, FormatBytes(most), thing));
      }
      text.append(block.data(), static_cast<size_t>(got));
    } else if (errno == EISDIR) {
      return absl::InvalidArgumentError(
          fmt::format("{} is a folder: the {} must be a file", path, thing));
    } else if (errno != EINTR) {
      return FileError("read", thing, path);
    }
  }
}

}  // namespace carillon

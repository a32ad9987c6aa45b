#include "tools/cli/ui/terminal_text.h"

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>

namespace carillon::cli {
namespace {

bool Steers(uint32_t character) {
  return character < 0x20 || (character >= 0x7f && character < 0xa0) ||
         // The direction of text: marks, embeddings, isolates.
         character == 0x61c || character == 0x200e || character == 0x200f ||
         (character >= 0x202a && character <= 0x202e) ||
         (character >= 0x2066 && character <= 0x2069) ||
         // Ends of lines and of paragraphs.
         character == 0x2028 || character == 0x2029;
}

// Length of the character that `text` starts with; 0 if it is none that is safe.
size_t SafeLength(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  if (byte(0) < 0x80) return Steers(byte(0)) ? 0 : 1;
  const size_t length = byte(0) >= 0xc2 && byte(0) < 0xe0   ? 2
                        : byte(0) >= 0xe0 && byte(0) < 0xf0 ? 3
                        : byte(0) >= 0xf0 && byte(0) < 0xf5 ? 4
                                                            : 0;
  if (length == 0 || text.size() < length) return 0;
  uint32_t character = byte(0) & (0x7f >> length);
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
    character = character << 6 | (byte(i) & 0x3f);
  }
  const bool overlong = character < (length == 2   ? 0x80u
                                     : length == 3 ? 0x800u
                                                   : 0x10000u);
  const bool surrogate = character >= 0xd800 && character < 0xe000;
  if (overlong || surrogate || character > 0x10ffff) return 0;
  return Steers(character) ? 0 : length;
}

}  // namespace

std::string ForTerminal(std::string_view text) {
  std::string shown;
  while (!text.empty()) {
    const size_t length = SafeLength(text);
    if (length > 0) {
      shown += text.substr(0, length);
    } else if (text[0] == '\t') {
      shown += "  ";
    } else {
      shown += fmt::format("\\x{:02x}", static_cast<uint8_t>(text[0]));
    }
    text.remove_prefix(length > 0 ? length : 1);
  }
  return shown;
}

std::string LinesForTerminal(std::string_view text) {
  std::string shown;
  for (size_t end; (end = text.find('\n')) != text.npos;
       text.remove_prefix(end + 1)) {
    shown += ForTerminal(text.substr(0, end)) + "\n";
  }
  return shown + ForTerminal(text);
}

bool IsForTerminal(std::string_view text) {
  while (!text.empty()) {
    const size_t length = SafeLength(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

}  // namespace carillon::cli

#include "tools/cli/top/grid.h"

namespace carillon::cli::top {

size_t Grid::Put(size_t x, size_t y, std::string_view text, Style style) {
  while (!text.empty()) {
    size_t length = 1;
    while (length < text.size() &&
           (static_cast<unsigned char>(text[length]) & 0xc0) == 0x80) {
      ++length;
    }
    if (x < width_ && y < height_) {
      cells_[y * width_ + x] = {std::string(text.substr(0, length)), style};
    }
    ++x;
    text.remove_prefix(length);
  }
  return x;
}

void Grid::Paint(size_t y, Style style) {
  if (y >= height_) return;
  for (size_t x = 0; x < width_; ++x) cells_[y * width_ + x].style = style;
}

std::string Grid::ToText() const {
  std::string text;
  for (size_t y = 0; y < height_; ++y) {
    std::string line;
    for (size_t x = 0; x < width_; ++x) line += At(x, y).character;
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

}  // namespace carillon::cli::top

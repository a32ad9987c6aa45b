#include "tools/cli/top/grid.h"

#include <utility>

#include "tools/cli/ui/table.h"

namespace carillon::cli::top {

size_t Grid::Put(size_t x, size_t y, std::string_view text, Style style) {
  const auto cell = [&](size_t column) -> Cell& {
    return cells_[y * width_ + column];
  };
  Cell* before = nullptr;  // of the last character, if that is there
  while (!text.empty()) {
    const ShownCharacter one = FirstCharacter(text);
    std::string character(text.substr(0, one.bytes));
    text.remove_prefix(one.bytes);
    if (one.columns == 0) {
      if (before != nullptr) before->character += character;
      continue;
    }
    before = nullptr;
    if (y < height_ && x + one.columns <= width_) {
      before = &cell(x);
      *before = {std::move(character), style};
      for (size_t i = 1; i < one.columns; ++i) cell(x + i) = {"", style};
    } else if (y < height_ && x < width_) {
      cell(x) = {" ", style};  // half of a character cannot be shown
    }
    x += one.columns;
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

// What a terminal shows, before any terminal shows it.
#ifndef CARILLON_TOOLS_CLI_TOP_GRID_H_
#define CARILLON_TOOLS_CLI_TOP_GRID_H_

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace carillon::cli::top {

enum class Style { kPlain, kBold, kBad, kReversed };

struct Cell {
  // UTF-8, with the accents above it; empty: the right half of a wide one.
  std::string character = " ";
  Style style = Style::kPlain;
};

// Cells by column and row, from 0 on. What lies outside is not there.
class Grid {
 public:
  Grid(size_t width, size_t height)
      : width_(width), height_(height), cells_(width * height) {}

  size_t width() const { return width_; }
  size_t height() const { return height_; }
  // x < width(), y < height()
  const Cell& At(size_t x, size_t y) const { return cells_[y * width_ + x]; }

  // Writes UTF-8 text that is safe for a terminal (ForTerminal()); a character
  // takes as many cells as columns. Returns the column behind it.
  size_t Put(size_t x, size_t y, std::string_view text,
             Style style = Style::kPlain);
  // Gives a whole line a style.
  void Paint(size_t y, Style style);

  // Lines without styles and without spaces at their ends.
  std::string ToText() const;

 private:
  size_t width_;
  size_t height_;
  std::vector<Cell> cells_;
};

}  // namespace carillon::cli::top

#endif  // CARILLON_TOOLS_CLI_TOP_GRID_H_

// A terminal that shows grids and gives keys, by ncurses.
#ifndef CARILLON_TOOLS_CLI_TOP_TERMINAL_H_
#define CARILLON_TOOLS_CLI_TOP_TERMINAL_H_

#include <cstddef>
#include <memory>
#include <optional>

#include "absl/status/statusor.h"
#include "tools/cli/top/grid.h"

namespace carillon::cli::top {

// The whole terminal, on its other screen; the destructor gives it back as it
// was. One at a time.
class Terminal {
 public:
  // Takes stdin and stdout. Errors: FailedPrecondition (ncurses does not know
  // what $TERM says, or that cannot move its cursor, as "dumb").
  static absl::StatusOr<std::unique_ptr<Terminal>> Open();
  ~Terminal();
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  // The next key as Settings::Press() has it, if one was pressed. Sees that the
  // size has changed.
  std::optional<int> Key();
  size_t width() const;
  size_t height() const;
  void Show(const Grid& grid);

 private:
  struct Screen;
  explicit Terminal(std::unique_ptr<Screen> screen);

  const std::unique_ptr<Screen> screen_;
};

}  // namespace carillon::cli::top

#endif  // CARILLON_TOOLS_CLI_TOP_TERMINAL_H_

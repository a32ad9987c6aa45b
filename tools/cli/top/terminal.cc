#include "tools/cli/top/terminal.h"

#include <signal.h>
#include <unistd.h>

#include <clocale>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <utility>

#include "base/text.h"
#include "fmt/format.h"
#include "tools/cli/top/screen.h"
#include "tools/cli/ui/terminal_guard.h"

// Last: it defines macros with common names.
#define NCURSES_NOMACROS
#include <ncurses.h>

namespace carillon::cli::top {
namespace {

constexpr short kBadPair = 1;
constexpr int kEscapeMs = 25;

int Attributes(Style style, bool colour) {
  switch (style) {
    case Style::kPlain:
      return A_NORMAL;
    case Style::kBold:
      return A_BOLD;
    case Style::kBad:
      return colour ? COLOR_PAIR(kBadPair) : A_UNDERLINE;
    case Style::kReversed:
      return A_REVERSE;
  }
  return A_NORMAL;
}

bool ColourWanted() {
  const char* no_colour = std::getenv("NO_COLOR");
  return no_colour == nullptr || *no_colour == '\0';
}

// A string of the terminal's description, without the pauses for terminals of
// long ago ("$<5>"); empty where there is none.
std::string CodeOf(const char* name) {
  const char* const code = tigetstr(name);
  if (code == nullptr || code == reinterpret_cast<const char*>(-1)) return "";
  std::string text = code;
  for (size_t at = 0; (at = text.find("$<", at)) != text.npos;) {
    const size_t end = text.find('>', at);
    if (end == text.npos) break;
    text.erase(at, end + 1 - at);
  }
  return text;
}

}  // namespace

struct Terminal::Screen {
  SCREEN* screen = nullptr;
  bool colour = false;
  std::optional<TerminalGuard> guard;
};

absl::StatusOr<std::unique_ptr<Terminal>> Terminal::Open() {
  // So that ncurses takes UTF-8.
  std::setlocale(LC_CTYPE, "");
  auto screen = std::make_unique<Screen>();
  // Before ncurses changes the modes, and leaves the shell's screen.
  screen->guard.emplace(STDOUT_FILENO, "");
  screen->screen = newterm(nullptr, stdout, stdin);
  if (screen->screen == nullptr) {
    const char* const term = std::getenv("TERM");
    return absl::FailedPreconditionError(fmt::format(
        "ncurses does not know the terminal of TERM={}; for plain text: "
        "carillon top --frames 1",
        Quote(term == nullptr ? "" : term)));
  }
  set_term(screen->screen);
  if (CodeOf("cup").empty()) {
    endwin();
    delscreen(screen->screen);
    return absl::FailedPreconditionError(fmt::format(
        "the terminal of TERM={} cannot move its cursor; for plain text: "
        "carillon top --frames 1",
        Quote(std::getenv("TERM"))));
  }
  std::string leave;
  for (const char* const code : {"sgr0", "cnorm", "rmkx", "rmcup"}) {
    leave += CodeOf(code);
  }
  screen->guard->Leave(leave);
  return std::unique_ptr<Terminal>(new Terminal(std::move(screen)));
}

Terminal::Terminal(std::unique_ptr<Screen> screen)
    : screen_(std::move(screen)) {
  cbreak();
  noecho();
  curs_set(0);
  keypad(stdscr, true);
  nodelay(stdscr, true);
  set_escdelay(kEscapeMs);
  // Ctrl-\ would leave the terminal as it is now.
  signal(SIGQUIT, SIG_IGN);
  screen_->colour = has_colors() && ColourWanted() && start_color() == OK;
  if (screen_->colour) {
    use_default_colors();
    init_pair(kBadPair, COLOR_RED, -1);
  }
}

Terminal::~Terminal() {
  endwin();
  delscreen(screen_->screen);
}

std::optional<int> Terminal::Key() {
  const int key = getch();
  switch (key) {
    case ERR:
    case KEY_RESIZE:
      return std::nullopt;
    case KEY_UP:
      return kUp;
    case KEY_DOWN:
      return kDown;
    case KEY_PPAGE:
      return kPageUp;
    case KEY_NPAGE:
      return kPageDown;
    case KEY_ENTER:
      return '\n';
    case KEY_BACKSPACE:
    case '\b':
    case 0x7f:
      return kBackspace;
    case 0x1b:
      return kEscape;
    default:
      return key;
  }
}

size_t Terminal::width() const { return static_cast<size_t>(COLS); }
size_t Terminal::height() const { return static_cast<size_t>(LINES); }

void Terminal::Show(const Grid& grid) {
  erase();
  for (size_t y = 0; y < grid.height(); ++y) {
    for (size_t x = 0; x < grid.width();) {
      const Style style = grid.At(x, y).style;
      std::string run;
      const size_t begin = x;
      for (; x < grid.width() && grid.At(x, y).style == style; ++x) {
        run += grid.At(x, y).character;
      }
      attrset(Attributes(style, screen_->colour));
      mvaddstr(static_cast<int>(y), static_cast<int>(begin), run.c_str());
    }
  }
  attrset(A_NORMAL);
  refresh();
}

}  // namespace carillon::cli::top

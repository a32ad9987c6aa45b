// Text from outside, for a terminal.
#ifndef CARILLON_TOOLS_CLI_UI_TERMINAL_TEXT_H_
#define CARILLON_TOOLS_CLI_UI_TERMINAL_TEXT_H_

#include <string>
#include <string_view>

namespace carillon::cli {

// `text` with each byte that would steer a terminal written like "\x1b", and two
// spaces for a tab. What steers: control characters, what is no UTF-8 (also
// overlong forms and surrogates), and what turns the direction of text.
std::string ForTerminal(std::string_view text);

// The same for text of several lines, whose ends stay.
std::string LinesForTerminal(std::string_view text);

// Whether ForTerminal() leaves it as it is.
bool IsForTerminal(std::string_view text);

}  // namespace carillon::cli

#endif  // CARILLON_TOOLS_CLI_UI_TERMINAL_TEXT_H_

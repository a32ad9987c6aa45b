// Ctrl-\ for a command that has drawn over the terminal.
#ifndef CARILLON_TOOLS_CLI_UI_QUIT_SIGNAL_H_
#define CARILLON_TOOLS_CLI_UI_QUIT_SIGNAL_H_

namespace carillon::cli {

// Lets SIGQUIT, until the process ends, do what SIGINT does: the command ends in
// order and gives the terminal back.
void TakeQuitAsInterrupt();

}  // namespace carillon::cli

#endif  // CARILLON_TOOLS_CLI_UI_QUIT_SIGNAL_H_

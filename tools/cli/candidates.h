// What the shell may put in the place of the last word of a command line, from
// the table of commands and what each takes.
#ifndef CARILLON_TOOLS_CLI_CANDIDATES_H_
#define CARILLON_TOOLS_CLI_CANDIDATES_H_

#include <string>
#include <vector>

#include "tools/cli/ui/console.h"

namespace carillon::cli {

struct Candidate {
  std::string word;
  std::string help;  // a line; may be empty
};

struct Candidates {
  std::vector<Candidate> words;
  bool files = false;  // names of files go, too
};

// `words` are the command line so far, without the program's name; the last one
// is being typed, and may be empty. Where bash has cut "--name=x" into three
// words, they count as one. Takes at most a quarter of a second, whatever gpud
// does, and finds nothing where something is wrong. `console` is not written to.
Candidates FindCandidates(std::vector<std::string> words, Console& console);

}  // namespace carillon::cli

#endif  // CARILLON_TOOLS_CLI_CANDIDATES_H_

// The words of a testbed for the shell: its processes, kernels, faults.
#ifndef CARILLON_TOOLS_CLI_TESTBED_WORDS_H_
#define CARILLON_TOOLS_CLI_TESTBED_WORDS_H_

#include <string>
#include <vector>

#include "tools/cli/candidates.h"

namespace carillon::cli {

// What a command line says of its testbed.
struct TestbedChoice {
  std::string name;
  std::string directory;
  bool elsewhere = false;  // a gpud of another machine, which is not asked
};

// What may stand for a TESTBED, PROCESS, DEVICE, LOG, KERNEL, POLICY, FAULT,
// TARGET (of faults), POINT, ACTION, ROLE or BENCHMARK. Nothing for other words,
// where there is no such testbed, and where it does not answer in a quarter of a
// second.
std::vector<Candidate> FindTestbedWords(const std::string& word,
                                        const TestbedChoice& choice);

}  // namespace carillon::cli

#endif  // CARILLON_TOOLS_CLI_TESTBED_WORDS_H_

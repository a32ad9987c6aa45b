// The first line of TestbedPaths::restart_mark(): which gpud makes way for
// another, and what is known of why.
#ifndef CARILLON_BASE_RESTART_RESTART_MARK_H_
#define CARILLON_BASE_RESTART_RESTART_MARK_H_

#include <sys/types.h>

#include <chrono>
#include <fstream>
#include <sstream>
#include <string>

namespace carillon {

struct RestartMark {
  pid_t pid = 0;
  // It has ended the event whose kernel took the GPU away: that one does not run
  // again.
  bool named = false;
  // Before its end it did nothing for so long but wait for the driver.
  std::chrono::milliseconds stood_still{0};

  std::string ToLine() const {
    std::ostringstream line;
    line << pid;
    if (named) line << " named";
    if (stood_still.count() > 0) line << " stood " << stood_still.count();
    return line.str();
  }

  // What cannot be read is not said.
  static RestartMark Read(const std::string& file) {
    RestartMark mark;
    std::ifstream in(file);
    std::string line;
    std::getline(in, line);
    std::istringstream words(line);
    if (!(words >> mark.pid)) mark.pid = 0;
    for (std::string word; words >> word;) {
      std::chrono::milliseconds::rep ms = 0;
      if (word == "named") mark.named = true;
      if (word == "stood" && words >> ms && ms > 0) {
        mark.stood_still = std::chrono::milliseconds(ms);
      }
    }
    return mark;
  }
};

}  // namespace carillon

#endif  // CARILLON_BASE_RESTART_RESTART_MARK_H_

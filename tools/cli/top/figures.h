// Makes the figures of `carillon top`: of pictures, of what the supervisor
// knows, and of /proc.
#ifndef CARILLON_TOOLS_CLI_TOP_FIGURES_H_
#define CARILLON_TOOLS_CLI_TOP_FIGURES_H_

#include <cstdint>
#include <map>
#include <vector>

#include "tools/cli/top/screen.h"
#include "tools/testbed/client/snapshot_picture.h"
#include "tools/testbed/client/snapshot_rates.h"
#include "tools/testbed/supervisor/testbeds.h"

namespace carillon::cli::top {

// Puts what gpud says into `figures`: all but testbed, notice, and what
// ProcessLooker knows of processes, which it lists by their devices.
void ShowPicture(const testbed::SnapshotPicture& picture,
                 const testbed::SnapshotRates& rates, Figures* figures);

// Looks at the processes of a testbed of this machine; of one elsewhere it knows
// nothing.
class ProcessLooker {
 public:
  // Joins the devices in `figures` with the testbed's processes, and tells how
  // much CPU time each has used since the last look.
  void Look(const testbed::Testbed& testbed, Figures* figures);

 private:
  struct Used {
    uint64_t start_ticks = 0;
    uint64_t cpu_ns = 0;
  };

  void Add(const testbed::ProcessFacts& facts, uint64_t since_ns,
           Process* process);

  uint64_t looked_ns_ = 0;
  std::map<pid_t, Used> last_;
  std::map<pid_t, Used> now_;
};

}  // namespace carillon::cli::top

#endif  // CARILLON_TOOLS_CLI_TOP_FIGURES_H_

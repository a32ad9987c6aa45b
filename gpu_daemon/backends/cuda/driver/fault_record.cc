#include "gpu_daemon/backends/cuda/driver/fault_record.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <sstream>
#include <utility>

#include "fmt/format.h"

namespace carillon::gpud::cuda {

FaultRecord::FaultRecord(std::string file) : file_(std::move(file)) {
  if (file_.empty()) return;
  // A device's name has no spaces.
  std::ifstream in(file_);
  std::string line;
  std::getline(in, line);  // the mark
  while (std::getline(in, line)) {
    RunId run;
    std::istringstream words(line);
    if (words >> run.event_id >> run.sequence >> run.owner >> run.device) {
      before_.push_back(std::move(run));
    }
  }
  std::ranges::sort(before_);
}

std::vector<RunId> FaultRecord::Blame(std::span<const RunId> ran) const {
  std::vector<RunId> blamed;
  const bool all = file_.empty() || ran.size() == 1;
  for (const RunId& run : ran) {
    if (run.is_event() && (all || std::ranges::binary_search(before_, run))) {
      blamed.push_back(run);
    }
  }
  return blamed;
}

absl::Status FaultRecord::Note(std::span<const RunId> ran,
                               RestartMark mark) const {
  if (file_.empty()) return absl::OkStatus();
  std::ofstream out(file_, std::ios::trunc);
  mark.pid = getpid();
  out << mark.ToLine() << '\n';
  const bool none = std::ranges::none_of(ran, &RunId::is_event);
  for (const RunId& run : none ? std::span(before_) : ran) {
    if (run.is_event()) {
      out << run.event_id << ' ' << run.sequence << ' ' << run.owner << ' '
          << run.device << '\n';
    }
  }
  out.close();
  // Devices of other users read it, too, whatever the umask is.
  if (out && chmod(file_.c_str(), 0644) == 0) return absl::OkStatus();
  return absl::ErrnoToStatus(errno, fmt::format("cannot write {}", file_));
}

}  // namespace carillon::gpud::cuda

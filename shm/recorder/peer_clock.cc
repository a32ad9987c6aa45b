#include "shm/recorder/peer_clock.h"

#include <fstream>
#include <sstream>

#include "base/results/whole_file.h"
#include "fmt/format.h"

namespace carillon::shm {
namespace {

constexpr char kFile[] = "/peer.clock";
constexpr size_t kMaxName = 64;
// About 30 years: sums of times stay times.
constexpr int64_t kMaxOffset = int64_t{1} << 60;

}  // namespace

absl::Status WritePeerClock(const std::string& directory,
                            const PeerClock& clock) {
  return ReplaceFile(directory + kFile,
                     fmt::format("{} {} {} {}\n", clock.host, clock.peer,
                                 clock.offset_ns, clock.error_ns),
                     0600);
}

absl::StatusOr<std::optional<PeerClock>> ReadPeerClock(
    const std::string& directory) {
  std::ifstream file(directory + kFile);
  if (!file) return std::nullopt;
  PeerClock clock;
  std::string more;
  const bool read = static_cast<bool>(file >> clock.host >> clock.peer >>
                                      clock.offset_ns >> clock.error_ns);
  if (!read || file >> more || clock.host.size() > kMaxName ||
      clock.peer.size() > kMaxName || clock.offset_ns > kMaxOffset ||
      clock.offset_ns < -kMaxOffset) {
    return absl::InvalidArgumentError(fmt::format(
        "{}{} is no clock of a link: it is \"HOST PEER OFFSET ERROR\", in ns",
        directory, kFile));
  }
  return clock;
}

}  // namespace carillon::shm

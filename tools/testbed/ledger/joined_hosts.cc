#include "tools/testbed/ledger/joined_hosts.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

#include "absl/status/status.h"
#include "base/status.h"
#include "base/testbed_paths.h"

namespace carillon::testbed {
namespace {

// Times of the GPU's host; those before its beginning are 1.
Nanoseconds Shifted(Nanoseconds time, int64_t offset) {
  const int64_t shifted = static_cast<int64_t>(time) + offset;
  return static_cast<Nanoseconds>(std::max<int64_t>(shifted, 1));
}

void MoveTo(const std::string& host, int64_t offset, Timeline* timeline) {
  for (shm::FlightRecording& recording : timeline->recordings) {
    recording.name = fmt::format("{}/{}", host, recording.name);
    for (shm::FlightRecord& record : recording.records) {
      record.time_ns = Shifted(record.time_ns, offset);
    }
  }
  for (StruckStep& strike : timeline->strikes) {
    strike.time_ns = Shifted(strike.time_ns, offset);
    if (!strike.process.empty()) {
      strike.process = fmt::format("{}/{}", host, strike.process);
    }
  }
  for (ledger::RingReport& ring : timeline->report.rings) {
    ring.device = fmt::format("{}/{}", host, ring.device);
  }
  for (std::string& sentence : timeline->unreadable) {
    sentence = fmt::format("{}: {}", host, sentence);
  }
  for (ledger::Violation& violation : timeline->report.violations) {
    violation.sentence = fmt::format("{}: {}", host, violation.sentence);
  }
}

// Leaves the ring's events to the host that they are of.
void Discount(const ledger::Counts& ring, ledger::Counts* total) {
  total->ok -= ring.ok;
  total->failed -= ring.failed;
  for (size_t i = 0; i < ledger::kUnknowns; ++i) {
    total->unknown[i] -= ring.unknown[i];
  }
  total->untaken -= ring.untaken;
  total->unconfirmed -= ring.unconfirmed;
}

void Append(Timeline from, Timeline* to) {
  const size_t first = to->recordings.size();
  std::ranges::move(from.recordings, std::back_inserter(to->recordings));
  std::ranges::move(from.unreadable, std::back_inserter(to->unreadable));
  std::ranges::move(from.strikes, std::back_inserter(to->strikes));
  std::ranges::move(from.report.rings, std::back_inserter(to->report.rings));
  for (ledger::Violation& violation : from.report.violations) {
    violation.at.recording += first;
    to->report.violations.push_back(std::move(violation));
  }
  to->report.total += from.report.total;
  to->report.overwritten += from.report.overwritten;
}

absl::Status CheckHosts(const std::vector<HostTimeline>& hosts) {
  std::string without;
  const HostTimeline* first = nullptr;
  std::set<std::string> names;
  for (const HostTimeline& host : hosts) {
    if (!host.clock) {
      if (!without.empty()) {
        return absl::FailedPreconditionError(fmt::format(
            "neither {} nor {} has a link's clock (recorder/peer.clock): each "
            "host but the GPU's needs one, which its gpud writes while it "
            "records",
            without, host.directory));
      }
      without = host.directory;
      continue;
    }
    if (first == nullptr) first = &host;
    if (host.clock->peer != first->clock->peer ||
        !names.insert(host.clock->host).second) {
      return absl::FailedPreconditionError(fmt::format(
          "{} is of host {}, whose link is to {}, and {} of host {}, whose "
          "link is to {}: give each host once, and all of one GPU",
          first->directory, first->clock->host, first->clock->peer,
          host.directory, host.clock->host, host.clock->peer));
    }
  }
  if (without.empty()) {
    return absl::FailedPreconditionError(fmt::format(
        "the directory of host {}, which has the GPU, is not among them",
        first->clock->peer));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<HostTimeline> ReadHostTimeline(const std::string& directory) {
  const TestbedPaths paths(directory);
  ASSIGN_OR_RETURN(auto clock, shm::ReadPeerClock(paths.recorder_directory()));
  return HostTimeline{.directory = directory,
                      .timeline = ReadTimeline(directory, paths),
                      .clock = std::move(clock)};
}

absl::StatusOr<Timeline> JoinHosts(std::vector<HostTimeline> hosts) {
  RETURN_IF_ERROR(CheckHosts(hosts));
  std::set<std::string> devices;  // of the hosts without the GPU
  std::string gpu_host;
  for (const HostTimeline& host : hosts) {
    if (!host.clock) continue;
    gpu_host = host.clock->peer;
    for (const ledger::RingReport& ring : host.timeline.report.rings) {
      devices.insert(ring.device);
    }
  }
  Timeline joined;
  for (HostTimeline& host : hosts) {
    Timeline& timeline = host.timeline;
    const std::string name = host.clock ? host.clock->host : gpu_host;
    const int64_t offset = host.clock ? host.clock->offset_ns : 0;
    if (!host.clock) {
      joined.realtime_offset_ns = timeline.realtime_offset_ns;
      for (const ledger::RingReport& ring : timeline.report.rings) {
        if (devices.contains(ring.device)) {
          Discount(ring.counts, &timeline.report.total);
        }
      }
    } else {
      joined.clocks.push_back(*host.clock);
    }
    if (!joined.testbed.empty()) joined.testbed += ", ";
    joined.testbed += timeline.testbed;
    MoveTo(name, offset, &timeline);
    Append(std::move(timeline), &joined);
  }
  std::ranges::stable_sort(joined.strikes, {}, &StruckStep::time_ns);
  std::ranges::stable_sort(joined.report.violations, {},
                           [&](const ledger::Violation& violation) {
                             return joined.recordings[violation.at.recording]
                                 .records[violation.at.record]
                                 .time_ns;
                           });
  joined.merged = ledger::MergeByTime(joined.recordings);
  return joined;
}

}  // namespace carillon::testbed

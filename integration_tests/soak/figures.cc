#include "integration_tests/soak/figures.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>

namespace carillon::soak {
namespace {

using shm::FlightRecord;
using shm::FlightRecording;
using shm::Step;

constexpr Nanoseconds kWindow = 100'000'000;
constexpr Nanoseconds kStride = 5'000'000;
constexpr double kFull = 0.9;

bool IsGpud(const FlightRecording& recording) {
  return recording.name == "gpud";
}

// The time from gpud's death to the first of these steps of another gpud.
std::optional<Nanoseconds> UntilNextGpud(ledger::Recordings recordings,
                                         const Death& gpud,
                                         std::initializer_list<Step> steps) {
  std::optional<Nanoseconds> first;
  for (const FlightRecording& recording : recordings) {
    if (!IsGpud(recording) || recording.pid == gpud.pid) continue;
    for (const FlightRecord& record : recording.records) {
      if (record.time_ns < gpud.time_ns) continue;
      if (std::find(steps.begin(), steps.end(), record.step) == steps.end()) {
        continue;
      }
      const Nanoseconds after = record.time_ns - gpud.time_ns;
      if (!first || after < *first) first = after;
    }
  }
  return first;
}

}  // namespace

std::optional<Nanoseconds> UntilGpudClosed(ledger::Recordings recordings,
                                           const Death& device) {
  for (const FlightRecording& recording : recordings) {
    if (!IsGpud(recording)) continue;
    for (const FlightRecord& record : recording.records) {
      if (record.step == Step::kSessionEnded && record.sequence == device.pid &&
          record.time_ns >= device.time_ns) {
        return record.time_ns - device.time_ns;
      }
    }
  }
  return std::nullopt;
}

std::vector<Nanoseconds> UntilDevicesKnew(ledger::Recordings recordings,
                                          const Death& gpud) {
  std::vector<Nanoseconds> knew;
  for (const FlightRecording& recording : recordings) {
    for (const FlightRecord& record : recording.records) {
      if (record.step == Step::kClosed && record.sequence == gpud.pid &&
          record.time_ns >= gpud.time_ns) {
        knew.push_back(record.time_ns - gpud.time_ns);
        break;
      }
    }
  }
  return knew;
}

std::optional<Nanoseconds> UntilFirstSession(ledger::Recordings recordings,
                                             const Death& gpud) {
  return UntilNextGpud(recordings, gpud, {Step::kSessionBegan});
}

std::optional<Nanoseconds> UntilFirstEnd(ledger::Recordings recordings,
                                         const Death& gpud) {
  return UntilNextGpud(recordings, gpud, {Step::kEnded, Step::kEndNoted});
}

std::optional<Nanoseconds> UntilFullRate(ledger::Recordings recordings,
                                         const Death& death,
                                         int windows_before) {
  std::vector<Nanoseconds> taken;
  Nanoseconds end = 0;
  for (const FlightRecording& recording : recordings) {
    for (const FlightRecord& record : recording.records) {
      if (record.step == Step::kTaken) taken.push_back(record.time_ns);
      end = std::max(end, record.time_ns);
    }
  }
  std::sort(taken.begin(), taken.end());
  const auto in_window = [&](Nanoseconds start) {
    return static_cast<double>(
        std::lower_bound(taken.begin(), taken.end(), start + kWindow) -
        std::lower_bound(taken.begin(), taken.end(), start));
  };
  Sample before;
  for (int i = 1; i <= windows_before; ++i) {
    before.Add(in_window(death.time_ns - i * kWindow));
  }
  if (before.median() == 0) return std::nullopt;
  for (Nanoseconds start = death.time_ns; start + kWindow <= end;
       start += kStride) {
    if (in_window(start) >= kFull * before.median()) {
      return start + kWindow - death.time_ns;
    }
  }
  return std::nullopt;
}

double Sample::Percentile(double share) const {
  if (values.empty()) return 0;
  std::vector<double> sorted = values;
  std::sort(sorted.begin(), sorted.end());
  const double rank = std::ceil(share * static_cast<double>(sorted.size()));
  return sorted[static_cast<size_t>(std::max(rank, 1.0)) - 1];
}

}  // namespace carillon::soak

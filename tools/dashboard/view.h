// What the dashboard's routes ask of a testbed, and have it do.
#ifndef CARILLON_TOOLS_DASHBOARD_VIEW_H_
#define CARILLON_TOOLS_DASHBOARD_VIEW_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/json.h"
#include "shm/faults/fault.h"
#include "tools/dashboard/http_message.h"

namespace carillon::dashboard {

// The testbed at a moment, as JSON in one line.
struct Picture {
  uint64_t number = 0;  // later ones have greater ones; 0: none yet
  SharedText json;
};

// Thread safe. Everything but Newest() may take as long as gpud, the supervisor
// or the disk takes, at most some seconds (Restart(): a minute).
class View {
 public:
  virtual ~View() = default;

  virtual Picture Newest() const = 0;
  // Of the last `seconds`, one a second, oldest first: texts of JSON.
  virtual std::vector<SharedText> History(uint64_t seconds) const = 0;
  // The last `lines` of all logs, by time.
  virtual Json Logs(size_t lines) = 0;
  virtual absl::StatusOr<Json> Faults() = 0;
  // What the flight recorders tell, and whether it holds: {"testbed", "verdict",
  // "events", "violations", "steps", "earlier_steps", "strikes", "unreadable"}.
  virtual absl::StatusOr<Json> Story() = 0;
  // The recorders' last `seconds`, for Perfetto.
  virtual absl::StatusOr<SharedFile> Trace(uint64_t seconds) = 0;
  // In Prometheus' text format.
  virtual std::string Metrics() = 0;

  virtual absl::StatusOr<Json> Inject(const faults::Fault& fault) = 0;
  // Empty: all.
  virtual absl::StatusOr<Json> Clear(const std::string& fault) = 0;
  virtual absl::StatusOr<Json> SetPolicy(const std::string& policy) = 0;
  virtual absl::StatusOr<Json> SetTracing(bool on) = 0;
  virtual absl::StatusOr<Json> Restart(const std::string& process,
                                       bool kill) = 0;
};

}  // namespace carillon::dashboard

#endif  // CARILLON_TOOLS_DASHBOARD_VIEW_H_

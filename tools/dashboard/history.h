// The last ten minutes of a testbed, one text a second, in bounded memory.
#ifndef CARILLON_TOOLS_DASHBOARD_HISTORY_H_
#define CARILLON_TOOLS_DASHBOARD_HISTORY_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "tools/dashboard/http_message.h"

namespace carillon::dashboard {

struct HistoryLimits {
  uint64_t seconds = 600;
  size_t bytes = 64 << 20;  // of texts, with what each costs beside them
};

// Not thread safe.
class History {
 public:
  // What a text costs beside its bytes.
  static constexpr size_t kOverhead = 128;

  explicit History(HistoryLimits limits = HistoryLimits()) : limits_(limits) {}

  // Forgets the oldest texts beyond the limits: a text that is too long alone is
  // forgotten, too. `now_ns` never goes back.
  void Add(uint64_t now_ns, std::string text);
  // Those since `seconds` ago, oldest first.
  std::vector<SharedText> Last(uint64_t now_ns, uint64_t seconds) const;

  size_t bytes() const { return bytes_; }
  size_t size() const { return texts_.size(); }

 private:
  struct Entry {
    uint64_t time_ns;
    SharedText text;
  };

  const HistoryLimits limits_;
  std::deque<Entry> texts_;
  size_t bytes_ = 0;
};

}  // namespace carillon::dashboard

#endif  // CARILLON_TOOLS_DASHBOARD_HISTORY_H_

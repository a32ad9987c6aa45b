// Asks a dashboard for what the page asks it for, as a browser would: what it
// takes of the machine is not counted, so it only throws pictures away.
#ifndef CARILLON_TOOLS_BENCH_DASHBOARD_PAGE_READER_H_
#define CARILLON_TOOLS_BENCH_DASHBOARD_PAGE_READER_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "absl/status/statusor.h"
#include "base/unique_fd.h"

namespace carillon::bench {

struct DashboardLink {
  // Of a line that a dashboard prints: "viewer  http://127.0.0.1:81/#token=ab".
  // Errors: Internal (it is no such line).
  static absl::StatusOr<DashboardLink> Read(std::string_view line);

  uint16_t port = 0;
  std::string token;
};

// How many bytes an answer has, all of which are read. Errors: Unavailable,
// Internal (it is not 200, and what it says).
absl::StatusOr<uint64_t> Get(const DashboardLink& link,
                             std::string_view target);

// An open page: reads the stream in a thread of its own until it is destroyed.
class OpenPage {
 public:
  // When the page's frame, the history and the first picture have come. Errors:
  // as Get().
  static absl::StatusOr<std::unique_ptr<OpenPage>> Open(
      const DashboardLink& link);
  ~OpenPage();

  // From the beginning of Open() to its end, ms.
  double first_data_ms() const { return first_data_ms_; }
  // So far.
  uint64_t pictures() const { return pictures_; }

 private:
  explicit OpenPage(UniqueFd stream) : stream_(std::move(stream)) {}
  // Until there is one picture; then, in the thread, until the stream ends.
  bool ReadSome();

  UniqueFd stream_;
  double first_data_ms_ = 0;
  std::string tail_;  // what may begin a picture's mark
  // Writer: whoever reads the stream; reader: the bench. Relaxed: only a count.
  std::atomic<uint64_t> pictures_{0};
  std::thread thread_;
};

}  // namespace carillon::bench

#endif  // CARILLON_TOOLS_BENCH_DASHBOARD_PAGE_READER_H_

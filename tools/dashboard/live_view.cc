#include "tools/dashboard/live_view.h"

#include <fmt/format.h>
#include <poll.h>
#include <time.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <system_error>
#include <utility>

#include "base/clock.h"
#include "base/status.h"
#include "base/text.h"
#include "tools/cli/commands/testbed/log_files.h"
#include "tools/cli/ui/proto_json.h"
#include "tools/testbed/supervisor/directory.h"
#include "tools/testbed/supervisor/process_identity.h"
#include "tools/testbed/supervisor/restart_request.h"
#include "tools/testbed/supervisor/supervisor_socket.h"

namespace carillon::dashboard {
namespace {

constexpr uint32_t kQuickMs = 100;
constexpr uint32_t kSlowMs = 1000;
constexpr uint64_t kSecond = 1'000'000'000;
// Without a picture for this long beyond its interval, gpud is silent.
constexpr uint64_t kSilentNs = 700'000'000;
constexpr size_t kPeakSeconds = 15;
// A page asks for the logs every two seconds, and a device may write anything.
constexpr off_t kMaxLogRead = 256 << 10;  // of each process
constexpr size_t kMaxLogLine = 512;
constexpr int kLookAgainMs = 50;
constexpr int kAfterRefusalMs = 500;
// How often a picture is made while gpud is gone.
constexpr uint64_t kGoneNs = 500'000'000;
// What comes a little early is not kept for another interval.
constexpr uint64_t kEarlyNs = 50'000'000;

uint64_t RealTimeNs() {
  timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return static_cast<uint64_t>(now.tv_sec) * kSecond + now.tv_nsec;
}

bool HasRecordings(const std::string& folder) {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    if (entry.path().extension() == ".rec") return true;
  }
  return false;
}

std::string Dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

LiveView::LiveView(testbed::Testbed testbed, std::string program,
                   std::function<void()> changed)
    : testbed_(std::move(testbed)),
      changed_(std::move(changed)),
      client_(testbed_.paths),
      recorders_(std::move(program), testbed_) {
  sight_.testbed = testbed_.name;
  thread_ = std::thread([this] { Follow(); });
}

LiveView::~LiveView() {
  stop_ = true;
  thread_.join();
}

uint32_t LiveView::Interval() const {
  return readers_ > 0 ? kQuickMs : kSlowMs;
}

void LiveView::Follow() {
  while (!stop_) {
    const absl::Status status = FollowOnce();
    if (stop_) return;
    if (status.ok()) continue;  // another interval
    rates_ = testbed::SnapshotRates();
    rated_ns_ = 0;
    // gpud ends its calls when it is told to end.
    const std::string why(absl::IsCancelled(status) ? "it was told to end"
                                                    : status.message());
    if (client_.CheckHealth().ok()) {
      // Too many read figures already, for example: `why` says what to do.
      Publish(GpudState::kSilent,
              fmt::format("gpud serves, but sends the dashboard no figures: "
                          "{}. It is asked again twice a second",
                          why));
      poll(nullptr, 0, kAfterRefusalMs);
      continue;
    }
    Publish(GpudState::kGone, why);
    uint64_t published = NowNs();
    while (!stop_ && !client_.CheckHealth().ok()) {
      poll(nullptr, 0, kLookAgainMs);
      if (NowNs() - published < kGoneNs) continue;
      Publish(GpudState::kGone, why);
      published = NowNs();
    }
  }
}

absl::Status LiveView::FollowOnce() {
  const uint32_t interval = Interval();
  v1::StreamSnapshotsRequest request;
  request.set_interval_ms(interval);
  request.set_histograms_ms(kSlowMs);
  testbed::SnapshotPicture snapshot;
  absl::Status wrong;
  uint64_t last = NowNs();
  bool silent = false;
  const absl::Status status =
      client_.StreamSnapshots(request, [&](const v1::Snapshot* message) {
        if (stop_) return false;
        const uint64_t now = NowNs();
        if (message != nullptr) {
          wrong = snapshot.Apply(*message);
          if (!wrong.ok()) return false;
          {
            const MutexLock lock(mutex_);
            sight_.snapshot = snapshot;
            LookAtRates();
          }
          last = now;
          silent = false;
          Publish(GpudState::kLive, "");
        } else if (now - last > interval * 1'000'000ull + kSilentNs) {
          // Once a second: what is around goes on.
          last = now - interval * 1'000'000ull;
          silent = true;
          Publish(GpudState::kSilent,
                  "gpud sends nothing: it is stopped, or has no time");
        }
        return silent || Interval() == interval;
      });
  return wrong.ok() ? status : wrong;
}

// What changes seldom, or is dear to find out. Files may keep it waiting, and
// nobody else with it.
void LiveView::LookAround() {
  auto state = testbed::ReadState(testbed_.paths.state_file());
  const bool supervised = testbed::SupervisorOf(testbed_.paths).has_value();
  std::map<std::string, testbed::ProcessFacts> facts;
  if (state.ok()) {
    for (const testbed::ProcessRecord& record : state->processes) {
      if (const auto found = testbed::LookAtLiving(record.identity)) {
        facts[record.name] = *found;
      }
    }
  }
  std::optional<testbed::BoardView> seen;
  if (const auto board = OpenBoard(); board.ok()) {
    if (auto view = (*board)->Look(); view.ok()) seen = *std::move(view);
  }
  const bool recorded = HasRecordings(testbed_.paths.recorder_directory());
  const MutexLock lock(mutex_);
  // Where the testbed has been taken down, its last state says more than none.
  if (state.ok()) sight_.state = *std::move(state);
  sight_.facts = std::move(facts);
  sight_.supervised = supervised;
  sight_.board = std::move(seen);
  sight_.recorded = recorded;
}

void LiveView::LookAtRates() {
  const uint64_t now = sight_.snapshot.monotonic_ns();
  if (rated_ns_ != 0 && now + kEarlyNs < rated_ns_ + kSecond) return;
  rated_ns_ = now;
  rates_.Look(sight_.snapshot);
  sight_.rates.clear();
  sight_.latencies.clear();
  for (const auto& [index, event] : sight_.snapshot.event_kernels()) {
    if (const auto rate = rates_.OfRing(index)) sight_.rates[index] = *rate;
    const v1::Histogram latencies = rates_.Latencies(index);
    if (latencies.bucket_size() == 0) continue;
    const shm::HistogramSnapshot histogram = cli::ToSnapshot(latencies);
    sight_.latencies[index] = {histogram.Percentile(0.5),
                               histogram.Percentile(0.99)};
  }
}

void LiveView::NotePeaks() {
  Peaks& peaks = peaks_.back();
  for (const auto& [index, event] : sight_.snapshot.event_kernels()) {
    uint32_t& peak = peaks[{event.ring.device(), event.ring.event_id()}];
    peak = std::max(peak, event.peak);
  }
}

void LiveView::Publish(GpudState gpud, const std::string& note) {
  const uint64_t now = NowNs();
  if (gpud != shown_ || now - looked_ns_ >= kSecond) {
    LookAround();
    looked_ns_ = now;
    shown_ = gpud;
  }
  {
    const MutexLock lock(mutex_);
    sight_.gpud = gpud;
    sight_.gpud_note = note;
    sight_.time_ns = RealTimeNs();
    if (peaks_.empty()) peaks_.emplace_back();
    if (gpud == GpudState::kLive) NotePeaks();
    if (now - kept_ns_ >= kSecond - kEarlyNs) {
      history_.Add(now, Dump(PictureForHistory(sight_, peaks_.back())));
      kept_ns_ = now;
      peaks_.emplace_back();
      if (peaks_.size() > kPeakSeconds) peaks_.pop_front();
    }
    newest_ = {newest_.number + 1,
               std::make_shared<std::string>(Dump(PictureToJson(sight_)))};
  }
  changed_();
}

Picture LiveView::Newest() const {
  const MutexLock lock(mutex_);
  return newest_;
}

std::vector<SharedText> LiveView::History(uint64_t seconds) const {
  const MutexLock lock(mutex_);
  return history_.Last(NowNs(), seconds);
}

Json LiveView::Logs(size_t lines) {
  const std::string& folder = testbed_.paths.log_directory();
  std::vector<std::vector<cli::LogEntry>> logs;
  for (const std::string& name : cli::LogNames(folder)) {
    logs.push_back(
        cli::LogFile(folder, name, kMaxLogLine).ReadLast(lines, kMaxLogRead));
  }
  const std::vector<cli::LogEntry> all = cli::MergeByTime(std::move(logs));
  Json json = {{"lines", Json::array()}};
  for (size_t i = all.size() - std::min(all.size(), lines); i < all.size();
       ++i) {
    const cli::LogEntry& entry = all[i];
    json["lines"].push_back(
        {{"time_ns", entry.time_ns ? Json(*entry.time_ns) : Json(nullptr)},
         {"process", entry.process},
         {"level", entry.level},
         {"line", entry.line}});
  }
  return json;
}

absl::StatusOr<std::unique_ptr<testbed::FaultBoard>> LiveView::OpenBoard()
    const {
  ASSIGN_OR_RETURN(auto board, testbed::OpenBoardOf(testbed_.paths));
  return testbed::LocalFaultBoard(std::move(board));
}

absl::StatusOr<Json> LiveView::Faults() {
  ASSIGN_OR_RETURN(const auto board, OpenBoard());
  ASSIGN_OR_RETURN(const auto looked, board->Look());
  const testbed::BoardView& view = looked;
  Json json = {{"faults", Json::array()},
               {"struck", view.struck},
               {"processes", testbed::ProcessNames(testbed_, view)}};
  for (const faults::Injected& injected : view.faults) {
    json["faults"].push_back(testbed::ToJson(injected));
  }
  return json;
}

absl::StatusOr<Json> LiveView::Story() { return recorders_.Story(); }

absl::StatusOr<SharedFile> LiveView::Trace(uint64_t seconds) {
  return recorders_.Trace(seconds);
}

std::string LiveView::Metrics() {
  const MutexLock lock(mutex_);
  Peaks highest;
  for (const Peaks& second : peaks_) {
    for (const auto& [ring, peak] : second) {
      highest[ring] = std::max(highest[ring], peak);
    }
  }
  return ToMetrics(sight_, highest);
}

absl::StatusOr<Json> LiveView::Inject(const faults::Fault& fault) {
  ASSIGN_OR_RETURN(const auto board, OpenBoard());
  ASSIGN_OR_RETURN(const auto view, board->Look());
  RETURN_IF_ERROR(testbed::CheckProcess(fault.process, testbed_, view));
  ASSIGN_OR_RETURN(const auto injected, board->Inject({fault}));
  return Json{{"ids", injected.ids}, {"behind", injected.late}};
}

absl::StatusOr<Json> LiveView::Clear(const std::string& fault) {
  ASSIGN_OR_RETURN(const auto board, OpenBoard());
  if (fault.empty()) {
    ASSIGN_OR_RETURN(const size_t cleared, board->ClearAll());
    return Json{{"cleared", cleared}};
  }
  RETURN_IF_ERROR(board->Clear(fault));
  return Json{{"cleared", 1}};
}

absl::StatusOr<Json> LiveView::SetPolicy(const std::string& policy) {
  ASSIGN_OR_RETURN(const auto previous, client_.SetPolicy(policy));
  return Json{{"previous", previous}};
}

absl::StatusOr<Json> LiveView::SetTracing(bool on) {
  RETURN_IF_ERROR(client_.SetTracing(on));
  return Json{{"tracing", on}};
}

absl::StatusOr<Json> LiveView::Restart(const std::string& process, bool kill) {
  return testbed::AskSupervisor(
      {.socket = testbed::SupervisorSocketOf(testbed_.paths),
       .request = testbed::ToJson(
           testbed::RestartRequest{.processes = {process}, .kill = kill}),
       .say = [](const std::string&) {}});
}

}  // namespace carillon::dashboard

#include "tools/dashboard/recorder_reader.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>

#include "absl/cleanup/cleanup.h"
#include "base/read_file.h"
#include "base/status.h"
#include "base/subprocess.h"
#include "base/text.h"
#include "tools/testbed/ledger/checker.h"
#include "tools/testbed/ledger/timeline_view.h"
#include "tools/testbed/perfetto/timeline_trace.h"
#include "tools/testbed/perfetto/trace_writer.h"

namespace carillon::dashboard {
namespace {

constexpr uint64_t kSecond = 1'000'000'000;
constexpr size_t kStorySteps = 400;
constexpr rlim_t kMostTraceBytes = 256 << 20;
constexpr std::chrono::minutes kMostTime{2};

// One reads, and one waits.
constexpr int kMostReads = 2;

// Without a name nothing is left of a dashboard that is killed. Errors:
// ResourceExhausted.
absl::StatusOr<UniqueFd> MakeNamelessFile() {
  FILE* const file = tmpfile();
  UniqueFd fd(file == nullptr ? -1 : fcntl(fileno(file), F_DUPFD_CLOEXEC, 0));
  const int error = errno;
  if (file != nullptr) fclose(file);
  if (fd) return fd;
  return absl::ResourceExhaustedError(
      fmt::format("cannot make a file in /tmp: {}", std::strerror(error)));
}

// What this process writes ends at the most that the dashboard sends, and a
// write beyond that is an error. Returns the bound.
rlim_t BoundFiles() {
  signal(SIGXFSZ, SIG_IGN);
  rlimit limit;
  if (getrlimit(RLIMIT_FSIZE, &limit) != 0) return kMostTraceBytes;
  limit.rlim_cur = std::min(limit.rlim_cur, kMostTraceBytes);
  setrlimit(RLIMIT_FSIZE, &limit);
  return limit.rlim_cur;
}

absl::Status CheckRecorded(const testbed::Timeline& timeline) {
  if (!timeline.recordings.empty()) return absl::OkStatus();
  return WithHint(absl::NotFoundError("nothing is recorded"),
                  "record: 4096 in the topology has all processes record");
}

absl::StatusOr<Json> TellStory(const testbed::Testbed& testbed) {
  const testbed::Timeline timeline =
      testbed::ReadTimeline(testbed.name, testbed.paths);
  RETURN_IF_ERROR(CheckRecorded(timeline));
  const auto steps = testbed::LastSteps(timeline, kStorySteps);
  Json json = {{"testbed", testbed.name},
               {"verdict", ledger::VerdictName(timeline.report.verdict())},
               {"realtime_offset_ns", timeline.realtime_offset_ns},
               {"events", testbed::EventsJson(timeline.report.total)},
               {"violations", testbed::ViolationsJson(timeline)},
               {"steps", testbed::StepsJson(timeline, steps)},
               {"earlier_steps", timeline.merged.size() - steps.size()},
               {"strikes", Json::array()},
               {"unreadable", timeline.unreadable}};
  for (const testbed::StruckStep& strike : timeline.strikes) {
    json["strikes"].push_back({{"time_ns", strike.time_ns},
                               {"fault", strike.fault},
                               {"process", strike.process},
                               {"pid", strike.pid}});
  }
  return json;
}

absl::StatusOr<Json> WriteTrace(const testbed::Testbed& testbed, int file,
                                uint64_t seconds) {
  testbed::Timeline timeline = testbed::ReadSteps(testbed.name, testbed.paths);
  RETURN_IF_ERROR(CheckRecorded(timeline));
  // It would show events that nobody ends.
  if (!timeline.unreadable.empty()) {
    return absl::FailedPreconditionError(JoinWords(timeline.unreadable));
  }
  const uint64_t made = timeline.recordings.front().made_ns;
  const auto writer = perfetto::TraceWriter::CreateIn(
      UniqueFd(file),
      perfetto::ClockPair{.monotonic_ns = made,
                          .realtime_ns = made + timeline.realtime_offset_ns});
  const rlim_t most = BoundFiles();
  perfetto::WriteTimeline(std::move(timeline), seconds * kSecond, *writer);
  const absl::Status written = writer->Finish();
  if (absl::IsOutOfRange(written)) {
    return WithHint(absl::ResourceExhaustedError(fmt::format(
                        "the trace of the last {} s has more than {} bytes, "
                        "which is the most that the dashboard sends",
                        seconds, most)),
                    "ask for fewer seconds, or `carillon trace export`");
  }
  RETURN_IF_ERROR(written);
  return Json::object();
}

}  // namespace

absl::StatusOr<Json> RecorderReader::Read(const UniqueFd& trace,
                                          uint64_t seconds) {
  // Each who waits holds a connection, even one whose client has gone.
  if (reads_.fetch_add(1) >= kMostReads) {
    reads_.fetch_sub(1);
    return WithHint(absl::UnavailableError(
                        "the recorders are being read, and somebody waits"),
                    "ask again in some seconds");
  }
  const absl::Cleanup done = [this] { reads_.fetch_sub(1); };
  const MutexLock reading(reading_);
  ASSIGN_OR_RETURN(const auto answer_file, MakeNamelessFile());
  SpawnOptions options = {
      .argv = {program_, "--dir", testbed_.paths.directory(), "--testbed",
               testbed_.name, "--read-recorders"},
      .out = answer_file.get()};
  if (trace) {
    options.argv.insert(options.argv.end(),
                        {"--trace-to", std::to_string(trace.get()), "--last",
                         std::to_string(seconds)});
    options.inherited = {trace.get()};
  }
  ASSIGN_OR_RETURN(auto reader, Subprocess::Start(options));
  if (!reader.AwaitEnd(kMostTime)) {
    return WithHint(absl::DeadlineExceededError(
                        "reading the recorders takes longer than two minutes"),
                    "`carillon postmortem` and `carillon trace export` have "
                    "no such bound");
  }
  // One that was killed has left none: for want of memory, perhaps.
  if (const ExitReport ended = reader.Reap(); !ended.ok()) {
    return WithHint(
        absl::InternalError(
            fmt::format("the process that reads the recorders ended with {}",
                        ended.ToString())),
        "`carillon postmortem` and `carillon trace export` read them, too");
  }
  ASSIGN_OR_RETURN(const auto text,
                   ReadFile(fmt::format("/proc/self/fd/{}", answer_file.get()),
                            "answer", kMostTraceBytes));
  Json answer = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!answer.is_object() || !answer.contains("value")) {
    return absl::InternalError("the recorders' reader has left no answer");
  }
  const auto code = answer.value("code", 0);
  if (code == 0) return std::move(answer["value"]);
  return WithHint(absl::Status(static_cast<absl::StatusCode>(code),
                               answer.value("message", "")),
                  answer.value("hint", ""));
}

absl::StatusOr<Json> RecorderReader::Story() { return Read(UniqueFd(), 0); }

absl::StatusOr<SharedFile> RecorderReader::Trace(uint64_t seconds) {
  auto file = std::make_shared<OpenFile>();
  ASSIGN_OR_RETURN(file->fd, MakeNamelessFile());
  RETURN_IF_ERROR(Read(file->fd, seconds).status());
  struct stat facts;
  if (fstat(file->fd.get(), &facts) != 0) {
    return absl::InternalError("the recorders' reader has left no trace");
  }
  file->bytes = static_cast<size_t>(facts.st_size);
  return file;
}

int ReadRecorders(const testbed::Testbed& testbed, int trace,
                  uint64_t seconds) {
  const absl::StatusOr<Json> value =
      trace < 0 ? TellStory(testbed) : WriteTrace(testbed, trace, seconds);
  const absl::Status& status = value.status();
  const Json answer = {{"code", static_cast<int>(status.code())},
                       {"message", std::string(status.message())},
                       {"hint", HintOf(status)},
                       {"value", value.ok() ? *value : Json()}};
  fmt::print("{}", answer.dump(-1, ' ', false, Json::error_handler_t::replace));
  return fflush(stdout) == 0 && ferror(stdout) == 0 ? 0 : 1;
}

}  // namespace carillon::dashboard

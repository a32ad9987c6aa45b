#include "tools/dashboard/recorder_reader.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <system_error>

#include "base/read_file.h"
#include "base/status.h"
#include "base/subprocess.h"
#include "base/temp_directory.h"
#include "base/text.h"
#include "tools/testbed/ledger/checker.h"
#include "tools/testbed/ledger/timeline_view.h"
#include "tools/testbed/perfetto/timeline_trace.h"
#include "tools/testbed/perfetto/trace_writer.h"

namespace carillon::dashboard {
namespace {

constexpr uint64_t kSecond = 1'000'000'000;
constexpr size_t kStorySteps = 400;
constexpr uint64_t kMostTraceBytes = 256 << 20;
constexpr std::chrono::minutes kMostTime{2};

std::string AnswerIn(const std::string& folder) { return folder + "/answer"; }
std::string TraceIn(const std::string& folder) { return folder + "/trace"; }

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

absl::StatusOr<Json> WriteTrace(const testbed::Testbed& testbed,
                                const std::string& file, uint64_t seconds) {
  testbed::Timeline timeline = testbed::ReadSteps(testbed.name, testbed.paths);
  RETURN_IF_ERROR(CheckRecorded(timeline));
  // It would show events that nobody ends.
  if (!timeline.unreadable.empty()) {
    return absl::FailedPreconditionError(JoinWords(timeline.unreadable));
  }
  const uint64_t made = timeline.recordings.front().made_ns;
  ASSIGN_OR_RETURN(
      const auto writer,
      perfetto::TraceWriter::Create(
          file, perfetto::ClockPair{
                    .monotonic_ns = made,
                    .realtime_ns = made + timeline.realtime_offset_ns}));
  perfetto::WriteTimeline(std::move(timeline), seconds * kSecond, *writer);
  RETURN_IF_ERROR(writer->Finish());
  std::error_code unknown;
  if (const auto size = std::filesystem::file_size(file, unknown);
      !unknown && size > kMostTraceBytes) {
    return WithHint(absl::ResourceExhaustedError(fmt::format(
                        "the trace of the last {} s has {} bytes; the "
                        "dashboard sends at most {}",
                        seconds, size, kMostTraceBytes)),
                    "ask for fewer seconds, or `carillon trace export`");
  }
  return Json::object();
}

}  // namespace

absl::StatusOr<Json> RecorderReader::Read(const std::string& folder,
                                          uint64_t seconds) {
  ASSIGN_OR_RETURN(
      auto reader,
      Subprocess::Start({.argv = {program_, "--dir", testbed_.paths.directory(),
                                  "--testbed", testbed_.name, "--read-to",
                                  folder, "--last", std::to_string(seconds)}}));
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
  ASSIGN_OR_RETURN(const auto text, ReadFile(AnswerIn(folder), "an answer"));
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

absl::StatusOr<Json> RecorderReader::Story() {
  const MutexLock reading(reading_);
  ASSIGN_OR_RETURN(const auto folder, TempDirectory::Make());
  return Read(folder.path(), 0);
}

absl::StatusOr<SharedFile> RecorderReader::Trace(uint64_t seconds) {
  const MutexLock reading(reading_);
  ASSIGN_OR_RETURN(const auto folder, TempDirectory::Make());
  RETURN_IF_ERROR(Read(folder.path(), seconds).status());
  auto file = std::make_shared<OpenFile>();
  file->fd.reset(open(TraceIn(folder.path()).c_str(), O_RDONLY | O_CLOEXEC));
  struct stat facts;
  if (!file->fd || fstat(file->fd.get(), &facts) != 0) {
    return absl::InternalError("the recorders' reader has left no trace");
  }
  file->bytes = static_cast<size_t>(facts.st_size);
  return file;
}

int ReadRecorders(const testbed::Testbed& testbed, const std::string& folder,
                  uint64_t seconds) {
  const absl::StatusOr<Json> value =
      seconds == 0 ? TellStory(testbed)
                   : WriteTrace(testbed, TraceIn(folder), seconds);
  const absl::Status& status = value.status();
  const Json answer = {{"code", static_cast<int>(status.code())},
                       {"message", std::string(status.message())},
                       {"hint", HintOf(status)},
                       {"value", value.ok() ? *value : Json()}};
  std::ofstream file(AnswerIn(folder));
  file << answer.dump(-1, ' ', false, Json::error_handler_t::replace);
  file.close();
  return file ? 0 : 1;
}

}  // namespace carillon::dashboard

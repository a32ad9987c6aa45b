#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>

#include "base/clock.h"
#include "base/status.h"
#include "base/text.h"
#include "tools/cli/commands/inspect/commands.h"
#include "tools/cli/commands/inspect/recordings_option.h"
#include "tools/testbed/ledger/timeline_view.h"
#include "tools/testbed/perfetto/timeline_trace.h"
#include "tools/testbed/perfetto/trace_writer.h"

namespace carillon::cli {
namespace {

struct Options {
  RecordingsOption recordings;
  std::string out;
  std::string last;
};

// A trace without one of the processes would show events that nobody ends.
absl::Status CheckReadable(const testbed::Timeline& timeline) {
  if (timeline.unreadable.empty()) return absl::OkStatus();
  return WithHint(
      absl::FailedPreconditionError(JoinWords(timeline.unreadable)),
      "`carillon trace export --dir` with a copy of the testbed's directory "
      "without that file exports the rest; all processes look dead in it");
}

absl::Status Export(const Options& options, Console& console) {
  std::optional<Nanoseconds> last;
  if (!options.last.empty()) {
    const auto duration = ParseDuration(options.last);
    if (!duration.ok()) {
      return absl::InvalidArgumentError(
          fmt::format("--last: {}", duration.status().message()));
    }
    last = *duration;
  }
  if (options.recordings.directories.size() > 1) {
    return absl::InvalidArgumentError(
        "--dir: a trace is of one host; `postmortem` joins several");
  }
  ASSIGN_OR_RETURN(auto timeline,
                   ReadRecordings(options.recordings, testbed::ReadSteps));
  RETURN_IF_ERROR(CheckReadable(timeline));
  const Nanoseconds made = timeline.recordings.front().made_ns;
  ASSIGN_OR_RETURN(
      const auto writer,
      perfetto::TraceWriter::Create(
          options.out, perfetto::ClockPair{
                           .monotonic_ns = made,
                           .realtime_ns = made + timeline.realtime_offset_ns}));
  const std::string testbed = timeline.testbed;
  const perfetto::TraceFigures figures =
      perfetto::WriteTimeline(std::move(timeline), last, *writer);
  RETURN_IF_ERROR(writer->Finish());
  if (console.json()) {
    console.PrintDocument({{"file", options.out},
                           {"testbed", testbed},
                           {"processes", figures.processes},
                           {"rings", figures.rings},
                           {"events", figures.events},
                           {"flows", figures.flows},
                           {"span_ns", figures.span_ns},
                           {"lost_records", figures.lost}});
    return absl::OkStatus();
  }
  console.Print(fmt::format(
      "{}: {} events on {} rings of {} processes, {}{}; open it with "
      "https://ui.perfetto.dev\n",
      options.out, figures.events, figures.rings, figures.processes,
      FormatNanoseconds(figures.span_ns),
      figures.lost == 0 ? ""
                        : fmt::format(" ({} records are overwritten, torn or "
                                      "of a time to come)",
                                      figures.lost)));
  return absl::OkStatus();
}

}  // namespace

Run MakeTraceExport(Arguments& arguments, Console& console) {
  auto options = std::make_shared<Options>();
  arguments.Text("--out FILE", options->out, "The trace, for ui.perfetto.dev")
      .Required();
  arguments
      .Text("--last DURATION", options->last,
            "What happened that long before the end; without: all")
      .NotEmpty();
  AddRecordingsOption(arguments, options->recordings);
  return [options, &console] { return Export(*options, console); };
}

}  // namespace carillon::cli

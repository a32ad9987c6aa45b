// What `carillon bench launch` says of its measurements: the document's parts
// (docs/cli.md), figures, and tables for people.
#ifndef CARILLON_TOOLS_BENCH_LAUNCH_LAUNCH_SUMMARY_H_
#define CARILLON_TOOLS_BENCH_LAUNCH_LAUNCH_SUMMARY_H_

#include <string>
#include <vector>

#include "tools/bench/launch/launch_run.h"
#include "tools/bench/report.h"

namespace carillon::bench {

// One run of any part, for the progress on stderr.
std::string DescribeRun(const Json& run);

Json DescribeWorkloads();

// Each is an array with an entry a cell: {path, workload, status: measured,
// refused or failed, reason, ...}. Disturbed runs count only where no other is.
Json SummarizeLatency(const std::vector<LaunchCell>& cells);
Json SummarizeIdle(const std::vector<LaunchCell>& cells);
Json SummarizeCoRunner(const std::vector<LaunchCell>& cells);
Json SummarizeBackground(const std::vector<LaunchCell>& cells);
Json SummarizeBreakdown(const std::vector<LaunchCell>& cells);
// {measured, reason, cells}.
Json SummarizePower(const std::vector<LaunchCell>& cells,
                    const std::string& why_not);

// Of the latency part and the background part. `wishes`: with what is wanted of
// `edge` on a GPU.
std::vector<Figure> LaunchFigures(const std::vector<LaunchCell>& latency,
                                  const std::vector<LaunchCell>& background,
                                  bool wishes);

// Of the parts that the document has.
std::string LaunchTables(const Json& document);

}  // namespace carillon::bench

#endif  // CARILLON_TOOLS_BENCH_LAUNCH_LAUNCH_SUMMARY_H_

// Summarizes the measurements of `carillon bench launch`: the document's parts
// (docs/cli.md), figures, and tables for people.
#ifndef CARILLON_TOOLS_BENCH_LAUNCH_LAUNCH_SUMMARY_H_
#define CARILLON_TOOLS_BENCH_LAUNCH_LAUNCH_SUMMARY_H_

#include <string>
#include <vector>

#include "tools/bench/launch/launch_run.h"
#include "tools/bench/report.h"

namespace carillon::bench {

// Describes one run of any part, for the progress on stderr.
std::string DescribeRun(const Json& run);

Json DescribeWorkloads();

// Each summary is an array with an entry per cell: {path, workload, status:
// measured, refused or failed, reason, ...}. Disturbed runs count only where
// there are no others.
Json SummarizeLatency(const std::vector<LaunchCell>& cells);
Json SummarizeIdle(const std::vector<LaunchCell>& cells);
Json SummarizeCoRunner(const std::vector<LaunchCell>& cells);
Json SummarizeBackground(const std::vector<LaunchCell>& cells);
Json SummarizeBreakdown(const std::vector<LaunchCell>& cells);
// The summary {measured, reason, cells}.
Json SummarizePower(const std::vector<LaunchCell>& cells,
                    const std::string& why_not);

// The figures of the latency part and the background part. `wishes` adds what
// is expected of `edge` on a GPU.
std::vector<Figure> LaunchFigures(const std::vector<LaunchCell>& latency,
                                  const std::vector<LaunchCell>& background,
                                  bool wishes);

std::string LaunchTables(const Json& document);

}  // namespace carillon::bench

#endif  // CARILLON_TOOLS_BENCH_LAUNCH_LAUNCH_SUMMARY_H_

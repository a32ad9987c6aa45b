// What a dashboard costs the testbed that it shows, and what it takes itself.
//
//   events   CPU time of gpud and a device for a null event of launch path edge,
//            in batches, with a page open and without one
//   stream   CPU time of gpud and of the dashboard with 64 devices that do
//            nothing: without a dashboard, with one, with an open page
//   opening  until a page's first data
//   trace    export of full flight recorders: five processes, 65,536 records each
#ifndef CARILLON_TOOLS_BENCH_DASHBOARD_DASHBOARD_RUN_H_
#define CARILLON_TOOLS_BENCH_DASHBOARD_DASHBOARD_RUN_H_

#include <string>

#include "absl/status/statusor.h"
#include "tools/bench/bench_main.h"

namespace carillon::bench {

struct DashboardPrograms {
  std::string dashboard;
  std::string carillon;
};

absl::StatusOr<BenchResult> RunDashboard(const BenchRun& run,
                                         const DashboardPrograms& programs);

}  // namespace carillon::bench

#endif  // CARILLON_TOOLS_BENCH_DASHBOARD_DASHBOARD_RUN_H_

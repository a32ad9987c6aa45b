// GNoM's GETs beside a background that comes in one launch or in several (thesis
// 4.4, Figs. 4.13 and 4.14): batches of frames for memc_gnom_get at a steady
// rate, while 256 blocks of a vector multiplication run.
#ifndef CARILLON_SIM_EXPERIMENTS_GNOM_JOB_H_
#define CARILLON_SIM_EXPERIMENTS_GNOM_JOB_H_

#include "absl/status/statusor.h"
#include "sim/experiments/job.h"

namespace carillon::sim::figures {

// A job with `gnom_batch` frames in each batch, one every arrivals.least cycles,
// beside `runs` launches of the background; 0: none.
// Both kernels have the same priority, and come from the host. The background
// begins after 4 batches; the run ends when all batches that came before its end
// and `gnom_batches` more have been answered.
// With arrivals.least == 0, batches come flat out: arrivals.concurrent are always
// in flight, and nothing runs beside them. With `gnom_pings`, echo_reply answers
// the same frames in memc_gnom_get's place.
//
// {"core_mhz", "cycles" (of the background; null without one), "batches", and lists, one
//  element a batch, in the order of the arrivals: "arrival" (cycle of the last
//  frame, from the background's begin), "turnaround" (cycles from there to the
//  kernel's end)}
// Every reply is checked. Errors: those of what executes, DataLoss (a wrong
// reply or product), ResourceExhausted, DeadlineExceeded (JobControl::limit).
absl::StatusOr<Json> RunGnom(const Job& job, const timing::Config& config,
                             const JobControl& control);

}  // namespace carillon::sim::figures

#endif  // CARILLON_SIM_EXPERIMENTS_GNOM_JOB_H_

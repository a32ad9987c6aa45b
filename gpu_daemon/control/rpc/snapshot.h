// Takes a sample of a testbed for Admin.StreamSnapshots.
#ifndef CARILLON_GPU_DAEMON_CONTROL_RPC_SNAPSHOT_H_
#define CARILLON_GPU_DAEMON_CONTROL_RPC_SNAPSHOT_H_

#include "gpu_daemon/control/rpc/snapshot_changes.h"
#include "gpu_daemon/control/rpc/snapshot_sampler.h"
#include "gpu_daemon/control/sessions/session_context.h"
#include "gpu_daemon/control/sessions/session_table.h"

namespace carillon::gpud {

// Reads every figure where it is kept: no event waits for it, and no thread that
// launches any. It takes the peaks of the rings, so one thread at a time may
// call it. Messages that it would make again are those of `last`, an earlier
// sample of the same testbed, or an empty one.
Sample TakeSample(const SessionContext& context, const SessionTable& sessions,
                  const SnapshotSampler::Wanted& wanted, const Sample& last);

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_CONTROL_RPC_SNAPSHOT_H_

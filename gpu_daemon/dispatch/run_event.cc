#include "gpu_daemon/dispatch/run_event.h"

#include "base/clock.h"
#include "kernels/simt/completion_status.h"

namespace carillon::gpud {

void RunEvent(BlockRunner& runner, EventKernel& event, shm::Sequence sequence,
              CheckedEntry& entry) {
  shm::EventLife& life = entry.life;
  const bool traced = life.seen_ns != 0;
  if (traced) life.dispatched_ns = NowNs();
  LaunchRun run(event.memory());
  const uint64_t blocks = entry.kmd.blocks();
  for (uint64_t block = 0; block < blocks; ++block) {
    runner.Run(entry.kmd, block, entry.args.data(), &run);
  }
  if (traced) life.finished_ns = NowNs();
  event.End(sequence, {.state = run.fail_status == 0 ? shm::EventState::kDone
                                                     : shm::EventState::kFailed,
                       .status = simt::CompletionStatus(run.fail_status),
                       .life = traced ? &life : nullptr});
}

}  // namespace carillon::gpud

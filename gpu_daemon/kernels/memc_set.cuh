// memc_set: every memcached command, a request a thread; meant for all but the
// retrievals, which are memc_get's. See memc_get.cuh.
#ifndef CARILLON_GPU_DAEMON_KERNELS_MEMC_SET_CUH_
#define CARILLON_GPU_DAEMON_KERNELS_MEMC_SET_CUH_

#include "gpu_daemon/kernels/memc_admin.cuh"
#include "gpu_daemon/kernels/memc_request.cuh"
#include "gpu_daemon/kernels/memc_retrieve.cuh"
#include "gpu_daemon/kernels/simt.h"

namespace carillon::kernels {

namespace memc {

struct ExecuteAny {
  CARILLON_DEVICE shm::MemcOutcome operator()(Command& command) const {
    Token verb;
    shm::MemcOutcome outcome;
    if (TryRetrieve(command, &verb, &outcome)) return outcome;
    return ExecuteOther(command, verb);
  }
};

}  // namespace memc

CARILLON_KERNEL(memc_set, MemcArgs, args, self) {
  memc::ServeBatch(args, self, memc::ExecuteAny{});
}

CARILLON_KERNEL_INFO(memc_set, MemcArgs,
                     "memcached set and every other command, a request a "
                     "thread",
                     simt::Registers(128).Validate<&memc::CheckLaunch>(),
                     CARILLON_MEMC_PARAMS);

}  // namespace carillon::kernels

#endif  // CARILLON_GPU_DAEMON_KERNELS_MEMC_SET_CUH_

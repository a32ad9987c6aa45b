// memc_get: memcached's retrieval commands (get, gets, gat, gats), a request a
// thread. See memc_request.cuh for the arguments, shm/memc_wire.h for what a
// NIC writes and reads, and docs/decisions/004-memcached-kernels.md for why.
#ifndef CARILLON_GPU_DAEMON_KERNELS_MEMC_GET_CUH_
#define CARILLON_GPU_DAEMON_KERNELS_MEMC_GET_CUH_

#include "gpu_daemon/kernels/memc_request.cuh"
#include "gpu_daemon/kernels/memc_retrieve.cuh"
#include "gpu_daemon/kernels/simt.h"

namespace carillon::kernels {

namespace memc {

struct ExecuteGet {
  CARILLON_DEVICE shm::MemcOutcome operator()(Command& command) const {
    Token verb;
    shm::MemcOutcome outcome;
    if (TryRetrieve(command, &verb, &outcome)) return outcome;
    return shm::MemcOutcome::kWrongKernel;
  }
};

}  // namespace memc

CARILLON_KERNEL(memc_get, MemcArgs, args, self) {
  memc::ServeBatch(args, self, memc::ExecuteGet{});
}

CARILLON_KERNEL_INFO(memc_get, MemcArgs,
                     "memcached get, gets, gat and gats, a request a thread",
                     simt::Registers(82).Validate<&memc::CheckLaunch>(),
                     CARILLON_MEMC_PARAMS);

}  // namespace carillon::kernels

#endif  // CARILLON_GPU_DAEMON_KERNELS_MEMC_GET_CUH_

// memc_set: every memcached command, one request per thread. It is meant for
// all commands except retrievals, which are memc_get's. See memc_get.cuh.
#ifndef CARILLON_KERNELS_MEMCACHED_MEMC_SET_CUH_
#define CARILLON_KERNELS_MEMCACHED_MEMC_SET_CUH_

#include "kernels/memcached/memc_admin.cuh"
#include "kernels/memcached/memc_request.cuh"
#include "kernels/memcached/memc_retrieve.cuh"
#include "kernels/simt/simt.h"

namespace carillon::kernels {

namespace memc {

struct ExecuteAny {
  CARILLON_DEVICE memcached::Outcome operator()(Command& command) const {
    Token verb;
    memcached::Outcome outcome;
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
                     simt::Registers(128)
                         .From("memcached, MemcachedGPU")
                         .Oracle("memcached")
                         .Validate<&memc::CheckLaunch>(),
                     CARILLON_MEMC_PARAMS);

}  // namespace carillon::kernels

#endif  // CARILLON_KERNELS_MEMCACHED_MEMC_SET_CUH_

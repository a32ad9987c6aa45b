// memc_get: memcached's retrieval commands (get, gets, gat, gats, mg), one
// request per thread. It makes no items: mg with N for a key without one is
// memc_set's. See memc_request.cuh for the arguments, wire.h for what a NIC
// writes and reads, and docs/decisions/004-memcached-kernels.md for the
// reasons.
#ifndef CARILLON_KERNELS_MEMCACHED_MEMC_GET_CUH_
#define CARILLON_KERNELS_MEMCACHED_MEMC_GET_CUH_

#include "kernels/memcached/memc_meta.cuh"
#include "kernels/memcached/memc_request.cuh"
#include "kernels/memcached/memc_retrieve.cuh"
#include "kernels/simt/simt.h"

namespace carillon::kernels {

namespace memc {

struct ExecuteGet {
  CARILLON_DEVICE memcached::Outcome operator()(Command& command) const {
    Token verb;
    memcached::Outcome outcome;
    if (TryRetrieve(command, &verb, &outcome)) return outcome;
    if (verb.Is("mg")) return MetaGet<CannotVivify>(command);
    return memcached::Outcome::kWrongKernel;
  }
};

}  // namespace memc

CARILLON_KERNEL(memc_get, MemcArgs, args, self) {
  memc::ServeBatch(args, self, memc::ExecuteGet{});
}

CARILLON_KERNEL_INFO(
    memc_get, MemcArgs,
    "memcached get, gets, gat, gats and mg, a request a thread",
    simt::Registers(96)
        .From("memcached, MemcachedGPU (EDGE: MemC)")
        .Oracle("memcached")
        .Validate<&memc::CheckLaunch>(),
    CARILLON_MEMC_PARAMS);

}  // namespace carillon::kernels

#endif  // CARILLON_KERNELS_MEMCACHED_MEMC_GET_CUH_

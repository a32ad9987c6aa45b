#include "gpu_daemon/dispatch/cpu_workers.h"

#include <pthread.h>
#include <sched.h>
#include <sys/resource.h>

#include <algorithm>

namespace carillon::gpud {
namespace {

// Blocks are long compared with what the front-end and the devices do on a
// core: on a machine with few of them, a worker gives way but still gets its
// share.
constexpr int kWorkerNice = 5;

void Work(Kmu* kmu, BlockRunner* runner) {
  pthread_setname_np(pthread_self(), "gpud-worker");
  setpriority(PRIO_PROCESS, 0,
              kWorkerNice);  // of this thread; harmless if refused
  while (const auto block = kmu->NextBlock()) {
    KernelLaunch& launch = *block->launch;
    runner->Run(launch.kmd, block->block, launch.args.get(), &launch.run);
    kmu->EndBlock(*block);
  }
}

}  // namespace

uint32_t DefaultWorkers() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  const int cores = sched_getaffinity(0, sizeof(allowed), &allowed) == 0
                        ? CPU_COUNT(&allowed)
                        : 1;
  return static_cast<uint32_t>(std::max(1, cores - 1));
}

CpuWorkers::CpuWorkers(uint32_t count, Kmu* kmu, BlockRunner* runner) {
  for (uint32_t i = 0; i < std::max(count, 1u); ++i)
    threads_.emplace_back(Work, kmu, runner);
}

CpuWorkers::~CpuWorkers() {
  for (std::thread& thread : threads_) thread.join();
}

}  // namespace carillon::gpud

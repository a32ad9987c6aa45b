// Describes the GPU before anything runs on it.
#ifndef CARILLON_TOOLS_GPU_CHECK_INFO_H_
#define CARILLON_TOOLS_GPU_CHECK_INFO_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "gpu_daemon/backends/cuda/driver/driver.h"
#include "nlohmann/json.hpp"

namespace carillon::gpu_check {

// Loads the driver if it finds a GPU. Errors: NotFound and Unavailable if there
// is none, others as Driver::Load().
absl::StatusOr<gpud::cuda::Driver> OpenGpu();

// The exit code for such an error: kNoGpuCode, or 1 for a driver that is broken
// or too old.
int ExitCodeOf(const absl::Status& status);

// Looks for the GPU in a process of its own, so that this one does not load the
// driver. 0, or the exit code for the error, which is on stderr then.
int ExitCodeOfGpuElsewhere();

// {gpu, driver, compute, sms, ..., attributes: {name: value}, pci: {...},
//  stream_priorities: [least, greatest], refused: [what the back-end lacks]}
absl::StatusOr<nlohmann::json> DescribeGpu(const gpud::cuda::Driver& driver);

// Of a GPU's folder in sysfs: bytes of BAR1, through which its memory is reached.
// It is the largest, and not always the second: an H200's BAR0 takes two places.
// 0: unknown.
uint64_t LargestBar(const std::string& pci_folder);

// What of this machine a latency depends on: {driver_module, kernel, machine,
// cpu, cpus, clock_source, locked_memory_bytes, gdrdrv, ...}; null for what it
// does not tell.
nlohmann::json DescribeMachine();

// --part-driver: prints the driver's version, the one that is needed and how long
// the driver took to start; or, on stderr, why it will not do. Returns the exit
// code.
int PrintDriver();

// --part-info: prints the description and a finding. Returns the exit code.
int PrintInfo();

}  // namespace carillon::gpu_check

#endif  // CARILLON_TOOLS_GPU_CHECK_INFO_H_

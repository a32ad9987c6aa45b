// The device of `carillon bench launch`: a separate process that launches on
// command.
//
// When it is attached it prints one line of JSON, {backend, description, paths:
// [{name, summary}]}, and then one line for each line of JSON that it reads,
// {"error": {"code", "message"}} on a failure. Times are nanoseconds unless
// noted; "ms" says how long to measure.
//
//   {do: open, path, kernel}            a workload, or
//   {do: open, path, packets}
//   {do: round_trips, ms}               -> events, launched, seconds, latency
//   {do: pipeline, ms}                  -> events, launched, seconds,
//                                       per_second, window
//   {do: open_loop, ms, per_second}     -> events, seconds, latency (from when
//                                       each was due), kept_up
//   {do: batches, ms, packets_per_second} -> stages, kept_up; gpud must trace
//   {do: close}
//   {do: background, ms, size}          -> matmul kernels: kernel_ns
//   {do: trace, on}
//   {do: ledger}                        -> gpud's and this device's counts
//
// Every event must end well and in order; otherwise the answer is an error.
#ifndef CARILLON_TOOLS_BENCH_LAUNCH_DEVICE_ROLE_H_
#define CARILLON_TOOLS_BENCH_LAUNCH_DEVICE_ROLE_H_

#include <optional>
#include <string>
#include <vector>

namespace carillon::bench {

struct LaunchDeviceOptions {
  std::string testbed;
  std::string name;
  // Never sleeps: for a device that has a CPU to itself. Otherwise it spins as
  // long as a device of the SDK does, and yields its CPU where it must not
  // sleep.
  bool always_spin = false;
};

// The arguments that make a bench binary this device.
std::vector<std::string> LaunchDeviceArguments(
    const LaunchDeviceOptions& options);
// Plays the device and returns the exit code, if these are such arguments.
std::optional<int> PlayLaunchDevice(int argc, char** argv);

}  // namespace carillon::bench

#endif  // CARILLON_TOOLS_BENCH_LAUNCH_DEVICE_ROLE_H_

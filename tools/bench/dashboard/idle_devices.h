// Devices that are there and do nothing, in a process of their own.
#ifndef CARILLON_TOOLS_BENCH_DASHBOARD_IDLE_DEVICES_H_
#define CARILLON_TOOLS_BENCH_DASHBOARD_IDLE_DEVICES_H_

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace carillon::bench {

// The arguments that make a bench binary `count` devices from number `first` on,
// with two counters and one ring each. It prints "ready" and waits for the end of
// its stdin.
std::vector<std::string> IdleDevicesArguments(const std::string& testbed,
                                              size_t first, size_t count);
// Plays them and returns the exit code, if these are such arguments.
std::optional<int> PlayIdleDevices(int argc, char** argv);

}  // namespace carillon::bench

#endif  // CARILLON_TOOLS_BENCH_DASHBOARD_IDLE_DEVICES_H_

// The devices of `carillon bench sharing`: separate processes that live in
// either time (docs/simulated_time.md).
//
// A device reads its plan, a line of JSON, attaches, and prints {} or what went
// wrong: {"error": {"code", "message"}}, {"refused": MESSAGE} for a policy. The
// next line, {"start_ns"}, is the time from which it counts. When it has done its
// plan it prints what it saw, all in ns from start_ns:
//
//   {do: events, iterations, blocks, threads, priority, due: [NS, ...]}
//   {do: events, ..., gap, end}         closed: each one `gap` after the last
//                                       one's end, up to `end`
//     -> served: [[due, dispatched, finished], ...]
//   {do: background, iterations, blocks, threads, launches}
//   {do: background, mandelbrot: SIDE, blocks, threads, launches}
//                                       one launch after the other; of a picture
//                                       whose blocks differ
//     -> launches: [[launched, dispatched, finished], ...]
//   {do: copies, bytes, priority, due: [NS, ...]}
//                                       to GPU memory, one after the other
//     -> copies: [[due, started, finished], ...]
//
// With `policy`, it sets that first. With `describe`, a background also answers
// about: {"description", "places"} of the back-end; the places are how many of its
// blocks the GPU holds at once. The kernel is busy, of so many iterations, where no
// other is named.
#ifndef CARILLON_TOOLS_BENCH_SHARING_DEVICE_ROLE_H_
#define CARILLON_TOOLS_BENCH_SHARING_DEVICE_ROLE_H_

#include <optional>
#include <string>
#include <vector>

namespace carillon::bench {

// The arguments that make a bench binary this device.
std::vector<std::string> SharingDeviceArguments(const std::string& testbed,
                                                const std::string& name);
// Plays the device and returns the exit code, if these are such arguments.
std::optional<int> PlaySharingDevice(int argc, char** argv);

}  // namespace carillon::bench

#endif  // CARILLON_TOOLS_BENCH_SHARING_DEVICE_ROLE_H_

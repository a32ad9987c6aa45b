// What the fake GPU is, and what the whole process on it meets.
#ifndef CARILLON_GPU_DAEMON_BACKENDS_CUDA_FAKE_FAKE_SETTINGS_H_
#define CARILLON_GPU_DAEMON_BACKENDS_CUDA_FAKE_FAKE_SETTINGS_H_

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace carillon::gpud::cuda {

struct FakeSettings {
  int devices = 1;
  int driver_version =
      0;  // as CUDA writes it; 0: that of the toolkit's headers
  uint64_t memory_bytes = uint64_t{1} << 30;
  // Device memory that each instantiated graph takes.
  uint64_t graph_exec_bytes = 0;
  uint32_t sms = 132;
  uint32_t threads_per_sm = 2048;
  int compute_major = 9;
  int compute_minor = 0;
  bool green_contexts = true;
  bool stream_memory_operations = true;
  // Bytes of stack per thread of kernels' forms, by the name of KernelInfo; of
  // others, what nvcc gives them.
  std::map<std::string, uint32_t> stacks;
  // Of each thread, that there is memory for. A launch that would take more fails;
  // so does each after it for which the limit asks more.
  uint64_t most_stack = ~uint64_t{0};
  // Streams of a context, the default one too, that have one each
  // (CUDA_DEVICE_MAX_CONNECTIONS). A further stream shares its queue with
  // whichever other stream is busy: what comes second waits for the first.
  uint32_t hardware_queues = 32;
  // Pieces of work that wait in a stream, before a launch there waits for room
  // among them as a driver's does. 0: any number.
  uint32_t stream_depth = 0;
  bool device_graphs = true;  // graphs that kernels launch
  bool host_pointers = true;  // registered memory keeps its addresses
  // Fire-and-forget launches that one execution of a graph may make.
  uint32_t launch_budget = 120;
  // A graph's exec stays busy for so long after its last kernel has ended.
  std::chrono::microseconds retire_delay{0};
  // So many tail launches are refused, from now on.
  uint32_t refused_tails = 0;
  // From the end of a graph to the start of the one that it tail-launched.
  std::chrono::microseconds relaunch_gap{0};
  // As NVIDIA's driver (580, on an H200): giving memory or a graph's exec back, and
  // setting the stack's size, wait until the GPU is idle, and so hang while a
  // kernel is resident.
  bool free_waits_for_idle = true;
  // As NVIDIA's driver: after a fault every call of the process gives it, whatever
  // is reset (docs/decisions/032-a-fault-ends-gpud.md).
  bool faults_stay = true;
  // A buffer argument that the GPU cannot reach is a fault, even when the kernel
  // would not have touched it.
  bool check_buffers = true;

  // Kernels by name (that of KernelInfo: all forms of it; or a whole CUDA name):
  struct Fate {
    std::string kernel;
    // The launch that meets it, from 1; 0: each whose arguments begin with
    // first_word.
    uint64_t nth = 0;
    uint32_t first_word = 0;
  };
  std::vector<Fate> faults;  // with CUDA_ERROR_ILLEGAL_ADDRESS
  std::vector<Fate> hangs;   // never end
};

// From the text of the environment variable CARILLON_FAKE_CUDA: name=value,
// comma-separated, each at most once but for the last two:
//   devices=N version=MAJOR.MINOR memory=BYTES exec_memory=BYTES sms=N
//   green=0|1 memops=0|1 queues=N depth=N
//   device_graphs=0|1 host_pointers=0|1 budget=N
//   refused_tails=N
//   retire_us=N gap_us=N free_waits=0|1 faults_stay=0|1
//   check_buffers=0|1
//   fault=KERNEL:NTH  fault=KERNEL:=WORD  hang=KERNEL:NTH  hang=KERNEL:=WORD
// "fault=fail_if:=77" faults each fail_if whose first argument is 77.
// Errors: InvalidArgument names the part that is wrong.
absl::StatusOr<FakeSettings> ParseFakeSettings(std::string_view text);

}  // namespace carillon::gpud::cuda

#endif  // CARILLON_GPU_DAEMON_BACKENDS_CUDA_FAKE_FAKE_SETTINGS_H_

// Keeps the GPU initialised between the steps of a run. The driver's kernel module
// shuts a GPU down when the last file of it is closed, and starts it again, in a
// second or more, for the next process.
#ifndef CARILLON_TOOLS_GPU_CHECK_HELD_GPU_H_
#define CARILLON_TOOLS_GPU_CHECK_HELD_GPU_H_

#include <optional>
#include <string>

#include "base/subprocess.h"

namespace carillon::gpu_check {

// A process of its own, which a driver that hangs may have. It ends with this
// object, or with this process.
class HeldGpu {
 public:
  // Self: a program that calls HoldGpu() for `--part-hold FOLDER`. Folder: of the
  // device files. Waits for them for at most 10 s.
  HeldGpu(const std::string& self, const std::string& folder);

  // A sentence: what is held open, or why nothing is.
  const std::string& about() const { return about_; }

 private:
  std::optional<Subprocess> process_;
  std::string about_;
};

// Opens nvidiactl and nvidia0, nvidia1... in the folder, says so in a line on
// stdout and waits to be killed. Returns 1, after the line, if there is none.
int HoldGpu(const std::string& folder);

}  // namespace carillon::gpu_check

#endif  // CARILLON_TOOLS_GPU_CHECK_HELD_GPU_H_

// What kernels print until the host takes it. As CUDA's buffer it has a fixed
// size, and what is printed beyond overwrites the oldest (CUDA C++ Programming
// Guide, "Formatted Output", "Limitations").
#ifndef CARILLON_SIM_EXEC_PRINT_BUFFER_H_
#define CARILLON_SIM_EXEC_PRINT_BUFFER_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>

namespace carillon::sim {

// Not thread safe.
class PrintBuffer {
 public:
  static constexpr size_t kDefaultBytes = 1 << 20;  // CUDA's

  // Counts the text's bytes; CUDA counts those of formats and arguments.
  explicit PrintBuffer(size_t bytes = kDefaultBytes) : bytes_(bytes) {}

  // Takes what one call of printf() writes.
  void Append(std::string text);
  // Returns the text and empties the buffer. Its first line says what was lost,
  // if anything.
  std::string Take();
  bool empty() const { return calls_.empty(); }

 private:
  const size_t bytes_;
  std::deque<std::string> calls_;  // what each wrote, the oldest first
  size_t used_ = 0;
  uint64_t lost_calls_ = 0;
  uint64_t lost_bytes_ = 0;
};

}  // namespace carillon::sim

#endif  // CARILLON_SIM_EXEC_PRINT_BUFFER_H_

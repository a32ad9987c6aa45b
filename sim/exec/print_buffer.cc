#include "sim/exec/print_buffer.h"

#include <utility>

#include "fmt/format.h"

namespace carillon::sim {

void PrintBuffer::Append(std::string text) {
  used_ += text.size();
  calls_.push_back(std::move(text));
  while (used_ > bytes_) {
    used_ -= calls_.front().size();
    lost_bytes_ += calls_.front().size();
    ++lost_calls_;
    calls_.pop_front();
  }
}

std::string PrintBuffer::Take() {
  std::string all;
  if (lost_calls_ != 0) {
    all = fmt::format(
        "({} calls of printf() with {} bytes were overwritten: the buffer has "
        "{})\n",
        lost_calls_, lost_bytes_, bytes_);
  }
  for (const std::string& text : calls_) all += text;
  calls_.clear();
  used_ = lost_calls_ = lost_bytes_ = 0;
  return all;
}

}  // namespace carillon::sim

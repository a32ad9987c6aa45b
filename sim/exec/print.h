// printf of a kernel (CUDA C++ Programming Guide, "Formatted Output").
#ifndef CARILLON_SIM_EXEC_PRINT_H_
#define CARILLON_SIM_EXEC_PRINT_H_

#include <cstddef>
#include <functional>
#include <string>

#include "sim/exec/memory.h"

namespace carillon::sim {

// Returns false if there is nothing at this address.
using ByteReader = std::function<bool(DeviceAddress, std::byte&)>;

// Appends the text up to its terminating zero. Returns false if it cannot be
// read.
bool ReadText(const ByteReader& read, DeviceAddress address, std::string& text);

// Appends what vprintf(format, arguments) writes. On failure returns false, and
// `text` says why.
bool Print(const ByteReader& read, DeviceAddress format,
           DeviceAddress arguments, std::string& text);

}  // namespace carillon::sim

#endif  // CARILLON_SIM_EXEC_PRINT_H_

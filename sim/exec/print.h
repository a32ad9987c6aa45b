// printf of a kernel (CUDA C++ Programming Guide, "Formatted Output").
#ifndef CARILLON_SIM_EXEC_PRINT_H_
#define CARILLON_SIM_EXEC_PRINT_H_

#include <cstddef>
#include <functional>
#include <string>

#include "sim/exec/memory.h"

namespace carillon::sim {

// False: there is nothing at this address.
using ByteReader = std::function<bool(DeviceAddress, std::byte&)>;

// Appends the text that ends with a zero. False: it cannot be read.
bool ReadText(const ByteReader& read, DeviceAddress address, std::string& text);

// Appends what vprintf(format, arguments) writes. False: it cannot; `text` is
// why.
bool Print(const ByteReader& read, DeviceAddress format,
           DeviceAddress arguments, std::string& text);

}  // namespace carillon::sim

#endif  // CARILLON_SIM_EXEC_PRINT_H_

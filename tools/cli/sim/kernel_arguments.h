// The arguments of a kernel as a command line says them.
//
//   256  -1  1.5          a value, of the parameter's type
//   f32[1024]             a buffer of zeros, by its address
//   f32[1024]=1.5         of that value; =1,2,3 of these and zeros
//   u32[1024]=iota        0, 1, 2, ...
//   f32[1024]=random      from 0 to 1, whole numbers over their range;
//                         =random:7 from another seed
//   @FILE                 a buffer with the file's bytes
//   {u32:256;f32[8];span:f32[8]=iota}
//                         a struct by value: values with their type, buffers as
//                         addresses, or as address and count (simt::Span)
#ifndef CARILLON_TOOLS_CLI_SIM_KERNEL_ARGUMENTS_H_
#define CARILLON_TOOLS_CLI_SIM_KERNEL_ARGUMENTS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "sim/exec/memory.h"
#include "sim/exec/program.h"
#include "sim/exec/warp.h"
#include "sim/ptx/module.h"

namespace carillon::cli {

// Reads "16", "16x16", "4x4x2" (also with commas). Errors: InvalidArgument.
absl::StatusOr<sim::Dim3> ParseDimensions(std::string_view text);

// A buffer that an argument describes.
struct KernelBuffer {
  sim::DeviceAddress address = 0;
  uint64_t count = 0;
  sim::ptx::Type type = sim::ptx::Type::kB8;
};

struct KernelArguments {
  std::vector<std::byte> bytes;  // laid out as cuLaunchKernel's buffer
  // In the order of the arguments, including those within structs.
  std::vector<KernelBuffer> buffers;
};

// Takes one text for each parameter of the kernel, and allocates the buffers.
// Errors: InvalidArgument (names the parameter), NotFound (a file),
// ResourceExhausted.
absl::StatusOr<KernelArguments> ParseKernelArguments(
    const sim::ptx::Function& kernel, const std::vector<std::string>& texts,
    sim::Memory* memory);

// Gives a variable of the program a value: "NAME=TYPE:VALUES" with a buffer's values,
// or "NAME=@FILE". Errors: as above; NotFound (there is no such variable).
absl::Status SetVariable(const sim::Program& program, std::string_view text,
                         sim::Memory* memory);

// Shows the first `most` values: "0 1 2 3 ...".
std::string FirstValues(const KernelBuffer& buffer, const sim::Memory& memory,
                        uint64_t most);

}  // namespace carillon::cli

#endif  // CARILLON_TOOLS_CLI_SIM_KERNEL_ARGUMENTS_H_

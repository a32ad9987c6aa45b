// How a kernel is declared on the command line:
//
//   saxpy(x: read f32[], y: write f32[], a: f32, n: u32)
//
//   symbol      the __global__'s name in the file
//   value       u32, i32, u64, i64, f32 or f64
//   buffer      read or write, then what it is made of and []: u8, i8, u16,
//               i16, f16, bf16, a value's type, or a number of bytes ("12[]")
//
// Blanks go anywhere between words.
#ifndef CARILLON_TOOLS_CLI_COMMANDS_TESTBED_KERNEL_SIGNATURE_H_
#define CARILLON_TOOLS_CLI_COMMANDS_TESTBED_KERNEL_SIGNATURE_H_

#include <string_view>

#include "absl/status/statusor.h"
#include "proto/admin.pb.h"

namespace carillon::cli {

// Reads the symbol and the parameters. Errors: InvalidArgument, with the
// position of the wrong character (from 1), what is there and what should be
// there.
absl::StatusOr<v1::KernelDeclaration> ParseKernelSignature(
    std::string_view text);

}  // namespace carillon::cli

#endif  // CARILLON_TOOLS_CLI_COMMANDS_TESTBED_KERNEL_SIGNATURE_H_

// A user's own kernels: any __global__ of a fatbin, cubin or PTX file, beside
// gpud's own. Its parameters' places come from the image, their meaning from the
// user; both must agree.
#ifndef CARILLON_GPU_DAEMON_EVENT_USER_KERNEL_H_
#define CARILLON_GPU_DAEMON_EVENT_USER_KERNEL_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/simt/kernel_info.h"

namespace carillon::gpud {

// What the user says of a kernel.
struct KernelDeclaration {
  struct Parameter {
    std::string name;
    simt::ParamKind kind;
    uint32_t element_bytes = 0;  // of buffers; values have their kind's size
  };

  std::string symbol;  // the __global__'s, as it is in the image
  std::string name;    // under which devices register it
  std::string summary;
  std::vector<Parameter> parameters;
};

// What the image says of it, by the driver.
struct KernelLayout {
  struct Parameter {
    uint32_t offset = 0;
    uint32_t bytes = 0;
  };

  std::vector<Parameter> parameters;
  uint32_t registers_per_thread = 0;
  uint32_t static_shared_bytes = 0;
  uint32_t most_threads = 1024;
};

struct ModuleSource {
  std::span<const std::byte> image;  // fatbin, cubin or PTX text
  std::string file;                  // for messages
  std::vector<KernelDeclaration> kernels;
};

// Immutable; owns all that its KernelInfo refers to.
class UserKernel {
 public:
  // A buffer of 8 bytes is a pointer, one of 16 a span. Errors: InvalidArgument,
  // naming the parameter, what was declared and what the image has.
  static absl::StatusOr<std::unique_ptr<UserKernel>> Make(
      KernelDeclaration declaration, std::string file,
      const KernelLayout& layout);

  const simt::KernelInfo& info() const { return info_; }
  const std::string& symbol() const { return declaration_.symbol; }

 private:
  UserKernel(KernelDeclaration declaration, std::string file)
      : declaration_(std::move(declaration)), file_(std::move(file)) {}
  absl::Status Lay(const KernelLayout& layout);

  const KernelDeclaration declaration_;
  const std::string file_;
  std::vector<std::string> descriptions_;  // of the parameters
  std::vector<simt::ParamInfo> params_;
  simt::KernelInfo info_{};
};

// For launch paths that need a form of the kernel which gpud's own have only.
// Errors: InvalidArgument for a user's kernel, with `why`.
absl::Status CheckCompletesItself(const simt::KernelInfo& kernel,
                                  std::string_view why);

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_EVENT_USER_KERNEL_H_

// The kernels that are loaded in the CUDA context: those of gpud's own image, and
// those of users' files, which are kept and loaded again in a new context.
#ifndef CARILLON_GPU_DAEMON_BACKENDS_CUDA_DRIVER_MODULES_H_
#define CARILLON_GPU_DAEMON_BACKENDS_CUDA_DRIVER_MODULES_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "gpu_daemon/backends/cuda/driver/driver.h"
#include "gpu_daemon/backends/cuda/driver/owned.h"
#include "gpu_daemon/backends/cuda/driver/sliced_ptx.h"
#include "gpu_daemon/event/kernel_metadata.h"
#include "gpu_daemon/event/user_kernel.h"

namespace carillon::gpud::cuda {

// What launches a user's kernel on a box of its grid. Its parameters are the
// kernel's, and a GridPart.
struct SliceFunction {
  CUfunction function = nullptr;  // nullptr: there is none
  uint32_t part_offset = 0;       // of the GridPart
  uint32_t most_threads = 0;      // a block
  // It may need more of both than the kernel.
  uint32_t registers_per_thread = 0;
  uint32_t static_shared_bytes = 0;
  WholeReason why_whole = WholeReason::kNoPtx;
};

// Calls come with the context current, but for Abandon() and Reset(); those that
// find functions from any thread, the others from one that is alone.
class Modules {
 public:
  struct UserFunctions {
    CUfunction whole = nullptr;
    SliceFunction slice;
  };
  // A user's file.
  struct UserModule {
    // As it was loaded, with a NUL behind it: PTX has its kernels' sliced
    // versions, too.
    std::vector<std::byte> image;
    Module module;
    std::vector<std::unique_ptr<UserKernel>> kernels;
    std::vector<UserFunctions> functions;  // of the kernels, in this context
    uint32_t frame_bytes = 0;              // the kernels' largest stack frame
    bool waits = false;                    // it has kReleasesWord
    // Why no kernel has a sliced version, or which have none.
    std::optional<WhyWhole> none_sliced;
    std::map<std::string, WhyWhole, std::less<>> whole;
  };

  // A variable that a user's file may have, eight bytes: an address, where gpud
  // counts the releases of the wait-release barrier.
  static constexpr char kReleasesWord[] = "carillon_releases";

  Modules(const Driver* driver, std::span<const std::byte> image)
      : driver_(*driver), image_(image) {}

  // Everything, in a new context. Returns the largest stack frame of its
  // kernels, in bytes.
  absl::StatusOr<uint32_t> Load() ABSL_LOCKS_EXCLUDED(mutex_);
  // The context is lost: forgets what was loaded in it.
  void Abandon() ABSL_LOCKS_EXCLUDED(mutex_);
  void Reset() ABSL_LOCKS_EXCLUDED(mutex_);

  // See Backend::LoadKernels(). From any thread; nobody finds them until they
  // are kept.
  absl::StatusOr<std::unique_ptr<UserModule>> LoadUsers(
      const ModuleSource& source) ABSL_LOCKS_EXCLUDED(mutex_);
  std::vector<const simt::KernelInfo*> Keep(std::unique_ptr<UserModule> user)
      ABSL_LOCKS_EXCLUDED(mutex_);

  // A function of the image. Errors: NotFound.
  absl::StatusOr<CUfunction> Find(const std::string& name)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // The same, ready for launches of these dimensions: "carillon_call_" and the
  // kernel's name, say. Errors: InvalidArgument for a user's kernel, which has no
  // forms of gpud's.
  absl::StatusOr<CUfunction> FindFor(std::string_view prefix,
                                     const KernelMetadata& kmd)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // A user's kernel as it is, ready for launches of these dimensions.
  absl::StatusOr<CUfunction> FindUsers(const KernelMetadata& kmd)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // The same for a slice.
  absl::StatusOr<SliceFunction> FindSlices(const KernelMetadata& kmd)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // edgeReleaseBarrier, for all kernels that wait. Errors: Unimplemented, where no
  // file has kReleasesWord.
  absl::Status Release() ABSL_LOCKS_EXCLUDED(mutex_);

  // A word of eight bytes in the image's device memory.
  absl::StatusOr<uint64_t> DeviceWord(const std::string& name) const;

  // Bytes of shared memory to launch a kernel with: of a user's, those beside
  // the static ones, which its image asks for itself.
  static uint32_t DynamicShared(const KernelMetadata& kmd) {
    return kmd.kernel->is_users() ? kmd.shared_bytes : kmd.total_shared();
  }

 private:
  // With its kernels' sliced versions, where that can be.
  absl::Status LoadImage(const ModuleSource& source, UserModule& user) const;
  SliceFunction SlicesOf(const UserModule& user,
                         const UserKernel& kernel) const;
  absl::StatusOr<SliceFunction> AskForSlicesOf(const UserModule& user,
                                               const UserKernel& kernel) const;
  // Tells a file that waits where the releases are counted.
  absl::Status ShowReleases(UserModule& user)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<uint32_t> LargestFrame(CUmodule module) const;
  absl::StatusOr<KernelLayout> LayoutOf(CUfunction function) const;
  absl::Status MakeReady(CUfunction function, const KernelMetadata& kmd) const;
  absl::Status LoadAgain(UserModule& user)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Driver& driver_;
  const std::span<const std::byte> image_;
  Module module_;
  Mutex mutex_;
  std::map<std::string, CUfunction, std::less<>> functions_
      ABSL_GUARDED_BY(mutex_);
  std::map<const simt::KernelInfo*, UserFunctions> user_functions_
      ABSL_GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<UserModule>> user_modules_
      ABSL_GUARDED_BY(mutex_);
  // The word, while a file has wanted it, and what it shows. It never goes back,
  // in a new context either.
  PinnedBytes releases_ ABSL_GUARDED_BY(mutex_);
  uint64_t release_count_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace carillon::gpud::cuda

#endif  // CARILLON_GPU_DAEMON_BACKENDS_CUDA_DRIVER_MODULES_H_

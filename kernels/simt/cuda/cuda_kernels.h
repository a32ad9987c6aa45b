// The CUDA forms of this binary's kernels, which a back-end launches. Needs no
// CUDA headers. The list is filled when cuda_kernels.cu (target :cuda_kernels)
// is linked.
#ifndef CARILLON_KERNELS_SIMT_CUDA_CUDA_KERNELS_H_
#define CARILLON_KERNELS_SIMT_CUDA_CUDA_KERNELS_H_

#include <cstdint>
#include <string_view>

namespace carillon::simt {

// Adds a kernel to this binary's list; CARILLON_KERNEL_INFO makes it before
// main().
class CudaKernelRegistration {
 public:
  CudaKernelRegistration(std::string_view name, const void* function,
                         uint32_t args_size)
      : name_(name), function_(function), args_size_(args_size), next_(head_) {
    head_ = this;
  }
  static const CudaKernelRegistration* head() { return head_; }
  // Returns nullptr for an unknown name. Thread safe after main() began.
  static const CudaKernelRegistration* Find(std::string_view name) {
    const CudaKernelRegistration* kernel = head_;
    while (kernel != nullptr && kernel->name_ != name) kernel = kernel->next_;
    return kernel;
  }

  std::string_view name() const { return name_; }
  // For cudaLaunchKernel, with the arguments {Args, uint32_t* fail_status};
  // fail_status is a word in device memory that is 0 before the launch.
  const void* function() const { return function_; }
  uint32_t args_size() const { return args_size_; }
  const CudaKernelRegistration* next() const { return next_; }

 private:
  static inline constinit const CudaKernelRegistration* head_ = nullptr;
  std::string_view name_;
  const void* function_;
  uint32_t args_size_;
  const CudaKernelRegistration* next_;
};

}  // namespace carillon::simt

#endif  // CARILLON_KERNELS_SIMT_CUDA_CUDA_KERNELS_H_

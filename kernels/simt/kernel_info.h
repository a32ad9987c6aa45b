// What the daemon knows about a kernel: its name, parameters, cost, and how to
// run one block of it on a CPU core. CARILLON_KERNEL_INFO makes it beside the
// kernel, and registry.h finds it.
#ifndef CARILLON_KERNELS_SIMT_KERNEL_INFO_H_
#define CARILLON_KERNELS_SIMT_KERNEL_INFO_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <type_traits>

#include "kernels/simt/types.h"

namespace carillon::simt {

enum class ParamKind : uint8_t {
  kU32,
  kI32,
  kU64,
  kI64,
  kF32,
  kF64,
  kReadBuffer,   // Span<const T>
  kWriteBuffer,  // Span<T>
};

// How a buffer stands in the kernel's arguments. Values and pointers are passed
// as they are; gpud's own kernels take all buffers as spans.
enum class BufferForm : uint8_t {
  kSpan,     // Span<T>: pointer and count, 16 bytes
  kPointer,  // T*: 8 bytes; the kernel must know how many there are
};

struct ParamInfo {
  std::string_view name;
  ParamKind kind;
  uint32_t offset;         // in the kernel's argument struct, bytes
  uint32_t element_size;   // size of T for a buffer, of the value otherwise
  uint32_t element_align;  // the address of a buffer must be a multiple of it
  std::string_view description;
  BufferForm buffer_form = BufferForm::kSpan;  // for buffers only

  constexpr bool is_buffer() const {
    return kind == ParamKind::kReadBuffer || kind == ParamKind::kWriteBuffer;
  }
  // The bytes that it takes in the argument struct.
  constexpr uint32_t bytes() const {
    if (!is_buffer()) return element_size;
    return buffer_form == BufferForm::kSpan ? sizeof(Span<std::byte>)
                                            : sizeof(std::byte*);
  }
};

// The shape of a launch, for a kernel's checks.
struct LaunchShape {
  Dim3 grid;
  Dim3 block;
  uint32_t shared_bytes = 0;  // static and registered ones together
};

// Whether a resident warp of the GPU runs the kernel by itself, for events of one
// warp: it meets nobody at a barrier and ends soon, and needs few of the registers
// that the warp's block holds all the time.
inline constexpr uint32_t kMostInlineRegisters = 64;
constexpr bool RunsInline(uint32_t registers_per_thread, bool uses_barriers,
                          bool unbounded) {
  return registers_per_thread <= kMostInlineRegisters && !uses_barriers &&
         !unbounded;
}

// One thread block to run. The caller owns everything that it points to until
// run_block returns.
struct BlockLaunch {
  Dim3 grid;
  Dim3 block;
  Dim3 block_index;
  // Shared memory of this block, aligned to 16 bytes; at least
  // KernelInfo::static_shared_bytes. Its contents are unspecified at the start,
  // as on a GPU.
  uint32_t shared_bytes = 0;
  std::byte* shared = nullptr;
  // The event's status word, shared by all its blocks. It is 0 until the first
  // failure, which stays.
  uint32_t* fail_status = nullptr;
  // Optional: when a FailStatus of the back-end's own becomes the event's
  // status, this receives one NUL-terminated sentence. Read it only after every
  // block of the event has returned.
  char* fail_message = nullptr;
  uint32_t fail_message_size = 0;
};

struct KernelInfo {
  std::string_view name;
  std::string_view summary;  // one line
  std::span<const ParamInfo> params;
  uint32_t args_size;
  uint32_t args_align;
  // Runs every thread of one block to its end, in the calling thread. Never
  // blocks, never throws. Thread safe: different blocks may run at once in
  // different threads. nullptr: the kernel runs on a GPU only.
  void (*run_block)(const BlockLaunch& launch, const void* args);
  // The registers per thread that `nvcc -Xptxas -v -arch=sm_90` reports; they
  // decide the emulated SM's occupancy.
  uint32_t registers_per_thread;
  // The shared memory that the kernel always needs. A launch gets this plus
  // what the registration asks for; BlockLaunch::shared_bytes is the sum.
  uint32_t static_shared_bytes;
  bool uses_barriers;
  // An argument says how long the kernel runs, and no buffer's size limits it.
  bool unbounded;
  // For a kernel with barriers: no thread leaves it before its last barrier
  // unless its whole block does, so resident blocks can run it again and again
  // (launch path persistent). Irrelevant without barriers.
  bool leaves_together;
  // Early checks with clear messages; each may be nullptr. They return nullptr
  // if all is well, otherwise a static sentence that says what must hold.
  // Kernels must stay safe without them, because a GPU that launches by itself
  // has no CPU to ask. check_shape is for the registration of an event,
  // validate for the final arguments before a launch.
  const char* (*check_shape)(const LaunchShape& shape);
  const char* (*validate)(const LaunchShape& shape, const void* args);

  // For a user's kernel (gpu_daemon/event/user_kernel.h): the __global__'s name
  // in its image, and the file that it came from. Empty for kernels of this
  // binary.
  std::string_view symbol = {};
  std::string_view file = {};
  // The largest block that it can be launched with (__launch_bounds__).
  uint32_t most_threads = 1024;
  // The GPU's resident warps leave it to a launch, although it is small: with its
  // code in theirs they would have too few registers.
  bool launched_only = false;
  // The program or text that it was written after, with the paper that measures
  // it; and what a test compares its results with that is not of this project.
  std::string_view from = {};
  std::string_view oracle = {};

  // Whether the GPU's resident warps have its code.
  constexpr bool runs_inline() const {
    return !is_users() && !launched_only &&
           RunsInline(registers_per_thread, uses_barriers, unbounded);
  }
  // Whether it is a user's kernel. Those are launched as they are: without an
  // epilogue that completes an event, and without a status of their own.
  constexpr bool is_users() const { return !symbol.empty(); }
};

namespace internal {

template <ParamKind kKindOf, class T>
struct ParamOf {
  static constexpr ParamKind kKind = kKindOf;
  using Element = T;
};
template <class T>
struct ParamTraits;
template <>
struct ParamTraits<uint32_t> : ParamOf<ParamKind::kU32, uint32_t> {};
template <>
struct ParamTraits<int32_t> : ParamOf<ParamKind::kI32, int32_t> {};
template <>
struct ParamTraits<uint64_t> : ParamOf<ParamKind::kU64, uint64_t> {};
template <>
struct ParamTraits<int64_t> : ParamOf<ParamKind::kI64, int64_t> {};
template <>
struct ParamTraits<float> : ParamOf<ParamKind::kF32, float> {};
template <>
struct ParamTraits<double> : ParamOf<ParamKind::kF64, double> {};
template <class T>
struct ParamTraits<Span<const T>> : ParamOf<ParamKind::kReadBuffer, T> {};
template <class T>
struct ParamTraits<Span<T>> : ParamOf<ParamKind::kWriteBuffer, T> {};

template <class Member>
constexpr ParamInfo MakeParam(std::string_view name, size_t offset,
                              std::string_view description) {
  using Traits = ParamTraits<Member>;
  using Element = typename Traits::Element;
  return ParamInfo{name,
                   Traits::kKind,
                   static_cast<uint32_t>(offset),
                   static_cast<uint32_t>(sizeof(Element)),
                   static_cast<uint32_t>(alignof(Element)),
                   description};
}

template <class F>
struct ValidatorArgs;
template <class Args>
struct ValidatorArgs<const char* (*)(const LaunchShape&, const Args&)> {
  using type = Args;
};

}  // namespace internal

// The costs, checks and source of a kernel, written as
// Registers(24).Shared(400).From("...").Shape<&CheckShape>()...
struct KernelTraits {
  uint32_t registers = 0;
  uint32_t shared_bytes = 0;
  bool unbounded = false;
  bool leaves_together = false;
  bool launched_only = false;
  std::string_view from = {};
  std::string_view oracle = {};
  const char* (*check_shape)(const LaunchShape&) = nullptr;
  const char* (*validate)(const LaunchShape&, const void*) = nullptr;

 private:
  // Stands before its users, for clang 14, which evaluates these while it
  // compiles and instantiates no template whose body it has not read.
  template <class T>
  constexpr KernelTraits With(T KernelTraits::*member,
                              std::type_identity_t<T> value) const {
    KernelTraits traits = *this;
    traits.*member = value;
    return traits;
  }

 public:
  constexpr KernelTraits Shared(uint32_t bytes) const {
    return With(&KernelTraits::shared_bytes, bytes);
  }
  constexpr KernelTraits Unbounded() const {
    return With(&KernelTraits::unbounded, true);
  }
  constexpr KernelTraits LeavesTogether() const {
    return With(&KernelTraits::leaves_together, true);
  }
  constexpr KernelTraits LaunchedOnly() const {
    return With(&KernelTraits::launched_only, true);
  }
  constexpr KernelTraits From(std::string_view source) const {
    return With(&KernelTraits::from, source);
  }
  constexpr KernelTraits Oracle(std::string_view source) const {
    return With(&KernelTraits::oracle, source);
  }
  template <const char* (*F)(const LaunchShape&)>
  constexpr KernelTraits Shape() const {
    return With(&KernelTraits::check_shape, F);
  }
  template <auto F>
  constexpr KernelTraits Validate() const {
    using Args = typename internal::ValidatorArgs<decltype(F)>::type;
    return With(&KernelTraits::validate,
                [](const LaunchShape& shape, const void* args) {
                  return F(shape, *static_cast<const Args*>(args));
                });
  }
};

constexpr KernelTraits Registers(uint32_t per_thread) {
  return KernelTraits{.registers = per_thread};
}

// Adds a kernel to this binary's list; CARILLON_KERNEL_INFO makes it before
// main().
class KernelRegistration {
 public:
  explicit KernelRegistration(const KernelInfo* info)
      : info_(info), next_(head_) {
    head_ = this;
  }
  static const KernelRegistration* head() { return head_; }
  const KernelInfo* info() const { return info_; }
  const KernelRegistration* next() const { return next_; }

 private:
  static inline constinit const KernelRegistration* head_ = nullptr;
  const KernelInfo* info_;
  const KernelRegistration* next_;
};

}  // namespace carillon::simt

// One parameter of Args; kind and offset follow from the member's type.
#define CARILLON_PARAM(Args, member, description)                \
  ::carillon::simt::internal::MakeParam<decltype(Args::member)>( \
      #member, offsetof(Args, member), description)

#endif  // CARILLON_KERNELS_SIMT_KERNEL_INFO_H_

#include "gpu_daemon/backends/cuda/driver/context.h"

#include <algorithm>
#include <utility>

#include "base/status.h"
#include "fmt/format.h"
#include "gpu_daemon/event/kernel_metadata.h"
#include "kernels/simt/event_frame.h"

namespace carillon::gpud::cuda {

absl::Status Context::Describe() {
  RETURN_IF_ERROR(ToStatus(driver_, driver_.cuDeviceGet(&device_, 0),
                           "find the first GPU"));
  int version = 0;
  char name[256] = {};
  driver_.cuDriverGetVersion(&version);
  driver_.cuDeviceGetName(name, sizeof(name), device_);
  const auto attribute = [&](CUdevice_attribute which) {
    int value = 0;
    driver_.cuDeviceGetAttribute(&value, which, device_);
    return static_cast<uint32_t>(std::max(value, 0));
  };
  model_ = {
      .sms = attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT),
      .blocks_per_sm =
          attribute(CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR),
      .threads_per_sm =
          attribute(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR),
      .registers_per_sm =
          attribute(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR),
      .shared_bytes_per_sm =
          attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN) -
          simt::kEventSharedBytes};
  description_ = fmt::format("{} ({} SMs), driver {}", name, model_.sms,
                             VersionName(version));
  if (attribute(CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM) ==
      0) {
    return absl::UnimplementedError(fmt::format(
        "{} cannot use the host's addresses for registered memory: gpud needs "
        "a GPU that does",
        description_));
  }
  return absl::OkStatus();
}

absl::Status Context::Make() {
  // The primary one: green contexts are parts of it, and share its modules and
  // its memory.
  if (auto status = ToStatus(
          driver_, driver_.cuDevicePrimaryCtxRetain(&context_, device_),
          "make a CUDA context");
      !status.ok()) {
    context_ = nullptr;
    return status;
  }
  static std::atomic<uint64_t> epochs{0};  // writers: those who make contexts
  epoch_ = epochs.fetch_add(1, std::memory_order_relaxed) + 1;
  stack_bytes_ = 0;
  MakeCurrent();
  driver_.cuCtxGetStreamPriorityRange(&least_priority_, &greatest_priority_);
  if (reserved()) return Split(reserve_);
  return divided_ ? Split(model_.sms / 2) : absl::OkStatus();
}

void Context::Lose() {
  for (Part& part : parts_) part = {};
  if (context_ != nullptr) {
    driver_.cuDevicePrimaryCtxReset(device_);
    driver_.cuDevicePrimaryCtxRelease(device_);
  }
  context_ = nullptr;
}

void Context::Release() {
  for (Part& part : parts_) part = {};
  if (context_ != nullptr) driver_.cuDevicePrimaryCtxRelease(device_);
  context_ = nullptr;
}

void Context::MakeCurrent() const {
  thread_local uint64_t current_epoch = 0;
  if (current_epoch == epoch_) return;
  driver_.cuCtxSetCurrent(context_);
  current_epoch = epoch_;
}

absl::Status Context::Divide() {
  return divided_ ? absl::OkStatus() : Split(model_.sms / 2);
}

void Context::Undivide() {
  if (reserved()) return;
  divided_.store(false, std::memory_order_release);
  for (Part& part : parts_) part = {};
}

absl::Status Context::Split(uint32_t wanted) {
  CUdevResource all = {};
  CUdevResource events = {};
  CUdevResource rest = {};
  unsigned groups = 1;
  CUresult result =
      driver_.cuDeviceGetDevResource(device_, &all, CU_DEV_RESOURCE_TYPE_SM);
  if (result == CUDA_SUCCESS) {
    // Fewer than that a GPU of compute capability 9.0 gives only without room
    // for thread block clusters, of which gpud launches none.
    constexpr uint32_t kSmsOfClusters = 8;
    result = driver_.cuDevSmResourceSplitByCount(
        &events, &groups, &all, &rest,
        wanted < kSmsOfClusters
            ? CU_DEV_SM_RESOURCE_SPLIT_IGNORE_SM_COSCHEDULING
            : 0,
        wanted);
  }
  const std::string what =
      fmt::format("reserve {} of {} SMs", wanted, model_.sms);
  if (result == CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION ||
      (result == CUDA_SUCCESS && rest.sm.smCount == 0)) {
    return absl::InvalidArgumentError(
        fmt::format("cannot {}: some must be left for everything else", what));
  }
  RETURN_IF_ERROR(ToStatus(driver_, result, what));
  ASSIGN_OR_RETURN(auto events_part, MakePart(events));
  ASSIGN_OR_RETURN(parts_[1], MakePart(rest));
  parts_[0] = std::move(events_part);
  if (part_sizes_.events == 0)
    part_sizes_ = {events.sm.smCount, rest.sm.smCount};
  divided_.store(true, std::memory_order_release);
  return absl::OkStatus();
}

absl::StatusOr<Context::Part> Context::MakePart(CUdevResource sms) const {
  CUdevResourceDesc description = nullptr;
  CUgreenCtx green = nullptr;
  Part part;
  CUresult result = driver_.cuDevResourceGenerateDesc(&description, &sms, 1);
  if (result == CUDA_SUCCESS) {
    result = driver_.cuGreenCtxCreate(&green, description, device_,
                                      CU_GREEN_CTX_DEFAULT_STREAM);
  }
  if (result == CUDA_SUCCESS) {
    part.green = GreenContext(&driver_, green);
    result = driver_.cuCtxFromGreenCtx(&part.context, green);
  }
  RETURN_IF_ERROR(
      ToStatus(driver_, result, "make a green context of reserved SMs"));
  return part;
}

const Context::Part& Context::PartOf(SmSet sms) const {
  static const Part all;
  switch (sms) {
    case SmSet::kEdge:
      return reserved() ? parts_[0] : all;
    case SmSet::kRest:
      return reserved() ? parts_[1] : all;
    case SmSet::kEvents:
      return parts_[0];
    case SmSet::kBackground:
      return parts_[1];
  }
  return all;
}

Context::OnSms::OnSms(Context* context, SmSet sms) : context_(context) {
  const Part& part = context_->PartOf(sms);
  if (!part.green) return;
  const std::lock_guard turn(context_->next_on_sms_);
  lock_ = std::unique_lock(context_->on_sms_);
  context_->driver_.cuCtxSetCurrent(part.context);
}

Context::OnSms::~OnSms() {
  if (lock_) context_->driver_.cuCtxSetCurrent(context_->context_);
}

absl::Status Context::TakeStack(uint32_t frame_bytes, CUfunction function,
                                CUstream stream) {
  // For what a user's kernel calls by address, which its own frame does not tell.
  constexpr uint32_t kBesideFrame = 1024;
  // More than gpud's own kernels have: most users' kernels are loaded without
  // asking the GPU for more.
  constexpr uint32_t kLeast = 4096;
  const uint32_t bytes = std::max(frame_bytes + kBesideFrame, kLeast);
  if (bytes <= stack_bytes_) return absl::OkStatus();
  CUresult result = driver_.cuCtxSetLimit(CU_LIMIT_STACK_SIZE, bytes);
  // The limit alone takes no memory; a launch does.
  if (result == CUDA_SUCCESS) {
    result = driver_.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream,
                                    nullptr, nullptr);
  }
  if (result == CUDA_SUCCESS) {
    result = driver_.cuStreamSynchronize(stream);
  }
  if (result == CUDA_SUCCESS) {
    stack_bytes_ = bytes;
  } else if (stack_bytes_ != 0) {
    // Else every launch to come would try to take what is not there.
    driver_.cuCtxSetLimit(CU_LIMIT_STACK_SIZE, stack_bytes_);
  }
  return ToStatus(driver_, result,
                  fmt::format("give every thread {} bytes of stack", bytes));
}

absl::StatusOr<std::shared_ptr<const void>> Context::TakeStreamPlace() {
  if (streams_.fetch_add(1, std::memory_order_relaxed) >= kMaxStreams) {
    streams_.fetch_sub(1, std::memory_order_relaxed);
    return absl::ResourceExhaustedError(fmt::format(
        "gpud has {} CUDA streams already: that is the limit, for more would "
        "wait for each other; use launch path edge, or fewer launch paths and "
        "priorities",
        kMaxStreams));
  }
  return std::shared_ptr<const void>(
      &streams_, [count = &streams_](const void*) {
        count->fetch_sub(1, std::memory_order_relaxed);
      });
}

absl::StatusOr<Stream> Context::MakeStream(SmSet sms, uint32_t priority) {
  ASSIGN_OR_RETURN(auto place, TakeStreamPlace());
  const GreenContext& part = PartOf(sms).green;
  const int native = NativePriority(priority);
  ASSIGN_OR_RETURN(auto stream, part ? cuda::MakeStream(driver_, part, native)
                                     : cuda::MakeStream(driver_, native));
  stream.Hold(std::move(place));
  return stream;
}

absl::StatusOr<Stream> Context::MakeOwnStream() {
  ASSIGN_OR_RETURN(auto place, TakeStreamPlace());
  ASSIGN_OR_RETURN(auto stream, cuda::MakeStream(driver_, greatest_priority_));
  stream.Hold(std::move(place));
  return stream;
}

int Context::NativePriority(uint32_t priority) const {
  return least_priority_ + (greatest_priority_ - least_priority_) *
                               static_cast<int>(priority) /
                               static_cast<int>(kPriorities - 1);
}

}  // namespace carillon::gpud::cuda

#include "gpu_daemon/control/sessions/background_launch.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/clock.h"
#include "base/status.h"
#include "fmt/format.h"
#include "gpu_daemon/control/error_detail.h"
#include "gpu_daemon/control/sessions/kernel_request.h"
#include "gpu_daemon/control/sessions/parameter_bindings.h"
#include "gpu_daemon/event/launch_filter.h"

namespace carillon::gpud {
namespace {

// How often a waiting call looks whether its caller is still there.
constexpr std::chrono::milliseconds kLookEvery{20};

absl::Status CheckUnchanging(const v1::LaunchKernelRequest& request) {
  for (const auto& parameter : request.parameters()) {
    if (!parameter.writable() && parameter.slot_stride() == 0) continue;
    return Error(absl::StatusCode::kInvalidArgument,
                 "an ordinary launch has no ESQ entry: no parameter can be "
                 "writable or have a slot stride",
                 reason::kBadBinding, parameter.name());
  }
  return absl::OkStatus();
}

absl::Status CheckInside(std::string_view field, uint64_t offset,
                         uint64_t bytes, const Buffer& buffer) {
  if (offset <= buffer.bytes() && bytes <= buffer.bytes() - offset) {
    return absl::OkStatus();
  }
  return Error(absl::StatusCode::kOutOfRange,
               fmt::format("{} {} and {} bytes leave a buffer of {} bytes",
                           field, offset, bytes, buffer.bytes()),
               reason::kBadCopy, field);
}

}  // namespace

absl::StatusOr<std::shared_ptr<BackgroundLaunch>> BackgroundLaunch::Create(
    const v1::LaunchKernelRequest& request,
    const std::shared_ptr<DeviceSpace>& space, const BufferTable& buffers,
    SessionContext* context) {
  ASSIGN_OR_RETURN(
      auto kmd,
      MakeKernelMetadata(
          request.kernel(), request.has_grid() ? &request.grid() : nullptr,
          request.has_block() ? &request.block() : nullptr,
          request.shared_bytes(), *context->kernels, *context->backend));
  RETURN_IF_ERROR(CheckUnchanging(request));
  ASSIGN_OR_RETURN(auto bound, BindParameters(*kmd.kernel, request.parameters(),
                                              1, buffers.finder()));
  auto plan = ArgumentPlan::Make(*kmd.kernel, bound.bindings);
  if (!plan.ok()) {
    return WithDetail(plan.status(), reason::kBadBinding, request.kernel());
  }
  RETURN_IF_ERROR(CheckFixedArguments(kmd, *plan));

  std::shared_ptr<BackgroundLaunch> self(
      new BackgroundLaunch(context, std::move(bound.buffers)));
  auto launch = std::make_unique<KernelLaunch>();
  launch->kmd = kmd;
  launch->cost = CostOf(kmd.threads(), kmd.kernel->registers_per_thread,
                        kmd.total_shared());
  launch->priority = request.priority();
  launch->from_host = true;
  ArgumentBlock args;
  plan->Build(0, nullptr, args.data());
  launch->args = std::make_unique<std::byte[]>(kmd.kernel->args_size);
  std::copy_n(args.data(), kmd.kernel->args_size, launch->args.get());
  launch->memory = space->memory();
  launch->token = self->token_;
  self->launch_ = std::move(launch);
  return self;
}

absl::StatusOr<std::shared_ptr<BackgroundLaunch>> BackgroundLaunch::Create(
    const v1::CopyRequest& request, const std::shared_ptr<DeviceSpace>& space,
    const BufferTable& buffers, SessionContext* context) {
  ASSIGN_OR_RETURN(auto from, buffers.Find(request.from_buffer()));
  ASSIGN_OR_RETURN(auto to, buffers.Find(request.to_buffer()));
  const bool in = from->place() == v1::INPUT && to->place() == v1::GPU_MEMORY;
  const bool out = from->place() == v1::GPU_MEMORY && to->place() == v1::OUTPUT;
  if (!in && !out) {
    return Error(absl::StatusCode::kInvalidArgument,
                 "a copy goes from an input buffer to GPU memory, or from GPU "
                 "memory to an output buffer: have a kernel copy the rest",
                 reason::kBadCopy, "to_buffer");
  }
  if (request.bytes() == 0) {
    return Error(absl::StatusCode::kInvalidArgument, "a copy of 0 bytes",
                 reason::kBadCopy, "bytes");
  }
  RETURN_IF_ERROR(CheckInside("from_offset", request.from_offset(),
                              request.bytes(), *from));
  RETURN_IF_ERROR(
      CheckInside("to_offset", request.to_offset(), request.bytes(), *to));
  auto copy = std::make_unique<MemoryCopy>();
  copy->direction = in ? CopyDirection::kIn : CopyDirection::kOut;
  copy->from = from->data() + request.from_offset();
  copy->to = to->data() + request.to_offset();
  copy->bytes = request.bytes();
  copy->priority = request.priority();
  copy->memory = space->memory();
  std::shared_ptr<BackgroundLaunch> self(
      new BackgroundLaunch(context, {std::move(from), std::move(to)}));
  copy->token = self->token_;
  self->copy_ = std::move(copy);
  return self;
}

void BackgroundLaunch::Submit() {
  auto on_end = [self = shared_from_this()](const LaunchResult& result) {
    self->End(result);
  };
  if (launch_ != nullptr) {
    launch_->on_end = std::move(on_end);
    launch_->life.queued_ns = NowNs();
    context_->backend->Submit(std::move(launch_));
  } else {
    copy_->on_end = std::move(on_end);
    copy_->queued_ns = NowNs();
    context_->backend->Submit(std::move(copy_));
  }
}

std::optional<LaunchResult> BackgroundLaunch::Wait(
    const std::function<bool()>& given_up) {
  MutexLock lock(mutex_);
  while (!result_) {
    if (ended_.WaitFor(mutex_, kLookEvery) || result_ || !given_up()) continue;
    lock.Unlock();
    context_->backend->Cancel(LaunchFilter::OfToken(token_),
                              shm::EventStatus::kUnregistered);
    return std::nullopt;
  }
  return result_;
}

void BackgroundLaunch::End(const LaunchResult& result) {
  MutexLock lock(mutex_);
  result_ = result;
  ended_.NotifyAll();
}

bool BackgroundLaunch::ended() const {
  MutexLock lock(mutex_);
  return result_.has_value();
}

bool BackgroundLaunch::Uses(const Buffer& buffer) const {
  // A kernel that has ended does not use its buffers any more.
  return !ended() &&
         std::any_of(buffers_.begin(), buffers_.end(),
                     [&](const auto& used) { return used.get() == &buffer; });
}

}  // namespace carillon::gpud

#include "tools/cli/sweep/claims.h"

#include <fmt/format.h>

#include <utility>

#include "base/status.h"

namespace carillon::cli {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kKeepAlivePeriod{1};
constexpr std::chrono::milliseconds kRetryPeriod{200};

}  // namespace

std::string ClaimPrefix(std::string_view sweep) {
  return fmt::format("/carillon/v1/sweeps/{}/claims/", sweep);
}

Claims::Claims(std::unique_ptr<mesh::Etcd> etcd, std::string_view sweep,
               std::string worker)
    : etcd_(std::move(etcd)),
      prefix_(ClaimPrefix(sweep)),
      worker_(std::move(worker)),
      keeper_([this] { KeepAlive(); }) {}

Claims::~Claims() {
  {
    MutexLock lock(mutex_);
    ending_ = true;
  }
  ended_.NotifyOne();
  keeper_.join();
  // If etcd does not answer, it ends the lease by itself.
  if (lease_ != 0) etcd_->Revoke(lease_).IgnoreError();
}

void Claims::KeepAlive() {
  MutexLock lock(mutex_);
  while (!ending_) {
    ended_.WaitFor(mutex_, kKeepAlivePeriod);
    const auto lease = lease_;
    if (lease == 0 || ending_) continue;
    lock.Unlock();
    const absl::Status status = etcd_->KeepAlive(lease);
    lock.Lock();
    if (absl::IsNotFound(status) && lease_ == lease) lease_ = 0;
  }
}

absl::StatusOr<bool> Claims::TryTake(std::string_view run) {
  mesh::Etcd::LeaseId lease;
  {
    MutexLock lock(mutex_);
    lease = lease_;
  }
  if (lease == 0) {
    ASSIGN_OR_RETURN(lease, etcd_->GrantLease(kLeaseLength));
    MutexLock lock(mutex_);
    lease_ = lease;
  }
  const auto claim = etcd_->PutNew(prefix_ + std::string(run), worker_, lease);
  if (absl::IsNotFound(claim.status())) {
    MutexLock lock(mutex_);
    lease_ = 0;
  }
  RETURN_IF_ERROR(claim.status());
  return claim->lease == lease;
}

absl::StatusOr<bool> Claims::Take(std::string_view run,
                                  std::chrono::seconds patience) {
  const auto end = Clock::now() + patience;
  while (true) {
    auto taken = TryTake(run);
    if (taken.ok() || Clock::now() >= end ||
        absl::IsPermissionDenied(taken.status())) {
      return taken;
    }
    std::this_thread::sleep_for(kRetryPeriod);
  }
}

void Claims::Release(std::string_view run) {
  // If it does not answer, the key goes with the lease.
  etcd_->Delete(prefix_ + std::string(run)).IgnoreError();
}

}  // namespace carillon::cli

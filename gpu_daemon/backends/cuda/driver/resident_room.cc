#include "gpu_daemon/backends/cuda/driver/resident_room.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "base/text.h"
#include "fmt/format.h"
#include "fmt/ranges.h"

namespace carillon::gpud::cuda {

ResidentRoom::Held::~Held() {
  MutexLock lock(room_.mutex_);
  room_.Resize(*this, 0);
  std::erase(room_.holders_, this);
}

uint32_t ResidentRoom::Held::Resize(uint32_t blocks) {
  MutexLock lock(room_.mutex_);
  room_.Resize(*this, std::max(blocks, 1u));
  return this->blocks();
}

void ResidentRoom::Resize(Held& held, uint32_t blocks) {
  while (held.sms_.size() > blocks) {
    occupancy_.Release(held.sms_.back(), held.cost_);
    held.sms_.pop_back();
  }
  while (held.sms_.size() < blocks) {
    const auto sm = occupancy_.Place(held.cost_, held.range_);
    if (!sm) return;
    held.sms_.push_back(*sm);
  }
}

absl::StatusOr<std::unique_ptr<ResidentRoom::Held>> ResidentRoom::Take(
    std::string_view path, const BlockCost& cost, uint32_t least, uint32_t most,
    const SmRange& sms) {
  std::unique_ptr<Held> held(new Held(this, std::string(path), cost, sms));
  std::string holders;
  {
    MutexLock lock(mutex_);
    Resize(*held, most);
    if (held->blocks() >= least) {
      holders_.push_back(held.get());
      return held;
    }
    holders = Holders();
  }
  return absl::ResourceExhaustedError(fmt::format(
      "launch path {} has no room on the GPU for {} of {} threads, {} "
      "registers "
      "and {} bytes of shared memory that would stay there: {} of them would "
      "fit beside what stays ({}); unregister event kernels of those launch "
      "paths, or use another launch path",
      path, FormatPlural(least, "thread block"), cost.threads, cost.registers,
      cost.shared_bytes, held->blocks(), holders));
}

// By path: one may hold room several times.
std::string ResidentRoom::Holders() const {
  struct Sum {
    std::string path;
    uint64_t blocks = 0;
    uint64_t threads = 0;
    uint64_t shared_bytes = 0;
  };
  std::vector<Sum> sums;
  for (const Held* held : holders_) {
    auto sum = std::ranges::find(sums, held->path_, &Sum::path);
    if (sum == sums.end()) sum = sums.insert(sums.end(), Sum{held->path_});
    sum->blocks += held->blocks();
    sum->threads += uint64_t{held->blocks()} * held->cost_.threads;
    sum->shared_bytes += uint64_t{held->blocks()} * held->cost_.shared_bytes;
  }
  std::vector<std::string> texts;
  for (const Sum& sum : sums) {
    texts.push_back(fmt::format(
        "{} holds {} with {} threads and {} bytes of shared memory", sum.path,
        FormatPlural(sum.blocks, "block"), sum.threads, sum.shared_bytes));
  }
  return texts.empty() ? "nothing" : fmt::format("{}", fmt::join(texts, ", "));
}

}  // namespace carillon::gpud::cuda

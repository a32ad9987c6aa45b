#include "tools/bench/narrow/record.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <string_view>

namespace carillon::bench {
namespace {

constexpr std::string_view kNames[] = {
#define CARILLON_NARROW_NAME_TEXT(kernel) #kernel,
    CARILLON_NARROW_KERNELS(CARILLON_NARROW_NAME_TEXT)
#undef CARILLON_NARROW_NAME_TEXT
};

}  // namespace

NarrowRecord RecordOf(const NarrowUnit& task, uint64_t data, uint64_t status) {
  NarrowRecord record{};
  record.status = reinterpret_cast<uint32_t*>(status);
  record.kernel = static_cast<uint32_t>(
      std::ranges::find(kNames, task.kernel->name) - std::begin(kNames));
  record.threads = task.threads;
  const auto args = NarrowWorkload::ArgumentsOf(task, data);
  std::memcpy(record.args, args.data(), args.size());
  return record;
}

FusedLaunch FusedLaunchOf(std::span<const NarrowRecord> tasks) {
  FusedLaunch launch;
  bool same = true;
  for (const NarrowRecord& task : tasks) {
    same = same && task.kernel == tasks[0].kernel;
    launch.threads = std::max(launch.threads, task.threads);
  }
  launch.kernel =
      same ? fmt::format("fused_{}", kNames[tasks[0].kernel]) : "fused_any";
  return launch;
}

}  // namespace carillon::bench

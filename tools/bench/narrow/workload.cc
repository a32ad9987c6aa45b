#include "tools/bench/narrow/workload.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <iterator>
#include <thread>
#include <utility>
#include <vector>

#include "base/status.h"
#include "tools/bench/narrow/builder.h"

namespace carillon::bench {
namespace {

using kernels::NarrowKind;
using kernels::NarrowTask;

constexpr std::pair<std::string_view, NarrowKind> kKinds[] = {
    {"mb", NarrowKind::kMb},     {"fb", NarrowKind::kFb},
    {"bf", NarrowKind::kBf},     {"conv", NarrowKind::kConv},
    {"dct", NarrowKind::kDct},   {"mm", NarrowKind::kMm},
    {"slud", NarrowKind::kSlud}, {"3des", NarrowKind::kTripleDes},
    {"mpe", NarrowKind::kMpe}};

constexpr uint32_t kMostThreads = 1024;
constexpr uint32_t kWarp = 32;

// The fewest tasks that are whole groups.
uint32_t WholeGroups(NarrowKind kind, uint32_t count) {
  const auto up = [&](uint32_t unit) {
    return (count + unit - 1) / unit * unit;
  };
  switch (kind) {
    case NarrowKind::kBf:
      return up(2 * kernels::kBeamChannels + 2 * kernels::kBeams);
    case NarrowKind::kConv:
      return up(2);
    case NarrowKind::kMpe:
      return up(4);
    case NarrowKind::kSlud: {
      const uint32_t blocks = kernels::SludBlocks(count);
      while (kernels::SludBlocks(count + 1) == blocks) ++count;
      return count;
    }
    default:
      return count;
  }
}

}  // namespace

const std::vector<std::string>& NarrowWorkload::Names() {
  static const auto* const names = [] {
    auto* const all = new std::vector<std::string>;
    for (const auto& [name, kind] : kKinds) all->emplace_back(name);
    return all;
  }();
  return *names;
}

absl::Status NarrowWorkload::CheckName(std::string_view name) {
  if (std::ranges::find(Names(), name) != Names().end()) {
    return absl::OkStatus();
  }
  return absl::NotFoundError(
      fmt::format("there is no workload '{}': there are {}", name,
                  fmt::join(Names(), ", ")));
}

absl::StatusOr<NarrowWorkload> NarrowWorkload::Make(
    std::string_view name, uint32_t count, uint64_t seed, uint32_t threads,
    kernels::NarrowSizes sizes) {
  const auto kind = std::ranges::find(
      kKinds, name, &std::pair<std::string_view, NarrowKind>::first);
  RETURN_IF_ERROR(CheckName(name));
  if (count == 0 || count > kMostTasks) {
    return absl::InvalidArgumentError(
        fmt::format("{} tasks: a run has 1 to {}", count, kMostTasks));
  }
  if (threads % kWarp != 0 || threads > kMostThreads) {
    return absl::InvalidArgumentError(
        fmt::format("{} threads a task: a multiple of {}, at most {}, or 0 for "
                    "the paper's",
                    threads, kWarp, kMostThreads));
  }
  NarrowWorkload workload;
  workload.name_ = name;
  const auto tasks = kernels::NarrowTasks(
      kind->second, WholeGroups(kind->second, count), seed, sizes);
  workload.tasks_.reserve(tasks.size());
  Builder builder(&workload, seed);
  const bool slud = kind->second == NarrowKind::kSlud;
  if (slud) builder.AddMatrix(tasks);
  for (const NarrowTask& task : tasks) builder.Add(task, threads);
  if (slud) builder.CheckMatrix();
  return workload;
}

std::vector<std::byte> NarrowWorkload::ArgumentsOf(const NarrowUnit& task,
                                                   uint64_t base) {
  std::vector<std::byte> bytes(task.kernel->args_size);
  for (const NarrowArgument& argument : task.arguments) {
    const auto param = std::ranges::find(task.kernel->params, argument.name,
                                         &simt::ParamInfo::name);
    if (argument.is_buffer) {
      const simt::Span<std::byte> span = {
          reinterpret_cast<std::byte*>(base + argument.offset),
          argument.bytes / param->element_size};
      std::memcpy(&bytes[param->offset], &span, sizeof(span));
    } else {
      std::memcpy(&bytes[param->offset], &argument.bits, sizeof(uint32_t));
    }
  }
  return bytes;
}

absl::Status NarrowWorkload::Check(std::span<const std::byte> memory) const {
  // Of 32,768 tasks these are gigabytes: all cores compare.
  constexpr size_t kAtOnce = 64;
  std::atomic<size_t> next{0};
  std::atomic<size_t> wrong{results_.size()};  // the first
  const auto compare = [&] {
    for (size_t i = next.fetch_add(kAtOnce); i < results_.size();
         i = next.fetch_add(kAtOnce)) {
      const size_t end = std::min(i + kAtOnce, results_.size());
      while (i < end && results_[i].is_right(memory)) ++i;
      if (i == end) continue;
      size_t known = wrong.load();
      while (i < known && !wrong.compare_exchange_weak(known, i)) continue;
      i = end;
    }
  };
  std::vector<std::jthread> others;
  const size_t threads = std::min<size_t>(std::thread::hardware_concurrency(),
                                          results_.size() / kAtOnce);
  for (size_t i = 1; i < threads; ++i) others.emplace_back(compare);
  compare();
  others.clear();
  if (wrong == results_.size()) return absl::OkStatus();
  const size_t task = results_[wrong].task;
  return absl::DataLossError(
      fmt::format("{}: task {} of {} ({}) has a wrong result", name_, task,
                  tasks_.size(), tasks_[task].kernel->name));
}

}  // namespace carillon::bench

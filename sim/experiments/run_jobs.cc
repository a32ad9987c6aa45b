#include "sim/experiments/run_jobs.h"

#include <time.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string_view>
#include <thread>
#include <utility>

#include "base/status.h"
#include "fmt/format.h"
#include "sim/experiments/result_folder.h"

namespace carillon::sim::figures {
namespace {

// Of this thread. Unlike the time of day it is not that of others, too, who
// share the cores.
double ProcessorSeconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) +
         static_cast<double>(time.tv_nsec) * 1e-9;
}

class Pool {
 public:
  Pool(std::vector<const Job*> jobs, const timing::Config& config,
       const RunJobsOptions& options)
      : jobs_(std::move(jobs)),
        config_(config),
        options_(options),
        kept_(options.cache, config) {}

  absl::StatusOr<Results> Run() {
    RETURN_IF_ERROR(kept_.Prepare());
    std::vector<std::thread> threads;
    for (uint32_t i = 0; i < std::max(1u, options_.threads); ++i) {
      threads.emplace_back([this] { Work(); });
    }
    for (std::thread& thread : threads) thread.join();
    if (!status_.ok()) return status_;
    return std::move(results_);
  }

 private:
  void Work() {
    for (size_t i = next_++; i < jobs_.size() && !cancelled_; i = next_++) {
      const Job& job = *jobs_[i];
      if (auto found = kept_.Find(job)) {
        const double seconds = found->value("seconds", 0.0);
        Done(job, std::move((*found)["result"]), seconds, /*cached=*/true);
        continue;
      }
      const double begin = ProcessorSeconds();
      double child_seconds = 0;
      auto result =
          RunJob(job, config_,
                 {.cancelled = &cancelled_, .child_seconds = &child_seconds});
      const double seconds = ProcessorSeconds() - begin + child_seconds;
      if (result.ok()) {
        const absl::Status kept = kept_.Keep(job, *result, seconds);
        if (!kept.ok()) result = kept;
      }
      Done(job, std::move(result), seconds, /*cached=*/false);
    }
  }

  void Done(const Job& job, absl::StatusOr<Json> result, double seconds,
            bool cached) {
    std::lock_guard lock(mutex_);
    if (!result.ok()) {
      if (status_.ok()) {
        status_ = absl::Status(
            result.status().code(),
            fmt::format("{}: {}", job.name, result.status().message()));
      }
      cancelled_ = true;
      return;
    }
    results_[job.name] = *std::move(result);
    if (options_.progress) {
      options_.progress({job, results_.size(), jobs_.size(), seconds, cached});
    }
  }

  const std::vector<const Job*> jobs_;
  const timing::Config& config_;
  const RunJobsOptions& options_;
  const ResultFolder kept_;
  // Each thread takes the next job, and any thread may stop all.
  std::atomic<size_t> next_{0};
  std::atomic<bool> cancelled_{false};
  std::mutex mutex_;
  Results results_;      // guarded by mutex_, as the next
  absl::Status status_;  // of the first that failed
};

}  // namespace

absl::StatusOr<Results> RunJobs(const std::vector<Job>& jobs,
                                const timing::Config& config,
                                const RunJobsOptions& options) {
  std::vector<const Job*> once;
  std::set<std::string_view> names;
  for (const Job& job : jobs) {
    if (names.insert(job.name).second) once.push_back(&job);
  }
  return Pool(std::move(once), config, options).Run();
}

}  // namespace carillon::sim::figures

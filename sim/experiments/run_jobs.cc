#include "sim/experiments/run_jobs.h"

#include <time.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string_view>
#include <thread>
#include <utility>

#include "base/status.h"
#include "fmt/format.h"

namespace carillon::sim::figures {
namespace {

// FNV-1a.
uint64_t Hash(std::string_view bytes) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char byte : bytes) {
    hash = (hash ^ static_cast<uint8_t>(byte)) * 0x100000001b3;
  }
  return hash;
}

// Of this thread. Unlike the time of day it is not that of others, too, who
// share the cores.
double ProcessorSeconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) +
         static_cast<double>(time.tv_nsec) * 1e-9;
}

// Identifies this program, since another build may simulate differently.
std::string ProgramHash() {
  std::ifstream file("/proc/self/exe", std::ios::binary);
  const std::string bytes(std::istreambuf_iterator<char>(file), {});
  return fmt::format("{:016x}", Hash(bytes));
}

// Everything that a result depends on.
Json KeyOf(const Job& job, const timing::Config& config) {
  static const std::string program = ProgramHash();
  Json values = Json::object();
  for (const auto& [key, value] : timing::Values(config)) values[key] = value;
  return {{"program", program}, {"gpu", values}, {"job", ToJson(job)}};
}

class Cache {
 public:
  explicit Cache(std::string folder) : folder_(std::move(folder)) {}

  absl::Status Prepare() const {
    if (folder_.empty()) return absl::OkStatus();
    std::error_code error;
    std::filesystem::create_directories(folder_, error);
    if (!error) return absl::OkStatus();
    return absl::PermissionDeniedError(
        fmt::format("cannot make {}: {}", folder_, error.message()));
  }
  // {"key", "result", "seconds"}
  std::optional<Json> Find(const Job& job, const Json& key) const {
    if (folder_.empty()) return std::nullopt;
    std::ifstream file(PathOf(job, key));
    if (!file) return std::nullopt;
    Json entry = Json::parse(file, nullptr, /*allow_exceptions=*/false);
    // The file is incomplete, or belongs to another job with the same hash.
    if (!entry.is_object() || entry.value("key", Json()) != key) {
      return std::nullopt;
    }
    return entry;
  }
  absl::Status Keep(const Job& job, const Json& key, const Json& result,
                    double seconds) const {
    if (folder_.empty()) return absl::OkStatus();
    const std::string path = PathOf(job, key);
    // Write to a temporary name, so that no incomplete file has the final one.
    const std::string part = path + ".part";
    std::ofstream file(part);
    file << Json{{"key", key}, {"result", result}, {"seconds", seconds}}.dump()
         << '\n';
    file.close();
    if (!file || std::rename(part.c_str(), path.c_str()) != 0) {
      return absl::PermissionDeniedError(
          fmt::format("cannot write {}: {}", path, std::strerror(errno)));
    }
    return absl::OkStatus();
  }

 private:
  std::string PathOf(const Job& job, const Json& key) const {
    std::string name = job.name;
    std::ranges::replace(name, '/', '_');
    return fmt::format("{}/{}-{:016x}.json", folder_, name, Hash(key.dump()));
  }

  const std::string folder_;
};

class Pool {
 public:
  Pool(std::vector<const Job*> jobs, const timing::Config& config,
       const RunJobsOptions& options)
      : jobs_(std::move(jobs)),
        config_(config),
        options_(options),
        cache_(options.cache) {}

  absl::StatusOr<Results> Run() {
    RETURN_IF_ERROR(cache_.Prepare());
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
      const Json key = KeyOf(job, config_);
      if (auto found = cache_.Find(job, key)) {
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
        const absl::Status kept = cache_.Keep(job, key, *result, seconds);
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
  const Cache cache_;
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

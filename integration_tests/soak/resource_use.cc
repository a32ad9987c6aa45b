#include "integration_tests/soak/resource_use.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "fmt/format.h"

namespace carillon::soak {
namespace {

namespace fs = std::filesystem;

uint64_t Entries(const std::string& directory) {
  std::error_code ignored;
  const fs::directory_iterator files(directory, ignored);
  return static_cast<uint64_t>(std::distance(begin(files), end(files)));
}

bool IsPoolThread(const std::string& name) {
  for (const char* start : {"event_engine", "grpc", "default-execut",
                            "resolver-execut", "timer_manager"}) {
    if (name.starts_with(start)) return true;
  }
  return false;
}

}  // namespace

ResourceUse ResourceUseOf(pid_t pid) {
  const std::string process = fmt::format("/proc/{}", pid);
  ResourceUse holdings{.descriptors = Entries(process + "/fd")};
  std::error_code error;
  for (fs::directory_iterator task(process + "/task", error), end;
       !error && task != end; task.increment(error)) {
    std::ifstream file(task->path() / "comm");
    std::string name;
    std::getline(file, name);
    ++(IsPoolThread(name) ? holdings.pool_threads : holdings.threads);
  }
  std::ifstream maps(process + "/maps");
  for (std::string line; std::getline(maps, line);) {
    holdings.regions += line.find("/memfd:") != line.npos;
  }
  std::ifstream status(process + "/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmRSS:")) {
      holdings.resident_kb = std::stoul(line.substr(6));
    }
  }
  return holdings;
}

std::set<std::string> FilesOf(const TestbedPaths& paths) {
  std::set<std::string> files;
  std::error_code error;
  for (fs::recursive_directory_iterator entry(paths.directory(), error), end;
       !error && entry != end; entry.increment(error)) {
    if (entry->path().parent_path() == paths.recorder_directory()) continue;
    files.insert(entry->path().lexically_relative(paths.directory()).string());
  }
  return files;
}

std::set<std::string> SharedMemoryFiles() {
  std::set<std::string> names;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator("/dev/shm", error)) {
    const std::string name = entry.path().filename();
    if (name.find("carillon") != name.npos) names.insert(name);
  }
  return names;
}

double Trend::least() const {
  return values.empty() ? 0 : *std::min_element(values.begin(), values.end());
}

double Trend::most() const {
  return values.empty() ? 0 : *std::max_element(values.begin(), values.end());
}

double Trend::SlopePer100() const {
  const double n = static_cast<double>(values.size());
  if (n < 2) return 0;
  const double middle = (n - 1) / 2;
  double mean = 0;
  for (const double value : values) mean += value / n;
  double together = 0;
  double alone = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    const double x = static_cast<double>(i) - middle;
    together += x * (values[i] - mean);
    alone += x * x;
  }
  return 100 * together / alone;
}

}  // namespace carillon::soak

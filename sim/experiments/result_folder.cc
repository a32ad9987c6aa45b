#include "sim/experiments/result_folder.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/unique_fd.h"
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

std::string ProgramHash() {
  std::ifstream file("/proc/self/exe", std::ios::binary);
  const std::string bytes(std::istreambuf_iterator<char>(file), {});
  return fmt::format("{:016x}", Hash(bytes));
}

}  // namespace

absl::Status ResultFolder::Prepare() const {
  if (folder_.empty()) return absl::OkStatus();
  std::error_code error;
  std::filesystem::create_directories(folder_, error);
  if (!error) return absl::OkStatus();
  return absl::PermissionDeniedError(
      fmt::format("cannot make {}: {}", folder_, error.message()));
}

Json ResultFolder::KeyOf(const Job& job) const {
  static const std::string program = ProgramHash();
  Json values = Json::object();
  for (const auto& [key, value] : timing::Values(config_)) values[key] = value;
  return {{"program", program}, {"gpu", values}, {"job", ToJson(job)}};
}

std::string ResultFolder::NameOf(const Job& job) const {
  std::string name = job.name;
  std::ranges::replace(name, '/', '_');
  return fmt::format("{}-{:016x}.json", name, Hash(KeyOf(job).dump()));
}

std::optional<Json> ResultFolder::Find(const Job& job) const {
  if (folder_.empty()) return std::nullopt;
  std::ifstream file(folder_ + "/" + NameOf(job));
  if (!file) return std::nullopt;
  Json entry = Json::parse(file, nullptr, /*allow_exceptions=*/false);
  // The file is incomplete, or belongs to another job with the same hash.
  if (!entry.is_object() || entry.value("key", Json()) != KeyOf(job)) {
    return std::nullopt;
  }
  return entry;
}

absl::Status ResultFolder::Keep(const Job& job, const Json& result,
                                double seconds) const {
  if (folder_.empty()) return absl::OkStatus();
  const std::string path = folder_ + "/" + NameOf(job);
  const auto failed = [&] {
    return absl::PermissionDeniedError(
        fmt::format("cannot write {}: {}", path, std::strerror(errno)));
  };
  // A name of its own, so that no incomplete file has the final one, nor do two
  // who run the same job write into one file.
  std::string part = path + ".XXXXXX";
  const UniqueFd fd(mkstemp(part.data()));
  if (!fd || fchmod(fd.get(), 0644) != 0) return failed();
  std::ofstream file(part);
  file << Json{{"key", KeyOf(job)}, {"result", result}, {"seconds", seconds}}
              .dump()
       << '\n';
  file.close();
  absl::Status status = file ? absl::OkStatus() : failed();
  // Only the first of two that run the same job gives its file the name.
  if (status.ok() && link(part.c_str(), path.c_str()) != 0) {
    const auto found = errno == EEXIST ? Find(job) : std::nullopt;
    if (found && (*found)["result"].dump() != result.dump()) {
      status = absl::DataLossError(
          fmt::format("two runs of {} have different results; one is in {}",
                      job.name, path));
    } else if (!found && std::rename(part.c_str(), path.c_str()) != 0) {
      status = failed();
    }
  }
  unlink(part.c_str());
  return status;
}

}  // namespace carillon::sim::figures

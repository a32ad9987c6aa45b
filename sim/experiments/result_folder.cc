#include "sim/experiments/result_folder.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/results/content_hash.h"
#include "base/results/whole_file.h"
#include "base/status.h"
#include "fmt/format.h"

namespace carillon::sim::figures {
namespace {

// Of what else is in the file, by which it is told from one that was cut short
// or edited.
std::string HashOf(const Json& result, const Json& seconds) {
  return fmt::format(
      "{:016x}",
      ContentHash(Json{{"result", result}, {"seconds", seconds}}.dump()));
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
  Json values = Json::object();
  for (const auto& [key, value] : timing::Values(config_)) values[key] = value;
  return {{"program", OwnProgramHash()}, {"gpu", values}, {"job", ToJson(job)}};
}

std::string ResultFolder::NameOf(const Job& job) const {
  std::string name = job.name;
  std::ranges::replace(name, '/', '_');
  return fmt::format("{}-{:016x}.json", name, ContentHash(KeyOf(job).dump()));
}

std::optional<Json> ResultFolder::Find(const Job& job) const {
  if (folder_.empty()) return std::nullopt;
  std::ifstream file(folder_ + "/" + NameOf(job));
  if (!file) return std::nullopt;
  Json entry = Json::parse(file, nullptr, /*allow_exceptions=*/false);
  // The file is not what was kept, or belongs to another job of that name.
  if (!entry.is_object() || entry.value("key", Json()) != KeyOf(job) ||
      entry.value("hash", Json()) != HashOf(entry.value("result", Json()),
                                            entry.value("seconds", Json()))) {
    return std::nullopt;
  }
  return entry;
}

absl::Status ResultFolder::Keep(const Job& job, const Json& result,
                                double seconds) const {
  if (folder_.empty()) return absl::OkStatus();
  const std::string path = folder_ + "/" + NameOf(job);
  const std::string text = Json{{"key", KeyOf(job)},
                                {"result", result},
                                {"seconds", seconds},
                                {"hash", HashOf(result, seconds)}}
                               .dump() +
                           '\n';
  ASSIGN_OR_RETURN(const bool made, MakeFile(path, text));
  if (made) return absl::OkStatus();
  const auto found = Find(job);
  if (!found) return ReplaceFile(path, text);
  if ((*found)["result"].dump() == result.dump()) return absl::OkStatus();
  return absl::DataLossError(fmt::format(
      "two runs of {} have different results; one is in {}", job.name, path));
}

}  // namespace carillon::sim::figures

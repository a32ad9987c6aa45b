#include "tools/cli/sweep/sweep_file.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/results/whole_file.h"
#include "base/status.h"

namespace carillon::cli {

std::string SweepFilePath(const std::string& directory) {
  return directory + "/sweep.json";
}

absl::Status WriteSweepFile(const std::string& directory,
                            const SweepFile& sweep) {
  const Json json{{"id", sweep.id},
                  {"runs", sweep.runs},
                  {"figures", sweep.figures.names},
                  {"gpu", sweep.figures.gpu},
                  {"seed", sweep.figures.seed},
                  {"quick", sweep.figures.quick},
                  {"plans", sweep.faults.plans},
                  {"first_seed", sweep.faults.first_seed},
                  {"last_seed", sweep.faults.last_seed},
                  {"etcd", sweep.etcd},
                  {"tls_cert", sweep.tls.certificate},
                  {"tls_key", sweep.tls.key},
                  {"tls_ca", sweep.tls.ca}};
  return ReplaceFile(SweepFilePath(directory), json.dump(2) + '\n', 0600);
}

absl::StatusOr<SweepFile> ReadSweepFile(const std::string& directory) {
  const std::string path = SweepFilePath(directory);
  std::ifstream file(path);
  if (!file) {
    return WithHint(absl::NotFoundError(fmt::format("cannot read {}: {}", path,
                                                    std::strerror(errno))),
                    "carillon sweep figure FIGURE --out DIR makes it");
  }
  const Json json = Json::parse(file, nullptr, /*allow_exceptions=*/false);
  SweepFile sweep;
  try {
    sweep.id = json.at("id").get<std::string>();
    sweep.runs = json.at("runs").get<std::string>();
    sweep.figures.names = json.at("figures").get<std::vector<std::string>>();
    sweep.figures.gpu = json.at("gpu").get<std::string>();
    sweep.figures.seed = json.at("seed").get<uint32_t>();
    sweep.figures.quick = json.at("quick").get<bool>();
    sweep.faults.plans = json.at("plans").get<std::vector<std::string>>();
    sweep.faults.first_seed = json.at("first_seed").get<uint64_t>();
    sweep.faults.last_seed = json.at("last_seed").get<uint64_t>();
    sweep.etcd = json.at("etcd").get<std::vector<std::string>>();
    sweep.tls = {.certificate = json.at("tls_cert").get<std::string>(),
                 .key = json.at("tls_key").get<std::string>(),
                 .ca = json.at("tls_ca").get<std::string>()};
  } catch (const Json::exception& error) {
    return absl::InvalidArgumentError(
        fmt::format("{} is no file of a sweep: {}", path, error.what()));
  }
  return sweep;
}

}  // namespace carillon::cli

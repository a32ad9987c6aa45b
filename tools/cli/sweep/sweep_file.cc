#include "tools/cli/sweep/sweep_file.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/status.h"
#include "base/unique_fd.h"

namespace carillon::cli {

std::string SweepFilePath(const std::string& directory) {
  return directory + "/sweep.json";
}

absl::Status WriteSweepFile(const std::string& directory,
                            const SweepFile& sweep) {
  const Json json{{"id", sweep.id},
                  {"figures", sweep.figures.names},
                  {"gpu", sweep.figures.gpu},
                  {"seed", sweep.figures.seed},
                  {"quick", sweep.figures.quick},
                  {"etcd", sweep.etcd},
                  {"tls_cert", sweep.tls.certificate},
                  {"tls_key", sweep.tls.key},
                  {"tls_ca", sweep.tls.ca}};
  const std::string path = SweepFilePath(directory);
  std::string part = path + ".XXXXXX";
  const UniqueFd fd(mkstemp(part.data()));  // 0600
  std::ofstream file;
  if (fd) file.open(part);
  file << json.dump(2) << '\n';
  file.close();
  if (fd && file && std::rename(part.c_str(), path.c_str()) == 0) {
    return absl::OkStatus();
  }
  const int error = errno;
  if (fd) unlink(part.c_str());
  return absl::PermissionDeniedError(
      fmt::format("cannot write {}: {}", path, std::strerror(error)));
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
    sweep.figures.names = json.at("figures").get<std::vector<std::string>>();
    sweep.figures.gpu = json.at("gpu").get<std::string>();
    sweep.figures.seed = json.at("seed").get<uint32_t>();
    sweep.figures.quick = json.at("quick").get<bool>();
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

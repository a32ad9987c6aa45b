#include "tools/plots/document.h"

#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/line_process.h"
#include "base/subprocess.h"
#include "fmt/format.h"

namespace carillon::plots {

absl::Status CheckWritable(const std::string& directory) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  std::string probe = directory + "/.writable-XXXXXX";
  const int fd = mkstemp(probe.data());
  if (fd < 0) {
    return absl::PermissionDeniedError(
        fmt::format("cannot write to {}: {}", directory, std::strerror(errno)));
  }
  close(fd);
  unlink(probe.c_str());
  return absl::OkStatus();
}

absl::Status WriteDocument(const std::string& directory, std::string_view name,
                           const Json& document, std::string_view plotter,
                           std::vector<std::string>* written) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  const std::string stem = fmt::format("{}/{}", directory, name);
  std::ofstream file(stem + ".json");
  file << document.dump(2) << '\n';
  file.close();
  if (!file) {
    return absl::PermissionDeniedError(
        fmt::format("cannot write {}.json: {}", stem, std::strerror(errno)));
  }
  written->push_back(stem + ".json");

  if (plotter.empty()) return absl::OkStatus();
  const std::string script = Runfile(plotter);
  if (script.empty()) {
    fmt::print(stderr, "no plot here: draw it with {} {}.json {}.png\n",
               plotter, stem, stem);
    return absl::OkStatus();
  }
  auto child = LineProcess::Start({.argv = {"/usr/bin/python3", "-B", script,
                                            stem + ".json", stem + ".png"}});
  if (!child.ok()) return absl::UnavailableError("no plot: no python3");
  const auto line = child->ReadLine(std::chrono::minutes(1));
  if (line.ok() && line->starts_with("cannot write ")) {
    return absl::PermissionDeniedError(*line);
  }
  if (!line.ok() || *line != "ok") {
    return absl::UnavailableError(fmt::format(
        "no plot: '{}' failed; it needs python3-matplotlib", script));
  }
  written->push_back(stem + ".png");
  return absl::OkStatus();
}

std::string Runfile(std::string_view path) {
  const std::string own = OwnProgram();
  const std::string_view file = path.substr(path.rfind('/') + 1);
  std::vector<std::string> candidates = {
      fmt::format("{}.runfiles/carillon/{}", own, path)};
  // Where Bazel started another program, which started this one.
  if (const char* const tree = std::getenv("RUNFILES_DIR"); tree != nullptr) {
    candidates.push_back(fmt::format("{}/carillon/{}", tree, path));
  }
  if (const char* const chosen = std::getenv("CARILLON_BIN_DIR");
      chosen != nullptr && *chosen != '\0') {
    candidates.push_back(fmt::format("{}/{}", chosen, path));
    candidates.push_back(fmt::format("{}/{}", chosen, file));
  }
  candidates.push_back(
      fmt::format("{}/{}", own.substr(0, own.rfind('/')), file));
  for (std::string& candidate : candidates) {
    if (access(candidate.c_str(), F_OK) == 0) return std::move(candidate);
  }
  return "";
}

}  // namespace carillon::plots

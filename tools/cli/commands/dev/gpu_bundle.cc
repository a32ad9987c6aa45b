#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/status.h"
#include "tools/cli/commands/dev/commands.h"
#include "tools/cli/testing/bazel.h"
#include "tools/cli/ui/exit_code.h"

namespace carillon::cli {
namespace {

struct Options {
  std::string out = "gpu-bundle";
  bool tar = false;
};

// {directory, bytes, what MANIFEST.json holds, and with --tar archive and
// archive_bytes}.
Json Describe(const std::string& directory, bool tar) {
  std::ifstream file(directory + "/MANIFEST.json");
  Json document = Json::parse(file, nullptr, /*allow_exceptions=*/false);
  if (!document.is_object()) document = Json::object();
  uint64_t bytes = 0;
  std::error_code error;
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(directory, error)) {
    if (entry.is_regular_file(error)) bytes += entry.file_size(error);
  }
  document["directory"] = directory;
  document["bytes"] = bytes;
  if (tar) {
    const std::string archive = directory + ".tar.gz";
    document["archive"] = archive;
    document["archive_bytes"] = std::filesystem::file_size(archive, error);
  }
  return document;
}

// tools/gpu_check/make_bundle.sh says what went wrong.
absl::Status GpuBundle(const Options& options, Console& console) {
  ASSIGN_OR_RETURN(const auto root, FindCheckout());
  std::error_code error;
  const std::string out =
      std::filesystem::absolute(options.out, error).lexically_normal().string();
  console.Say("carillon: building the programs of the bundle");
  std::vector<std::string> arguments = {"run",
                                        "--show_result=0",
                                        "--ui_event_filters=-info",
                                        "--noshow_progress",
                                        "//tools/gpu_check:make_bundle",
                                        "--",
                                        "--out=" + out};
  if (options.tar) arguments.push_back("--tar");
  ASSIGN_OR_RETURN(
      const auto exit_code,
      RunBazel(arguments, root, /*output_to_stderr=*/console.json()));
  switch (exit_code) {
    case 0:
      if (console.json()) console.PrintDocument(Describe(out, options.tar));
      return absl::OkStatus();
    case kBazelInterrupted:
      return absl::CancelledError();
    case static_cast<int>(ExitCode::kNotFound):
      return WithHint(
          absl::NotFoundError("no bundle without a CUDA toolkit"),
          "install one, or name it: CUDA_HOME=/path/to/cuda ./carillon "
          "gpu-bundle");
    default:
      return absl::FailedPreconditionError(
          fmt::format("no bundle was made (exit code {})", exit_code));
  }
}

}  // namespace

Run MakeGpuBundle(Arguments& arguments, Console& console) {
  auto options = std::make_shared<Options>();
  arguments.Text("--out DIR", options->out,
                 "The directory to make, or an earlier bundle to replace");
  arguments.Flag("--tar", options->tar,
                 "Also pack it: DIR.tar.gz, one file to carry");
  return [options, &console] { return GpuBundle(*options, console); };
}

}  // namespace carillon::cli

#include "tools/gpu_check/lookups.h"

#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <sstream>
#include <thread>
#include <vector>

#include "base/status.h"
#include "base/subprocess.h"
#include "base/temp_directory.h"
#include "base/testbed_paths.h"
#include "fmt/format.h"

namespace carillon::gpu_check {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// "gnom 12.3 12.5, ngd ..." of "round,contender,requests_per_s,batch_us_p50".
std::string FindingOf(const std::string& csv) {
  std::map<std::string, std::string> rates;
  std::istringstream lines(csv);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream cells(line);
    std::string round, contender, rate;
    std::getline(cells, round, ',');
    std::getline(cells, contender, ',');
    std::getline(cells, rate, ',');
    const double number = std::strtod(rate.c_str(), nullptr);
    if (number > 0) rates[contender] += fmt::format(" {:.2f}", number / 1e6);
  }
  std::string finding;
  for (const auto& [contender, of_rounds] : rates) {
    finding += fmt::format("{}{}{}", finding.empty() ? "" : ", ", contender,
                           of_rounds);
  }
  return finding.empty() ? "" : finding + " M requests/s";
}

absl::Status AwaitGpud(const Subprocess& gpud, const std::string& socket) {
  const auto deadline = std::chrono::steady_clock::now() + seconds(30);
  while (access(socket.c_str(), F_OK) != 0) {
    if (gpud.AwaitEnd(milliseconds(20))) {
      return absl::FailedPreconditionError("gpud does not come up");
    }
    if (std::chrono::steady_clock::now() > deadline) {
      return absl::DeadlineExceededError("gpud is not up after 30 s");
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<int> Run(const std::string& gpud,
                        const std::string& gnom_offline,
                        std::span<const std::string> arguments) {
  ASSIGN_OR_RETURN(
      const TempDirectory scratch,
      TempDirectory::Make(std::filesystem::temp_directory_path().string()));
  const std::string testbed = scratch.path() + "/testbed";
  ASSIGN_OR_RETURN(
      Subprocess server,
      Subprocess::Start({.argv = {gpud, "--dir", testbed, "--backend", "cuda",
                                  "--log-level", "warn"},
                         .out = STDERR_FILENO}));
  RETURN_IF_ERROR(AwaitGpud(server, TestbedPaths(testbed).control_socket()));
  std::vector<std::string> argv = {gnom_offline, "--dir=" + testbed};
  argv.insert(argv.end(), arguments.begin(), arguments.end());
  ASSIGN_OR_RETURN(Pipe pipe, MakePipe());
  ASSIGN_OR_RETURN(Subprocess client,
                   Subprocess::Start({.argv = argv, .out = pipe.writer.get()}));
  pipe.writer.reset();
  std::string csv;
  char bytes[4096];
  for (ssize_t size;
       (size = read(pipe.reader.get(), bytes, sizeof(bytes))) > 0;) {
    const std::string_view part(bytes, static_cast<size_t>(size));
    fmt::print("{}", part);
    std::fflush(stdout);
    csv += part;
  }
  const ExitReport end = client.Reap();
  const std::string finding = FindingOf(csv);
  if (!finding.empty()) fmt::print("finding: {}\n", finding);
  server.Signal(SIGTERM);
  server.AwaitEnd(seconds(6));
  return end.ShellCode();
}

}  // namespace

int RunLookups(const std::string& gpud, const std::string& gnom_offline,
               std::span<const std::string> arguments) {
  const absl::StatusOr<int> code = Run(gpud, gnom_offline, arguments);
  if (code.ok()) return *code;
  fmt::print(stderr, "{}\n", code.status().message());
  return 1;
}

}  // namespace carillon::gpu_check

// carillon-dashboard: shows a testbed to browsers and to Prometheus. `carillon
// dashboard` starts it, and so does a supervisor whose topology says so.
#include <fmt/format.h>
#include <poll.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/status.h"
#include "base/subprocess.h"
#include "tools/cli/ui/exit_code.h"
#include "tools/dashboard/access.h"
#include "tools/dashboard/http_server.h"
#include "tools/dashboard/live_view.h"
#include "tools/dashboard/recorder_reader.h"
#include "tools/dashboard/routes.h"
#include "tools/testbed/supervisor/dashboard_link.h"
#include "tools/testbed/supervisor/directory.h"
#include "tools/testbed/supervisor/stop_signals.h"
#include "tools/testbed/supervisor/testbeds.h"

namespace carillon::dashboard {
namespace {

struct Options {
  std::string directory;
  std::string testbed;
  uint16_t port = 0;
  std::vector<std::string> roles;
  std::string page;
  bool read_recorders = false;
  int trace_to = -1;
  uint64_t last = 0;
  bool supervised = false;
  bool json = false;
};

// One link for each role; a viewer's is always there.
std::vector<Grant> MakeGrants(const Options& options) {
  std::vector<Grant> grants = {{Role::kViewer, MakeToken()}};
  for (const Role role : {Role::kOperator, Role::kFaultInjector}) {
    const auto wanted = std::ranges::find(options.roles, ToText(role));
    if (wanted != options.roles.end()) grants.push_back({role, MakeToken()});
  }
  return grants;
}

// Errors: ResourceExhausted (nobody can read them).
absl::Status PrintLinks(const std::string& url,
                        const std::vector<Grant>& grants, bool json) {
  Json links = Json::array();
  for (const Grant& grant : grants) {
    const std::string link = testbed::LinkOf(url, grant.token);
    links.push_back({{"role", ToText(grant.role)}, {"link", link}});
    if (!json) fmt::print("{:<15} {}\n", ToText(grant.role), link);
  }
  if (json) fmt::print("{}\n", Json{{"links", links}}.dump(2));
  if (fflush(stdout) == 0 && ferror(stdout) == 0) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      fmt::format("cannot print the link: {}", std::strerror(errno)));
}

// After a restart the port is the one before, or none: who was told it, as
// Prometheus is, would send the new token to a stranger who has taken it.
absl::StatusOr<uint16_t> PortOf(const Options& options) {
  if (!options.supervised) return options.port;
  const auto before =
      testbed::ReadDashboardLink(TestbedPaths(options.directory));
  if (!before.ok()) return options.port;
  uint32_t port = 0;
  std::string_view digits = before->url;
  digits.remove_prefix(std::min(digits.size(), digits.rfind(':') + 1));
  std::from_chars(digits.data(), digits.data() + digits.size(), port);
  if (port == 0 || port > 65535) {
    return absl::FailedPreconditionError(fmt::format(
        "the dashboard before served at {}, which names no port", before->url));
  }
  return static_cast<uint16_t>(port);
}

absl::Status Run(const Options& options) {
  testbed::StopSignals stop;  // before gRPC starts threads
  ASSIGN_OR_RETURN(const uint16_t port, PortOf(options));
  auto listening = HttpServer::Listen(port);
  if (!listening.ok()) {
    return WithHint(listening.status(),
                    options.supervised
                        ? "another port: `dashboard: {port: N}` in the "
                          "topology; any free one: `dashboard: true`"
                        : "another port: --port N; any free one: --port 0");
  }
  const std::unique_ptr<HttpServer> server = *std::move(listening);
  const std::string url = fmt::format("http://127.0.0.1:{}/", server->port());
  const std::vector<Grant> grants = MakeGrants(options);
  const Access access(server->port(), grants);

  // Who comes before the server serves waits.
  if (options.supervised) {
    RETURN_IF_ERROR(testbed::WriteDashboardLink(TestbedPaths(options.directory),
                                                {url, grants[0].token}));
  } else {
    RETURN_IF_ERROR(PrintLinks(url, grants, options.json));
  }

  // The server calls the view, and the view the server: the view is made before
  // the server serves, and goes after it has ended.
  HttpServer* const woken = server.get();
  LiveView view({options.testbed, TestbedPaths(options.directory), {}},
                OwnProgram(), [woken] { woken->Wake(); });
  const Routes routes(&access, &view, options.page);
  server->Serve(
      {.answer =
           [&routes](const Request& request) { return routes.Answer(request); },
       .newest = [&view](uint64_t* number) -> SharedText {
         const Picture picture = view.Newest();
         if (picture.number == *number) return nullptr;
         *number = picture.number;
         return picture.json;
       },
       .streams_changed =
           [&view](size_t streams) { view.SetReaders(streams); }});
  pollfd fd{stop.fd(), POLLIN, 0};
  while (stop.Take() == 0) poll(&fd, 1, -1);
  // At once: an answer may wait for gpud, and nothing here must be put away.
  fflush(nullptr);
  std::_Exit(0);
}

int Main(int argc, char** argv) {
  Options options;
  CLI::App app("Shows a testbed in a browser; carillon dashboard starts it");
  app.add_option("--dir", options.directory, "The testbed's directory")
      ->required();
  app.add_option("--testbed", options.testbed, "Its name")->required();
  app.add_option("--port", options.port, "The port; 0: any free one");
  app.add_option("--role", options.roles, "One more link, for this role")
      ->check(CLI::IsMember({"operator", "fault-injector", "viewer"}));
  app.add_option("--page", options.page,
                 "A folder with the page's files, in place of the program's");
  app.add_flag("--supervised", options.supervised,
               "Leave the viewer's link in the testbed's directory");
  app.add_flag("--read-recorders", options.read_recorders,
               "Only read the flight recorders, and print their story; the "
               "dashboard itself starts this");
  app.add_option("--trace-to", options.trace_to,
                 "For --read-recorders: write a trace to this descriptor");
  app.add_option("--last", options.last, "The seconds of that trace");
  app.add_flag("--json", options.json, "Print the links as JSON");
  CLI11_PARSE(app, argc, argv);
  if (options.read_recorders) {
    return ReadRecorders({options.testbed, TestbedPaths(options.directory), {}},
                         options.trace_to, options.last);
  }
  const absl::Status status =
      !options.page.empty() && !std::filesystem::is_directory(options.page)
          ? absl::InvalidArgumentError(
                fmt::format("--page: {} is no folder", options.page))
          : Run(options);
  if (!status.ok()) {
    fmt::print(stderr, "carillon: {}\n", status.message());
    if (const std::string hint = HintOf(status); !hint.empty()) {
      fmt::print(stderr, "  hint: {}\n", hint);
    }
  }
  return static_cast<int>(cli::ExitCodeOf(status));
}

}  // namespace
}  // namespace carillon::dashboard

int main(int argc, char** argv) {
  return carillon::dashboard::Main(argc, argv);
}

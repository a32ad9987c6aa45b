#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/text.h"
#include "tools/cli/commands/testbed/commands.h"
#include "tools/testbed/supervisor/dashboard_link.h"
#include "tools/testbed/supervisor/launch_plan.h"
#include "tools/testbed/supervisor/process_identity.h"
#include "tools/testbed/supervisor/testbeds.h"

namespace carillon::cli {
namespace {

constexpr char kProgram[] = "tools/dashboard/dashboard";
constexpr std::array<std::string_view, 3> kRoles = {"viewer", "operator",
                                                    "fault-injector"};

struct Options {
  std::string testbed;
  uint32_t port = 0;
  std::vector<std::string> roles;
  std::string page;
  bool link = false;
};

// Of the dashboard that the testbed's supervisor runs.
absl::Status ShowLink(const testbed::Testbed& testbed, Console& console) {
  const auto read = testbed::ReadDashboardLink(testbed.paths);
  if (!read.ok() || !testbed::LookAtProcess(read->pid)) {
    return WithHint(
        absl::NotFoundError(fmt::format(
            "testbed '{}' has no dashboard that runs with it", testbed.name)),
        "dashboard: true in its topology; or carillon dashboard, which prints "
        "the link itself");
  }
  const std::string link = testbed::LinkOf(read->url, read->token);
  if (console.json()) {
    console.PrintDocument(
        {{"links", Json::array({{{"role", "viewer"}, {"link", link}}})}});
  } else {
    console.Print(link + "\n");
  }
  return absl::OkStatus();
}

// The program takes this one's place: the web server is only in there.
absl::Status Become(const testbed::Testbed& testbed, const Options& options,
                    bool json) {
  ASSIGN_OR_RETURN(const auto program, testbed::FindCarillonProgram(kProgram));
  std::vector<std::string> words = {
      program, "--dir=" + testbed.paths.directory(),
      "--testbed=" + testbed.name, fmt::format("--port={}", options.port)};
  for (const std::string& role : options.roles)
    words.push_back("--role=" + role);
  if (!options.page.empty()) words.push_back("--page=" + options.page);
  if (json) words.emplace_back("--json");
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  execv(program.c_str(), argv.data());
  return absl::InternalError(
      fmt::format("cannot run {}: {}", program, std::strerror(errno)));
}

absl::Status ShowOrServe(const Options& options, Console& console) {
  for (const std::string& role : options.roles) {
    if (std::ranges::find(kRoles, role) != kRoles.end()) continue;
    return absl::InvalidArgumentError(fmt::format(
        "--role: {} is no role{}", Quote(role),
        DidYouMean(role, {kRoles.begin(), kRoles.end()},
                   "; there are viewer, operator, fault-injector")));
  }
  ASSIGN_OR_RETURN(const auto testbed, testbed::FindTestbed(options.testbed));
  return options.link ? ShowLink(testbed, console)
                      : Become(testbed, options, console.json());
}

}  // namespace

Run MakeDashboard(Arguments& arguments, Console& console) {
  auto options = std::make_shared<Options>();
  AddNameOption(arguments, options->testbed);
  arguments.Number("--port PORT", options->port, 0, 65535,
                   "Where it listens, on 127.0.0.1 only; 0: any free port");
  arguments
      .Texts("--role ROLE", options->roles,
             "One more link, for who may do more than look: operator, "
             "fault-injector")
      .OneAtATime();
  arguments.Text("--page DIR", options->page,
                 "For who works on the page: its files are read from there");
  arguments
      .Flag("--link", options->link,
            "Only print the link of the dashboard that runs with the testbed")
      .Excludes("--port")
      .Excludes("--role")
      .Excludes("--page");
  return [options, &console] { return ShowOrServe(*options, console); };
}

}  // namespace carillon::cli

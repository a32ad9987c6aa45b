#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "base/status.h"
#include "tools/cli/commands/testbed/commands.h"
#include "tools/testbed/supervisor/state.h"
#include "tools/testbed/supervisor/testbeds.h"
#include "tools/testbed/topology/topology.h"

namespace carillon::cli {
namespace {

absl::Status ListHosts(const std::string& name, Console& console) {
  ASSIGN_OR_RETURN(const auto testbed, testbed::ChooseTestbed(name));
  ASSIGN_OR_RETURN(const auto state,
                   testbed::ReadState(testbed.paths.state_file()));
  Json document = {{"hosts", Json::array()}};
  Table table({"HOST", "THIS ONE", "ADDRESS", "GPU", "DEVICES"});
  for (const testbed::HostPart::Host& host : state.hosts) {
    const bool own = host.name == state.host;
    document["hosts"].push_back({{"name", host.name},
                                 {"this_one", own},
                                 {"address", host.address},
                                 {"gpu", host.has_gpu},
                                 {"devices", host.devices}});
    table.AddRow(host.name, own ? "yes" : "no",
                 host.address.empty() ? "-" : host.address,
                 host.has_gpu ? "yes" : "no",
                 fmt::format("{}", fmt::join(host.devices, ", ")));
  }
  console.Print(document, table, "no hosts: all of this testbed is here");
  return absl::OkStatus();
}

}  // namespace

Run MakeHosts(Arguments& arguments, Console& console) {
  auto name = std::make_shared<std::string>();
  AddNameOption(arguments, *name);
  return [name, &console] { return ListHosts(*name, console); };
}

}  // namespace carillon::cli

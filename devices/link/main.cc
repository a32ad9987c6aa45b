// linkd: on the GPU's host, rings for the devices of another host, whose gpud
// has the back-end `remote` (docs/mesh.md).
#include <sys/prctl.h>

#include <string>

#include "base/option_table.h"
#include "devices/link/link_server.h"
#include "devices/link/linkd_options.h"
#include "devices/link/session_server.h"
#include "devices/sdk/device_main.h"

int main(int argc, char** argv) {
  using carillon::link::LinkServer;
  using carillon::link::SessionServer;
  carillon::link::LinkdOptions options;
  std::string simulation;
  auto table = OptionTable(options);
  table.push_back({.flag = "--simulation",
                   .type = carillon::OptionType::kText,
                   .field = &simulation,
                   .min = 1,
                   .max = 64,
                   .help = "what tells the topology, where gpud lives in "
                           "simulated time: as --link-simulation of the other "
                           "host's gpud"});
  return carillon::edge::DeviceMain(
      "Has the events of another host's devices run on this testbed's GPU.",
      table, argc, argv, "linkd",
      [&](const carillon::edge::DeviceContext& context) {
        if (const std::string complaint(options.engine.Complaint());
            !complaint.empty()) {
          return absl::InvalidArgumentError("--engine: " + complaint);
        }
        // gpud names it where they reach a limit of this process.
        prctl(PR_SET_NAME, context.name.c_str());
        const auto run = [](const auto& server) {
          return server.ok() ? (*server)->Run() : server.status();
        };
        return simulation.empty()
                   ? run(LinkServer::Start(context, options))
                   : run(SessionServer::Start(context, options, simulation));
      });
}

// linkd: on the GPU's host, rings for the devices of another host, whose gpud
// has the back-end `remote` (docs/mesh.md).
#include "devices/link/link_server.h"
#include "devices/link/linkd_options.h"
#include "devices/sdk/device_main.h"

int main(int argc, char** argv) {
  using carillon::link::LinkServer;
  carillon::link::LinkdOptions options;
  return carillon::edge::DeviceMain(
      "Has the events of another host's devices run on this testbed's GPU.",
      OptionTable(options), argc, argv, "linkd",
      [&](const carillon::edge::DeviceContext& context) {
        auto server = LinkServer::Start(context, options);
        return server.ok() ? (*server)->Run() : server.status();
      });
}

// carillon-router: forwards the packets of its ports, with event kernels that
// it launches by doorbells.
#include "devices/router/router.h"
#include "devices/router/router_options.h"
#include "devices/sdk/device_main.h"

int main(int argc, char** argv) {
  using carillon::router::Router;
  carillon::router::RouterOptions options;
  return carillon::edge::DeviceMain(
      "Forwards packets with event kernels on the testbed's "
      "GPU.",
      OptionTable(options), argc, argv, "router0",
      [&](const carillon::edge::DeviceContext& context) {
        auto router = Router::Start(context, options);
        return router.ok() ? (*router)->Run(context) : router.status();
      });
}

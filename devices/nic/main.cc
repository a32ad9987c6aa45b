// carillon-nic: serves memcached's protocol over UDP and TCP, with event
// kernels that it launches by doorbells.
#include "devices/nic/nic.h"
#include "devices/nic/nic_options.h"
#include "devices/sdk/device_main.h"

int main(int argc, char** argv) {
  using carillon::nic::Nic;
  carillon::nic::NicOptions options;
  return carillon::edge::DeviceMain(
      "Serves memcached over UDP and TCP with event kernels on the testbed's "
      "GPU.",
      OptionTable(options), argc, argv, "nic0",
      [&](const carillon::edge::DeviceContext& context) {
        auto nic = Nic::Start(context, options);
        return nic.ok() ? (*nic)->Run(context) : nic.status();
      });
}

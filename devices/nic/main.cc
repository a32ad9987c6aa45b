// carillon-nic: serves memcached's protocol over UDP and TCP, with event
// kernels that it launches by doorbells.
#include <CLI/CLI.hpp>

#include "absl/status/status.h"
#include "devices/nic/nic.h"
#include "devices/sdk/device_main.h"

int main(int argc, char** argv) {
  using carillon::nic::Nic;
  using carillon::nic::NicOptions;

  CLI::App app(
      "Serves memcached over UDP and TCP with event kernels on the testbed's "
      "GPU.",
      "nic");
  NicOptions options;
  const auto add = [&app](const char* name, auto& value, const char* what) {
    return app.add_option(name, value, what)->capture_default_str();
  };
  add("--listen", options.listen, "Address to serve at");
  add("--udp-port", options.udp_port, "UDP port; 0: any");
  add("--tcp-port", options.tcp_port, "TCP port; 0: any");
  add("--batch", options.batch,
      "Requests of one event, at most: 32 fill a warp, 512 is GNoM's setting");
  add("--batch-timeout-us", options.batch_timeout_us,
      "Longest wait of a request for its batch to fill");
  add("--ring", options.ring, "Events in flight of each type: a power of two");
  add("--priority", options.priority, "Of the event kernels, 0 (lowest) to 7")
      ->check(CLI::Range(0, 7));
  add("--table-entries", options.table_entries, "Keys that fit the hash table");
  add("--store-bytes", options.store_bytes, "GPU memory for values")
      ->transform(CLI::AsSizeValue(false));
  add("--packet-buffers", options.packet_buffers,
      "Buffers of 2 KiB for datagrams");
  add("--max-connections", options.max_connections, "TCP connections");

  return carillon::edge::DeviceMain(
      app, argc, argv, "nic0",
      [&](const carillon::edge::DeviceContext& context) {
        auto nic = Nic::Start(context, options);
        return nic.ok() ? (*nic)->Run(context) : nic.status();
      });
}

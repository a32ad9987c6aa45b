#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "base/status.h"
#include "tools/cli/commands/testbed/commands.h"
#include "tools/cli/up_options.h"
#include "tools/testbed/hosts/host_registration.h"
#include "tools/testbed/hosts/host_views.h"
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

std::string FirstLineOf(const std::string& text) {
  return text.substr(0, text.find('\n'));
}

// As etcd shows them.
absl::Status ListAllHosts(const std::string& file, Console& console) {
  ASSIGN_OR_RETURN(const auto topology, LoadMesh(file));
  ASSIGN_OR_RETURN(const auto etcd, testbed::OpenEtcd(topology));
  ASSIGN_OR_RETURN(const auto view, testbed::LookAtHosts(*etcd, topology));
  Json list = Json::array();
  Table table({"HOST", "STATE", "WHERE", "GPU", "DEVICES", "NOTE"});
  for (const testbed::HostView& host : view.hosts) {
    std::vector<std::string> devices;
    for (const testbed::DeviceEntry& device : topology.devices) {
      if (device.host == host.name) devices.push_back(device.name);
    }
    const bool gpu = host.name == topology.gpu_host;
    const std::string where = host.record ? host.record->Place()
                              : host.last ? host.last->place
                                          : "";
    std::string note = host.damage;
    if (note.empty() && !host.record && host.last) note = host.last->error;
    list.push_back({{"name", host.name},
                    {"state", host.State()},
                    {"where", where},
                    {"gpu", gpu},
                    {"devices", devices},
                    {"links", host.record ? Json(host.record->links) : Json()},
                    {"note", note}});
    table.AddRow(host.name, host.State(), where.empty() ? "-" : where,
                 gpu ? "yes" : "no",
                 fmt::format("{}", fmt::join(devices, ", ")),
                 FirstLineOf(note));
  }
  console.Print({{"testbed", topology.name},
                 {"job", view.job.empty() ? Json() : Json(view.job)},
                 {"hosts", std::move(list)}},
                table);
  return absl::OkStatus();
}

}  // namespace

Run MakeHosts(Arguments& arguments, Console& console) {
  struct Options {
    std::string name;
    std::string file;
  };
  auto options = std::make_shared<Options>();
  AddNameOption(arguments, options->name);
  AddMeshOption(arguments, options->file);
  return [options, &console] {
    return options->file.empty() ? ListHosts(options->name, console)
                                 : ListAllHosts(options->file, console);
  };
}

}  // namespace carillon::cli

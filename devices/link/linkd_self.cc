#include "devices/link/linkd_self.h"

#include <spdlog/spdlog.h>

#include <chrono>
#include <thread>
#include <utility>

#include "base/incarnation/incarnation.h"
#include "base/status.h"
#include "devices/link/link_figures.h"

namespace carillon::link {
namespace {

constexpr std::chrono::milliseconds kStartLook{50};

}  // namespace

absl::StatusOr<std::unique_ptr<edge::Device>> AttachSelf(
    const edge::DeviceContext& context, bool simulated) {
  std::string said;
  for (;;) {
    if (context.stop.requested()) return absl::CancelledError("stopped");
    auto device = edge::Device::Attach(
        {.testbed_directory = context.directory,
         .name = context.name,
         .kind = "link",
         .counter_names = LinkFigures::CounterNames(simulated),
         .takes_simulated_time = simulated});
    // The session of a linkd that was killed may be there still.
    if (device.ok() || (!absl::IsUnavailable(device.status()) &&
                        !absl::IsAlreadyExists(device.status()))) {
      return device;
    }
    if (said != device.status().message()) {
      said = std::string(device.status().message());
      spdlog::info("{}; waiting for gpud", said);
    }
    std::this_thread::sleep_for(kStartLook);
  }
}

absl::StatusOr<mesh::FarLink::Settings> SettingsOf(
    const edge::DeviceContext& context, const LinkdOptions& options,
    std::string catalogue) {
  ASSIGN_OR_RETURN(const uint64_t incarnation,
                   NextIncarnation(context.directory + "/" + kIncarnationFile));
  return mesh::FarLink::Settings{
      .tls = options.tls,
      .address = options.listen,
      .link = {.self = {.testbed = options.testbed,
                        .host = options.host,
                        .build = mesh::OwnBuild(),
                        .catalogue = std::move(catalogue),
                        .incarnation = incarnation},
               .peer = options.peer,
               .times = options.times},
      .engine = options.engine.engine()};
}

}  // namespace carillon::link

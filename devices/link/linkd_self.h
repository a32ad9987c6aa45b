// How a linkd starts, in wall time and in simulated time.
#ifndef CARILLON_DEVICES_LINK_LINKD_SELF_H_
#define CARILLON_DEVICES_LINK_LINKD_SELF_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "devices/link/linkd_options.h"
#include "devices/sdk/device_main.h"
#include "devices/sdk/edge.h"
#include "mesh/far_link.h"

namespace carillon::link {

// The device without rings that shows that linkd is there. Waits for gpud. Errors:
// Cancelled (a stop was asked for); what the testbed refuses.
absl::StatusOr<std::unique_ptr<edge::Device>> AttachSelf(
    const edge::DeviceContext& context, bool simulated);

// `catalogue`: what both hosts must have. It is a new incarnation of this host
// each time. Errors: those of NextIncarnation().
absl::StatusOr<mesh::FarLink::Settings> SettingsOf(
    const edge::DeviceContext& context, const LinkdOptions& options,
    std::string catalogue);

}  // namespace carillon::link

#endif  // CARILLON_DEVICES_LINK_LINKD_SELF_H_

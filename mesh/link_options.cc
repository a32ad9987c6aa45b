#include "mesh/link_options.h"

#include "base/version.h"
#include "fmt/format.h"

namespace carillon::mesh {
namespace {

// Of what rings and events are made of (proto/link.proto).
constexpr int kEventsVersion = 1;

}  // namespace

std::string OwnBuild() {
  return fmt::format("{}, frames {}, events {}", kVersion, kProtocol,
                     kEventsVersion);
}

absl::Status CheckHello(const LinkOptions& mine, const Hello& theirs) {
  struct Field {
    std::string_view name;
    const std::string& wanted;
    const std::string& found;
    std::string_view what_to_do;
  };
  const Hello& self = mine.self;
  for (const Field& field :
       {Field{"testbed", self.testbed, theirs.testbed,
              "let each testbed have addresses of its own"},
        Field{"host", mine.peer, theirs.host,
              "is the address another host's, or the port another link's?"},
        Field{"build", self.build, theirs.build,
              "install the same Carillon on both hosts"},
        Field{"catalogue of kernels", self.catalogue, theirs.catalogue,
              "install the same Carillon on both hosts"}}) {
    if (field.wanted == field.found) continue;
    return absl::FailedPreconditionError(
        fmt::format("the other end is of {} '{}', and '{}' is expected: {}",
                    field.name, field.found, field.wanted, field.what_to_do));
  }
  return absl::OkStatus();
}

}  // namespace carillon::mesh

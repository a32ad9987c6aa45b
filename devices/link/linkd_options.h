// The options of linkd.
#ifndef CARILLON_DEVICES_LINK_LINKD_OPTIONS_H_
#define CARILLON_DEVICES_LINK_LINKD_OPTIONS_H_

#include <string>
#include <string_view>
#include <vector>

#include "base/option_table.h"
#include "base/tls_files.h"
#include "mesh/link_engine.h"
#include "mesh/link_times.h"

namespace carillon::link {

struct LinkdOptions {
  std::string listen;  // HOST:PORT
  std::string host;    // this one, as its certificate has it
  std::string peer;    // the devices' host, as its certificate has it
  std::string testbed = "default";
  TlsFiles tls;
  mesh::EngineChoice engine;
  mesh::LinkTimes times;
};

// The section of a topology's `mesh` that names the files.
inline constexpr std::string_view kTlsSection = "tls";

// The table refers to the fields of `options`. Those with a key are `mesh:` in a
// topology: gpud's --link-KEY of the other host has the same value.
std::vector<Option> OptionTable(LinkdOptions& options);

}  // namespace carillon::link

#endif  // CARILLON_DEVICES_LINK_LINKD_OPTIONS_H_

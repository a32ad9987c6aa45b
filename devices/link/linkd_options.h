// The options of linkd.
#ifndef CARILLON_DEVICES_LINK_LINKD_OPTIONS_H_
#define CARILLON_DEVICES_LINK_LINKD_OPTIONS_H_

#include <string>
#include <vector>

#include "base/option_table.h"
#include "base/tls_files.h"

namespace carillon::link {

struct LinkdOptions {
  std::string listen;  // HOST:PORT
  std::string host;    // this one, as its certificate has it
  std::string peer;    // the devices' host, as its certificate has it
  std::string testbed = "default";
  TlsFiles tls;
};

// The table refers to the fields of `options`.
std::vector<Option> OptionTable(LinkdOptions& options);

}  // namespace carillon::link

#endif  // CARILLON_DEVICES_LINK_LINKD_OPTIONS_H_

// All that the NIC understands of a request: which event kernel answers it.
#ifndef CARILLON_DEVICES_NIC_VERB_H_
#define CARILLON_DEVICES_NIC_VERB_H_

#include <string_view>

#include "devices/nic/request.h"

namespace carillon::nic {

// `text` begins at the command line (a datagram: after its frame header), and
// may be garbage. kGet for the retrieval commands (get, gets, gat, gats) with
// an argument, kSet for all else.
RequestType TypeOfRequest(std::string_view text);

}  // namespace carillon::nic

#endif  // CARILLON_DEVICES_NIC_VERB_H_

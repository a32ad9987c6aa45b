// All that the NIC itself understands of a request: which event kernel answers
// it.
#ifndef CARILLON_DEVICES_NIC_VERB_H_
#define CARILLON_DEVICES_NIC_VERB_H_

#include <string_view>

#include "devices/nic/request.h"

namespace carillon::nic {

// `text` begins at the command line (in a datagram, after its frame header),
// and may be garbage. Returns kGet for the retrieval commands (get, gets, gat,
// gats) with an argument, and kSet for everything else.
RequestType TypeOfRequest(std::string_view text);

}  // namespace carillon::nic

#endif  // CARILLON_DEVICES_NIC_VERB_H_

#include "devices/nic/verb.h"

#include <algorithm>

namespace carillon::nic {

RequestType TypeOfRequest(std::string_view text) {
  // memcached takes leading spaces.
  text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
  return text.starts_with("get ") || text.starts_with("gets ")
             ? RequestType::kGet
             : RequestType::kSet;
}

}  // namespace carillon::nic

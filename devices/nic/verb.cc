#include "devices/nic/verb.h"

#include <algorithm>

namespace carillon::nic {

RequestType TypeOfRequest(std::string_view text) {
  // memcached takes leading spaces.
  text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
  for (const std::string_view verb : {"get ", "gets ", "gat ", "gats "}) {
    if (text.starts_with(verb)) return RequestType::kGet;
  }
  return RequestType::kSet;
}

}  // namespace carillon::nic

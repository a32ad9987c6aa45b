// What a browser asks the dashboard, and what it gets.
#ifndef CARILLON_TOOLS_DASHBOARD_HTTP_MESSAGE_H_
#define CARILLON_TOOLS_DASHBOARD_HTTP_MESSAGE_H_

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/unique_fd.h"

namespace carillon::dashboard {

// All text is the client's: any bytes. Of fields that may not be repeated all
// values are here, so that a second one cannot hide behind the first.
struct Request {
  std::string method;
  std::string target;  // "/api/v1/logs?lines=10"
  std::vector<std::string> hosts;
  std::vector<std::string> authorizations;
  std::vector<std::string> origins;
  std::vector<std::string> fetch_sites;  // Sec-Fetch-Site
  std::vector<std::string> content_types;
  std::string body;
};

using SharedText = std::shared_ptr<const std::string>;

// A file to be sent, which need not have a name any more.
struct OpenFile {
  UniqueFd fd;
  size_t bytes = 0;
};
using SharedFile = std::shared_ptr<const OpenFile>;

struct Response {
  int status = 200;
  std::string_view content_type = "application/json";
  // Sent one after the other. They are shared: a long history is in memory once
  // however many read it.
  std::vector<SharedText> parts;
  // Sent after them, piece by piece: never as a whole in memory.
  SharedFile file;
  std::vector<std::pair<std::string_view, std::string>> headers;
  // Instead of `parts`: all pictures from now on, as server-sent events.
  bool stream = false;
  // To a request with a right token: its connection may go on.
  bool trusted = false;
};

Response Text(int status, std::string_view content_type, std::string text);
// {"error": {"status": 404, "message": ...}}
Response Error(int status, const std::string& message);

}  // namespace carillon::dashboard

#endif  // CARILLON_TOOLS_DASHBOARD_HTTP_MESSAGE_H_

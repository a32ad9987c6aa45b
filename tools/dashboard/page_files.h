// The files of the page, which are in the program.
#ifndef CARILLON_TOOLS_DASHBOARD_PAGE_FILES_H_
#define CARILLON_TOOLS_DASHBOARD_PAGE_FILES_H_

#include <cstddef>
#include <span>
#include <string_view>

namespace carillon::dashboard {

struct PageFile {
  std::string_view path;  // "/app.js"
  std::string_view content_type;
  std::span<const std::byte> gzipped;
};

std::span<const PageFile> PageFiles();

}  // namespace carillon::dashboard

#endif  // CARILLON_TOOLS_DASHBOARD_PAGE_FILES_H_

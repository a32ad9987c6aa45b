#include "tools/dashboard/page_files.h"

#include "tools/dashboard/app_js.h"
#include "tools/dashboard/index_html.h"
#include "tools/dashboard/style_css.h"

namespace carillon::dashboard {

std::span<const PageFile> PageFiles() {
  static const PageFile kFiles[] = {
      {"/", "text/html; charset=utf-8", IndexHtml()},
      {"/app.js", "text/javascript; charset=utf-8", AppJs()},
      {"/style.css", "text/css; charset=utf-8", StyleCss()},
  };
  return kFiles;
}

}  // namespace carillon::dashboard

#include "tools/dashboard/page_files.h"

#include "tools/dashboard/app_js.h"
#include "tools/dashboard/charts_js.h"
#include "tools/dashboard/house_js.h"
#include "tools/dashboard/index_html.h"
#include "tools/dashboard/lanes_js.h"
#include "tools/dashboard/past_js.h"
#include "tools/dashboard/preact_js.h"
#include "tools/dashboard/rings_js.h"
#include "tools/dashboard/style_css.h"
#include "tools/dashboard/table_js.h"
#include "tools/dashboard/text_js.h"
#include "tools/dashboard/uplot_css.h"
#include "tools/dashboard/uplot_js.h"
#include "tools/dashboard/views_js.h"

namespace carillon::dashboard {

std::span<const PageFile> PageFiles() {
  static const PageFile kFiles[] = {
      {"/app.js", "text/javascript; charset=utf-8", AppJs()},
      {"/charts.js", "text/javascript; charset=utf-8", ChartsJs()},
      {"/house.js", "text/javascript; charset=utf-8", HouseJs()},
      {"/", "text/html; charset=utf-8", IndexHtml()},
      {"/lanes.js", "text/javascript; charset=utf-8", LanesJs()},
      {"/past.js", "text/javascript; charset=utf-8", PastJs()},
      {"/rings.js", "text/javascript; charset=utf-8", RingsJs()},
      {"/style.css", "text/css; charset=utf-8", StyleCss()},
      {"/table.js", "text/javascript; charset=utf-8", TableJs()},
      {"/text.js", "text/javascript; charset=utf-8", TextJs()},
      {"/vendor/preact.js", "text/javascript; charset=utf-8", PreactJs()},
      {"/vendor/uplot.css", "text/css; charset=utf-8", UplotCss()},
      {"/vendor/uplot.js", "text/javascript; charset=utf-8", UplotJs()},
      {"/views.js", "text/javascript; charset=utf-8", ViewsJs()},
  };
  return kFiles;
}

}  // namespace carillon::dashboard

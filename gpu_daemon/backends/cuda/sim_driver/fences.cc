#include "gpu_daemon/backends/cuda/sim_driver/fences.h"

#include <cxxabi.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <memory>
#include <optional>
#include <regex>
#include <utility>

#include "fmt/format.h"

namespace carillon::gpud::cuda {
namespace {

std::vector<std::string_view> LinesOf(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    lines.push_back(text.substr(0, end));
    if (end == std::string_view::npos) break;
    text.remove_prefix(end + 1);
  }
  return lines;
}

// The opening bracket of the closing one at `close`.
size_t OpenOf(std::string_view text, size_t close, char open) {
  const char closing = text[close];
  int depth = 0;
  for (size_t at = close + 1; at-- > 0;) {
    if (text[at] == closing) ++depth;
    if (text[at] == open && --depth == 0) return at;
  }
  return 0;
}

// "f" of "T ns::C<A>::f<B>(int) const".
std::string_view Plain(std::string_view name) {
  constexpr std::string_view kConst = " const";
  if (name.ends_with(kConst)) name.remove_suffix(kConst.size());
  if (name.ends_with(')')) {
    name = name.substr(0, OpenOf(name, name.size() - 1, '('));
  }
  if (name.ends_with('>')) {
    name = name.substr(0, OpenOf(name, name.size() - 1, '<'));
  }
  const size_t begin = name.find_last_of(": ");
  return begin == std::string_view::npos ? name : name.substr(begin + 1);
}

// Of a function, and of the lambda that it was instantiated for:
// "Elect(Serve#2)".
std::string NameOf(const std::string& mangled) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> text(
      abi::__cxa_demangle(mangled.c_str(), nullptr, nullptr, &status),
      &std::free);
  const std::string_view whole =
      status == 0 ? std::string_view(text.get()) : std::string_view(mangled);
  constexpr std::string_view kLambda = "::{lambda(";
  const size_t lambda = whole.rfind(kLambda);
  if (lambda == std::string_view::npos) return std::string(Plain(whole));
  const size_t number = whole.find('#', lambda);
  const size_t end = whole.find('}', lambda);
  // The lambda itself, or a function that takes it.
  const bool takes = whole.find('(', end) != std::string_view::npos &&
                     !whole.substr(end).starts_with("}::operator()");
  return fmt::format("{}({}#{})",
                     takes ? Plain(whole.substr(0, whole.find('<'))) : "lambda",
                     Plain(whole.substr(0, lambda)),
                     whole.substr(number + 1, end - number - 1));
}

// $L__info_string7 and what it says, in .debug_str.
std::map<std::string, std::string> NamesOf(
    const std::vector<std::string_view>& lines) {
  std::map<std::string, std::string> names;
  std::string* name = nullptr;
  for (const std::string_view line : lines) {
    if (line.starts_with("$L__info_string") && line.ends_with(':')) {
      name = &names[std::string(line.substr(0, line.size() - 1))];
    } else if (name != nullptr && line.starts_with(".b8 ")) {
      for (std::string_view left = line.substr(4); !left.empty();) {
        const size_t comma = left.find(',');
        const int byte = std::atoi(std::string(left.substr(0, comma)).c_str());
        if (byte != 0) *name += static_cast<char>(byte);
        if (comma == std::string_view::npos) break;
        left.remove_prefix(comma + 1);
      }
    } else {
      name = nullptr;
    }
  }
  return names;
}

// A place in the source, and the call that was inlined there.
struct Place {
  std::string file;
  std::string line;
  std::string function;  // empty: the kernel itself
  std::string caller_file;
  std::string caller_line;
};

// "ld.acquire.gpu" of "ld.acquire.gpu.global.b32".
std::optional<std::string> FenceIn(std::string_view line) {
  static const std::regex kFence(
      R"(^\s*(?:@!?%p\d+\s+)?((?:fence|membar)\.\w+(?:\.\w+)?|bar\.warp\.sync|bar\.sync|(?:ld|st|atom|red)\.(?:acquire|release|acq_rel)\.\w+)\b)");
  std::cmatch match;
  if (!std::regex_search(line.data(), line.data() + line.size(), match,
                         kFence)) {
    return std::nullopt;
  }
  return match[1].str();
}

}  // namespace

std::vector<FenceSite> FindFences(std::string_view ptx,
                                  std::string_view function) {
  static const std::regex kLoc(
      R"(^\s*\.loc\s+(\d+)\s+(\d+)\s+\d+(?:, function_name (\S+), inlined_at (\d+) (\d+))?)");
  const std::vector<std::string_view> lines = LinesOf(ptx);
  const auto names = NamesOf(lines);
  std::vector<FenceSite> sites;
  // The place that was named last, for each place, and of all.
  std::map<std::pair<std::string, std::string>, Place> places;
  Place at;
  // Lines of a function with such an operation: the first is 1, and so on.
  std::map<std::pair<std::string, std::string>, std::vector<std::string>> ranks;
  const auto of = [&](const Place& place) {
    const auto found = names.find(place.function);
    return found == names.end() ? std::string(function) : NameOf(found->second);
  };
  const std::string begin = fmt::format(".entry {}(", function);
  bool inside = false;
  for (size_t i = 0; i < lines.size(); ++i) {
    const std::string_view line = lines[i];
    if (line.find(".entry ") != std::string_view::npos ||
        line.find(".func ") != std::string_view::npos) {
      inside = line.find(begin) != std::string_view::npos;
      places.clear();
    }
    if (!inside) continue;
    std::cmatch match;
    if (std::regex_search(line.data(), line.data() + line.size(), match,
                          kLoc)) {
      at = {match[1], match[2], match[3], match[4], match[5]};
      places[{at.file, at.line}] = at;
      continue;
    }
    const auto what = FenceIn(line);
    if (!what) continue;
    // CUDA's own functions say nothing; a lambda's taker says who wrote it.
    Place place = at;
    std::string own = of(place);
    const auto up = [&] {
      const auto caller = places.find({place.caller_file, place.caller_line});
      if (caller == places.end() || place.function.empty()) return false;
      place = caller->second;
      return true;
    };
    const std::string first_line = [&] {
      std::string where = place.line;
      while (own.starts_with("__") && up()) {
        where = place.line;
        own = of(place);
      }
      return where;
    }();
    std::vector<std::string>& ranked = ranks[{*what, own}];
    if (std::ranges::find(ranked, first_line) == ranked.end()) {
      ranked.push_back(first_line);
      std::ranges::sort(ranked, {}, [](const std::string& line) {
        return std::atoi(line.c_str());
      });
    }
    std::string name = fmt::format("{} {}:{}", *what, own, first_line);
    // A lambda's owner is in its name.
    if (own.find('#') == std::string::npos && up()) {
      name += " <- " + of(place);
    }
    const auto known = std::ranges::find(sites, name, &FenceSite::name);
    if (known != sites.end()) {
      known->lines.push_back(i);
    } else {
      sites.push_back({std::move(name), {i}});
    }
  }
  // The lines of the source change with every edit; their order does not.
  for (FenceSite& site : sites) {
    const size_t space = site.name.find(' ');
    const size_t colon = site.name.find(':', space);
    size_t end = site.name.find(' ', colon);
    end = end == std::string::npos ? site.name.size() : end;
    const auto& ranked =
        ranks[{site.name.substr(0, space),
               site.name.substr(space + 1, colon - space - 1)}];
    const auto rank =
        std::ranges::find(ranked, site.name.substr(colon + 1, end - colon - 1));
    site.name.replace(colon, end - colon,
                      ranked.size() == 1
                          ? ""
                          : fmt::format(" {}", rank - ranked.begin() + 1));
  }
  return sites;
}

std::map<uint32_t, std::string> OwnersOf(std::string_view ptx,
                                         std::string_view function) {
  const std::vector<std::string_view> lines = LinesOf(ptx);
  const auto names = NamesOf(lines);
  std::map<std::string, std::string> plain;
  for (const auto& [label, name] : names) plain[label] = NameOf(name);
  std::map<uint32_t, std::string> owners;
  const std::string begin = fmt::format(".entry {}(", function);
  constexpr std::string_view kName = "function_name ";
  bool inside = false;
  std::string owner;
  for (size_t i = 0; i < lines.size(); ++i) {
    const std::string_view line = lines[i];
    if (line.find(".entry ") != std::string_view::npos ||
        line.find(".func ") != std::string_view::npos) {
      inside = line.find(begin) != std::string_view::npos;
      owner = function;
    }
    if (!inside) continue;
    if (line.find(".loc") != std::string_view::npos) {
      const size_t at = line.find(kName);
      owner = function;
      if (at != std::string_view::npos) {
        const size_t name = at + kName.size();
        owner =
            plain[std::string(line.substr(name, line.find(',', name) - name))];
      }
    }
    owners[static_cast<uint32_t>(i + 1)] = owner;
  }
  return owners;
}

std::string Weaken(std::string_view ptx, const FenceSite& site) {
  static const std::regex kOrder(R"(\.(acquire|release|acq_rel)\.)");
  const std::vector<std::string_view> lines = LinesOf(ptx);
  std::string text;
  text.reserve(ptx.size());
  for (size_t i = 0; i < lines.size(); ++i) {
    if (std::ranges::find(site.lines, i) == site.lines.end()) {
      text += lines[i];
    } else if (lines[i].find("bar.") == std::string_view::npos &&
               lines[i].find("fence.") == std::string_view::npos) {
      text += std::regex_replace(std::string(lines[i]), kOrder, ".relaxed.");
    }
    text += '\n';
  }
  return text;
}

}  // namespace carillon::gpud::cuda

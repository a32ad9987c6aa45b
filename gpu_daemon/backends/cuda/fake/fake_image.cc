#include "gpu_daemon/backends/cuda/fake/fake_image.h"

#include <algorithm>
#include <cstring>
#include <regex>

namespace carillon::gpud::cuda {
namespace {

struct FatbinHeader {
  uint32_t magic;
  uint16_t version;
  uint16_t header_size;
  uint64_t size;  // of all that follows
};
constexpr uint32_t kFatbinMagic = 0xba55ed50;

uint32_t TypeSize(std::string_view type) {
  const size_t digits = type.find_first_of("0123456789");
  if (digits == std::string_view::npos) return 1;  // .pred
  return static_cast<uint32_t>(
             std::max(8, std::stoi(std::string(type.substr(digits))))) /
         8;
}

// ".param .align 8 .b8 name[24], .param .u64 .ptr .align 1 name": false when
// that is no list of parameters.
bool ParseParams(const std::string& list, std::vector<FakeParam>& params) {
  static const std::regex param(
      R"(\.param\s+(?:\.align\s+(\d+)\s+)?\.(\w+)\s+(?:\.ptr\s+(?:\.\w+\s+)*?(?:\.align\s+\d+\s+)?)?([\w$]+)(?:\[(\d+)\])?)");
  uint32_t offset = 0;
  for (std::sregex_iterator match(list.begin(), list.end(), param), end;
       match != end; ++match) {
    const uint32_t element = TypeSize((*match)[2].str());
    const uint32_t align =
        (*match)[1].matched ? std::stoul((*match)[1]) : element;
    const uint32_t count = (*match)[4].matched ? std::stoul((*match)[4]) : 1;
    offset = (offset + align - 1) / align * align;
    params.push_back({offset, element * count});
    offset += element * count;
  }
  return params.size() ==
         (list.find_first_not_of(" \t\r\n") == std::string::npos
              ? 0
              : 1 + static_cast<size_t>(
                        std::count(list.begin(), list.end(), ',')));
}

bool IsNameChar(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' ||
         c == '$';
}

// All `.visible .entry name(params)` of the text. False: one cannot be read.
bool ParseEntries(std::string_view text, std::vector<FakeEntry>& entries) {
  constexpr std::string_view kEntry = ".visible .entry ";
  for (size_t at = text.find(kEntry); at != std::string_view::npos;
       at = text.find(kEntry, at)) {
    at += kEntry.size();
    FakeEntry entry;
    while (at < text.size() && IsNameChar(text[at])) entry.name += text[at++];
    while (at < text.size() &&
           std::isspace(static_cast<unsigned char>(text[at])))
      ++at;
    if (entry.name.empty() || at == text.size()) return false;
    if (text[at] == '(') {
      const size_t close = text.find(')', at);
      if (close == std::string_view::npos ||
          !ParseParams(std::string(text.substr(at + 1, close - at - 1)),
                       entry.params)) {
        return false;
      }
    } else if (text[at] != '{' && text[at] != '.') {
      return false;
    }
    const bool known = std::ranges::any_of(
        entries, [&](const FakeEntry& e) { return e.name == entry.name; });
    if (!known) entries.push_back(std::move(entry));
  }
  return true;
}

void ParseGlobals(const std::string& text, std::vector<FakeGlobal>& globals) {
  static const std::regex global(
      R"(\.visible\s+\.(?:global|const)\s+(?:\.align\s+\d+\s+)?\.(\w+)\s+([\w$]+)(?:\[(\d+)\])?)");
  for (std::sregex_iterator match(text.begin(), text.end(), global), end;
       match != end; ++match) {
    const uint64_t count = (*match)[3].matched ? std::stoull((*match)[3]) : 1;
    globals.push_back({(*match)[2], count * TypeSize((*match)[1].str())});
  }
}

CUresult ParsePtx(const std::string& text, int driver_version, int compute,
                  FakeImage& parsed, std::string& log) {
  static const std::regex version(R"((?:^|\n)\s*\.version\s+(\d+)\.(\d+))");
  static const std::regex target(R"((?:^|\n)\s*\.target\s+sm_(\d+))");
  std::smatch found;
  if (!std::regex_search(text, found, version)) {
    log = "fatal   : Missing .version directive at start of file";
    return CUDA_ERROR_INVALID_PTX;
  }
  // PTX 8.0 came with CUDA 12.0 and 9.0 with 13.0.
  const int major = std::stoi(found[1]);
  const int minor = std::stoi(found[2]);
  const int newest =
      (driver_version / 1000 - 4) * 10 + driver_version % 1000 / 10;
  if (major * 10 + minor > newest) {
    log = "fatal   : Unsupported .version " + found[1].str() + "." +
          found[2].str();
    return CUDA_ERROR_UNSUPPORTED_PTX_VERSION;
  }
  if (!std::regex_search(text, found, target)) {
    log = "fatal   : Missing .target directive";
    return CUDA_ERROR_INVALID_PTX;
  }
  if (std::stoi(found[1]) > compute) return CUDA_ERROR_NO_BINARY_FOR_GPU;
  if (std::count(text.begin(), text.end(), '{') !=
          std::count(text.begin(), text.end(), '}') ||
      !ParseEntries(text, parsed.entries)) {
    log = "fatal   : Parsing error";
    return CUDA_ERROR_INVALID_PTX;
  }
  ParseGlobals(text, parsed.globals);
  return CUDA_SUCCESS;
}

}  // namespace

std::vector<FakeParam> PlaceParams(std::span<const uint32_t> sizes) {
  std::vector<FakeParam> params;
  uint32_t offset = 0;
  for (const uint32_t size : sizes) {
    const uint32_t align = size == 1 || size == 2 || size == 4 ? size : 8;
    offset = (offset + align - 1) / align * align;
    params.push_back({offset, size});
    offset += size;
  }
  return params;
}

CUresult ParseImage(const void* image, int driver_version, int compute,
                    FakeImage& parsed, std::string& log) {
  const auto* bytes = static_cast<const char*>(image);
  // Byte by byte: text may be shorter than a header.
  if (std::strncmp(bytes,
                   "\x7f"
                   "ELF",
                   4) == 0)
    return CUDA_ERROR_NOT_SUPPORTED;
  if (std::strncmp(bytes, "\x50\xed\x55\xba", 4) == 0) {
    FatbinHeader header;
    std::memcpy(&header, image, sizeof(header));
    if (header.magic != kFatbinMagic || header.version != 1 ||
        header.header_size != sizeof(header)) {
      return CUDA_ERROR_INVALID_IMAGE;
    }
    parsed.is_fatbin = true;
    const std::string_view content(bytes + sizeof(header), header.size);
    // What cannot be read is compressed and not wrong.
    if (!ParseEntries(content, parsed.entries)) parsed.entries.clear();
    return CUDA_SUCCESS;
  }
  const std::string text(bytes);
  const size_t start = text.find_first_not_of(" \t\r\n");
  if (start == std::string::npos ||
      (text[start] != '/' && text[start] != '.')) {
    return CUDA_ERROR_INVALID_IMAGE;
  }
  return ParsePtx(text, driver_version, compute, parsed, log);
}

}  // namespace carillon::gpud::cuda

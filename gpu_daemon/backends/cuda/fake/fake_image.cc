#include "gpu_daemon/backends/cuda/fake/fake_image.h"

#include <elf.h>

#include <algorithm>
#include <cctype>
#include <cstring>
#include <optional>
#include <regex>

namespace carillon::gpud::cuda {
namespace {

struct FatbinHeader {
  uint32_t magic;
  uint16_t version;
  uint16_t header_size;
  uint64_t size;  // of all that follows
};
// Followed by header_size - sizeof(FatbinEntry) bytes and the image.
struct FatbinEntry {
  uint16_t kind;
  uint16_t version;
  uint32_t header_size;
  uint64_t size;
  uint32_t compressed_size;  // 0: it is as it is
  uint32_t reserved;
  uint32_t unknown;
  uint32_t architecture;  // 90: sm_90 or compute_90
  uint64_t unknown_too;
  uint64_t flags;
  uint64_t name_size;
  uint64_t plain_size;  // when it is compressed, of what it was made of
};
static_assert(sizeof(FatbinEntry) == 64);
constexpr uint64_t kLz4 = 0x2000;  // one of the flags
constexpr uint16_t kPtxKind = 1;
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

// What a kernel's body keeps in local memory: `.local .align 8 .b8 depot[64];`.
uint32_t LocalBytes(const std::string& body) {
  static const std::regex local(
      R"(\.local\s+(?:\.align\s+\d+\s+)?\.b8\s+[\w$]+\[(\d{1,9})\])");
  uint32_t bytes = 0;
  for (std::sregex_iterator match(body.begin(), body.end(), local), end;
       match != end; ++match) {
    bytes += static_cast<uint32_t>(std::stoul((*match)[1]));
  }
  return bytes;
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
    entry.local_bytes =
        LocalBytes(std::string(text.substr(at, text.find(kEntry, at) - at)));
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

bool CubinRunsOn(int architecture, int compute) {
  return architecture / 10 == compute / 10 && architecture <= compute;
}

// What .nv.info.<kernel> says: records {format, attribute, value}, of which
// attribute 0x17 is {index, ordinal, offset, flags with the size on top}.
std::vector<FakeParam> CubinParams(std::string_view info) {
  constexpr char kSized = 4;
  constexpr char kParamInfo = 0x17;
  struct Param {
    uint32_t index;
    uint16_t ordinal;
    uint16_t offset;
    uint32_t flags;
  };
  std::vector<FakeParam> params;
  while (info.size() >= 4) {
    uint16_t size = 0;
    if (info[0] == kSized) std::memcpy(&size, info.data() + 2, sizeof(size));
    if (info.size() < 4u + size) break;
    if (info[0] == kSized && info[1] == kParamInfo && size == sizeof(Param)) {
      Param param;
      std::memcpy(&param, info.data() + 4, sizeof(param));
      if (params.size() <= param.ordinal) params.resize(param.ordinal + 1);
      params[param.ordinal] = {param.offset, param.flags >> 18};
    }
    info.remove_prefix(4 + size);
  }
  return params;
}

CUresult ParseCubin(const char* bytes, int compute, FakeImage& parsed) {
  Elf64_Ehdr header;
  std::memcpy(&header, bytes, sizeof(header));
  constexpr uint16_t kCudaMachine = 190;
  if (header.e_ident[EI_CLASS] != ELFCLASS64 ||
      header.e_machine != kCudaMachine ||
      header.e_shentsize != sizeof(Elf64_Shdr) ||
      header.e_shstrndx >= header.e_shnum) {
    return CUDA_ERROR_INVALID_IMAGE;
  }
  const int architecture = header.e_ident[EI_ABIVERSION] >= 8
                               ? header.e_flags >> 8 & 0xff
                               : header.e_flags & 0xff;
  if (!CubinRunsOn(architecture, compute)) return CUDA_ERROR_NO_BINARY_FOR_GPU;
  std::vector<Elf64_Shdr> sections(header.e_shnum);
  std::memcpy(sections.data(), bytes + header.e_shoff,
              sections.size() * sizeof(Elf64_Shdr));
  const char* names = bytes + sections[header.e_shstrndx].sh_offset;
  constexpr std::string_view kText = ".text.";
  for (const Elf64_Shdr& text : sections) {
    const std::string_view name = names + text.sh_name;
    if (!name.starts_with(kText)) continue;
    FakeEntry entry;
    entry.name = name.substr(kText.size());
    for (const Elf64_Shdr& info : sections) {
      if (names + info.sh_name == ".nv.info." + entry.name) {
        entry.params = CubinParams({bytes + info.sh_offset, info.sh_size});
      }
    }
    parsed.entries.push_back(std::move(entry));
  }
  for (const Elf64_Shdr& table : sections) {
    if (table.sh_type != SHT_SYMTAB || table.sh_link >= sections.size()) {
      continue;
    }
    std::vector<Elf64_Sym> symbols(table.sh_size / sizeof(Elf64_Sym));
    std::memcpy(symbols.data(), bytes + table.sh_offset,
                symbols.size() * sizeof(Elf64_Sym));
    const char* strings = bytes + sections[table.sh_link].sh_offset;
    for (const Elf64_Sym& symbol : symbols) {
      if (ELF64_ST_TYPE(symbol.st_info) == STT_OBJECT &&
          symbol.st_shndx != SHN_UNDEF) {
        parsed.globals.push_back({strings + symbol.st_name, symbol.st_size});
      }
    }
  }
  return CUDA_SUCCESS;
}

// The image of an entry that is compressed as one block of LZ4 (its block format:
// runs of literals, each with a copy of what came before). Empty: another way of
// compressing, or no such block.
std::string UnpackLz4(const FatbinEntry& entry, std::string_view packed) {
  constexpr uint64_t kMostBytes = uint64_t{1} << 30;
  std::string image;
  if ((entry.flags & kLz4) == 0 || entry.plain_size > kMostBytes) return image;
  packed = packed.substr(0, entry.compressed_size);
  const auto byte = [&]() -> uint32_t {
    if (packed.empty()) return 0;
    const auto value = static_cast<unsigned char>(packed.front());
    packed.remove_prefix(1);
    return value;
  };
  // 15 says that bytes follow which are to be added, the last of them below 255.
  const auto length = [&](uint32_t nibble) -> size_t {
    size_t sum = nibble;
    if (nibble != 15) return sum;
    uint32_t more = 0;
    do {
      more = byte();
      sum += more;
    } while (more == 255);
    return sum;
  };
  while (!packed.empty()) {
    const uint32_t token = byte();
    const size_t literals = std::min(length(token >> 4), packed.size());
    image += packed.substr(0, literals);
    packed.remove_prefix(literals);
    if (packed.empty()) break;
    const uint32_t low = byte();
    const size_t back = low + (byte() << 8);
    const size_t copied = length(token & 15) + 4;
    if (back == 0 || back > image.size() ||
        image.size() + copied > entry.plain_size) {
      return "";
    }
    // Byte by byte: it may copy what it has just written.
    for (size_t i = 0; i < copied; ++i) image += image[image.size() - back];
  }
  return image.size() == entry.plain_size ? image : "";
}

// Calls use(entry, image) for each entry, unpacked where that can be done, until
// it returns false. False: it is no such content.
template <class Use>
bool EachEntry(std::string_view content, Use use) {
  while (content.size() >= sizeof(FatbinEntry)) {
    FatbinEntry entry;
    std::memcpy(&entry, content.data(), sizeof(entry));
    if (entry.header_size < sizeof(entry) ||
        entry.header_size > content.size() ||
        entry.size > content.size() - entry.header_size) {
      return false;
    }
    std::string_view image = content.substr(entry.header_size, entry.size);
    std::string unpacked;
    if (entry.compressed_size != 0) {
      unpacked = UnpackLz4(entry, image);
      if (!unpacked.empty()) image = unpacked;
    }
    if (!use(entry, image)) return true;
    content.remove_prefix(entry.header_size + entry.size);
  }
  return true;
}

// The cubin for this GPU, or the PTX, if it is not compressed by zstd.
CUresult ParseFatbin(std::string_view content, int compute, FakeImage& parsed) {
  parsed.is_fatbin = true;
  if (content.empty()) return CUDA_SUCCESS;  // FakeGpu::Image()
  CUresult result = CUDA_ERROR_NO_BINARY_FOR_GPU;
  const bool whole =
      EachEntry(content, [&](const FatbinEntry& entry, std::string_view image) {
        const int architecture = static_cast<int>(entry.architecture);
        if (image.starts_with("\x7f"
                              "ELF") &&
            CubinRunsOn(architecture, compute)) {
          parsed.entries.clear();
          parsed.globals.clear();
          result = ParseCubin(image.data(), compute, parsed);
          return false;
        }
        if (entry.kind == kPtxKind && architecture <= compute) {
          result = CUDA_SUCCESS;
          if (!ParseEntries(image, parsed.entries)) parsed.entries.clear();
        }
        return true;
      });
  return whole ? result : CUDA_ERROR_INVALID_IMAGE;
}

// The content behind a fatbin's header; nullopt: it is none.
std::optional<std::string_view> ContentOf(const void* image) {
  FatbinHeader header;
  std::memcpy(&header, image, sizeof(header));
  if (header.magic != kFatbinMagic || header.version != 1 ||
      header.header_size != sizeof(header)) {
    return std::nullopt;
  }
  return std::string_view(static_cast<const char*>(image) + sizeof(header),
                          header.size);
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
                   4) == 0) {
    return ParseCubin(bytes, compute, parsed);
  }
  if (std::strncmp(bytes, "\x50\xed\x55\xba", 4) == 0) {
    const auto content = ContentOf(image);
    if (!content) return CUDA_ERROR_INVALID_IMAGE;
    return ParseFatbin(*content, compute, parsed);
  }
  const std::string text(bytes);
  const size_t start = text.find_first_not_of(" \t\r\n");
  if (start == std::string::npos ||
      (text[start] != '/' && text[start] != '.')) {
    return CUDA_ERROR_INVALID_IMAGE;
  }
  return ParsePtx(text, driver_version, compute, parsed, log);
}

absl::StatusOr<std::string> PtxOfFatbin(const void* image) {
  const auto content = ContentOf(image);
  std::string text;
  const bool whole =
      content &&
      EachEntry(*content, [&](const FatbinEntry& entry, std::string_view part) {
        // As a C string.
        if (entry.kind == kPtxKind) text = part.substr(0, part.find('\0'));
        return text.empty();
      });
  if (!whole) return absl::InvalidArgumentError("this is no fatbin");
  if (text.empty()) {
    return absl::InvalidArgumentError("this fatbin has no PTX");
  }
  // A comment of nvcc's, or a directive.
  if (text[0] != '/' && text[0] != '.' && text[0] != '\n') {
    return absl::InvalidArgumentError(
        "the PTX in this fatbin is compressed by zstd: compile with nvcc "
        "--compress-mode=speed");
  }
  return text;
}

}  // namespace carillon::gpud::cuda

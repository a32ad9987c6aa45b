#include "gpu_daemon/backends/cuda/driver/module_image.h"

#include <elf.h>

#include <cstdint>
#include <cstring>
#include <string_view>

#include "fmt/format.h"

namespace carillon::gpud::cuda {
namespace {

constexpr std::string_view kElfMagic(
    "\x7f"
    "ELF",
    4);
constexpr std::string_view kFatbinMagic("\x50\xed\x55\xba", 4);
constexpr uint16_t kCudaMachine = 190;  // EM_CUDA

// What an image of each kind begins with.
struct FatbinHeader {
  uint32_t magic;
  uint16_t version;
  uint16_t header_bytes;
  uint64_t bytes;  // of all that follows
};
static_assert(sizeof(FatbinHeader) == 16);

absl::Status Bad(const std::string& file, std::string_view what) {
  return absl::InvalidArgumentError(fmt::format("{} {}", file, what));
}

absl::Status CutShort(const std::string& file, std::string_view kind,
                      size_t size) {
  return Bad(file, fmt::format("is a {} that was cut short: it has {} bytes",
                               kind, size));
}

// Whether [offset, offset + bytes) lies in `size`, for all 64-bit values.
bool Inside(uint64_t offset, uint64_t bytes, uint64_t size) {
  return offset <= size && bytes <= size - offset;
}

absl::Status CheckFatbin(std::string_view image, const std::string& file) {
  FatbinHeader header;
  if (image.size() < sizeof(header)) {
    return CutShort(file, "fatbin", image.size());
  }
  std::memcpy(&header, image.data(), sizeof(header));
  if (!Inside(header.header_bytes, header.bytes, image.size())) {
    return CutShort(file, "fatbin", image.size());
  }
  return absl::OkStatus();
}

absl::Status CheckCubin(std::string_view image, const std::string& file) {
  Elf64_Ehdr header;
  if (image.size() < sizeof(header)) {
    return CutShort(file, "cubin", image.size());
  }
  std::memcpy(&header, image.data(), sizeof(header));
  if (header.e_machine != kCudaMachine) {
    return Bad(file,
               fmt::format("is an ELF file for a CPU (machine {}), not a cubin "
                           "(machine {}): compile it by nvcc with -fatbin, "
                           "-cubin or -ptx",
                           header.e_machine, kCudaMachine));
  }
  if (header.e_ident[EI_CLASS] != ELFCLASS64 ||
      header.e_shentsize != sizeof(Elf64_Shdr) ||
      header.e_shstrndx >= header.e_shnum ||
      (header.e_phnum != 0 && header.e_phentsize != sizeof(Elf64_Phdr))) {
    return Bad(file, "is a cubin with a damaged header");
  }
  if (!Inside(header.e_shoff, header.e_shnum * sizeof(Elf64_Shdr),
              image.size()) ||
      !Inside(header.e_phoff, header.e_phnum * sizeof(Elf64_Phdr),
              image.size())) {
    return CutShort(file, "cubin", image.size());
  }
  for (uint16_t i = 0; i < header.e_shnum; ++i) {
    Elf64_Shdr section;
    std::memcpy(&section,
                image.data() + header.e_shoff + i * sizeof(Elf64_Shdr),
                sizeof(section));
    if (section.sh_type != SHT_NOBITS &&
        !Inside(section.sh_offset, section.sh_size, image.size())) {
      return CutShort(file, "cubin", image.size());
    }
  }
  return absl::OkStatus();
}

absl::Status CheckPtx(std::string_view image, const std::string& file) {
  // One NUL may end it.
  if (image.back() == '\0') image.remove_suffix(1);
  const size_t nul = image.find('\0');
  if (nul != std::string_view::npos) {
    return Bad(file, fmt::format("is no text: byte {} is 0", nul));
  }
  if (image.find(".version") == std::string_view::npos) {
    return Bad(
        file,
        "is neither a fatbin nor a cubin, and as PTX text it has no "
        ".version line: compile it by nvcc with -fatbin, -cubin or -ptx");
  }
  return absl::OkStatus();
}

}  // namespace

bool IsPtx(std::span<const std::byte> image) {
  const std::string_view bytes(reinterpret_cast<const char*>(image.data()),
                               image.size());
  return !bytes.starts_with(kFatbinMagic) && !bytes.starts_with(kElfMagic);
}

absl::Status CheckModuleImage(std::span<const std::byte> image,
                              const std::string& file) {
  const std::string_view bytes(reinterpret_cast<const char*>(image.data()),
                               image.size());
  if (bytes.empty()) return Bad(file, "is empty");
  if (bytes.starts_with(kFatbinMagic)) return CheckFatbin(bytes, file);
  if (bytes.starts_with(kElfMagic)) return CheckCubin(bytes, file);
  return CheckPtx(bytes, file);
}

}  // namespace carillon::gpud::cuda

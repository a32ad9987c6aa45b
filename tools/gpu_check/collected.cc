#include "tools/gpu_check/collected.h"

#include <string.h>
#include <sys/stat.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>
#include <utility>

#include "base/status.h"
#include "fmt/format.h"

namespace carillon::gpu_check {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr std::string_view kText = "all.txt";
constexpr std::string_view kDocument = "all.json";
constexpr std::string_view kArchive = "results.tar.gz";
constexpr std::string_view kNext = ".next";

absl::Status CannotWrite(const std::string& path) {
  return absl::PermissionDeniedError(
      fmt::format("cannot write {}: {}", path, strerror(errno)));
}

absl::Status Replace(const std::string& path) {
  const std::string next = path + std::string(kNext);
  if (rename(next.c_str(), path.c_str()) != 0) return CannotWrite(path);
  return absl::OkStatus();
}

absl::Status WriteWhole(const std::string& path, const std::string& text) {
  {
    std::ofstream file(path + std::string(kNext), std::ios::binary);
    file << text;
    if (!file.flush()) return CannotWrite(path);
  }
  return Replace(path);
}

std::string ReadAll(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// The end of what a step printed.
std::string Tail(const fs::path& path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) return "";
  const auto size = static_cast<uint64_t>(std::max<int64_t>(file.tellg(), 0));
  const uint64_t skipped =
      size > kMaxCollectedText ? size - kMaxCollectedText : 0;
  file.seekg(static_cast<std::streamoff>(skipped));
  std::string text(std::istreambuf_iterator<char>(file), {});
  if (skipped > 0) text = fmt::format("[{} bytes before]\n", skipped) + text;
  if (!text.empty() && text.back() != '\n') text += '\n';
  return text;
}

// The last document among the lines that a step printed: it begins with a line
// "{" and ends with a line "}".
Json DocumentIn(const std::string& text) {
  const std::string lines = "\n" + text;
  const size_t end = lines.rfind("\n}\n");
  const size_t start =
      end == std::string::npos ? end : lines.rfind("\n{\n", end);
  if (start == std::string::npos) return {};
  Json document =
      Json::parse(lines.substr(start, end + 3 - start), nullptr, false);
  return document.is_discarded() ? Json() : document;
}

// A file of the folder that is worth keeping.
struct File {
  std::string name;  // in the folder
  fs::path path;
  uint64_t size = 0;
};

class Collection {
 public:
  Collection(const std::string& directory, const std::vector<CheckPart>& parts,
             const Results& results)
      : directory_(directory), parts_(parts), results_(results) {
    FindFiles();
  }

  absl::Status Write() const {
    // The archive last: a full disk must not cost what is small.
    RETURN_IF_ERROR(WriteWhole(PathOf(kText), Text()));
    RETURN_IF_ERROR(WriteWhole(
        PathOf(kDocument),
        Document().dump(1, ' ', false, Json::error_handler_t::replace) + "\n"));
    return WriteArchive();
  }

 private:
  std::string PathOf(std::string_view name) const {
    return fmt::format("{}/{}", directory_, name);
  }

  void FindFiles() {
    std::error_code error;
    for (fs::recursive_directory_iterator entry(
             directory_, fs::directory_options::skip_permission_denied, error),
         end;
         !error && entry != end; entry.increment(error)) {
      std::error_code gone;
      if (entry->is_symlink(gone) || !entry->is_regular_file(gone)) continue;
      const std::string name =
          entry->path().lexically_relative(directory_).string();
      if (name == kText || name == kDocument || name == kArchive ||
          name.ends_with(kNext)) {
        continue;
      }
      files_.push_back({name, entry->path(), entry->file_size(gone)});
    }
    std::ranges::sort(files_, {}, &File::name);
    uint64_t sum = 0;
    std::erase_if(files_, [&](const File& file) {
      const bool fits = file.size <= kMaxCollectedFile &&
                        sum + file.size <= kMaxCollectedFiles &&
                        file.name.size() < kMaxName;
      if (fits) {
        sum += file.size;
      } else {
        left_out_ += fmt::format("left out of {}: {} ({} bytes)\n", kArchive,
                                 file.name, file.size);
      }
      return !fits;
    });
  }

  std::string Text() const {
    std::string text = ResultTable(parts_, results_) + "\n" + left_out_;
    for (const CheckPart& part : parts_) {
      for (const CheckStep& step : part.steps) {
        const auto found = results_.find(part.name + "/" + step.name);
        if (found == results_.end()) continue;
        const std::string stem =
            fmt::format("{}/{}.{}", directory_, part.name, step.name);
        text +=
            fmt::format("=== {}: {}, {:.1f} s\n", found->first,
                        NameOf(found->second.outcome), found->second.seconds);
        for (const char* const stream : {".out", ".err"}) {
          const std::string said = Tail(stem + stream);
          if (said.empty()) continue;
          text += fmt::format("--- {}\n{}", stream, said);
        }
      }
    }
    return text;
  }

  Json Document() const {
    Json document = ToJson(results_);
    for (auto& [key, step] : document["steps"].items()) {
      std::string stem = key;
      std::ranges::replace(stem, '/', '.');
      Json said = DocumentIn(Tail(PathOf(stem + ".out")));
      if (!said.is_null()) step["document"] = std::move(said);
    }
    document["run"] = Json::parse(ReadAll(PathOf("run.json")), nullptr, false);
    if (document["run"].is_discarded()) document["run"] = nullptr;
    // The benches'.
    for (const File& file : files_) {
      if (!file.name.ends_with(".json") ||
          file.name.find('/') == std::string::npos) {
        continue;
      }
      Json one = Json::parse(ReadAll(file.path), nullptr, false);
      if (!one.is_discarded()) document["files"][file.name] = std::move(one);
    }
    return document;
  }

  // A header of the ustar format.
  struct Header {
    char name[100];
    char mode[8];
    char uid[8];
    char gid[8];
    char size[12];
    char time[12];
    char checksum[8];
    char type;
    char link[100];
    char magic[8];
    char owner[32];
    char group[32];
    char device[16];
    char prefix[155];
    char padding[12];
  };
  static constexpr size_t kBlock = 512;
  static_assert(sizeof(Header) == kBlock);
  static constexpr size_t kMaxName = sizeof(Header::name);

  static Header HeaderOf(const File& file, uint64_t size) {
    Header header = {};
    std::memcpy(header.name, file.name.data(), file.name.size());
    std::memcpy(header.mode, "0000644", 8);
    std::memcpy(header.uid, "0000000", 8);
    std::memcpy(header.gid, "0000000", 8);
    fmt::format_to_n(header.size, 11, "{:011o}", size);
    struct stat about = {};
    stat(file.path.c_str(), &about);
    fmt::format_to_n(header.time, 11, "{:011o}",
                     static_cast<uint64_t>(about.st_mtime));
    std::memcpy(header.magic,
                "ustar\0"
                "00",
                8);
    header.type = '0';
    // The sum of the header's bytes, its own field taken for spaces.
    std::memset(header.checksum, ' ', sizeof(header.checksum));
    uint32_t sum = 0;
    const auto* bytes = reinterpret_cast<const unsigned char*>(&header);
    for (size_t i = 0; i < sizeof(header); ++i) sum += bytes[i];
    fmt::format_to_n(header.checksum, 6, "{:06o}", sum);
    header.checksum[6] = '\0';
    return header;
  }

  absl::Status WriteArchive() const {
    const std::string path = PathOf(kArchive);
    // Fast rather than small: it is written after every step.
    const gzFile archive = gzopen((path + std::string(kNext)).c_str(), "wb1");
    if (archive == nullptr) return CannotWrite(path);
    bool written = true;
    const auto put = [&](const void* bytes, size_t size) {
      written = written && (size == 0 || gzwrite(archive, bytes,
                                                 static_cast<unsigned>(size)) ==
                                             static_cast<int>(size));
    };
    const char zeros[2 * kBlock] = {};
    for (const File& file : files_) {
      // What it is now: a step's left-over may still write to it.
      const std::string content = ReadAll(file.path);
      const Header header = HeaderOf(file, content.size());
      put(&header, sizeof(header));
      put(content.data(), content.size());
      put(zeros, (kBlock - content.size() % kBlock) % kBlock);
    }
    put(zeros, sizeof(zeros));
    if (gzclose(archive) != Z_OK || !written) return CannotWrite(path);
    return Replace(path);
  }

  const std::string& directory_;
  const std::vector<CheckPart>& parts_;
  const Results& results_;
  std::vector<File> files_;
  std::string left_out_;
};

}  // namespace

absl::Status Collect(const std::string& directory,
                     const std::vector<CheckPart>& parts,
                     const Results& results) {
  return Collection(directory, parts, results).Write();
}

}  // namespace carillon::gpu_check

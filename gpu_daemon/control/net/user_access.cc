#include "gpu_daemon/control/net/user_access.h"

#include <linux/posix_acl.h>
#include <linux/posix_acl_xattr.h>
#include <sys/xattr.h>

#include <bit>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <vector>

#include "base/status.h"
#include "fmt/format.h"

namespace carillon::gpud {
namespace {

constexpr char kAttribute[] = "system.posix_acl_access";
constexpr uint32_t kNobodyInParticular = ACL_UNDEFINED_ID;
constexpr uint16_t kNothing = 0;

// The attribute's format, little-endian: a version, then entries in this order.
static_assert(std::endian::native == std::endian::little);
static_assert(sizeof(posix_acl_xattr_header) == 4);
static_assert(sizeof(posix_acl_xattr_entry) == 8);

std::vector<char> AttributeFor(std::span<const uid_t> users,
                               UserAccess access) {
  const auto theirs = static_cast<uint16_t>(access);
  const uint16_t owners = access == UserAccess::kPassThrough
                              ? ACL_READ | ACL_WRITE | ACL_EXECUTE
                              : ACL_READ | ACL_WRITE;
  std::vector<posix_acl_xattr_entry> entries = {
      {ACL_USER_OBJ, owners, kNobodyInParticular}};
  for (const uid_t user : users) entries.push_back({ACL_USER, theirs, user});
  entries.push_back({ACL_GROUP_OBJ, kNothing, kNobodyInParticular});
  entries.push_back({ACL_MASK, theirs, kNobodyInParticular});
  entries.push_back({ACL_OTHER, kNothing, kNobodyInParticular});

  const posix_acl_xattr_header header{POSIX_ACL_XATTR_VERSION};
  const size_t bytes = entries.size() * sizeof(posix_acl_xattr_entry);
  std::vector<char> attribute(sizeof(header) + bytes);
  std::memcpy(attribute.data(), &header, sizeof(header));
  std::memcpy(attribute.data() + sizeof(header), entries.data(), bytes);
  return attribute;
}

}  // namespace

absl::Status LetUsers(const std::string& path, std::span<const uid_t> users,
                      UserAccess access) {
  const std::vector<char> attribute = AttributeFor(users, access);
  if (setxattr(path.c_str(), kAttribute, attribute.data(), attribute.size(),
               0) == 0) {
    return absl::OkStatus();
  }
  if (errno == EOPNOTSUPP) {
    return WithHint(
        absl::FailedPreconditionError(fmt::format(
            "{} is on a file system without access control lists, so devices "
            "of other users cannot be let in",
            path)),
        "set CARILLON_RUNTIME_DIR to a folder on ext4, xfs, btrfs or tmpfs, or "
        "leave `user` out of the topology");
  }
  return absl::UnavailableError(fmt::format("cannot let other users at {}: {}",
                                            path, std::strerror(errno)));
}

}  // namespace carillon::gpud

#include "cache/file/file_system.h"

#include <fcntl.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

namespace moetune {
namespace {

struct NetworkType {
  std::uint32_t magic;  // statfs(2), "f_type"
  const char* name;
};

constexpr NetworkType kNetworkTypes[] = {
    {0x00006969, "NFS"},    {0xFF534D42, "SMB"},    {0xFE534D42, "SMB"},      {0x0000517B, "SMB"},
    {0x65735546, "FUSE"},   {0x0BD00BD0, "Lustre"}, {0x00C36400, "Ceph"},     {0x47504653, "GPFS"},
    {0x19830326, "BeeGFS"}, {0xAAD7AAEA, "PanFS"},  {0x5346414F, "AFS"},      {0x6B414653, "AFS"},
    {0x73757245, "Coda"},   {0x0000564C, "NCP"},    {0x01021997, "9p"},       {0x7461636F, "OCFS2"},
    {0x01161970, "GFS2"},   {0x013111A8, "IBRIX"},  {0x20030528, "OrangeFS"},
};

}  // namespace

std::string network_name(long statfs_type) {
  for (const NetworkType& type : kNetworkTypes) {
    if (type.magic == static_cast<std::uint32_t>(statfs_type)) return type.name;
  }
  return {};
}

std::string network_file_system(const std::filesystem::path& path) {
  struct statfs facts;
  for (std::filesystem::path place = path; !place.empty(); place = place.parent_path()) {
    if (::statfs(place.c_str(), &facts) == 0) return network_name(static_cast<long>(facts.f_type));
    if (place == place.parent_path()) break;
  }
  return {};
}

bool has_room(const std::filesystem::path& folder, std::size_t bytes) {
  // Without a name, so that not even a kill leaves it behind. A file system that knows no such files says
  // EOPNOTSUPP or EISDIR.
  const int file = ::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (file < 0) return errno != EACCES && errno != EROFS && errno != ENOSPC && errno != EDQUOT;
  const int failure = ::posix_fallocate(file, 0, static_cast<off_t>(bytes));
  ::close(file);
  return failure != ENOSPC && failure != EDQUOT && failure != EFBIG;
}

}  // namespace moetune

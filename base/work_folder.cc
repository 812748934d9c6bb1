#include "base/work_folder.h"

#include <cerrno>
#include <cstdlib>
#include <system_error>

#include "base/error.h"

namespace moetune {

WorkFolder::WorkFolder(const std::filesystem::path& beside)
    : name_(std::filesystem::absolute(beside).string() + ".XXXXXX") {
  if (::mkdtemp(name_.data()) == nullptr)
    throw BrokenEnvironment("cannot write " + beside.string() + ": " +
                            std::error_code(errno, std::generic_category()).message());
}

WorkFolder::~WorkFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(name_, ignored);
}

}  // namespace moetune

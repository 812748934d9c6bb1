// A folder for the files of a work that is not yet done.
#pragma once

#include <filesystem>
#include <string>

namespace moetune {

// PATH.XXXXXX, by a name that nobody else has; removed with all that it holds. What a process that is killed leaves
// is for others to remove. Belongs to one thread.
class WorkFolder {
 public:
  // On the file system of `beside`, so that what is made there can be renamed. Throws BrokenEnvironment.
  explicit WorkFolder(const std::filesystem::path& beside);
  WorkFolder(const WorkFolder&) = delete;
  ~WorkFolder();

  std::filesystem::path file(const std::string& name) const { return std::filesystem::path(name_) / name; }

 private:
  std::string name_;
};

}  // namespace moetune

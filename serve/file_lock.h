// What one process has alone: a queue, which a second service would take over, or a folder into which one publishes.
//
// The lock is the operating system's: it is held while this lives, and ends with its process, however that ends. A file
// system without locks has none. Errors: BrokenEnvironment if another process holds it, or it cannot be made.
#pragma once

#include <filesystem>
#include <string>

namespace moetune {

class FileLock {
 public:
  // Of a file that is made if it is new. `busy`: the sentence if another process holds it.
  static FileLock of_file(const std::filesystem::path& file, const std::string& busy);
  // Of the folder itself: nothing is written into it.
  static FileLock of_folder(const std::filesystem::path& folder, const std::string& busy);
  FileLock(FileLock&& other) noexcept;
  FileLock& operator=(FileLock&&) = delete;
  ~FileLock();

 private:
  FileLock(const std::filesystem::path& path, int flags, const std::string& busy);

  int file_ = -1;
};

}  // namespace moetune

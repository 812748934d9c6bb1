// Two ways to alter a database file, for a cache and a pack alike: its bytes, or its records by SQL.
//
// `File` is a Target but for make and run. Its constructor takes the folder, makes a sound file there and leaves its
// path in `file_` and its content in `bytes_`; `judge()` looks at what the file has become, and throws Finding.
// `File::kWord` is put into altered bytes as it is.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>

#include "cache/file/database.h"
#include "tests/fuzz/cache_content.h"
#include "tests/fuzz/mutator.h"
#include "tests/fuzz/target.h"

namespace moetune::fuzz {

constexpr std::size_t kMostDatabaseBytes = std::size_t{16} << 20;

template <typename File>
class BytesOf : public File {
 public:
  explicit BytesOf(const Folder& folder) : File(folder), mutator_({this->bytes_}, {File::kWord}) {}
  std::string make(Random& random) override { return mutator_.make(random); }
  void run(const std::string& input) override {
    write_database(this->file_, input);
    this->judge();
  }

 private:
  const Mutator mutator_;
};

template <typename File>
class RecordsOf : public File {
 public:
  using File::File;
  std::string make(Random& random) override { return random_change(random); }
  void run(const std::string& input) override {
    write_database(this->file_, this->bytes_);
    Database(this->file_, Database::Access::read_write, std::chrono::seconds(1))
        .execute("PRAGMA synchronous = OFF; PRAGMA foreign_keys = OFF; PRAGMA ignore_check_constraints = ON; " + input);
    this->judge();
  }
};

}  // namespace moetune::fuzz

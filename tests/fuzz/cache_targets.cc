// Cache files with altered bytes and altered records: none may be called sound, and nothing altered may be read.
#include <fstream>

#include "base/regular_file.h"
#include "cache/check.h"
#include "jobs/session/record_rules.h"
#include "report/page.h"
#include "report/report_document.h"
#include "tests/fuzz/cache_content.h"
#include "tests/fuzz/database_targets.h"
#include "tests/fuzz/target.h"

namespace moetune::fuzz {
namespace {

class CacheTarget : public Target {
 public:
  explicit CacheTarget(const Folder& folder) : file_(folder / "cache.db"), rules_(record_rules()) {
    write_sample_cache(file_);
    bytes_ = read_regular_file(file_, kMostDatabaseBytes);
    Cache cache = Cache::open(file_, Cache::Mode::read_only);
    known_ = read_all(cache);
    if (known_.size() != 16 || !check_cache(cache, rules_).empty())
      throw std::logic_error("the sample cache is not sound: " + std::to_string(known_.size()) + " records" +
                             (check_cache(cache, rules_).empty() ? ""
                                                                 : ", " + check_cache(cache, rules_)[0].where + ": " +
                                                                       check_cache(cache, rules_)[0].what));
  }

 protected:
  static constexpr const char* kWord = "SQLite format 3";

  // The file as it is now.
  void judge() {
    {
      const Cache cache = Cache::open(file_, Cache::Mode::inspect);
      if (!check_cache(cache, rules_).empty()) return read_as_is();
    }
    Cache cache = Cache::open(file_, Cache::Mode::read_only);
    require_known(known_, read_all(cache), "an altered record is called sound");
  }

  const Folder file_;
  std::string bytes_;

 private:
  void read_as_is() {
    Cache cache = Cache::open(file_, Cache::Mode::read_only);
    require_known(known_, read_all(cache), "an altered record is read");
    const Report report = read_report(&cache, {});
    report_document(report);
    page_data(report, {});
  }

  RecordRules rules_;
  std::multiset<std::string> known_;
};

}  // namespace

std::unique_ptr<Target> cache_bytes_target(const Folder& folder) {
  return std::make_unique<BytesOf<CacheTarget>>(folder);
}
std::unique_ptr<Target> cache_records_target(const Folder& folder) {
  return std::make_unique<RecordsOf<CacheTarget>>(folder);
}

}  // namespace moetune::fuzz

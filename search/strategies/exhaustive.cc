#include "search/strategies/strategies.h"
#include "search/untried.h"

namespace moetune {
namespace {

class Exhaustive : public Searcher {
 public:
  explicit Exhaustive(const LegalSpace& space) : size_(space.size()), untried_(space.size()) {}

  std::vector<ConfigId> ask(std::size_t n) override {
    std::vector<ConfigId> ids;
    for (; ids.size() < n && next_ < size_; ++next_) {
      const auto id = static_cast<ConfigId>(next_);
      if (untried_.take(id)) ids.push_back(id);
    }
    return ids;
  }

  void tell(const Observation& observation) override { untried_.take(observation.id); }

 private:
  std::size_t size_;
  std::size_t next_ = 0;
  Untried untried_;
};

}  // namespace

std::unique_ptr<Searcher> make_exhaustive(const LegalSpace& space, std::uint64_t) {
  return std::make_unique<Exhaustive>(space);
}

}  // namespace moetune

// The tune loop beside somebody who suggests.
#include "tuner/proposer.h"

#include <doctest/doctest.h>

#include <set>

#include "tests/tuner/grid_search.h"

using namespace moetune;

namespace {

class ScriptedProposer : public Proposer {
 public:
  std::function<std::vector<ConfigId>(std::size_t n, bool waits)> answer;
  State now = State::suggests;
  std::size_t ended = 0, asked = 0;
  std::vector<ConfigId> told;
  std::set<ConfigId> seen_open;
  std::size_t most_open = 0;

  std::vector<ConfigId> ask(std::size_t n, std::span<const ConfigId> open,
                            const std::function<bool()>& is_over) override {
    ++asked;
    seen_open.insert(open.begin(), open.end());
    most_open = std::max(most_open, open.size());
    return now == State::suggests ? answer(n, is_over != nullptr) : std::vector<ConfigId>();
  }
  void tell(const Trial& trial, const Build*) override { told.push_back(trial.id); }
  void end() override { ++ended; }
  State state() const override { return now; }
};

struct ProposedSearch : Search {
  ScriptedProposer proposer;

  ProposedSearch() {
    request.proposer = &proposer;
    request.strategy = "external:scripted";
  }
};

std::vector<ConfigId> ids_tried(const TuneResult& result) {
  std::vector<ConfigId> ids;
  for (const Trial& trial : result.trials) ids.push_back(trial.id);
  return ids;
}

}  // namespace

TEST_CASE("suggestions are tried in their order, each result is told, and nothing is asked after the last") {
  ProposedSearch search;
  ConfigId next = 0;
  search.proposer.answer = [&](std::size_t n, bool waits) {
    CHECK(waits);
    std::vector<ConfigId> ids;
    for (; ids.size() < std::min<std::size_t>(n, 3); ++next) ids.push_back(63 - next);
    return ids;
  };
  search.request.budget = 9;
  const TuneResult result = search.run();
  CHECK(ids_tried(result) == std::vector<ConfigId>{63, 62, 61, 60, 59, 58, 57, 56, 55});
  CHECK(search.proposer.told == ids_tried(result));
  CHECK(search.proposer.ended == 1);
  CHECK(search.proposer.seen_open.contains(63));
}

TEST_CASE("while nothing is suggested, auto tries one after the other on a recording, and keeps a GPU busy") {
  for (const bool is_gpu : {false, true}) {
    CAPTURE(is_gpu);
    ProposedSearch search;
    search.request.ready_first = is_gpu;
    search.proposer.answer = [&](std::size_t, bool waits) {
      CHECK(waits == !is_gpu);
      return std::vector<ConfigId>();
    };
    search.request.budget = 40;
    search.request.in_flight = 16;
    const TuneResult result = search.run();
    CHECK(result.counts.total() == 40);
    CHECK(search.proposer.most_open == (is_gpu ? 4 : 1));
    REQUIRE(result.best);
    CHECK(result.best->config.text() == "x=3,y=5");  // auto knows what it does
    CHECK(search.proposer.told.size() == 40);
  }
}

TEST_CASE("a search ends with the proposer that is done, once what is open is measured") {
  ProposedSearch search;
  search.proposer.answer = [&](std::size_t, bool) {
    search.proposer.now = Proposer::State::done;
    return std::vector<ConfigId>{1, 2};
  };
  const TuneResult result = search.run();
  CHECK(ids_tried(result) == std::vector<ConfigId>{1, 2});
  CHECK(!result.exhausted);
  CHECK(result.best);
}

TEST_CASE("a search goes on by auto without the proposer that is gone") {
  ProposedSearch search;
  search.proposer.answer = [&](std::size_t, bool) {
    search.proposer.now = Proposer::State::gone;
    return std::vector<ConfigId>{0};
  };
  const TuneResult result = search.run();
  CHECK(result.counts.total() == 40);
  CHECK(result.trials.front().id == 0);
}

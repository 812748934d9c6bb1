// When a searcher's scouts go out and are due: counted in tells, so that a trajectory depends on what was
// told; whoever waits for those that are due (a replay does) makes it independent of how fast a compiler is.
// Whoever drives a searcher owns one; knows no compiler itself.
// Not thread-safe.
#pragma once

#include <algorithm>
#include <cstddef>
#include <deque>
#include <optional>
#include <vector>

#include "search/searcher.h"

namespace moetune {

// Tells between scouting a configuration and learning its facts: about as long as it takes to compile one
// while others are measured.
inline constexpr std::size_t kScoutedFor = 20;
// Out at a time: what is to be measured must not wait for a core that compiles a scout.
inline constexpr std::size_t kMostScoutsOut = 8;

class Scouting {
 public:
  explicit Scouting(Searcher& searcher) : searcher_(searcher) {}

  // New scouts, to be compiled: as many as the strategy wants, with at most `most_out` and kMostScoutsOut out
  // at a time.
  std::vector<ConfigId> send(std::size_t most_out, std::size_t told) {
    most_out = std::min(most_out, kMostScoutsOut);
    if (out_.size() >= most_out) return {};
    std::vector<ConfigId> ids = searcher_.scout(most_out - out_.size());
    for (const ConfigId id : ids) out_.push_back({id, told + kScoutedFor});
    return ids;
  }

  // The next scout whose facts are due, in the order they were sent; its facts are then to be learnt before
  // anything is asked.
  std::optional<ConfigId> take_due(std::size_t told) {
    const std::optional<ConfigId> id = due(told);
    if (id) out_.pop_front();
    return id;
  }

  // The same, still out.
  std::optional<ConfigId> due(std::size_t told) const {
    if (out_.empty() || out_.front().due > told) return std::nullopt;
    return out_.front().id;
  }

  std::size_t out() const { return out_.size(); }

 private:
  struct Scout {
    ConfigId id = 0;
    std::size_t due = 0;
  };
  Searcher& searcher_;
  std::deque<Scout> out_;
};

}  // namespace moetune

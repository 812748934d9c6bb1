// Whole sources that a proposer suggests in place of a kernel's own, each with a space of its own: compiled under the
// strict include rules, judged and timed as any candidate on the session's open device. The best of them meets the best
// configuration when the search has ended, and is written as a folder if it wins.
//
// Belongs to the tuning thread; its session must outlive it. What a variant does is an outcome; BadInput for a message
// that is none; Stopped after a stop request.
#pragma once

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "jobs/session/documents.h"
#include "jobs/session/session.h"

namespace moetune {

// The duel of the best variant with the search's winner.
struct VariantDuel {
  std::string name, source_digest;
  Config config;
  TrialResult result, winner;  // the variant's and the winner's
  bool wins = false;
  std::string folder;  // that holds it; "" if it is not kept
};

class SourceVariants {
 public:
  static constexpr std::size_t kMost = 64;        // of a search
  static constexpr std::size_t kMostConfigs = 8;  // of a variant
  static constexpr std::size_t kLongestSource = std::size_t{256} << 10;

  SourceVariants(Session& session, const TuneRequest& request) : session_(session), request_(request) {}

  // Why the session's kernel cannot be varied; "" if it can.
  static std::string why_none(const Session& session);

  // Tries its configurations: a tell's document for each.
  std::vector<Document> try_variant(const Document& variant);

  // Nothing if no variant was right, or the search has no winner.
  std::optional<VariantDuel> meet(const TuneResult& result);

 private:
  struct Made {
    std::string name, file, source;
    nlohmann::json description;
    std::shared_ptr<const Kernel> kernel;
  };
  struct Best {
    Made made;
    Candidate candidate;
    double time_us = 0;
  };

  Made make(const Document& variant);
  std::vector<Config> configs_of(const Document& variant, const Made& made) const;
  Trial run(const Made& made, const Config& config, BuildPtr& build);
  std::string keep(const Best& best) const;

  Session& session_;
  const TuneRequest& request_;
  std::set<std::string> names_;
  std::optional<Best> best_;
};

}  // namespace moetune

// A user's program that suggests configurations, over one JSON object a line on its standard streams
// (docs/proposers.md).
//
// Whatever it does, the search goes on: each message, each wait and the memory that it may cost are bounded, and a
// program that is past a bound, silent or dead is stopped with one Warning. It is gone, with all that it started, once
// this object is. One owner, the tuning thread. Errors: BrokenEnvironment if no process can be started.
#pragma once

#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "jobs/propose/command.h"
#include "jobs/session/documents.h"
#include "search/random.h"
#include "tuner/events.h"
#include "tuner/process/guarded_program.h"
#include "tuner/proposer.h"

namespace moetune {

class ExternalProposer : public Proposer {
 public:
  static constexpr std::size_t kMostConfigs = 256;      // of a message
  static constexpr std::size_t kMostOffered = 4096;     // that wait for their turn
  static constexpr std::size_t kMostMessages = 1000;    // between two results
  static constexpr std::size_t kMostWaiting = 64;       // variants
  static constexpr std::chrono::seconds kAnswer{60};    // to answer an ask
  static constexpr std::chrono::seconds kLongest{600};  // to answer one, with all that it asks to wait for

  struct Task {
    const LegalSpace& space;  // must outlive the proposer
    Document hello;
    std::function<std::string(const Config&)> why_illegal;
    std::function<Document(const Trial&, const Build*)> tell;
    // Tries a whole source: what to tell of each of its configurations. Throws BadInput for what is no variant.
    std::function<std::vector<Document>(const Document&)> try_variant;
    std::string why_no_variants = "variants cannot be tried here";  // without it
    std::uint64_t seed = 1;
    std::chrono::milliseconds answer = kAnswer;
  };

  ExternalProposer(const ProposerCommand& command, Task task, Events events);

  std::vector<ConfigId> ask(std::size_t n, std::span<const ConfigId> open,
                            const std::function<bool()>& is_over) override;
  void tell(const Trial& trial, const Build* build) override;
  void end() override {
    program_.reset();
    is_asked_ = may_ask_ = false;
  }
  State state() const override { return state_; }

  const ProposerReport& report() const { return report_; }

 private:
  using Clock = GuardedProgram::Clock;

  void send(const char* kind, Document content);
  void send_ask(std::size_t n);
  void read_messages(Clock::time_point until);
  void handle(const std::string& line);
  void offer(const Document& message);
  void offer_one(const Document& config);
  void offer_variants(const Document& message);
  void try_variants();
  void answer_sample(const Document& message);
  void wait_for_it(const Document& message);
  void reject(const std::string& why, const Document& config = nullptr);
  void leave_out(const std::string& why);
  bool is_untried(ConfigId id) const;
  bool is_new(ConfigId id) const;
  Config config_of(const Document& object) const;
  std::vector<ConfigId> drawn(std::size_t n);
  std::vector<ConfigId> around(const Config& config, std::size_t n);
  Document documents_of(std::span<const ConfigId> ids) const;

  Task task_;
  Events events_;
  std::unique_ptr<GuardedProgram> program_;
  State state_ = State::suggests;
  ProposerReport report_;
  Random random_;
  std::unordered_map<ConfigId, std::string> told_;  // what came of each, in words
  std::unordered_set<ConfigId> open_;
  std::deque<ConfigId> offered_;
  std::unordered_set<ConfigId> is_offered_;
  std::deque<Document> variants_;  // that wait for their turn
  bool is_asked_ = false, may_ask_ = true;
  Clock::time_point asked_at_, answer_due_;
  std::size_t messages_ = 0, lines_ = 0;
};

}  // namespace moetune

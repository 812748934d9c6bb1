#include "jobs/propose/external_proposer.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/format.h"
#include "base/json.h"
#include "base/json_fields.h"
#include "base/suggest.h"
#include "base/utf8.h"
#include "search/space_file.h"
#include "tuner/tune.h"

namespace moetune {
namespace {

constexpr std::chrono::milliseconds kPollStep{50};  // to look whether the search is over
constexpr std::size_t kLongestReason = 600;
constexpr std::size_t kDrawsEach = 32, kFewestDraws = 1000;  // for a sample of configurations that are new
constexpr std::size_t kMostCentres = 64;                     // around which a sample looks

}  // namespace

ExternalProposer::ExternalProposer(const ProposerCommand& command, Task task, Events events)
    : task_(std::move(task)),
      events_(std::move(events)),
      program_(std::make_unique<GuardedProgram>(command.command)),
      report_{.name = command.name},
      random_(task_.seed) {
  task_.hello["limits"] = {{"line_bytes", GuardedProgram::kLongestLine},
                           {"depth", kMaxJsonDepth},
                           {"configs", kMostConfigs},
                           {"messages", kMostMessages},
                           {"variants", kMostWaiting},
                           {"answer_s", std::chrono::duration<double>(task_.answer).count()},
                           {"wait_s", kLongest.count()}};
  send("hello", std::exchange(task_.hello, nullptr));
}

void ExternalProposer::send(const char* kind, Document content) {
  if (program_ == nullptr) return;
  const Document message = {{kind, std::move(content)}};
  program_->send(message.dump(-1, ' ', false, Document::error_handler_t::replace));
}

std::vector<ConfigId> ExternalProposer::ask(std::size_t n, std::span<const ConfigId> open,
                                            const std::function<bool()>& is_over) {
  open_ = {open.begin(), open.end()};
  std::erase_if(offered_, [this](ConfigId id) {  // auto was quicker
    return !is_untried(id) && is_offered_.erase(id) > 0;
  });
  read_messages(Clock::now());
  try_variants();
  if (offered_.empty() && state_ == State::suggests && may_ask_ && !is_asked_) send_ask(n);
  while (offered_.empty() && is_asked_ && is_over && !is_over())
    read_messages(std::min(answer_due_, Clock::now() + kPollStep));
  std::vector<ConfigId> ids;
  for (; ids.size() < n && !offered_.empty(); offered_.pop_front()) {
    ids.push_back(offered_.front());
    is_offered_.erase(offered_.front());
  }
  report_.suggested += ids.size();
  return ids;
}

void ExternalProposer::send_ask(std::size_t n) {
  is_asked_ = true;
  may_ask_ = false;
  asked_at_ = Clock::now();
  answer_due_ = asked_at_ + task_.answer;
  std::vector<ConfigId> open(open_.begin(), open_.end());
  std::ranges::sort(open);
  send("ask", {{"n", std::min(n, kMostConfigs)}, {"open", documents_of(open)}});
}

// Those that have arrived, or that arrive until then.
void ExternalProposer::read_messages(Clock::time_point until) {
  while (program_ != nullptr && state_ == State::suggests) {
    const std::optional<std::string> line = program_->next_line(until);
    if (!line) break;
    ++lines_;
    if (++messages_ > kMostMessages)
      return leave_out(format("wrote more than %zu messages between two results", kMostMessages));
    handle(*line);
    if (!is_asked_) until = Clock::now();
  }
  if (program_ == nullptr || state_ != State::suggests) return;
  if (!program_->why_over().empty()) return leave_out(program_->why_over());
  if (is_asked_ && Clock::now() >= answer_due_)
    leave_out(format("did not answer for %.3g s", std::chrono::duration<double>(Clock::now() - asked_at_).count()));
}

void ExternalProposer::handle(const std::string& line) {
  static const std::vector<std::pair<std::string, void (ExternalProposer::*)(const Document&)>> kinds = {
      {"configs", &ExternalProposer::offer},
      {"variants", &ExternalProposer::offer_variants},
      {"sample", &ExternalProposer::answer_sample},
      {"wait", &ExternalProposer::wait_for_it}};
  Document message;
  try {
    message = parse_json(line, format("line %zu", lines_));
  } catch (const BadInput& error) {
    return leave_out(std::string("wrote no message: ") + error.what());
  }
  if (!message.is_object()) return leave_out(format("wrote no message: line %zu is no JSON object", lines_));
  for (const auto& [kind, handler] : kinds) {
    if (message.contains(kind)) return (this->*handler)(message[kind]);
  }
  if (!message.contains("done"))
    return reject(unknown_name("message", message.empty() ? "{}" : message.begin().key(),
                               {"configs", "variants", "sample", "wait", "done"}));
  is_asked_ = false;
  report_.done = true;
  state_ = State::done;
}

// An answer, whatever becomes of it: a program that suggests nothing that is legal is asked again after a result.
void ExternalProposer::offer(const Document& configs) {
  is_asked_ = false;
  if (!configs.is_array()) return reject("configs must be an array of objects");
  if (configs.size() > kMostConfigs) {
    return reject(
        format("a message holds at most %zu configurations, and this one has %zu", kMostConfigs, configs.size()));
  }
  for (const Document& config : configs) offer_one(config);
}

void ExternalProposer::offer_variants(const Document& variants) {
  is_asked_ = false;
  if (!task_.try_variant) return reject(task_.why_no_variants);
  if (!variants.is_array()) return reject("variants must be an array of objects");
  for (const Document& variant : variants) {
    if (variants_.size() == kMostWaiting) return reject(format("%zu variants wait to be tried", kMostWaiting));
    variants_.push_back(variant);
  }
}

// One at a time, between two trials: the device is ready once one has ended. All that are left if the program is done.
void ExternalProposer::try_variants() {
  while (!variants_.empty() && !told_.empty()) {
    const Document variant = std::move(variants_.front());
    variants_.pop_front();
    try {
      for (Document& told : task_.try_variant(variant)) {
        ++report_.variants;
        send("tell", std::move(told));
      }
    } catch (const BadInput& error) {
      reject(error.what());
    }
    may_ask_ = program_ != nullptr;
    messages_ = 0;
    if (state_ == State::suggests) return;
  }
}

void ExternalProposer::offer_one(const Document& object) {
  std::optional<ConfigId> id;
  try {
    const Config config = config_of(object);
    id = task_.space.find(config);
    std::string why = id ? "" : task_.why_illegal(config);
    if (!id) return reject(why.empty() ? "no such configuration is recorded" : why, object);
  } catch (const BadInput& error) {
    return reject(error.what(), object);
  }
  if (const auto told = told_.find(*id); told != told_.end()) return reject("it was tried: " + told->second, object);
  if (!is_new(*id)) return reject("it waits to be tried", object);
  if (offered_.size() == kMostOffered)
    return reject(format("%zu configurations wait to be tried", kMostOffered), object);
  offered_.push_back(*id);
  is_offered_.insert(*id);
}

Config ExternalProposer::config_of(const Document& object) const {
  if (!object.is_object()) throw BadInput("a configuration must be an object, as {\"tile\": 64, \"loader\": \"tma\"}");
  std::vector<std::pair<std::string, std::string>> texts;
  for (const auto& [name, value] : object.items())
    texts.emplace_back(name, value.is_string() ? value.get<std::string>() : shortened(value.dump(), kLongestReason));
  Config config = values_from_texts(task_.space.parameters(), texts);
  for (const Parameter& parameter : task_.space.parameters()) {
    if (config.find(parameter.name) == nullptr) throw BadInput("parameter '" + parameter.name + "' has no value");
  }
  return config;
}

bool ExternalProposer::is_untried(ConfigId id) const { return !told_.contains(id) && !open_.contains(id); }

bool ExternalProposer::is_new(ConfigId id) const { return is_untried(id) && !is_offered_.contains(id); }

void ExternalProposer::answer_sample(const Document& message) {
  const auto n = message.is_object() ? message.find("n") : message.end();
  const bool has_count =
      message.is_object() && n != message.end() && n->is_number_unsigned() && n->get<std::uint64_t>() <= kMostConfigs;
  if (!has_count) return reject(format("sample needs n, a whole number up to %zu", kMostConfigs));
  const auto count = n->get<std::size_t>();
  std::vector<ConfigId> ids;
  try {
    ids = message.contains("near") ? around(config_of(message["near"]), count) : drawn(count);
  } catch (const BadInput& error) {
    return reject(error.what(), message["near"]);
  }
  send("sample", documents_of(ids));
}

// Fewer than n if few are left.
std::vector<ConfigId> ExternalProposer::drawn(std::size_t n) {
  std::vector<ConfigId> ids;
  std::unordered_set<ConfigId> seen;
  for (std::size_t draws = std::max(kFewestDraws, kDrawsEach * n); draws > 0 && ids.size() < n; --draws) {
    const auto id = static_cast<ConfigId>(random_.below(task_.space.size()));
    if (is_new(id) && seen.insert(id).second) ids.push_back(id);
  }
  return ids;
}

// Those that differ in one parameter, in any order; then those that differ from them in one.
std::vector<ConfigId> ExternalProposer::around(const Config& config, std::size_t n) {
  const LegalSpace& space = task_.space;
  std::optional<ConfigId> centre = space.find(config);
  if (!centre) {
    std::vector<Position> point;
    for (const Parameter& parameter : space.parameters()) {
      const auto value = std::ranges::find(parameter.values, config.at(parameter.name));
      point.push_back(static_cast<Position>(value - parameter.values.begin()));
    }
    centre = space.nearest(point, random_);
  }
  std::vector<ConfigId> centres = {*centre}, ids;
  std::unordered_set<ConfigId> seen = {*centre};
  if (is_new(*centre)) ids.push_back(*centre);
  for (std::size_t i = 0; i < std::min(centres.size(), kMostCentres) && ids.size() < n; ++i) {
    std::vector<ConfigId> neighbours = space.neighbours(centres[i]);
    random_.shuffle(neighbours);
    for (const ConfigId id : neighbours) {
      if (!seen.insert(id).second) continue;
      centres.push_back(id);
      if (is_new(id) && ids.size() < n) ids.push_back(id);
    }
  }
  return ids;
}

Document ExternalProposer::documents_of(std::span<const ConfigId> ids) const {
  Document all = Document::array();
  for (const ConfigId id : ids) all.push_back(assignment_document(task_.space.config(id)));
  return all;
}

void ExternalProposer::wait_for_it(const Document& seconds) {
  if (!seconds.is_number() || !(seconds.get<double>() >= 0)) return reject("wait needs a number of seconds");
  const std::chrono::duration<double> longest = kLongest;
  const auto more = std::chrono::duration<double>(std::min(seconds.get<double>(), longest.count()));
  answer_due_ = std::min(Clock::now() + std::chrono::duration_cast<Clock::duration>(more), asked_at_ + kLongest);
}

void ExternalProposer::reject(const std::string& why, const Document& config) {
  report_.rejected += config.is_object();
  send("reject", {{"why", shortened(why, kLongestReason)}, {"config", config}});
}

void ExternalProposer::tell(const Trial& trial, const Build* build) {
  Document document = task_.tell(trial, build);
  std::string words(outcome_name(trial.result.outcome));
  if (const double time = figure_field(document, "time_us"); time > 0) words += format(", %.6g us", time);
  if (const double figure = figure_field(document, "figure"); figure > 0) words += format(", %.6g", figure);
  std::string& told = told_[trial.id];
  if (told == words) return;
  told = std::move(words);
  may_ask_ = program_ != nullptr;
  messages_ = 0;
  send("tell", std::move(document));
}

void ExternalProposer::leave_out(const std::string& why) {
  state_ = State::gone;
  is_asked_ = false;
  report_.why_left_out = shortened(to_utf8(why), kLongestReason);
  if (program_ != nullptr) program_->stop();
  program_.reset();
  events_.emit(Warning{
      WarningKind::proposer,
      "The proposer " + report_.name + " is left out, and auto goes on without it: it " + report_.why_left_out + "."});
}

}  // namespace moetune

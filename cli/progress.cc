#include "cli/progress.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "base/environment.h"
#include "cli/event_text.h"
#include "cli/search_text.h"
#include "cli/text.h"

namespace moetune {
namespace {

// A cut line ends with one character, which is three in ASCII: so many fewer columns are filled.
constexpr std::chrono::milliseconds kRedraw{100};
constexpr std::chrono::seconds kHeartbeat{1};  // of a live line on which nothing else happens

std::size_t terminal_columns() {
  winsize size = {};
  if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return 100;
  return size.ws_col;
}

std::string outcomes_text(const TrialCounts& counts) {
  const auto failed = counts[Outcome::compile_failed] + counts[Outcome::launch_failed] +
                      counts[Outcome::out_of_memory] + counts[Outcome::timed_out] + counts[Outcome::crashed];
  std::string text = format("%zu ok", counts[Outcome::ok]);
  const auto add = [&](std::size_t count, const char* name) {
    if (count > 0) text += format(", %zu %s", count, name);
  };
  add(counts[Outcome::too_slow], "too slow");
  add(failed, "failed");
  add(counts[Outcome::wrong_result], "wrong");
  add(counts[Outcome::implausible], "implausible");
  add(counts[Outcome::pruned], "pruned");
  add(counts.resumed, "resumed");
  return text;
}

std::string trial_text(const std::optional<Objective>& objective, const Trial& trial, std::size_t number) {
  const TrialResult& result = trial.result;
  std::string text = format("%5zu  %-14s  ", number, std::string(outcome_name(result.outcome)).c_str());
  text += has_time(result.outcome) ? measured_text(objective, trial) : result.message;
  return text + "  " + trial.config.text() + (trial.resumed ? "  (resumed)" : "") +
         (result.contended ? "  (contended)" : "");
}

}  // namespace

bool stderr_redraws() {
  const char* const terminal = environment_variable("TERM");
  return isatty(STDERR_FILENO) == 1 && terminal != nullptr && std::string_view(terminal) != "dumb";
}

Progress::Progress(const Output& output, Settings settings)
    : output_(output), settings_(settings), mover_([this](std::stop_token stop) { keep_moving(stop); }) {}

Progress::~Progress() { finished(); }

void Progress::finished() {
  mover_.request_stop();
  if (mover_.joinable()) mover_.join();
  erase();
}

void Progress::keep_moving(std::stop_token stop) {
  const auto pause = live() ? std::chrono::duration_cast<std::chrono::milliseconds>(kHeartbeat) : settings_.log_every;
  std::unique_lock lock(mutex_);
  while (!ended_.wait_until(lock, stop, last_ + pause, [&] { return stop.stop_requested(); })) {
    const auto now = Clock::now();
    if (stop.stop_requested()) return;
    if (now - last_ >= pause) show(now);
  }
}

void Progress::handle(const Event& event) {
  const std::lock_guard lock(mutex_);
  if (!note_of(event).empty()) {
    erase();
    say(event, output_);
  }
  std::visit(Overloaded{[&](const SearchStarted& search) { started(search); },
                        [&](const TrialEnded& trial) { trial_ended(trial); },
                        [&](const PhaseChanged& change) { phase_changed(change.phase); },
                        [&](const SearchEnded&) { search_ended(); },
                        [&](const RangeAdvanced& range) { range_advanced(range); }, [](const auto&) {}},
             event.what);
}

void Progress::started(const SearchStarted& search) {
  search_.emplace(search);
  counts_ = {};
  best_us_ = 0;
  best_.clear();
  begin_ = last_ = Clock::now();
}

void Progress::trial_ended(const TrialEnded& trial) {
  counts_ = trial.counts;
  best_us_ = trial.best != nullptr ? trial.best->result.measurement.median_us : 0;
  const std::optional<Objective> objective = search_ ? search_->objective : std::nullopt;
  best_ = trial.best != nullptr ? measured_text(objective, *trial.best) : "";
  const auto now = Clock::now();
  if (settings_.verbose) {
    output_.warn(trial_text(objective, trial.trial, trial.counts.total()) + (trial.again ? "  (again)" : ""));
    last_ = now;
  } else if (now - last_ >= (live() ? Clock::duration(kRedraw) : Clock::duration(settings_.log_every))) {
    show(now);
  }
}

void Progress::phase_changed(Phase phase) {
  phase_ = phase;
  if (live()) {
    show(Clock::now());
  } else if (settings_.verbose) {
    output_.note(std::string(phase_words(phase)));
    last_ = Clock::now();
  }
}

void Progress::search_ended() {
  erase();
  search_.reset();
  phase_.reset();
}

// Beside the searches' own lines: how far the range is that they belong to.
void Progress::range_advanced(const RangeAdvanced& range) {
  const auto now = Clock::now();
  if (range.done < range.planned && now - last_range_ < settings_.log_every) return;
  last_range_ = now;
  erase();
  output_.note(std::string(range.stage) + format(" %zu/%zu, ", range.done, range.planned) +
               counted_text(static_cast<std::int64_t>(range.cubins), "cubin") +
               format(", worst regret %.1f%%", 100 * range.worst_regret));
}

void Progress::show(Clock::time_point now) {
  last_ = now;
  if (!phase_) return;
  const std::string text = line(std::chrono::duration<double>(now - begin_).count());
  if (live()) {
    draw(text);
  } else {
    output_.note(text);
  }
}

std::optional<double> Progress::seconds_left(double elapsed) const {
  const std::size_t fresh = counts_.total() - std::min(counts_.total(), counts_.resumed);
  std::optional<double> left;
  if (search_->time_budget_s > 0) left = std::max(0.0, search_->time_budget_s - elapsed);
  if (fresh == 0) return left;
  const double more = static_cast<double>(search_->budget - std::min(search_->budget, counts_.total()));
  const double by_rate = elapsed / static_cast<double>(fresh) * more;
  return left ? std::min(*left, by_rate) : by_rate;
}

std::string Progress::line(double elapsed) const {
  if (!search_ || phase_ != Phase::searching) {
    return std::string(phase_words(*phase_)) + " …  " + duration_text(elapsed) + " so far";
  }
  std::string text = format("%zu/%zu", counts_.total(), search_->budget);
  if (best_us_ > 0) {
    text += "  best " + best_;
    if (search_->work.amount > 0) text += " (" + rate_text(search_->work.rate(best_us_)) + ")";
  }
  if (elapsed > 0) text += format("  %.1f trials/s", static_cast<double>(counts_.total()) / elapsed);
  text += "  " + outcomes_text(counts_) + "  " + duration_text(elapsed) + " so far";
  const std::optional<double> left = seconds_left(elapsed);
  return left ? text + ", " + duration_text(*left) + " left" : text;
}

void Progress::draw(const std::string& text) {
  output_.terminal() << "\r\033[K" << fit(text, terminal_columns() - 3) << std::flush;
  drawn_ = true;
}

void Progress::erase() {
  if (drawn_) output_.terminal() << "\r\033[K" << std::flush;
  drawn_ = false;
}

}  // namespace moetune

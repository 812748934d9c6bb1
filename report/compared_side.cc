#include "report/compared_side.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <set>

#include "base/error.h"
#include "base/lists.h"
#include "cache/cache.h"

namespace moetune {
namespace {

bool looks_like_date(const std::string& text) {
  if (text.size() != 10 && text.size() != 20) return false;
  return std::all_of(text.begin(), text.begin() + 10, [](char c) { return (c >= '0' && c <= '9') || c == '-'; });
}

ComparedSide date_side(const std::string& text) {
  const std::optional<UtcSeconds> time = parse_utc(text.size() == 10 ? text + "T23:59:59Z" : text);
  if (!time) throw BadInput("'" + text + "' is no date; write 2026-11-22 or 2026-11-22T18:00:00Z");
  return {.kind = ComparedSide::Kind::date, .until = *time};
}

ComparedSide search_side(const std::string& text) {
  std::int64_t key = 0;
  const char* const end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, key);
  if (error != std::errc() || at != end || key < 1)
    throw BadInput("'" + text + "' is no key of a workload; `moetune cache ls` lists them");
  return {.kind = ComparedSide::Kind::search, .search = key};
}

Entry entry_of(const Workload& workload) {
  const WorkloadKey& key = workload.key;
  return {.workload = workload.id,
          .kernel = key.kernel,
          .problem = key.problem,
          .hardware = key.hardware.text(),
          .timing = key.timing,
          .hardware_name = hardware_title(key.hardware)};
}

// The best of a workload today.
Entry present(const Cache& cache, const Workload& workload, StoredSpaces& spaces) {
  const WorkloadReport report = read_workload(cache, workload, spaces);
  Entry entry = entry_of(workload);
  entry.config = report.stored.best_config;
  entry.stored_at = report.stored_at;
  entry.time_us = report.stored.best_us;
  entry.low_us = report.low_us;
  entry.high_us = report.high_us;
  entry.contended = report.stored.contended;
  return entry;
}

// The winner at that time: today's if it is that old, else the latest of its history that was not yet replaced.
std::optional<Entry> past(const Cache& cache, const Workload& workload, const std::string& until) {
  const auto fill = [&](const auto& record) {
    Entry entry = entry_of(workload);
    entry.config = record.config;
    entry.stored_at = record.stored_at;
    entry.time_us = record.time_us;
    entry.low_us = record.interval_low_us;
    entry.high_us = record.interval_high_us;
    entry.contended = record.contended;
    return entry;
  };
  std::optional<WinnerRecord> winner;
  try {
    winner = cache.winners.find(workload.id, WinnerParts::without_cubins);
  } catch (const DamagedWinner&) {
  }
  const std::vector<Generation> history = cache.winners.history(workload.id);
  const bool is_present = history.empty() || history.front().replaced_at <= until;
  if (is_present) return winner && winner->stored_at <= until ? std::optional(fill(*winner)) : std::nullopt;
  // Latest first: the last one in the list that was replaced after the date is the one that held then.
  std::optional<Entry> held;
  for (const Generation& one : history) {
    if (one.replaced_at <= until) break;
    held = one.stored_at <= until ? std::optional(fill(one)) : std::nullopt;
  }
  return held;
}

}  // namespace

ComparedSide parse_side(const std::string& written) {
  const auto after = [&](const std::string& prefix) -> std::optional<std::string> {
    if (!written.starts_with(prefix)) return std::nullopt;
    return written.substr(prefix.size());
  };
  if (written.empty()) throw BadInput("an empty word is nothing to compare; name a file, a date, gpu:NAME or key:N");
  if (const auto text = after("key:")) return search_side(*text);
  if (const auto text = after("gpu:")) {
    if (text->empty()) throw BadInput("gpu: takes a GPU's name or a part of it: gpu:H100");
    return {.kind = ComparedSide::Kind::gpu, .text = *text};
  }
  if (const auto text = after("file:")) return {.kind = ComparedSide::Kind::file, .text = *text};
  if (looks_like_date(written)) return date_side(written);
  return {.kind = ComparedSide::Kind::file, .text = written};
}

std::vector<Entry> read_side(const ComparedSide& side, const Cache& cache) {
  std::vector<Entry> entries;
  std::set<std::string> names;
  StoredSpaces spaces;
  const std::string until = utc_text(side.until);
  for (const Workload& workload : cache.workloads.all()) {
    if (is_recording(workload.key)) continue;
    const std::string name = hardware_title(workload.key.hardware);
    if (side.kind == ComparedSide::Kind::search && workload.id != side.search) continue;
    if (side.kind == ComparedSide::Kind::gpu && name.find(side.text) == std::string::npos) {
      names.insert(name);
      continue;
    }
    if (side.kind != ComparedSide::Kind::date) {
      entries.push_back(present(cache, workload, spaces));
    } else if (std::optional<Entry> entry = past(cache, workload, until)) {
      entries.push_back(*std::move(entry));
    }
  }
  if (side.kind == ComparedSide::Kind::search && entries.empty())
    throw BadInput("there is no workload " + std::to_string(side.search) + " in " + cache.path().string() +
                   "; `moetune cache ls` lists them");
  if (side.kind == ComparedSide::Kind::gpu && entries.empty()) {
    throw BadInput("nothing was tuned on a GPU with '" + side.text + "' in its name; the cache has " +
                   (names.empty() ? "none" : joined(names)));
  }
  return entries;
}

}  // namespace moetune

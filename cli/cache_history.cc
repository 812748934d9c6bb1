// `moetune cache history` and `rollback`: the winners and range tables that others replaced.
#include <charconv>

#include "base/error.h"
#include "base/format.h"
#include "cache/cache.h"
#include "cli/cache_actions.h"
#include "cli/command.h"
#include "cli/text.h"
#include "jobs/stored/stored_results.h"
#include "ranges/range_table.h"

namespace moetune {
namespace {

std::string reason_text(const std::string& stored) {
  constexpr std::pair<const char*, const char*> kReasons[] = {{kReplacedFaster, "a search found a faster one"},
                                                              {kReplacedSearch, "a search chose again"},
                                                              {kReplacedContended, "it was contended"},
                                                              {kReplacedMerge, "a merge brought a better one"},
                                                              {kReplacedRollback, "rolled back"}};
  for (const auto& [name, text] : kReasons) {
    if (stored == name) return text;
  }
  return stored;
}

// A field of the provenance; "-" if it is not known.
std::string known(const Document& provenance, const char* field) {
  if (!provenance.is_object() || !provenance.contains(field)) return "-";
  const Document& value = provenance[field];
  return value.is_string() ? value.get<std::string>() : value.dump();
}

Document generation_document(const Generation& one) {
  return {{"generation", one.number},
          {"reason", one.reason},
          {"replaced_at", one.replaced_at},
          {"stored_at", one.stored_at},
          {"config", one.config},
          {"time_us", number_or_null(one.time_us)},
          {"interval_us", {number_or_null(one.interval_low_us), number_or_null(one.interval_high_us)}},
          {"default_us", number_or_null(one.default_time_us)},
          {"contended", one.contended},
          {"provenance", parse_stored(one.provenance)}};
}

std::int64_t parse_generation(const std::string& written) {
  std::int64_t number = 0;
  const char* const last = written.data() + written.size();
  const auto [end, error] = std::from_chars(written.data(), last, number);
  if (error == std::errc() && end == last) return number;
  throw BadInput("'" + written + "' is no generation; `moetune cache history KEY` lists them");
}

// "12 cells, worst 1.8%"
std::string table_words(const std::string& text) {
  try {
    const RangeTable table = RangeTable::parse(text, "a stored range table");
    return format("%zu cells, worst %.1f%%%s", table.cells.size(), 100 * table.worst_cell(),
                  table.contended ? " (contended)" : "");
  } catch (const BadInput&) {
    return "of another version";
  }
}

Document range_generation_document(const RangeGeneration& one) {
  return {{"generation", one.number},         {"reason", one.reason},
          {"replaced_at", one.replaced_at},   {"stored_at", one.stored_at},
          {"table", parse_stored(one.table)}, {"provenance", parse_stored(one.provenance)}};
}

int show_range_history(const FamilyRange& range, Cache& cache, Output& output) {
  Table table({"generation", "table", "stored", "replaced", "because", "driver"}, {0});
  Document list = Document::array();
  for (const RangeGeneration& one : cache.ranges.history(range.id)) {
    table.add({std::to_string(one.number), table_words(one.table), one.stored_at, one.replaced_at,
               reason_text(one.reason), known(parse_stored(one.provenance), "driver")});
    list.push_back(range_generation_document(one));
  }
  if (list.empty()) {
    output.result() << "No table before table:" << range.id << " was replaced so far.\n";
  } else {
    output.result() << table.text("", output.columns());
  }
  output.document({{"key", "table:" + std::to_string(range.id)},
                   {"kernel", range.key.kernel},
                   {"family", range.key.family},
                   {"hardware", range.key.hardware.name},
                   {"generations", list}});
  return kDone;
}

}  // namespace

std::optional<std::int64_t> range_table_id(const std::string& key) {
  constexpr std::string_view kPrefix = "table:";
  if (!key.starts_with(kPrefix)) return std::nullopt;
  std::int64_t id = 0;
  const char* const end = key.data() + key.size();
  const auto [read, error] = std::from_chars(key.data() + kPrefix.size(), end, id);
  if (error != std::errc() || read != end) throw_no_range_table(key);
  return id;
}

void throw_no_range_table(const std::string& key) {
  throw BadInput("no range table has the key '" + key + "'; `moetune cache ls` prints them");
}

std::optional<FamilyRange> find_range_table(const Cache& cache, const std::string& key) {
  const std::optional<std::int64_t> id = range_table_id(key);
  if (!id) return std::nullopt;
  for (FamilyRange& range : cache.ranges.all()) {
    if (range.id == *id) return std::move(range);
  }
  throw_no_range_table(key);
}

int show_history(const CacheArguments& arguments, Cache& cache, Output& output) {
  if (const std::optional<FamilyRange> range = find_range_table(cache, arguments.operand))
    return show_range_history(*range, cache, output);
  const Workload workload = find_workload(cache, arguments.operand);
  Table table({"generation", "time", "interval", "stored", "replaced", "because", "driver", "configuration"}, {0, 1});
  Document list = Document::array();
  for (const Generation& one : cache.winners.history(workload.id)) {
    table.add({std::to_string(one.number), time_text(one.time_us) + (one.contended ? " (contended)" : ""),
               time_text(one.interval_low_us) + " to " + time_text(one.interval_high_us), one.stored_at,
               one.replaced_at, reason_text(one.reason), known(parse_stored(one.provenance), "driver"), one.config});
    list.push_back(generation_document(one));
  }
  if (list.empty()) {
    output.result() << "No winner of workload " << workload.id << " was replaced so far.\n";
  } else {
    output.result() << table.text("", output.columns());
  }
  output.document({{"key", workload.id},
                   {"kernel", workload.key.kernel},
                   {"problem", workload.key.problem},
                   {"hardware", workload.key.hardware.name},
                   {"generations", list}});
  return kDone;
}

int roll_back_cache(const CacheArguments& arguments, Cache& cache, Output& output) {
  std::optional<std::int64_t> number;
  if (!arguments.words.empty()) number = parse_generation(arguments.words.front());
  if (const std::optional<FamilyRange> range = find_range_table(cache, arguments.operand)) {
    const RangeGeneration restored = cache.ranges.roll_back(range->id, number);
    output.result() << "The table is generation " << restored.number << " again: " << table_words(restored.table)
                    << ", stored " << restored.stored_at << ".\n";
    output.document({{"key", arguments.operand}, {"restored", range_generation_document(restored)}});
    return kDone;
  }
  const Workload workload = find_workload(cache, arguments.operand);
  const Generation restored = cache.winners.roll_back(workload.id, number);
  output.result() << "The winner is generation " << restored.number << " again: " << restored.config << ", "
                  << time_text(restored.time_us) << ", stored " << restored.stored_at << ".\n";
  output.document({{"key", workload.id}, {"restored", generation_document(restored)}});
  return kDone;
}

}  // namespace moetune

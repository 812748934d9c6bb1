#include "tuner/compile/ptxas_log.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "base/lists.h"

namespace moetune {
namespace {

// "ptxas info : (C7511) Potential Performance Loss: wgmma.mma_async instructions are serialized due to REASON in the
// function 'NAME'". The number differs from reason to reason.
constexpr std::string_view kSerialized = "wgmma.mma_async instructions are serialized due to ";

// The text between `before` and the next `after`.
std::optional<std::string> between(std::string_view line, std::string_view before, std::string_view after) {
  const std::size_t begin = line.find(before);
  if (begin == std::string_view::npos) return std::nullopt;
  line = line.substr(begin + before.size());
  return std::string(line.substr(0, line.find(after)));
}

// The number in front of `unit`: 40 in "Used 40 registers". "16+4" (a statically and a dynamically known
// part, as old toolchains write it) is their sum.
std::optional<std::int64_t> number_before(std::string_view line, std::string_view unit) {
  const std::size_t end = line.find(unit);
  if (end == std::string_view::npos) return std::nullopt;
  std::size_t begin = end;
  while (begin > 0 && std::string_view("0123456789+").find(line[begin - 1]) != std::string_view::npos) --begin;
  std::int64_t sum = 0;
  const char* next = line.data() + begin;
  const char* const last = line.data() + end;
  while (next < last) {
    std::int64_t part = 0;
    const auto [stop, error] = std::from_chars(next, last, part);
    if (error != std::errc()) return std::nullopt;
    sum += part;
    next = std::min(stop + 1, last);
  }
  return begin == end ? std::nullopt : std::optional(sum);
}

template <typename Int>
void set_if(Int& into, std::optional<std::int64_t> number) {
  if (number) into = static_cast<Int>(*number);
}

}  // namespace

std::map<std::string, EntryFacts> parse_ptxas_log(std::string_view log) {
  std::map<std::string, EntryFacts> entries;
  EntryFacts* entry = nullptr;                    // whose "Used ..." line comes next
  EntryFacts* function = nullptr;                 // whose stack and spills come next; null for a device function
  std::map<std::string, std::string> serialized;  // by function; ptxas says it before it names the entries
  for (const std::string_view line : split(log, '\n')) {
    if (const auto name = between(line, "Compiling entry function '", "'")) {
      entry = function = &entries[*name];
    } else if (const auto properties = between(line, "Function properties for ", " ")) {
      const auto found = entries.find(properties->substr(0, properties->find('\r')));
      function = found == entries.end() ? nullptr : &found->second;
    } else if (line.find(" bytes stack frame") != std::string_view::npos) {
      if (function == nullptr) continue;
      set_if(function->stack_bytes, number_before(line, " bytes stack frame"));
      set_if(function->spill_store_bytes, number_before(line, " bytes spill stores"));
      set_if(function->spill_load_bytes, number_before(line, " bytes spill loads"));
    } else if (const auto reason = between(line, kSerialized, " in the function '")) {
      if (const auto where = between(line, " in the function '", "'")) serialized[*where] = *reason;
    } else if (line.find(": Used ") != std::string_view::npos && entry != nullptr) {
      set_if(entry->registers, number_before(line, " registers"));
      set_if(entry->stack_bytes, number_before(line, " bytes cumulative stack size"));
      set_if(entry->static_shared, number_before(line, " bytes smem"));
      entry = nullptr;
    }
  }
  for (auto& [name, facts] : entries) {
    if (const auto found = serialized.find(name); found != serialized.end()) facts.serialized = found->second;
  }
  return entries;
}

}  // namespace moetune

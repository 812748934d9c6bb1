#include "jobs/session/build_store.h"

#include <nlohmann/json.hpp>

#include "base/json.h"

namespace moetune {
namespace {

using Json = nlohmann::json;

Json entry_json(const EntryFacts& entry) {
  return {{"registers", entry.registers},
          {"spill_store_bytes", entry.spill_store_bytes},
          {"spill_load_bytes", entry.spill_load_bytes},
          {"stack_bytes", entry.stack_bytes},
          {"static_shared", entry.static_shared},
          {"serialized", entry.serialized}};
}

EntryFacts entry_of(const Json& json) {
  return {.registers = json.at("registers"),
          .spill_store_bytes = json.at("spill_store_bytes"),
          .spill_load_bytes = json.at("spill_load_bytes"),
          .stack_bytes = json.at("stack_bytes"),
          .static_shared = json.at("static_shared"),
          .serialized = json.at("serialized")};
}

}  // namespace

BuildRecord to_record(const Build& build) {
  Json entries = Json::object();
  for (const auto& [name, entry] : build.entries) entries[name] = entry_json(entry);
  const Json facts = {{"entries", entries}, {"message", build.message}};
  // A compiler message may hold bytes that are not UTF-8.
  return {.outcome = std::string(outcome_name(build.outcome)),
          .facts = facts.dump(-1, ' ', false, Json::error_handler_t::replace),
          .log = build.log,
          .cubin = build.cubin};
}

std::optional<Build> from_record(const std::string& digest, const BuildRecord& record) {
  const std::optional<Outcome> outcome = outcome_from_name(record.outcome);
  const bool complete = outcome == Outcome::ok ? !record.cubin.empty() : outcome == Outcome::compile_failed;
  if (!complete) return std::nullopt;
  Build build{.outcome = *outcome, .digest = digest, .cubin = record.cubin, .log = record.log};
  try {
    const Json facts = parse_json_or_discard(record.facts);
    build.message = facts.at("message");
    for (const auto& [name, entry] : facts.at("entries").items()) build.entries[name] = entry_of(entry);
  } catch (const Json::exception&) {
    return std::nullopt;
  }
  return build;
}

CompilePool::Store build_store(Cache& cache) {
  return {
      .find = [&cache](const std::string& digest) -> std::optional<Build> {
        const std::optional<BuildRecord> record = cache.builds.find(digest);
        return record ? from_record(digest, *record) : std::nullopt;
      },
      .put = [&cache](const Build& build) { cache.builds.put(build.digest, to_record(build)); },
  };
}

}  // namespace moetune

#include "staleness/ledger.h"

#include <nlohmann/json.hpp>
#include <tuple>

#include "base/error.h"
#include "base/json.h"
#include "base/regular_file.h"
#include "base/replace_file.h"

namespace moetune {
namespace {

constexpr std::size_t kMostLedgerBytes = std::size_t{64} << 20;

}  // namespace

Ledger::Ledger(std::filesystem::path file) : file_(std::move(file)) {
  try {
    read();
  } catch (const BadInput& error) {
    damage_ = error.what();
    entries_.clear();
  } catch (const nlohmann::json::exception& error) {
    damage_ = file_.string() + ": " + json_error_text(error);
    entries_.clear();
  }
}

Ledger::Id Ledger::id_of(const WorkloadKey& key) { return {key.kernel, key.problem, key.hardware.text()}; }

void Ledger::read() {
  const std::optional<std::string> text = find_regular_file(file_, kMostLedgerBytes);
  if (!text) return;
  const nlohmann::json document = parse_json(*text, file_.string());
  if (document.at("moetune_retune").get<int>() != 1) throw BadInput(file_.string() + " is of another version");
  for (const nlohmann::json& one : document.at("workloads")) {
    LedgerEntry entry;
    entry.made_with = {one.at("sources"), one.at("space"), one.at("toolchain"), one.at("driver"),
                       one.value("judged", "")};
    entry.verdict = one.at("verdict");
    entry.at = one.at("at");
    entry.seconds = one.at("seconds");
    entry.best_us = one.at("best_us");
    entry.config = one.value("config", "");
    entries_[{one.at("kernel"), one.at("problem"), one.at("hardware")}] = std::move(entry);
  }
}

void Ledger::write() const {
  nlohmann::ordered_json workloads = nlohmann::ordered_json::array();
  for (const auto& [id, entry] : entries_) {
    workloads.push_back({{"kernel", id.kernel},
                         {"problem", id.problem},
                         {"hardware", id.hardware},
                         {"sources", entry.made_with.sources},
                         {"space", entry.made_with.space},
                         {"toolchain", entry.made_with.toolchain},
                         {"driver", entry.made_with.driver},
                         {"judged", entry.made_with.judged},
                         {"verdict", entry.verdict},
                         {"at", entry.at},
                         {"seconds", entry.seconds},
                         {"best_us", entry.best_us},
                         {"config", entry.config}});
  }
  const nlohmann::ordered_json document = {{"moetune_retune", 1}, {"workloads", std::move(workloads)}};
  replace_file(file_, document.dump(1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
}

std::optional<LedgerEntry> Ledger::find(const WorkloadKey& key) const {
  const auto found = entries_.find(id_of(key));
  return found == entries_.end() ? std::nullopt : std::optional(found->second);
}

void Ledger::put(const WorkloadKey& key, const LedgerEntry& entry) {
  entries_[id_of(key)] = entry;
  write();
}

void Ledger::take_newer(const Ledger& other) {
  for (const auto& [id, entry] : other.entries_) {
    const auto [mine, is_new] = entries_.try_emplace(id, entry);
    const LedgerEntry& known = mine->second;  // ties are decided too, whatever the order of files
    if (!is_new && std::tie(entry.at, entry.verdict, entry.config) > std::tie(known.at, known.verdict, known.config))
      mine->second = entry;
  }
}

void Ledger::each(const Visitor& visit) const {
  for (const auto& [id, entry] : entries_) visit(id.kernel, id.hardware, entry);
}

double Ledger::mean_seconds(const std::string& kernel, bool searched) const {
  double sum = 0, count = 0;
  for (const auto& [id, entry] : entries_) {
    const bool was_search = entry.verdict != "kept";
    if (id.kernel != kernel || entry.seconds <= 0 || was_search != searched) continue;
    sum += entry.seconds;
    count += 1;
  }
  return count > 0 ? sum / count : 0;
}

Ledger ledgers_beside(const std::filesystem::path& cache) {
  Ledger all;
  const std::string prefix = cache.filename().string() + "-retune-";
  const std::filesystem::path folder = cache.has_parent_path() ? cache.parent_path() : ".";
  std::error_code unreadable;
  for (const auto& file : std::filesystem::directory_iterator(folder, unreadable)) {
    const std::string name = file.path().filename().string();
    if (name.starts_with(prefix) && name.ends_with(".json")) all.take_newer(Ledger(file.path()));
  }
  return all;
}

}  // namespace moetune

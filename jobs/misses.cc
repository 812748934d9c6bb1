#include "jobs/misses.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"
#include "base/regular_file.h"

namespace moetune {
namespace {

constexpr std::size_t kMostBytes = std::size_t{16} << 20;

}  // namespace

std::vector<MissedWorkload> read_misses(const std::filesystem::path& file) {
  const nlohmann::json document = parse_json(read_regular_file(file, kMostBytes), file.string());
  try {
    if (const auto version = document.at("moetune_misses").get<std::int64_t>(); version != 1)
      throw BadInput(file.string() + " lists misses of version " + std::to_string(version) +
                     "; this moetune reads 1");
    std::vector<MissedWorkload> missed;
    const nlohmann::json& listed = document.at("misses");
    if (!listed.is_array()) throw BadInput(file.string() + ": its misses are no list");
    for (const nlohmann::json& one : listed) {
      if (!one.at("count").is_number_unsigned())
        throw BadInput(file.string() + ": a miss's count must be a whole number of at least 0 (got " +
                       one.at("count").dump() + ")");
      missed.push_back({one.at("kernel").get<std::string>(), one.at("problem").get<std::string>(),
                        one.at("count").get<std::uint64_t>()});
    }
    return missed;
  } catch (const nlohmann::json::exception& error) {
    throw BadInput(file.string() +
                   " is no list of misses as moetune_write_misses writes it: " + json_error_text(error));
  }
}

}  // namespace moetune

#include "tests/fuzz/cache_content.h"

#include <fstream>
#include <nlohmann/json.hpp>

#include "base/digest.h"
#include "base/format.h"
#include "base/regular_file.h"
#include "jobs/session/kernel_files.h"
#include "kernels/plan.h"
#include "kernels/registry.h"
#include "tests/fuzz/target.h"

namespace moetune::fuzz {
namespace {

namespace fs = std::filesystem;

constexpr const char* kProblem = "elements=1024,dtype=f32,write=all,passes=1";
const HardwareKey kHardware{"Test GPU", 90, 132, 62914560, 150120366080, 1980000, 3201000, "gpu", "580.95.05"};

std::string config_of(int stages) {
  return "loader=bulk,vector_bytes=16,tile_kib=32,stages=" + std::to_string(stages) +
         ",warps=8,producers=1,blocks_per_sm=1,l2=evict_first";
}

std::string plan_text() {
  Plan plan;
  plan.unit = {"templates/decode_kernel/decode_kernel.cu", {{"STAGES", "2"}}};
  plan.launches.push_back({{.entry = "decode_kernel", .grid = {4, 1, 1}, .block = {128, 1, 1}}, {}});
  return nlohmann::json(plan).dump();
}

const char* const kCeilings[] = {"read_tb_s", "launch_us"};

std::string numbers(std::initializer_list<double> values) {
  std::string text;
  for (const double value : values) text += format("|%a", value);
  return text;
}

std::string text_of(const WorkloadKey& key) {
  return key.kernel + "|" + key.problem + "|" + key.hardware.text() + "|" + key.source_digest + "|" + key.toolchain;
}

struct Column {
  const char* table;
  const char* name;
};

constexpr Column kColumns[] = {{"hardware", "key"},
                               {"hardware", "name"},
                               {"hardware", "sm_count"},
                               {"hardware", "l2_bytes"},
                               {"hardware", "origin"},
                               {"hardware", "driver"},
                               {"hardware", "id"},
                               {"workloads", "kernel"},
                               {"workloads", "problem"},
                               {"workloads", "hardware"},
                               {"workloads", "source_digest"},
                               {"workloads", "toolchain"},
                               {"workloads", "family"},
                               {"workloads", "digest"},
                               {"workloads", "id"},
                               {"trials", "workload"},
                               {"trials", "config"},
                               {"trials", "outcome"},
                               {"trials", "message"},
                               {"trials", "time_us"},
                               {"trials", "interval_low_us"},
                               {"trials", "interval_high_us"},
                               {"trials", "samples"},
                               {"trials", "facts"},
                               {"trials", "provenance"},
                               {"trials", "contended"},
                               {"trials", "digest"},
                               {"winners", "workload"},
                               {"winners", "config"},
                               {"winners", "time_us"},
                               {"winners", "interval_low_us"},
                               {"winners", "interval_high_us"},
                               {"winners", "default_time_us"},
                               {"winners", "roofline"},
                               {"winners", "plan"},
                               {"winners", "interface"},
                               {"winners", "cubin"},
                               {"winners", "fallback_config"},
                               {"winners", "fallback_plan"},
                               {"winners", "fallback_cubin"},
                               {"winners", "contended"},
                               {"winners", "provenance"},
                               {"winners", "stored_at"},
                               {"winners", "digest"},
                               {"cubins", "digest"},
                               {"cubins", "frame"},
                               {"cubins", "bytes"},
                               {"builds", "name"},
                               {"builds", "outcome"},
                               {"builds", "facts"},
                               {"builds", "log"},
                               {"builds", "cubin"},
                               {"builds", "cubin_bytes"},
                               {"builds", "digest"},
                               {"calibrations", "hardware"},
                               {"calibrations", "name"},
                               {"calibrations", "value"},
                               {"pack", "manifest"},
                               {"pack", "digest"}};

std::string random_value(const std::string& column, const std::string& table, Random& random) {
  const std::string other = std::to_string(random.below(4));
  const std::string values[] = {column + " + 1",
                                "-" + column,
                                column + " * 1.0000000000000002",
                                column + " || 'x'",
                                "substr(" + column + ", 2)",
                                "replace(" + column + ", '1', '2')",
                                "(SELECT " + column + " FROM " + table + " LIMIT 1 OFFSET " + other + ")",
                                "CAST(" + column + " AS BLOB)",
                                "CAST(x'61ff' AS TEXT)",
                                "x'28b52ffd'",
                                "zeroblob(1000)",
                                "''",
                                "0",
                                "1",
                                "-1",
                                "0.5",
                                "9e999",
                                "9223372036854775807",
                                "NULL",
                                "char(0) || " + column,
                                "'" + std::string(70, '[') + "'",
                                "upper(" + column + ")",
                                "json_set(" + column + ", '$.launches[0].grid[0]', 1)"};
  return values[random.below(std::size(values))];
}

}  // namespace

void write_sample_cache(const fs::path& file) {
  Cache cache = Cache::open(file, Cache::Mode::create);
  const std::string sources = kernel_source_digest("decode_kernel");
  const Kernel& kernel = find_kernel("decode_kernel");
  const std::string family = kernel.specialization(kernel.parse(kProblem)).text();
  int stages = 2;
  for (const std::string& digest : {sources, std::string("older"), std::string("oldest")}) {
    const std::int64_t id = cache.workloads.id({"decode_kernel", kProblem, kHardware, digest, "nvrtc 13.0.88"}, family);
    for (int i = 2; i < 5; ++i)
      cache.trials.put(id, {config_of(i), i == 4 ? "crashed" : "ok", "said " + std::to_string(i), 11.0 + i, 11.0, 17.5,
                            7, R"({"registers": 32})", R"({"strategy": "auto", "seed": 1})", false});
    if (digest == "oldest") continue;
    WinnerRecord winner;
    winner.config = winner.default_launch.config = config_of(stages++);
    winner.plan = winner.default_launch.plan = plan_text();
    winner.interface = winner.default_launch.interface = "i";
    winner.cubin = {1, 2, 3, static_cast<std::uint8_t>(stages)};
    winner.default_launch.cubin = Blob(300, 7);
    winner.time_us = 12;
    winner.interval_low_us = 11;
    winner.interval_high_us = 13;
    winner.default_time_us = 14;
    winner.roofline = 0.9;
    winner.provenance = R"({"strategy": "auto"})";
    winner.stored_at = "2025-01-0" + std::to_string(stages) + "T00:00:00Z";
    cache.winners.put(id, winner);
  }
  cache.builds.put("b1", {"ok", "{}", "a log", Blob(500, 9)});
  for (const char* name : kCeilings) cache.trials.put_calibration(kHardware, name, 4.5);
}

std::string line_of(const WorkloadKey& key, const WinnerRecord& winner) {
  return "winner|" + text_of(key) + "|" + winner.config + "|" + winner.plan + "|" + winner.interface + "|" +
         digest(winner.cubin) + "|" + winner.default_launch.config + "|" + winner.default_launch.plan + "|" +
         digest(winner.default_launch.cubin) + "|" + winner.provenance + "|" + winner.stored_at +
         (winner.contended ? "|contended" : "|") +
         numbers({winner.time_us, winner.interval_low_us, winner.interval_high_us, winner.default_time_us,
                  winner.roofline});
}

std::multiset<std::string> read_all(Cache& cache) {
  std::multiset<std::string> lines;
  for (const Workload& workload : cache.workloads.all()) {
    for (const TrialRecord& trial : cache.trials.of(workload.id)) {
      lines.insert("trial|" + text_of(workload.key) + "|" + trial.config + "|" + trial.outcome + "|" + trial.message +
                   "|" + trial.facts + "|" + trial.provenance + (trial.contended ? "|contended" : "|") +
                   numbers({trial.time_us, trial.interval_low_us, trial.interval_high_us, double(trial.samples)}));
    }
    for (const WinnerParts parts : {WinnerParts::all, WinnerParts::without_cubins}) {
      try {
        const std::optional<WinnerRecord> winner = cache.winners.find(workload.id, parts);
        if (winner) lines.insert(line_of(workload.key, *winner));
      } catch (const DamagedWinner&) {
      }
    }
  }
  for (const auto& [name, value] : cache.trials.calibrations(kHardware))
    lines.insert("ceiling|" + name + numbers({value}));
  const std::optional<BuildRecord> build = cache.builds.find("b1");
  if (build)
    lines.insert("build|" + build->outcome + "|" + build->facts + "|" + build->log + "|" + digest(build->cubin));
  return lines;
}

void require_known(const std::multiset<std::string>& known, const std::multiset<std::string>& read, const char* where) {
  for (const std::string& line : read) {
    if (!known.contains(line)) throw Finding(std::string(where) + ": " + line);
  }
}

std::string random_change(Random& random) {
  const Column& column = kColumns[random.below(std::size(kColumns))];
  const std::string table = column.table, name = column.name, offset = std::to_string(random.below(4));
  const std::string row =
      " WHERE " + name + " IS (SELECT " + name + " FROM " + table + " LIMIT 1 OFFSET " + offset + ")";
  switch (random.below(16)) {
    case 0:
      return "DELETE FROM " + table + row;
    case 1:
      return "ALTER TABLE " + table + " ADD COLUMN strange";
    case 2:
      return "CREATE TRIGGER strange AFTER INSERT ON " + table + " BEGIN DELETE FROM trials; END";
    case 3:
      return "PRAGMA user_version = " + std::to_string(random.below(6));
    case 4:
      return "UPDATE " + table + " SET " + name + " = " + random_value(name, table, random);
    default:
      return "UPDATE OR IGNORE " + table + " SET " + name + " = " + random_value(name, table, random) + row;
  }
}

void write_database(const fs::path& file, const std::string& bytes) {
  for (const char* suffix : {"", "-wal", "-shm", "-journal"}) fs::remove(file.string() + suffix);
  std::ofstream(file, std::ios::binary) << bytes;
}

}  // namespace moetune::fuzz

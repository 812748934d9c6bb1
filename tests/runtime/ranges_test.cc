// A stored range table serves its range, with what it loses; one that is unsound serves nothing, and the winners do.
#include "cache/ranges.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "cache/digest_sql.h"
#include "cache/file/database.h"
#include "cache/pack.h"
#include "kernels/registry.h"
#include "ranges/range_table.h"
#include "tests/runtime/fake_cache.h"
#include "tests/runtime/opened.h"

using namespace moetune;
using namespace moetune::testing;

namespace {

constexpr const char* kRangeFamily = "group=4,head_dim=64,page=16";

Problem range_problem(std::int64_t batch, std::int64_t context) {
  return find_kernel("decode_attention")
      .parse("batch=" + std::to_string(batch) + ",q_heads=4,kv_heads=1,head_dim=64,context=" + std::to_string(context) +
             ",page=16");
}

RangeTable sample_range() {
  RangeTable table{.ranges = "batch=2..32,context=64..1024", .bound = 0.02, .kept = true};
  for (const std::int64_t batch : {2, 8, 32}) {
    for (const std::int64_t context : {64, 256, 1024})
      table.cells.push_back({range_problem(batch, context).text(), plain_config(batch < 32 ? 64 : 32), 10.1, 12, 10});
  }
  table.certificate = {12, 0.004, 0.021, 0.03, -0.1};
  return table;
}

void store_range(const std::filesystem::path& file, const std::string& table, const std::string& stored_at = "",
                 const std::vector<int>& tiles = {64, 32}, Timing timing = Timing::overlapped, int sm_count = 0) {
  RangeRecord record{.table = table, .progress = "", .stored_at = stored_at};
  for (const int tile : tiles) record.variants.push_back(fake_launch(range_problem(2, 64), plain_config(tile)));
  const Kernel& kernel = find_kernel("decode_attention");
  const std::string family = kernel.specialization(range_problem(2, 64)).text();
  HardwareKey hardware = fake_device().key;
  if (sm_count > 0) hardware.sm_count = sm_count;
  Cache::open(file, Cache::Mode::create)
      .ranges.put({kernel.name(), family, hardware, "sources", "nvrtc 13.0", timing}, record);
}

nlohmann::json explained(const Opened& opened, moetune_family* family, std::int64_t batch, std::int64_t context) {
  const std::int64_t extents[] = {batch, 1, context};
  moetune_choice choice{};
  REQUIRE_OK(moetune_pick(family, extents, 3, batch * context, &choice));
  return opened.explain(family, choice);
}

bool picks_tile(const nlohmann::json& choice, int tile) {
  return choice["config"].get<std::string>().find("tile=" + std::to_string(tile)) != std::string::npos;
}

FakeWinner own_winner() { return {.problem = range_problem(8, 256).text(), .config = plain_config(16)}; }

}  // namespace

TEST_CASE("a range table serves its cells and what lies between them, and says what it loses") {
  const Folder folder;
  store(folder / "cache.db", {own_winner()});
  store_range(folder / "cache.db", sample_range().text(), "2999-01-01T00:00:00Z");
  const Opened opened({folder / "cache.db"});
  moetune_family* const family = opened.family(kRangeFamily);
  const nlohmann::json cell = explained(opened, family, 8, 256);
  CHECK(cell["kind"] == "exact");
  CHECK(picks_tile(cell, 64));  // not the winner of an earlier search
  CHECK(cell["regret"]["ranges"] == "batch=2..32,context=64..1024");
  CHECK(cell["regret"]["cell"].get<double>() == doctest::Approx(0.01));
  CHECK(cell["regret"]["p95"].get<double>() == doctest::Approx(0.021));
  CHECK(cell["regret"]["shapes"] == 12);
  const nlohmann::json between = explained(opened, family, 24, 700);
  CHECK(between["kind"] == "nearest");
  CHECK(between["regret"]["cell"].is_null());  // of the cell that it was measured in
  CHECK(between["regret"]["p95"].get<double>() == doctest::Approx(0.021));
  CHECK(picks_tile(between, 32));
  CHECK(picks_tile(explained(opened, family, 9, 700), 64));
  CHECK(opened.warnings().find("range table") == std::string::npos);
}

TEST_CASE("a state's name says what a range was measured to lose, which decides between equal choices") {
  const Folder folder;
  const auto choice_for_range = [&](const Opened& opened, moetune_family* family) {
    const std::int64_t from[] = {24, 1, 100};
    moetune_choice choice{};
    REQUIRE_OK(moetune_pick_range(family, from, 3, 1024, 24 * 1024, &choice));
    return opened.explain(family, choice)["config"];
  };
  RangeTable table = sample_range();
  for (RangeCell& cell : table.cells) {
    if (cell.problem.find("context=1024") != std::string::npos) cell.config = plain_config(64);
  }
  store_range(folder / "cache.db", table.text(), "2020-01-01T00:00:00Z");
  const Opened refreshed({folder / "cache.db"});
  moetune_family* const family = refreshed.family(kRangeFamily);
  const std::string before = refreshed.generation();
  for (RangeCell& cell : table.cells) {
    if (cell.config == plain_config(32)) cell.time_us = 10.15;  // it loses more, and is still chosen in its cell
  }
  store_range(folder / "cache.db", table.text(), "2020-01-02T00:00:00Z");
  REQUIRE_OK(moetune_refresh(refreshed.runtime(), nullptr));
  const Opened fresh({folder / "cache.db"});
  moetune_family* const fresh_family = fresh.family(kRangeFamily);
  CHECK(refreshed.generation() != before);
  CHECK(refreshed.generation() == fresh.generation());
  CHECK(choice_for_range(refreshed, family) == choice_for_range(fresh, fresh_family));
  CHECK(explained(refreshed, family, 32, 64)["time_us"] == 10.15);
}

TEST_CASE("a search that came after the range table serves its own problem") {
  const Folder folder;
  store_range(folder / "cache.db", sample_range().text(), "2020-01-01T00:00:00Z");
  store(folder / "cache.db", {own_winner()});
  const Opened opened({folder / "cache.db"});
  moetune_family* const family = opened.family(kRangeFamily);
  CHECK(picks_tile(explained(opened, family, 8, 256), 16));
  CHECK(explained(opened, family, 8, 256).contains("regret") == false);
  CHECK(picks_tile(explained(opened, family, 8, 1024), 64));
}

TEST_CASE("a range table that cannot be serves nothing, and the winners do") {
  const auto broken = [](const auto& change) {
    RangeTable table = sample_range();
    change(table);
    return table.text();
  };
  const std::vector<std::pair<std::string, bool>> texts = {
      {"{", true},
      {"{\"moetune_range\":1}", true},
      {broken([](RangeTable& table) { table.cells[3].time_us = 13; }), true},  // lost to the default
      {broken([](RangeTable& table) { table.cells[3].problem = "batch=0"; }), true},
      {broken([](RangeTable& table) { table.cells[3].problem = "batch=99999999999999"; }), true},
      {broken([](RangeTable& table) { table.cells[3].problem += ",page=64"; }), true},
      {broken([](RangeTable& table) { table.cells[3].config = "tile=64"; }), true},
      {broken([](RangeTable& table) { table.cells[3].config = plain_config(16); }), true},  // no such cubin
      {broken([](RangeTable& table) {
         table.cells[3].problem = "batch=2,q_heads=4,kv_heads=1,head_dim=128,context=64,page=16";
       }),
       true},
      {broken([](RangeTable& table) { table.cells[3].default_config = "tile=64"; }), true},
      {broken([](RangeTable& table) { table.bound = 1e308; }), true},
      {broken([](RangeTable& table) { table.certificate.median = -5; }), true},
      {broken([](RangeTable& table) { table.certificate.shapes = ~std::size_t{0}; }), true},
      {broken([](RangeTable& table) { table.cells[3].best_us = 1; }), true},  // it does not keep its bound
      {broken([](RangeTable& table) { table.cells[3].problem = table.cells[4].problem; }), true},
      {broken([](RangeTable& table) { table.ranges = "batch=32..2"; }), true},
      {broken([](RangeTable& table) {
         table.cells[3].time_us = table.cells[3].best_us = table.cells[3].default_us = 1e308;
       }),
       true},
      {broken([](RangeTable& table) { table.contended = true; }), false},
      {broken([](RangeTable& table) { table.cells.clear(); }), false}};
  for (const auto& [text, warns] : texts) {
    CAPTURE(text.substr(0, 300));
    const Folder folder;
    store(folder / "cache.db", {own_winner()});
    store_range(folder / "cache.db", text, "2999-01-01T00:00:00Z");
    const Opened opened({folder / "cache.db"});
    moetune_family* const family = opened.family(kRangeFamily);
    CHECK(picks_tile(explained(opened, family, 8, 256), 16));
    CHECK((opened.warnings().find("the range table of") != std::string::npos) == warns);
  }
}

TEST_CASE("a range table without its cubins is none") {
  const Folder folder;
  store(folder / "cache.db", {own_winner()});
  store_range(folder / "cache.db", sample_range().text(), "2999-01-01T00:00:00Z", {});
  const Opened opened({folder / "cache.db"});
  CHECK(picks_tile(explained(opened, opened.family(kRangeFamily), 8, 256), 16));
}

TEST_CASE("what was measured as deployed goes before what was not, whenever that was stored") {
  const Folder folder;
  FakeWinner chained = own_winner();
  chained.timing = Timing::chained;
  FakeWinner overlapped = own_winner();
  overlapped.config = plain_config(32);
  store(folder / "winners.db", {chained, overlapped});  // the later one last
  const Opened winners({folder / "winners.db"});
  const nlohmann::json choice = explained(winners, winners.family(kRangeFamily), 8, 256);
  CHECK(picks_tile(choice, 16));
  CHECK(choice["timing"] == "chained");

  store_range(folder / "cache.db", sample_range().text(), "2020-01-01T00:00:00Z", {64, 32}, Timing::chained);
  store(folder / "cache.db", {overlapped});
  const Opened opened({folder / "cache.db"});
  const nlohmann::json cell = explained(opened, opened.family(kRangeFamily), 8, 256);
  CHECK(picks_tile(cell, 64));
  CHECK(cell["timing"] == "chained");
  CHECK(cell.contains("regret"));
}

TEST_CASE("a winner in a file before the range table's serves its own problem, whatever its timing and age") {
  const Folder folder;
  store(folder / "user.db", {own_winner()});
  store_range(folder / "pack.db", sample_range().text(), "2999-01-01T00:00:00Z", {64, 32}, Timing::chained);
  const Opened before({folder / "user.db", folder / "pack.db"}), behind({folder / "pack.db", folder / "user.db"});
  CHECK(picks_tile(explained(before, before.family(kRangeFamily), 8, 256), 16));
  CHECK(picks_tile(explained(before, before.family(kRangeFamily), 2, 64), 64));
  CHECK(picks_tile(explained(behind, behind.family(kRangeFamily), 8, 256), 64));
}

TEST_CASE("a range table of full batches leaves ragged ones to their winners") {
  const Folder folder;
  FakeWinner ragged = own_winner();
  ragged.problem = "batch=8,q_heads=4,kv_heads=1,head_dim=64,context=256,page=16,lengths=ragged";
  store(folder / "user.db", {ragged});
  store_range(folder / "pack.db", sample_range().text(), "2999-01-01T00:00:00Z", {64, 32}, Timing::chained);
  const Opened opened({folder / "pack.db", folder / "user.db"});
  moetune_family* const family = opened.family(kRangeFamily);
  CHECK(picks_tile(explained(opened, family, 8, 256), 64));
  const std::int64_t extents[] = {8, 1, 256};
  moetune_choice choice{};
  REQUIRE_OK(moetune_pick(family, extents, 3, 8 * 128, &choice));
  CHECK(picks_tile(opened.explain(family, choice), 16));
}

TEST_CASE("of two range tables the one that was measured as deployed serves") {
  const Folder folder;
  RangeTable other = sample_range();
  for (RangeCell& cell : other.cells) cell.config = plain_config(32);
  store_range(folder / "cache.db", sample_range().text(), "2020-01-01T00:00:00Z", {64, 32}, Timing::chained);
  store_range(folder / "cache.db", other.text(), "2030-01-01T00:00:00Z");
  store(folder / "cache.db", {own_winner()});
  const Opened opened({folder / "cache.db"});
  CHECK(picks_tile(explained(opened, opened.family(kRangeFamily), 2, 64), 64));
}

TEST_CASE("an inherited range table serves all but what this hardware has a winner for, however old") {
  const Folder folder;
  store(folder / "own.db", {own_winner()});
  store_range(folder / "pack.db", sample_range().text(), "2999-01-01T00:00:00Z", {64, 32}, Timing::chained, 6);
  const Opened opened({folder / "own.db", folder / "pack.db"});
  moetune_family* const family = opened.family(kRangeFamily);
  const nlohmann::json own = explained(opened, family, 8, 256);
  CHECK(own["kind"] == "exact");
  CHECK(own["inherited"] == false);
  CHECK(picks_tile(own, 16));
  const nlohmann::json cell = explained(opened, family, 32, 1024);
  CHECK(cell["kind"] == "exact");
  CHECK(cell["inherited"] == true);
  CHECK(cell.contains("regret"));
}

TEST_CASE("an inherited winner takes no cell of this hardware's range table") {
  const Folder folder;
  FakeWinner inherited = own_winner();
  inherited.sm_count = 6;
  inherited.timing = Timing::chained;
  store_range(folder / "own.db", sample_range().text(),
              "2020-01-01T00:00:00Z");  // without a winner beside it
  store(folder / "pack.db", {inherited});
  const Opened opened({folder / "pack.db", folder / "own.db"});
  const nlohmann::json cell = explained(opened, opened.family(kRangeFamily), 8, 256);
  CHECK(picks_tile(cell, 64));
  CHECK(cell["inherited"] == false);
}

TEST_CASE("a pack that was altered serves no range table either") {
  const Folder folder;
  store(folder / "cache.db", {own_winner()});
  store_range(folder / "cache.db", sample_range().text(), "2999-01-01T00:00:00Z");
  export_pack(Cache::open(folder / "cache.db", Cache::Mode::read_only), folder / "a.pack", {});
  store(folder / "below.db", {own_winner()});
  const auto is_served = [&] {
    const Opened opened({folder / "a.pack", folder / "below.db"});
    const nlohmann::json cell = explained(opened, opened.family(kRangeFamily), 32, 1024);
    const bool altered = opened.warnings().find("it was altered") != std::string::npos;
    CHECK(altered != cell.contains("regret"));
    return cell.contains("regret");
  };
  CHECK(is_served());
  Database(folder / "a.pack", Database::Access::read_write, std::chrono::seconds(5))
      .execute("DELETE FROM winners");  // the table's own row is as it was
  CHECK_FALSE(is_served());
}

TEST_CASE("a winner that cannot be true serves nothing, and the others do") {
  const std::pair<const char*, const char*> forgeries[] = {
      {"time_us = 1e308, interval_low_us = 1e308, interval_high_us = 1e308", "it took 1e+308"},
      {"time_us = -3", "it took -3"},
      {"default_time_us = -1", "the default beside it took -1"},
      {"interval_low_us = 1, interval_high_us = 1", "lies outside of its interval"},
      {"interval_high_us = 9e999", "its interval is"},
      {"roofline = 9e999", "its roofline fraction is inf"},
      {"stored_at = 'tomorrow'", "which is no time"}};
  for (const auto& [change, what] : forgeries) {
    CAPTURE(change);
    const Folder folder;
    const FakeWinner other{.problem = range_problem(8, 256).text(), .config = plain_config(16)};
    store(folder / "cache.db", {{.problem = range_problem(2, 64).text(), .config = plain_config(32)}, other});
    {
      const Database database(folder / "cache.db", Database::Access::read_write, std::chrono::seconds(5));
      database.execute(std::string("UPDATE winners SET ") + change + " WHERE workload = 1");
      database.execute("UPDATE winners AS v SET digest = " MOETUNE_WINNER_DIGEST);
    }
    const Opened opened({folder / "cache.db"});
    moetune_family* const family = opened.family(kRangeFamily);
    CHECK_FALSE(picks_tile(explained(opened, family, 2, 64), 32));
    CHECK(picks_tile(explained(opened, family, 8, 256), 16));
    CHECK(opened.warnings().find(what) != std::string::npos);
  }
}

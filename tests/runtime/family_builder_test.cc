// Which of a family's stored winners and defaults serve: those that are of the family, load, and beat the default.
#include <doctest/doctest.h>

#include <algorithm>
#include <optional>

#include "cache/file/database.h"
#include "kernels/kernel_space.h"
#include "kernels/registry.h"
#include "tests/runtime/fake_cache.h"
#include "tests/runtime/opened.h"

namespace moetune::family_builder_test {
using namespace testing;

namespace {

constexpr const char* kProblem = "batch=2,q_heads=4,kv_heads=1,head_dim=64,context=64,page=16";
constexpr const char* kFamily = "group=4,head_dim=64,page=16";

moetune_choice pick(moetune_family* family, std::int64_t batch, std::int64_t context) {
  const std::int64_t extents[] = {batch, 1, context};
  moetune_choice choice{};
  REQUIRE_OK(moetune_pick(family, extents, 3, batch * context, &choice));
  return choice;
}

// The winner of a new cache, changed and stored in another.
template <typename Change>
void store_changed(const Folder& folder, const FakeWinner& winner, const Change& change) {
  store(folder / "as_made.db", {winner});
  const Cache made = Cache::open(folder / "as_made.db", Cache::Mode::read_only);
  const Problem problem = find_kernel("decode_attention").parse(winner.problem);
  std::string family = find_kernel("decode_attention").specialization(problem).text();
  const FamilyWinner stored = made.winners.of_family("decode_attention", family).sound.at(0);
  WinnerRecord record = made.winners.find(stored.workload.id).value();
  change(record, family);
  Cache changed = Cache::open(folder / "changed.db", Cache::Mode::create);
  changed.winners.put(changed.workloads.id(stored.workload.key, family), record);
}

std::string default_of(const char* problem_text) {
  const Kernel& kernel = find_kernel("decode_attention");
  const Problem problem = kernel.parse(problem_text);
  return shared_space(kernel.name()).default_config(expression_environment(problem, fake_device().limits))->text();
}

}  // namespace

TEST_CASE("a winner that is slower than the default serves nowhere, and its default does") {
  const Folder folder;
  store_changed(folder, {.problem = kProblem, .default_config = default_of(kProblem)},
                [](WinnerRecord& record, std::string&) { record.default_time_us = record.time_us / 2; });
  const Opened opened({folder / "changed.db"});
  moetune_family* const family = opened.family(kFamily);
  CHECK(opened.explain(family, pick(family, 2, 64))["kind"] == "default");
  CHECK(opened.explain(family, pick(family, 2, 96))["kind"] == "default");
}

TEST_CASE("a choice says that no duel has confirmed its winner") {
  const Folder folder;
  store_changed(folder, {.problem = kProblem},
                [](WinnerRecord& record, std::string&) { record.provenance = R"({"provisional":true})"; });
  const Opened opened({folder / "changed.db"});
  moetune_family* const family = opened.family(kFamily);
  CHECK(opened.explain(family, pick(family, 2, 64))["provisional"] == true);
}

TEST_CASE("a winner whose problem is of another family than its row says is not loaded") {
  const Folder folder;
  store_changed(folder, {.problem = kProblem},
                [](WinnerRecord&, std::string& family) { family.replace(family.find("page=16"), 7, "page=64"); });
  const Opened opened({folder / "changed.db"});
  moetune_family* family = nullptr;
  CHECK(moetune_family_open(opened.runtime(), "decode_attention", "group=4,head_dim=64,page=64", &family) ==
        MOETUNE_NOT_TUNED);
  CHECK(opened.warnings().find("of another family") != std::string::npos);
}

TEST_CASE("a default whose cubin is damaged does not take the family down, and another layer's serves") {
  const Folder folder;
  const std::string far = "batch=64,q_heads=4,kv_heads=1,head_dim=64,context=4096,page=16";
  const FakeWinner winner{.problem = kProblem, .default_config = default_of(far.c_str())};
  store(folder / "damaged.db", {winner});
  store(folder / "sound.db", {winner});
  {
    const Database raw(folder / "damaged.db", Database::Access::read_write, std::chrono::seconds(5));
    raw.execute("UPDATE cubins SET frame = zeroblob(length(frame)) WHERE id = (SELECT fallback_cubin FROM winners)");
  }
  {
    const Opened alone({folder / "damaged.db"});
    moetune_family* const family = alone.family(kFamily);
    CHECK(alone.explain(family, pick(family, 64, 4096))["kind"] == "nearest");
    CHECK(alone.warnings().find("damaged.db: the cubin of") != std::string::npos);
  }
  const Opened both({folder / "damaged.db", folder / "sound.db"});
  moetune_family* const family = both.family(kFamily);
  CHECK(both.explain(family, pick(family, 64, 4096))["kind"] == "default");
}

TEST_CASE("winners that do not match their digests are counted in the warnings, and other files serve") {
  const Folder folder;
  store(folder / "altered.db", {{.problem = kProblem}});
  store(folder / "sound.db", {{.problem = kProblem}});
  Database(folder / "altered.db", Database::Access::read_write, std::chrono::seconds(5))
      .execute("UPDATE winners SET time_us = 1");
  const Opened opened({folder / "altered.db", folder / "sound.db"});
  CHECK(opened.family(kFamily) != nullptr);
  CHECK(opened.warnings().find("altered.db: 1 of 1 winners") != std::string::npos);
  CHECK(opened.warnings().find("sound.db") == std::string::npos);
}

TEST_CASE("MOETUNE_RUNTIME=default serves each problem's own default") {
  const Folder folder;
  const std::string far = "batch=1,q_heads=4,kv_heads=1,head_dim=64,context=16384,page=16";
  const std::string near = default_of(kProblem), other = default_of(far.c_str());
  REQUIRE(near != other);
  store(folder / "cache.db",
        {{.problem = kProblem, .default_config = near}, {.problem = far, .default_config = other}});
  ::setenv("MOETUNE_RUNTIME", "default", 1);
  const Opened opened({folder / "cache.db"});
  moetune_family* const family = opened.family(kFamily);
  ::unsetenv("MOETUNE_RUNTIME");
  const nlohmann::json first = opened.explain(family, pick(family, 2, 64));
  const nlohmann::json second = opened.explain(family, pick(family, 1, 16384));
  CHECK(first["kind"] == "default");
  CHECK(second["kind"] == "default");
  CHECK(first["config"] == near);
  CHECK(second["config"] == other);
}

TEST_CASE("a winner that met another default than today's serves its own cell alone") {
  const auto problem = [](int batch, int context) {
    return "batch=" + std::to_string(batch) + ",q_heads=4,kv_heads=1,head_dim=64,context=" + std::to_string(context) +
           ",page=16";
  };
  const std::string own = problem(64, 4096), beside = problem(64, 5000), far = problem(2, 64);
  const std::string todays = default_of(own.c_str());
  REQUIRE(default_of(beside.c_str()) == todays);
  for (const bool has_met : {true, false}) {
    const Folder folder;
    store(folder / "winner.db",
          {{.problem = own, .default_config = has_met ? todays : plain_config(32), .time_us = 5000}});
    store(folder / "default.db", {{.problem = far, .default_config = todays}});
    const Opened opened({folder / "winner.db", folder / "default.db"});
    moetune_family* const family = opened.family(kFamily);
    CHECK(opened.explain(family, pick(family, 64, 4096))["kind"] == "exact");
    CHECK(opened.explain(family, pick(family, 64, 5000))["kind"] == (has_met ? "nearest" : "default"));
  }
}

TEST_CASE("a result that hardly beat the default, or lost to it, keeps a farther winner from what is near it") {
  const auto problem = [](int context) {
    return "batch=64,q_heads=4,kv_heads=1,head_dim=64,page=16,context=" + std::to_string(context);
  };
  const std::string todays = default_of(problem(4096).c_str());
  REQUIRE(default_of(problem(4700).c_str()) == todays);
  for (const double default_over_winner : {1.01, 0.5}) {
    CAPTURE(default_over_winner);
    const Folder folder;
    store(folder / "clear.db", {{.problem = problem(4096), .default_config = todays, .time_us = 5000}});
    store_changed(
        folder, {.problem = problem(4700), .default_config = todays, .time_us = 5000},
        [&](WinnerRecord& record, std::string&) { record.default_time_us = record.time_us * default_over_winner; });
    const Opened opened({folder / "clear.db", folder / "changed.db"});
    moetune_family* const family = opened.family(kFamily);
    CHECK(opened.explain(family, pick(family, 64, 4200))["kind"] == "nearest");
    CHECK(opened.explain(family, pick(family, 64, 4600))["kind"] == "default");
    CHECK(opened.explain(family, pick(family, 64, 4700))["kind"] == (default_over_winner > 1 ? "exact" : "default"));
  }
}

TEST_CASE("an exact choice says on which problem it was measured, whoever else has its configuration") {
  const Folder folder;
  const std::string longer = "batch=2,q_heads=4,kv_heads=1,head_dim=64,context=4096,page=16";
  store(folder / "cache.db", {{.problem = longer, .time_us = 500}, {.problem = kProblem, .time_us = 10}});
  const Opened opened({folder / "cache.db"});
  moetune_family* const family = opened.family(kFamily);
  const nlohmann::json shorter = opened.explain(family, pick(family, 2, 64));
  CHECK(shorter["kind"] == "exact");
  CHECK(shorter.dump().find("context=64") != std::string::npos);
}

TEST_CASE("one winner of this very hardware leaves the inherited ones where it has none") {
  const Folder folder;
  const auto problem = [](std::int64_t context) {
    return "batch=2,q_heads=4,kv_heads=1,head_dim=64,page=16,context=" + std::to_string(context);
  };
  constexpr std::int64_t kContexts[] = {64, 256, 1024, 4096, 16384, 65536};
  std::vector<FakeWinner> six, others;
  for (const std::int64_t context : kContexts) {
    six.push_back({.problem = problem(context), .config = plain_config(32), .sm_count = 6});
    others.push_back({.problem = problem(context), .config = plain_config(16), .sm_count = 60});
  }
  others.push_back({.problem = problem(512), .config = plain_config(16), .sm_count = 60});
  store(folder / "pack.db", six);
  store(folder / "other.db", others);  // farther in SMs: nothing of it serves
  store(folder / "own.db", {{.problem = problem(65536)}});
  // The order of the files changes nothing.
  for (const auto& files : {std::vector{"own.db", "pack.db", "other.db"}, {"other.db", "pack.db", "own.db"}}) {
    std::vector<std::filesystem::path> paths;
    for (const char* file : files) paths.push_back(folder / file);
    const Opened opened(paths);
    moetune_family* const family = opened.family(kFamily);
    for (const std::int64_t context : kContexts) {
      CAPTURE(context);
      const nlohmann::json choice = opened.explain(family, pick(family, 2, context));
      const bool own = context == 65536;
      CHECK(choice["kind"] == "exact");
      CHECK(choice["inherited"] == !own);
      CHECK(choice["measured_on"].get<std::string>().find("context=" + std::to_string(context)) != std::string::npos);
      CHECK(choice["config"] == plain_config(own ? 64 : 32));
      CHECK(choice["file"] == (folder / (own ? "own.db" : "pack.db")).string());
    }
    CHECK(opened.explain(family, pick(family, 2, 300))["inherited"] == true);
    CHECK(opened.explain(family, pick(family, 2, 512))["config"] != plain_config(16));
  }
}

TEST_CASE("a ragged winner and an even one of equal work have a cell each") {
  const Kernel& kernel = find_kernel("decode_attention");
  const auto problem = [&](std::int64_t batch, bool ragged) {
    return kernel.parse("batch=" + std::to_string(batch) + ",q_heads=4,kv_heads=1,head_dim=64,context=256,page=16" +
                        (ragged ? ",lengths=ragged" : ""));
  };
  const auto interface = kernel.family_interface(problem(1, false));
  const auto place = [&](const Problem& one) {
    const auto position = interface->table_point_of(one).position;
    return std::vector<std::int64_t>(position.begin(), position.end());
  };
  std::optional<std::pair<Problem, Problem>> equal;
  for (std::int64_t batch = 4; batch < 64 && !equal; ++batch) {
    for (std::int64_t even = 2; even <= batch && !equal; ++even) {
      if (place(problem(even, false)) == place(problem(batch, true)))
        equal.emplace(problem(even, false), problem(batch, true));
    }
  }
  REQUIRE(equal);
  const Folder folder;
  store(folder / "cache.db",
        {{.problem = equal->second.text(), .config = plain_config(32)}, {.problem = equal->first.text()}});
  const Opened opened({folder / "cache.db"});
  const nlohmann::json even =
      opened.explain(opened.family(kFamily), pick(opened.family(kFamily), kernel.extents_of(equal->first)[0], 256));
  CHECK(even["kind"] == "exact");
  CHECK(even["measured_on"] == equal->first.text());
  const Extents extents = kernel.extents_of(equal->second);
  std::int64_t total = 1;  // with which a batch has the ragged winner's place
  const auto is_there = [&](const TablePoint& point) {
    return point.ragged && std::ranges::equal(point.position, place(equal->second));
  };
  while (total < extents[0] * 256 && !is_there(interface->table_point(extents, total))) ++total;
  moetune_choice choice{};
  REQUIRE_OK(moetune_pick(opened.family(kFamily), &extents[0], 3, total, &choice));
  CHECK(opened.explain(opened.family(kFamily), choice)["measured_on"] == equal->second.text());
}

TEST_CASE("a default that only another GPU's results hold is marked as inherited beside a winner of this one") {
  const Folder folder;
  const std::string far = "batch=64,q_heads=4,kv_heads=1,head_dim=64,context=4096,page=16";
  store(folder / "pack.db",
        {{.problem = far, .default_config = default_of(far.c_str()), .time_us = 5000, .sm_count = 6}});
  store(folder / "own.db", {{.problem = kProblem}});
  const Opened opened({folder / "own.db", folder / "pack.db"});
  const nlohmann::json choice = opened.explain(opened.family(kFamily), pick(opened.family(kFamily), 4096, 4096));
  CHECK(choice["kind"] == "default");
  CHECK(choice["inherited"] == true);
  CHECK(opened.explain(opened.family(kFamily), pick(opened.family(kFamily), 2, 64))["inherited"] == false);
}

}  // namespace moetune::family_builder_test

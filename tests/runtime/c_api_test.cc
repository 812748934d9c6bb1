// The runtime as a server calls it, through the C interface, on the scripted driver.
#include <doctest/doctest.h>

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "include/moetune.h"
#include "tests/runtime/decode_tensors.h"
#include "tests/runtime/fake_cache.h"
#include "tests/runtime/opened.h"

namespace moetune::c_api_test {
using namespace testing;

namespace {

constexpr const char* kShort = "batch=2,q_heads=4,kv_heads=1,head_dim=64,context=64,page=16";
constexpr const char* kLong = "batch=2,q_heads=4,kv_heads=1,head_dim=64,context=512,page=16";
constexpr const char* kFamily = "group=4,head_dim=64,page=16";

struct Workspace {
  explicit Workspace(std::size_t bytes) : memory(bytes + 256, 0xEE) {}
  void* get() {
    const auto address = reinterpret_cast<std::uintptr_t>(memory.data());
    return reinterpret_cast<void*>((address + 255) / 256 * 256);
  }
  std::vector<std::uint8_t> memory;
};

// The problems that are written to the file of misses, the most frequent first.
std::vector<std::string> missed_problems(const Opened& opened, const Folder& folder) {
  const std::string path = (folder / "misses.json").string();
  REQUIRE_OK(moetune_write_misses(opened.runtime(), path.c_str()));
  std::ifstream in(path);
  std::vector<std::string> problems;
  const nlohmann::json document = nlohmann::json::parse(in);
  for (const nlohmann::json& miss : document["misses"]) problems.push_back(miss["problem"]);
  return problems;
}

}  // namespace

TEST_CASE("a server opens, picks, binds and launches, and the output is right") {
  const Folder folder;
  store(folder / "cache.db", {{kShort}, {kLong, plain_config(32)}});
  const Opened opened({folder / "cache.db"});
  moetune_family* const family = opened.family(kFamily);
  for (const char* problem : {kShort, kLong, "batch=3,q_heads=8,kv_heads=2,head_dim=64,context=100,page=16"}) {
    CAPTURE(problem);
    DecodeTensors tensors(problem);
    tensors.clear_output();
    moetune_arguments arguments;
    std::int64_t extents[MOETUNE_MAX_EXTENTS];
    std::size_t count = 0;
    REQUIRE_OK(
        moetune_bind(family, tensors.tensors().data(), tensors.tensors().size(), nullptr, &arguments, extents, &count));
    REQUIRE(count == 3);
    moetune_choice choice;
    REQUIRE_OK(moetune_pick(family, extents, count, 0, &choice));
    std::size_t bytes = 0;
    REQUIRE_OK(moetune_choice_workspace(family, &choice, &bytes));
    Workspace workspace(bytes);
    REQUIRE_OK(moetune_workspace_init(opened.runtime(), workspace.get(), bytes, nullptr));
    for (int again = 0; again < 3; ++again)
      REQUIRE_OK(moetune_launch(family, &choice, &arguments, workspace.get(), bytes, nullptr));
    CHECK(tensors.error() < 0.02);
  }
}

TEST_CASE("what was measured is exact, its surroundings nearest, and what is far away the default") {
  const Folder folder;
  store(folder / "cache.db", {{.problem = kShort}, {.problem = kLong, .config = plain_config(32)}});
  const Opened opened({folder / "cache.db"});
  moetune_family* const family = opened.family(kFamily);
  const auto kind = [&](std::vector<std::int64_t> extents) {
    moetune_choice choice;
    REQUIRE_OK(moetune_pick(family, extents.data(), extents.size(), extents[0] * extents[2], &choice));
    return std::pair{choice.kind, opened.explain(family, choice)["config"].get<std::string>()};
  };
  CHECK(kind({2, 1, 64}) == std::pair{std::uint32_t{MOETUNE_CHOICE_EXACT}, plain_config()});
  CHECK(kind({1, 2, 64}).first == MOETUNE_CHOICE_EXACT);  // as many rows
  CHECK(kind({2, 1, 512}) == std::pair{std::uint32_t{MOETUNE_CHOICE_EXACT}, plain_config(32)});
  CHECK(kind({4, 1, 1024}) == std::pair{std::uint32_t{MOETUNE_CHOICE_NEAREST}, plain_config(32)});
  moetune_counts counts{};
  counts.size = sizeof counts;
  REQUIRE_OK(moetune_count(opened.runtime(), &counts));
  CHECK(counts.exact == 3);
  CHECK(counts.nearest == 1);
}

TEST_CASE("shapes without a measurement are written down, most frequent first") {
  const Folder folder;
  store(folder / "cache.db", {{kShort}});
  const Opened opened({folder / "cache.db"});
  moetune_family* const family = opened.family(kFamily);
  const std::int64_t once[] = {8, 1, 64}, often[] = {4, 1, 100};
  moetune_choice choice;
  REQUIRE_OK(moetune_pick(family, once, 3, 0, &choice));
  for (int i = 0; i < 5; ++i) REQUIRE_OK(moetune_pick(family, often, 3, 0, &choice));
  const std::string path = (folder / "misses.json").string();
  REQUIRE_OK(moetune_write_misses(opened.runtime(), path.c_str()));
  std::ifstream in(path);
  const auto document = nlohmann::json::parse(in);
  CHECK(document["moetune_misses"] == 1);
  REQUIRE(document["misses"].size() == 2);
  CHECK(document["misses"][0]["count"] == 5);
  const std::string problem = document["misses"][0]["problem"];
  CHECK(problem.starts_with("batch=4,q_heads=4,kv_heads=1,head_dim=64,context=112,"));
  CHECK(problem.find("lengths=ragged") != std::string::npos);  // a total of 0 is unknown
  CHECK(moetune_write_misses(opened.runtime(), "/no/such/folder/misses") == MOETUNE_BAD_FILE);
}

TEST_CASE("a refresh takes new winners, and goes back to a state by name") {
  const Folder folder;
  store(folder / "cache.db", {{kShort}});
  const Opened opened({folder / "cache.db"});
  moetune_family* const family = opened.family(kFamily);
  const std::int64_t extents[] = {2, 1, 512};
  const auto pick = [&] {
    moetune_choice choice;
    REQUIRE_OK(moetune_pick(family, extents, 3, 1024, &choice));
    return choice;
  };
  const moetune_choice before = pick();
  const std::string old = opened.generation();
  REQUIRE_OK(moetune_refresh(opened.runtime(), nullptr));
  CHECK(opened.generation() == old);  // nothing changed
  store(folder / "cache.db", {{kLong, plain_config(32)}});
  REQUIRE_OK(moetune_refresh(opened.runtime(), ""));
  CHECK(opened.generation() != old);
  CHECK(pick().kind == MOETUNE_CHOICE_EXACT);
  CHECK(opened.explain(family, before)["config"] == plain_config());  // what was handed out stays
  REQUIRE_OK(moetune_refresh(opened.runtime(), old.c_str()));
  CHECK(opened.generation() == old);
  CHECK(pick().entry == before.entry);
  CHECK(moetune_refresh(opened.runtime(), "0123") == MOETUNE_UNKNOWN_NAME);
  CHECK(says("no generation '0123'"));

  const Opened other({folder / "cache.db"});  // another rank
  other.family(kFamily);
  REQUIRE_OK(moetune_refresh(opened.runtime(), nullptr));
  CHECK(other.generation() == opened.generation());
}

TEST_CASE("what is not fit for a server is never loaded") {
  const Folder folder;
  const auto refused = [&](const FakeWinner& winner) {
    store(folder / "cache.db", {winner});
    const Opened opened({folder / "cache.db"});
    moetune_family* family = nullptr;
    const moetune_status status = moetune_family_open(opened.runtime(), "decode_attention", kFamily, &family);
    std::filesystem::remove(folder / "cache.db");
    return status == MOETUNE_NOT_TUNED && family == nullptr;
  };
  CHECK(refused({.problem = kShort, .contended = true}));
  CHECK(says("run: moetune search decode_attention --problem batch=64,"));  // a usual size, not the least
  CHECK(refused({.problem = kShort, .origin = "replay:abc"}));
  CHECK(refused({.problem = kShort, .interface = "of another version"}));
  CHECK_FALSE(refused({.problem = kShort}));
  CHECK(refused({.problem = kShort, .compute_capability = 80}));
  CHECK_FALSE(refused({.problem = kShort, .sm_count = 8}));  // inherited
}

TEST_CASE("a tool for tests may use winners of recordings") {
  const Folder folder;
  store(folder / "cache.db", {{.problem = kShort, .origin = "replay:abc"}});
  const Opened opened({folder / "cache.db"}, true);
  CHECK(opened.family(kFamily) != nullptr);
}

TEST_CASE("winners of the same architecture are inherited, from the nearest number of SMs, and say so") {
  const std::int64_t extents[] = {2, 1, 64};
  for (const auto& [nearest, other] : {std::pair{6, 100}, {5, 2}, {3, 60}}) {  // here there are 4
    const Folder folder;
    store(folder / "cache.db", {{.problem = kShort, .sm_count = other},
                                {.problem = kShort, .compute_capability = 80},
                                {.problem = kShort, .config = plain_config(32), .sm_count = nearest}});
    const Opened opened({folder / "cache.db"});
    moetune_family* const family = opened.family(kFamily);
    moetune_choice choice;
    REQUIRE_OK(moetune_pick(family, extents, 3, 128, &choice));
    const auto explained = opened.explain(family, choice);
    CHECK(explained["inherited"] == true);
    CHECK(explained["config"] == plain_config(32));
  }
}

TEST_CASE("a file that cannot be used leaves the others") {
  const Folder folder;
  store(folder / "good.db", {{kShort}});
  std::ofstream(folder / "bad.db") << std::string(4096, 'x');
  std::filesystem::create_directory(folder / "empty");
  const Opened opened({folder / "missing.db", folder / "bad.db", folder / "empty", folder / "good.db"});
  CHECK(opened.family(kFamily) != nullptr);
  CHECK(opened.warnings().find("bad.db") != std::string::npos);
  CHECK(opened.warnings().find("missing.db") != std::string::npos);

  // Of a folder's files the first in order of name goes before the others.
  std::filesystem::create_directory(folder / "several");
  for (const auto& [name, tile] : {std::pair{"c.db", 32}, {"a.db", 64}, {"b.db", 32}})
    store(folder / "several" / name, {{kShort, plain_config(tile)}});
  const Opened several({folder / "several"});
  const std::int64_t extents[] = {2, 1, 64};
  moetune_choice choice;
  REQUIRE_OK(moetune_pick(several.family(kFamily), extents, 3, 128, &choice));
  CHECK(several.explain(several.family(kFamily), choice)["config"] == plain_config(64));

  const std::string bad = (folder / "bad.db").string();
  const char* const paths[] = {bad.c_str()};
  const moetune_open_options options{sizeof options, paths, 1, 0, 0};
  moetune_runtime* runtime = nullptr;
  CHECK(moetune_open(&options, &runtime) == MOETUNE_BAD_FILE);
  CHECK(says("bad.db"));
  CHECK(runtime == nullptr);
}

TEST_CASE("MOETUNE_PIN and MOETUNE_RUNTIME choose for A/B tests") {
  const Folder folder;
  store(folder / "cache.db", {{.problem = kShort, .config = plain_config(), .default_config = plain_config(32)}});
  const std::int64_t extents[] = {100, 1, 30000};
  const auto pick = [&](const char* name, const std::string& value, moetune_choice& choice, std::string& config) {
    ::setenv(name, value.c_str(), 1);
    moetune_status status = MOETUNE_OK;
    {
      const Opened opened({folder / "cache.db"});
      moetune_family* family = nullptr;
      status = moetune_family_open(opened.runtime(), "decode_attention", kFamily, &family);
      if (status == MOETUNE_OK) status = moetune_pick(family, extents, 3, 0, &choice);
      if (status == MOETUNE_OK) config = opened.explain(family, choice)["config"];
    }
    ::unsetenv(name);
    return status;
  };
  moetune_choice choice;
  std::string config;
  CHECK(pick("MOETUNE_PIN", "decode_attention:" + plain_config(32), choice, config) == MOETUNE_OK);
  CHECK(choice.kind == MOETUNE_CHOICE_PINNED);
  CHECK(config == plain_config(32));
  CHECK(pick("MOETUNE_PIN", "decode_attention:" + plain_config(128), choice, config) == MOETUNE_UNKNOWN_NAME);
  CHECK(pick("MOETUNE_PIN", "router:tile=2", choice, config) == MOETUNE_OK);  // of another kernel
  CHECK(choice.kind != MOETUNE_CHOICE_PINNED);
}

TEST_CASE("a workspace that was promised suffices after every refresh") {
  const Folder folder;
  store(folder / "cache.db", {{kShort}});
  const Opened opened({folder / "cache.db"});
  moetune_family* const family = opened.family(kFamily);
  const std::int64_t most[] = {16, 1, 4096};
  std::size_t promised = 0;
  REQUIRE_OK(moetune_family_workspace(family, most, 3, &promised));
  CHECK(promised == MOETUNE_WORKSPACE_COUNTERS);  // one split needs no more
  std::string split = plain_config(32);
  split.replace(split.find("splits=1,combine=none"), 21, "splits=4,combine=last_cta");
  store(folder / "cache.db", {{kLong, split}});
  REQUIRE_OK(moetune_refresh(opened.runtime(), nullptr));
  CHECK(opened.warnings().find("1 of its configurations need more workspace than the 1048576 bytes") !=
        std::string::npos);
  for (std::int64_t batch = 1; batch <= 16; ++batch) {
    for (std::int64_t context = 1; context <= 4096; context *= 2) {
      const std::int64_t extents[] = {batch, 1, context};
      moetune_choice choice;
      std::size_t bytes = 0;
      REQUIRE_OK(moetune_pick(family, extents, 3, 0, &choice));
      REQUIRE_OK(moetune_choice_workspace(family, &choice, &bytes));
      CHECK(bytes <= promised);
    }
  }
  const std::int64_t beyond[] = {2, 1, 8192};
  moetune_choice choice;
  REQUIRE_OK(moetune_pick(family, beyond, 3, 0, &choice));
}

TEST_CASE("a range is served by one choice for all of it") {
  const Folder folder;
  store(folder / "cache.db", {{kShort}, {kLong, plain_config(32)}});
  const Opened opened({folder / "cache.db"});
  moetune_family* const family = opened.family(kFamily);
  const std::int64_t from[] = {2, 1, 64};
  moetune_choice choice;
  REQUIRE_OK(moetune_pick_range(family, from, 3, 4096, 0, &choice));
  CHECK(choice.extents[2] == 4096);
  CHECK(opened.explain(family, choice)["config"] == plain_config(32));
  REQUIRE_OK(moetune_pick_range(family, from, 3, 64, 0, &choice));
  CHECK(opened.explain(family, choice)["config"] == plain_config());
  CHECK(moetune_pick_range(family, from, 3, 32, 0, &choice) == MOETUNE_INVALID_ARGUMENT);
}

TEST_CASE("a range is exact only if its choice was measured in all of it, and its misses are what was not") {
  const Folder folder;
  store(folder / "cache.db", {{kShort}});
  const Opened opened({folder / "cache.db"});
  moetune_family* const family = opened.family(kFamily);
  const std::int64_t from[] = {2, 1, 64};
  moetune_choice choice;
  REQUIRE_OK(moetune_pick_range(family, from, 3, 64, 2 * 64, &choice));
  CHECK(choice.kind == MOETUNE_CHOICE_EXACT);
  const auto missed_contexts = [&] {
    std::vector<std::string> contexts;
    for (const std::string& problem : missed_problems(opened, folder))
      contexts.push_back(problem.substr(problem.find("context="), problem.find(",dtype") - problem.find("context=")));
    return contexts;
  };
  CHECK(missed_contexts().empty());
  REQUIRE_OK(moetune_pick_range(family, from, 3, 65536, std::int64_t{2} * 65536, &choice));
  CHECK(choice.kind == MOETUNE_CHOICE_NEAREST);
  CHECK(missed_contexts() == std::vector<std::string>{"context=65536"});
  // The end of this range was measured, what lies before was not.
  const std::int64_t earlier[] = {2, 1, 16};
  REQUIRE_OK(moetune_pick_range(family, earlier, 3, 64, 2 * 64, &choice));
  CHECK(choice.kind == MOETUNE_CHOICE_NEAREST);
  REQUIRE(missed_contexts().size() == 2);
  CHECK(missed_contexts()[1] != "context=64");
  moetune_counts counts{};
  counts.size = sizeof counts;
  REQUIRE_OK(moetune_count(opened.runtime(), &counts));
  CHECK(counts.exact == 1);
  CHECK(counts.nearest == 2);
}

TEST_CASE("what is written down of a ragged batch is a problem with about its total") {
  const Folder folder;
  store(folder / "cache.db", {{kShort}});
  const Opened opened({folder / "cache.db"});
  moetune_family* const family = opened.family(kFamily);
  const std::int64_t extents[] = {12, 1, 4096};
  moetune_choice choice;
  REQUIRE_OK(moetune_pick(family, extents, 3, 4 * 4096, &choice));
  CHECK(choice.extents[0] == 12);
  const std::vector<std::string> missed = missed_problems(opened, folder);
  REQUIRE(missed.size() == 1);
  CHECK(missed[0].starts_with("batch=8,"));
  CHECK(missed[0].find("lengths=ragged") != std::string::npos);
}

TEST_CASE("every shape that is written down is a problem, though it was rounded up") {
  const Folder folder;
  store(folder / "cache.db", {{kShort}});
  const Opened opened({folder / "cache.db"});
  moetune_family* const family = opened.family(kFamily);
  // The largest batch, which rounds up to no problem's, and extents that together are none's.
  const std::int64_t largest[] = {65535, 1, 64}, impossible[] = {65535, 1, std::int64_t{1} << 22};
  moetune_choice choice;
  REQUIRE_OK(moetune_pick(family, largest, 3, 65535 * 64, &choice));
  REQUIRE_OK(moetune_pick(family, impossible, 3, 0, &choice));
  const std::vector<std::string> missed = missed_problems(opened, folder);
  REQUIRE(missed.size() == 1);
  CHECK(missed[0].starts_with("batch=57344,q_heads=4,kv_heads=1,head_dim=64,context=56,"));
}

TEST_CASE("a range counts as even or ragged by the total at its end") {
  const Folder folder;
  const std::string ragged = std::string(kLong) + ",lengths=ragged";
  store(folder / "cache.db", {{kLong, plain_config(32)}, {ragged, plain_config()}});
  const Opened opened({folder / "cache.db"});
  moetune_family* const family = opened.family(kFamily);
  const std::int64_t from[] = {2, 1, 500};
  const auto config_at = [&](std::int64_t total) {
    moetune_choice choice;
    REQUIRE_OK(moetune_pick_range(family, from, 3, 512, total, &choice));
    return opened.explain(family, choice)["config"];
  };
  CHECK(config_at(0) == plain_config());
  CHECK(config_at(2 * 512) == plain_config(32));
  CHECK(config_at(512 + 256) == plain_config());
  moetune_choice choice;
  CHECK(moetune_pick_range(family, from, 3, 512, -1, &choice) == MOETUNE_INVALID_ARGUMENT);
}

}  // namespace moetune::c_api_test

// More of what a careless server may pass: strides, page tables, workspaces, and files that are not what they seem.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <limits>
#include <optional>
#include <vector>

#include "cache/file/database.h"
#include "cache/pack.h"
#include "cache/pack_signature.h"
#include "runtime/layers.h"
#include "tests/runtime/decode_tensors.h"
#include "tests/runtime/fake_cache.h"
#include "tests/runtime/opened.h"

namespace moetune::bad_calls_test {
using namespace testing;
using namespace std::chrono_literals;

namespace {

namespace fs = std::filesystem;

constexpr const char* kProblem = "batch=2,q_heads=4,kv_heads=1,head_dim=64,context=64,page=16";
constexpr const char* kFamily = "group=4,head_dim=64,page=16";

// Serves a winner that needs a workspace.
struct Server {
  Server() : tensors(kProblem) {
    std::string split = plain_config();
    split.replace(split.find("splits=1,combine=none"), 21, "splits=2,combine=last_cta");
    store(folder / "cache.db", {{kProblem, split}});
    opened.emplace(std::vector{folder / "cache.db"});
    family = opened->family(kFamily);
    REQUIRE(bind() == MOETUNE_OK);
    REQUIRE_OK(moetune_pick(family, extents, count, 0, &choice));
    REQUIRE_OK(moetune_choice_workspace(family, &choice, &bytes));
    memory.resize(bytes + 512);
    workspace = reinterpret_cast<char*>((reinterpret_cast<std::uintptr_t>(memory.data()) + 255) / 256 * 256);
  }
  moetune_status bind() {
    return moetune_bind(family, tensors.tensors().data(), tensors.tensors().size(), nullptr, &arguments, extents,
                        &count);
  }
  moetune_status launch() const { return moetune_launch(family, &choice, &arguments, workspace, bytes, nullptr); }

  const Folder folder;
  DecodeTensors tensors;
  std::optional<Opened> opened;
  moetune_family* family = nullptr;
  moetune_arguments arguments{};
  std::int64_t extents[MOETUNE_MAX_EXTENTS]{};
  std::size_t count = 0, bytes = 0;
  moetune_choice choice{};
  std::vector<char> memory;
  char* workspace = nullptr;
};

moetune_status open_status(const std::vector<fs::path>& files, moetune_runtime*& runtime) {
  std::vector<std::string> texts;
  std::vector<const char*> paths;
  for (const fs::path& file : files) texts.push_back(file.string());
  for (const std::string& text : texts) paths.push_back(text.c_str());
  const moetune_open_options options{sizeof options, paths.data(), paths.size(), 0, 0, nullptr, 0};
  return moetune_open(&options, &runtime);
}

// As a server finds a file that was copied there long ago; beside good.db of that folder.
void refuse_without_locks(const Folder& folder, const fs::path& file, const std::string& words) {
  CAPTURE(file.string());
  for (const TrustedKeys& trusted : {TrustedKeys(), TrustedKeys({std::string(64, '1')})}) {
    const std::string expected = trusted.empty() || file.extension() != ".pack" ? words : file.string();
    CHECK_THROWS_WITH_AS(Layers({file}, trusted, 0ms), doctest::Contains(expected.c_str()), BrokenEnvironment);
    const Layers both({file, folder / "good.db"}, trusted, 0ms);
    CHECK(both.path(0) == folder / "good.db");
    REQUIRE(both.warnings().size() == 1);
    CHECK(both.warnings()[0].find(expected) != std::string::npos);
    for (const fs::directory_entry& beside : fs::directory_iterator((folder / "good.db").parent_path())) {
      CHECK_MESSAGE(!beside.path().string().ends_with("-shm"), beside.path().string());
    }
  }
}

}  // namespace

TEST_CASE("strides that go backwards or let rows overlap are named") {
  Server s;
  static const std::int64_t back[] = {-256, 64, 1}, twice[] = {0, 64, 1}, backwards[] = {-1024, 64, -64, 1};
  const auto bound = [&](int slot, const std::int64_t* strides) {
    const DLTensor before = s.tensors.tensor(slot);
    s.tensors.tensor(slot).strides = strides;
    moetune_status status = s.bind();
    if (status == MOETUNE_OK) status = s.launch();
    s.tensors.tensor(slot) = before;
    return status;
  };
  CHECK(bound(MOETUNE_DECODE_Q, back) == MOETUNE_INVALID_ARGUMENT);
  CHECK(says("-256"));
  CHECK(bound(MOETUNE_DECODE_O, back) == MOETUNE_INVALID_ARGUMENT);
  CHECK(says("-256"));
  CHECK(bound(MOETUNE_DECODE_O, twice) == MOETUNE_INVALID_ARGUMENT);
  CHECK(bound(MOETUNE_DECODE_K, backwards) == MOETUNE_INVALID_ARGUMENT);
  static const std::int64_t table[] = {-4, 1}, sparse[] = {8, 2};
  CHECK(bound(MOETUNE_DECODE_PAGE_TABLE, table) == MOETUNE_INVALID_ARGUMENT);
  CHECK(bound(MOETUNE_DECODE_PAGE_TABLE, sparse) == MOETUNE_INVALID_ARGUMENT);
  CHECK(says("page_table"));
  REQUIRE(s.bind() == MOETUNE_OK);
  CHECK_OK(s.launch());
}

TEST_CASE("a page table as indptr and indices is refused by name") {
  Server s;
  DLTensor& table = s.tensors.tensor(MOETUNE_DECODE_PAGE_TABLE);
  static const std::int64_t indices[] = {8};
  table.ndim = 1;
  table.shape = indices;
  table.strides = nullptr;
  CHECK(s.bind() == MOETUNE_INVALID_ARGUMENT);
  CHECK_MESSAGE(says("there is no form by indptr"), moetune_last_error());
}

TEST_CASE("a page table that holds fewer pages than the longest context is refused at every launch") {
  Server s;
  REQUIRE_OK(s.launch());
  s.choice.extents[2] = 4096;  // as a graph captured for longer contexts than its table has room for
  CHECK(s.launch() == MOETUNE_INVALID_ARGUMENT);
  CHECK_MESSAGE(says("capacity="), moetune_last_error());
  s.choice.extents[2] = 64;
  CHECK_OK(s.launch());
  s.arguments.integers[MOETUNE_DECODE_PAGE_TABLE_STRIDE] = 1;  // of four pages
  CHECK(s.launch() == MOETUNE_INVALID_ARGUMENT);
}

TEST_CASE("a workspace that is null, unaligned or too small") {
  const Server s;
  const auto launched = [&](void* workspace, std::size_t bytes) {
    return moetune_launch(s.family, &s.choice, &s.arguments, workspace, bytes, nullptr);
  };
  REQUIRE(s.bytes > MOETUNE_WORKSPACE_COUNTERS);
  CHECK(launched(nullptr, s.bytes) == MOETUNE_INVALID_ARGUMENT);
  CHECK(says("needs a workspace"));
  CHECK(launched(s.workspace + 128, s.bytes) == MOETUNE_INVALID_ARGUMENT);
  CHECK(says("aligned to 256"));
  CHECK(launched(s.workspace, s.bytes - 1) == MOETUNE_OUT_OF_MEMORY);
  CHECK(says("needs " + std::to_string(s.bytes)));
  CHECK(launched(s.workspace, 0) == MOETUNE_OUT_OF_MEMORY);
  moetune_runtime* const runtime = s.opened->runtime();
  constexpr std::size_t kCounters = MOETUNE_WORKSPACE_COUNTERS;
  std::fill_n(s.workspace, kCounters + 1, '\1');
  for (const int apart : {1, 128})
    CHECK(moetune_workspace_init(runtime, s.workspace + apart, s.bytes, nullptr) == MOETUNE_INVALID_ARGUMENT);
  CHECK(moetune_workspace_init(runtime, s.workspace, kCounters - 1, nullptr) == MOETUNE_OUT_OF_MEMORY);
  CHECK(says(std::to_string(kCounters - 1) + " bytes"));
  CHECK(std::count(s.workspace, s.workspace + kCounters + 1, '\1') == kCounters + 1);
  CHECK_OK(moetune_workspace_init(runtime, s.workspace, kCounters, nullptr));
  CHECK(std::count(s.workspace, s.workspace + kCounters, '\0') == kCounters);
  CHECK(s.workspace[kCounters] == '\1');
  CHECK_OK(launched(s.workspace, s.bytes));
  CHECK(launched(s.workspace, s.bytes - 1) == MOETUNE_OUT_OF_MEMORY);  // a bound launch, too
}

TEST_CASE("a text that has nowhere to go leaves the size as it was") {
  const Server server;
  std::size_t needed = 777;
  CHECK(moetune_explain(server.family, &server.choice, nullptr, 10, &needed) == MOETUNE_INVALID_ARGUMENT);
  CHECK(needed == 777);
  CHECK(moetune_warnings(server.opened->runtime(), nullptr, 10, &needed) == MOETUNE_INVALID_ARGUMENT);
  CHECK(needed == 777);
}

TEST_CASE("files that are not what they seem: a sentence each, and the others serve") {
  const Folder folder;
  store(folder / "good.db", {{kProblem}});
  export_pack(Cache::open(folder / "good.db", Cache::Mode::read_only), folder / "good.pack", {});
  const fs::path bad = folder / "bad.db", bad_pack = folder / "bad.pack";
  const auto altered = [&](const fs::path& from, const fs::path& to, const char* sql) {
    fs::copy_file(from, to, fs::copy_options::overwrite_existing);
    Database(to, Database::Access::read_write, std::chrono::seconds(5)).execute(sql);
    return to;
  };
  const auto written = [&](const fs::path& file, const std::string& bytes) {
    std::ofstream(file, std::ios::binary) << bytes;
    return file;
  };
  fs::create_directory(folder / "empty");
  fs::create_symlink(folder / "nowhere", folder / "dangling.db");
  std::string half(fs::file_size(folder / "good.pack") / 2, '\0');
  std::ifstream(folder / "good.pack", std::ios::binary).read(half.data(), std::ssize(half));
  const std::pair<fs::path, const char*> cases[] = {
      {altered(folder / "good.db", folder / "newer.db", "PRAGMA user_version = 99"), "of a newer moetune"},
      {altered(folder / "good.pack", folder / "newer.pack", "PRAGMA user_version = 99"), "of a newer moetune"},
      {altered(folder / "good.db", folder / "other.db", "PRAGMA application_id = 7"), "another application's"},
      {altered(folder / "good.db", folder / "altered.db", "DROP TABLE winners"), "winners is missing"},
      {written(folder / "half.pack", half), "half.pack"},
      {written(folder / "text.db", std::string(20'000, 'x')), "no SQLite database"},
      {written(folder / "short.db", "x"), "no SQLite database"},
      {written(folder / "none.db", ""), "none.db"},
      {folder / "dangling.db", "dangling.db"},
      {folder / "absent.pack", "there is no cache at"},
      {fs::path(), "a cache needs the path of a file"},
      {fs::path("/dev/zero"), "not a regular file"}};
  for (const auto& [file, words] : cases) {
    CAPTURE(file.string());
    moetune_runtime* runtime = nullptr;
    CHECK(open_status({file}, runtime) == MOETUNE_BAD_FILE);
    CHECK(says(words));
    CHECK(runtime == nullptr);
    const Opened both({file, folder / "good.db"});
    CHECK(both.warnings().find(words) != std::string::npos);
    CHECK(both.family(kFamily) != nullptr);
  }
  for (const auto& [file, words] : cases) refuse_without_locks(folder, file, words);
  moetune_runtime* runtime = nullptr;
  CHECK(open_status({folder / "empty"}, runtime) == MOETUNE_NOT_TUNED);
  CHECK(says("no cache and no pack"));
}

TEST_CASE("a pack by another name is no cache for those who trust keys, with and without locks") {
  const Folder folder;
  store(folder / "good.db", {{kProblem}});
  export_pack(Cache::open(folder / "good.db", Cache::Mode::read_only), folder / "pack.db", {});
  const TrustedKeys nobody, somebody({std::string(64, '1')});
  for (const std::chrono::milliseconds age : {0ms, 3'600'000ms}) {
    CHECK_NOTHROW(Layers({folder / "pack.db"}, nobody, age));
    CHECK_THROWS_WITH_AS(Layers({folder / "pack.db"}, somebody, age), doctest::Contains("a pack by another name"),
                         BrokenEnvironment);
  }
}

TEST_CASE("a cache that a tuner is writing to serves what was committed") {
  const Folder folder;
  store(folder / "cache.db", {{kProblem}});
  Cache writer = Cache::open(folder / "cache.db", Cache::Mode::read_write);
  const Database tuner(folder / "cache.db", Database::Access::read_write, std::chrono::seconds(5));
  tuner.execute("BEGIN IMMEDIATE; UPDATE winners SET time_us = 1; UPDATE winners SET digest = 'half'");
  const Opened opened({folder / "cache.db"});
  moetune_family* const family = opened.family(kFamily);
  const std::int64_t extents[] = {2, 1, 64};
  moetune_choice choice;
  REQUIRE_OK(moetune_pick(family, extents, 3, 0, &choice));
  CHECK(opened.explain(family, choice)["time_us"] == 10);
  CHECK_OK(moetune_refresh(opened.runtime(), nullptr));
  tuner.execute("ROLLBACK");
}

}  // namespace moetune::bad_calls_test

// What a careless server may pass: a status and a sentence, never a crash, and the next good call works.
#include <doctest/doctest.h>

#include <cmath>
#include <fstream>
#include <limits>

#include "cache/file/database.h"
#include "cache/pack.h"
#include "runtime/dlpack.h"
#include "runtime/runtime_error.h"
#include "tests/cache/support.h"
#include "tests/runtime/decode_tensors.h"
#include "tests/runtime/fake_cache.h"
#include "tests/runtime/opened.h"

namespace moetune::bad_input_test {
using namespace testing;

namespace {

constexpr const char* kProblem = "batch=2,q_heads=4,kv_heads=1,head_dim=64,context=64,page=16";
constexpr const char* kFamily = "group=4,head_dim=64,page=16";

struct Served {
  Served() : tensors(kProblem) {
    store(folder / "cache.db", {{kProblem}});
    opened = std::make_unique<Opened>(std::vector{folder / "cache.db"});
    family = opened->family(kFamily);
    REQUIRE(bind() == MOETUNE_OK);
    REQUIRE_OK(moetune_pick(family, extents, count, 0, &choice));
  }
  moetune_status bind(const char* options = nullptr) {
    return moetune_bind(family, tensors.tensors().data(), tensors.tensors().size(), options, &arguments, extents,
                        &count);
  }
  moetune_status launch(const moetune_arguments& given) {
    return moetune_launch(family, &choice, &given, nullptr, 0, nullptr);
  }

  const Folder folder;
  DecodeTensors tensors;
  std::unique_ptr<Opened> opened;
  moetune_family* family = nullptr;
  moetune_arguments arguments{};
  std::int64_t extents[MOETUNE_MAX_EXTENTS]{};
  std::size_t count = 0;
  moetune_choice choice{};
};

}  // namespace

TEST_CASE("null handles and pointers") {
  Served s;
  std::size_t size = 0;
  moetune_family* family = nullptr;
  CHECK(moetune_open(nullptr, nullptr) == MOETUNE_INVALID_ARGUMENT);
  CHECK(moetune_family_open(nullptr, "decode_attention", "", &family) == MOETUNE_INVALID_ARGUMENT);
  CHECK(moetune_family_open(s.opened->runtime(), nullptr, "", &family) == MOETUNE_INVALID_ARGUMENT);
  CHECK(moetune_family_open(s.opened->runtime(), "decode_attentio", "", &family) == MOETUNE_UNKNOWN_NAME);
  CHECK(moetune_family_open(s.opened->runtime(), "decode_attention", kFamily, nullptr) == MOETUNE_INVALID_ARGUMENT);
  CHECK(moetune_pick(nullptr, s.extents, 3, 0, &s.choice) == MOETUNE_INVALID_ARGUMENT);
  CHECK(moetune_pick(s.family, nullptr, 3, 0, &s.choice) == MOETUNE_INVALID_ARGUMENT);
  CHECK(moetune_pick(s.family, s.extents, 3, 0, nullptr) == MOETUNE_INVALID_ARGUMENT);
  CHECK(moetune_pick_range(s.family, s.extents, 3, 100, 0, nullptr) == MOETUNE_INVALID_ARGUMENT);
  CHECK(moetune_launch(s.family, nullptr, &s.arguments, nullptr, 0, nullptr) == MOETUNE_INVALID_ARGUMENT);
  CHECK(moetune_launch(s.family, &s.choice, nullptr, nullptr, 0, nullptr) == MOETUNE_INVALID_ARGUMENT);
  CHECK(moetune_bind(s.family, nullptr, 6, nullptr, &s.arguments, s.extents, &s.count) == MOETUNE_INVALID_ARGUMENT);
  moetune_arguments untouched = s.arguments;
  untouched.reals[0] = 77;
  CHECK(moetune_bind(s.family, s.tensors.tensors().data(), s.tensors.tensors().size(), nullptr, &untouched, s.extents,
                     nullptr) == MOETUNE_INVALID_ARGUMENT);
  CHECK(untouched.reals[0] == 77);
  CHECK(moetune_choice_workspace(s.family, nullptr, &size) == MOETUNE_INVALID_ARGUMENT);
  CHECK(moetune_family_workspace(s.family, nullptr, 3, &size) == MOETUNE_INVALID_ARGUMENT);
  CHECK(moetune_workspace_init(s.opened->runtime(), nullptr, 1 << 20, nullptr) == MOETUNE_INVALID_ARGUMENT);
  CHECK(moetune_generation(s.opened->runtime(), nullptr) == MOETUNE_INVALID_ARGUMENT);
  CHECK(moetune_count(s.opened->runtime(), nullptr) == MOETUNE_INVALID_ARGUMENT);
  CHECK(moetune_write_misses(s.opened->runtime(), nullptr) == MOETUNE_INVALID_ARGUMENT);
  moetune_close(nullptr);
  CHECK(s.launch(s.arguments) == MOETUNE_OK);
}

TEST_CASE("a tensor that the family does not have is named, not dropped") {
  Served s;
  std::vector<const DLTensor*> given = s.tensors.tensors();
  REQUIRE(given.size() > MOETUNE_DECODE_O);
  given.resize(MOETUNE_DECODE_LSE + 1);
  given[MOETUNE_DECODE_LSE] = given[MOETUNE_DECODE_O];
  CHECK(moetune_bind(s.family, given.data(), given.size(), nullptr, &s.arguments, s.extents, &s.count) ==
        MOETUNE_INVALID_ARGUMENT);
  CHECK(says("tensor 'lse' is none of this family's"));
}

TEST_CASE("memory that is no handle") {
  alignas(64) unsigned char zeros[4096] = {};
  moetune_choice choice{};
  const std::int64_t extents[] = {1, 1, 1};
  CHECK(moetune_pick(reinterpret_cast<moetune_family*>(zeros), extents, 3, 0, &choice) == MOETUNE_INVALID_ARGUMENT);
  CHECK(moetune_refresh(reinterpret_cast<moetune_runtime*>(zeros), "") == MOETUNE_INVALID_ARGUMENT);
}

TEST_CASE("extents that no problem has") {
  Served s;
  const std::int64_t most = std::numeric_limits<std::int64_t>::max();
  for (const auto& bad : {std::array<std::int64_t, 3>{0, 1, 64},
                          {2, -1, 64},
                          {2, 1, most},
                          {most, most, most},
                          {std::numeric_limits<std::int64_t>::min(), 1, 1}}) {
    CHECK(moetune_pick(s.family, bad.data(), 3, 0, &s.choice) == MOETUNE_INVALID_ARGUMENT);
    std::size_t bytes = 0;
    CHECK(moetune_family_workspace(s.family, bad.data(), 3, &bytes) == MOETUNE_INVALID_ARGUMENT);
  }
  CHECK(moetune_pick(s.family, s.extents, 2, 0, &s.choice) == MOETUNE_INVALID_ARGUMENT);
  CHECK(says("3 free dimensions, not 2"));
  CHECK(moetune_pick_range(s.family, s.extents, 3, most, 0, &s.choice) == MOETUNE_INVALID_ARGUMENT);
  CHECK(moetune_pick(s.family, s.extents, 3, -1, &s.choice) == MOETUNE_INVALID_ARGUMENT);
}

TEST_CASE("a choice that no pick returned") {
  Served s;
  for (const moetune_choice& bad : {moetune_choice{99, 0, {2, 1, 64, 0}}, moetune_choice{0, 77, {2, 1, 64, 0}},
                                    moetune_choice{0, 0, {0, 0, 0, 0}}, moetune_choice{0xFFFFFFFF, 0, {2, 1, 64, 0}}}) {
    CHECK(moetune_launch(s.family, &bad, &s.arguments, nullptr, 0, nullptr) != MOETUNE_OK);
    std::size_t bytes = 0;
    CHECK(moetune_choice_workspace(s.family, &bad, &bytes) != MOETUNE_OK);
  }
}

TEST_CASE("a dimension is from 0 to 2^40, wherever it is, with strides or without") {
  float data = 0;
  const std::int64_t strides[] = {1, 1, 1};
  for (const std::int64_t* given : {static_cast<const std::int64_t*>(nullptr), strides}) {
    for (std::size_t place = 0; place < 3; ++place) {
      for (const std::int64_t size : {INT64_MIN, std::int64_t{-1}, std::int64_t{0}, std::int64_t{1} << 40,
                                      (std::int64_t{1} << 40) + 1, INT64_MAX}) {
        CAPTURE(size);
        std::int64_t shape[] = {1, 1, 1};
        shape[place] = size;
        DLTensor tensor{};
        tensor.data = &data;
        tensor.device_type = 2;
        tensor.ndim = 3;
        tensor.code = 2;
        tensor.bits = 32;
        tensor.lanes = 1;
        tensor.shape = shape;
        tensor.strides = given;
        if (size >= 0 && size <= std::int64_t{1} << 40)
          CHECK(view_tensor(tensor, "x").view.shape[place] == size);
        else
          CHECK_THROWS_WITH_AS(view_tensor(tensor, "x"), doctest::Contains("it can be from 0 to 2^40"), RuntimeError);
      }
    }
  }
}

TEST_CASE("tensors that the kernel cannot take") {
  Served s;
  const auto bound = [&](int slot, auto change) {
    const DLTensor before = s.tensors.tensor(slot);
    change(s.tensors.tensor(slot));
    const moetune_status status = s.bind();
    s.tensors.tensor(slot) = before;
    return status;
  };
  CHECK(bound(MOETUNE_DECODE_Q, [](DLTensor& t) { t.device_type = 1; }) == MOETUNE_WRONG_DEVICE);
  CHECK(bound(MOETUNE_DECODE_K, [](DLTensor& t) { t.device_id = 1; }) == MOETUNE_WRONG_DEVICE);
  CHECK(bound(MOETUNE_DECODE_Q, [](DLTensor& t) { t.code = 2; }) == MOETUNE_INVALID_ARGUMENT);  // f16
  CHECK(says("'q'"));
  CHECK(bound(MOETUNE_DECODE_PAGE_TABLE, [](DLTensor& t) { t.bits = 64; }) == MOETUNE_INVALID_ARGUMENT);
  CHECK(bound(MOETUNE_DECODE_Q, [](DLTensor& t) { t.lanes = 2; }) == MOETUNE_INVALID_ARGUMENT);
  CHECK(bound(MOETUNE_DECODE_Q, [](DLTensor& t) { t.ndim = 9; }) == MOETUNE_INVALID_ARGUMENT);
  CHECK(bound(MOETUNE_DECODE_Q, [](DLTensor& t) { t.ndim = -1; }) == MOETUNE_INVALID_ARGUMENT);
  static const std::int64_t odd[] = {1, 3, 5, 7}, narrow[] = {2, 1};
  CHECK(bound(MOETUNE_DECODE_K, [](DLTensor& t) { t.strides = odd; }) == MOETUNE_INVALID_ARGUMENT);
  static const std::int64_t far[] = {1, INT64_MAX / 2, 1};
  CHECK(bound(MOETUNE_DECODE_Q, [](DLTensor& t) { t.strides = far; }) == MOETUNE_INVALID_ARGUMENT);
  CHECK(says("has a stride of 4611686018427387903"));
  CHECK(bound(MOETUNE_DECODE_Q, [](DLTensor& t) { t.byte_offset = UINT64_MAX; }) == MOETUNE_INVALID_ARGUMENT);
  CHECK(says("begins 18446744073709551615 bytes from its address"));
  CHECK(s.bind("scale=nan") == MOETUNE_INVALID_ARGUMENT);
  CHECK(s.bind("layout=sideways") == MOETUNE_INVALID_ARGUMENT);
  CHECK(s.bind("speed=9") == MOETUNE_INVALID_ARGUMENT);
  CHECK(s.bind("kv_settled=2") == MOETUNE_INVALID_ARGUMENT);
  CHECK(says("known are layout=heads_first, layout=tokens_first, scale=NUMBER, kv_settled=0 and kv_settled=1"));

  // A page table with room for 16 tokens, launched with a choice for 64.
  CHECK(bound(MOETUNE_DECODE_PAGE_TABLE, [](DLTensor& t) { t.shape = narrow; }) == MOETUNE_OK);
  CHECK(s.extents[2] == 16);
  CHECK(s.launch(s.arguments) == MOETUNE_INVALID_ARGUMENT);
  REQUIRE(s.bind() == MOETUNE_OK);
  CHECK(s.launch(s.arguments) == MOETUNE_OK);
}

TEST_CASE("arguments by hand that the kernel cannot take") {
  Served s;
  const auto launched = [&](auto change) {
    moetune_arguments given = s.arguments;
    change(given);
    return s.launch(given);
  };
  for (const int slot : {MOETUNE_DECODE_Q, MOETUNE_DECODE_K, MOETUNE_DECODE_V, MOETUNE_DECODE_PAGE_TABLE,
                         MOETUNE_DECODE_LENGTHS, MOETUNE_DECODE_O}) {
    CAPTURE(slot);
    CHECK(launched([&](moetune_arguments& a) { a.tensors[slot] = nullptr; }) == MOETUNE_INVALID_ARGUMENT);
    const bool is_integer = slot == MOETUNE_DECODE_PAGE_TABLE || slot == MOETUNE_DECODE_LENGTHS;
    for (const int apart : {1, 2, is_integer ? 2 : 8})
      CHECK(launched([&](moetune_arguments& a) { a.tensors[slot] = static_cast<char*>(a.tensors[slot]) + apart; }) ==
            MOETUNE_INVALID_ARGUMENT);
  }
  for (int field = 0; field <= MOETUNE_DECODE_KV_SETTLED; ++field) {
    CAPTURE(field);
    CHECK(launched([&](moetune_arguments& a) { a.integers[field] = -1; }) != MOETUNE_OK);
    launched([&](moetune_arguments& a) { a.integers[field] = std::numeric_limits<std::int64_t>::max(); });
    launched([&](moetune_arguments& a) { a.integers[field] = std::numeric_limits<std::int64_t>::min(); });
  }
  for (const double scale : {std::nan(""), std::numeric_limits<double>::infinity(), 1e300})
    CHECK(launched([&](moetune_arguments& a) { a.reals[0] = scale; }) == MOETUNE_INVALID_ARGUMENT);
  CHECK(s.launch(s.arguments) == MOETUNE_OK);
}

TEST_CASE("names that nothing has") {
  Served s;
  moetune_family* family = nullptr;
  moetune_runtime* const runtime = s.opened->runtime();
  CHECK(moetune_family_open(runtime, "decode_atention", kFamily, &family) != MOETUNE_OK);
  CHECK(says("decode_attention"));  // the nearest name
  for (const char* pin : {"decode_atention:tile=64", ":", ":tile=64", "decode_attention:", "decode_attention"}) {
    CAPTURE(pin);
    ::setenv("MOETUNE_PIN", pin, 1);
    const std::string path = (s.folder / "cache.db").string();
    const char* const paths[] = {path.c_str()};
    const moetune_open_options options{sizeof options, paths, 1, 0, 0};
    moetune_runtime* pinned = nullptr;
    CHECK(moetune_open(&options, &pinned) != MOETUNE_OK);
    CHECK(says("MOETUNE_PIN"));
    CHECK(pinned == nullptr);
  }
  // Of a stored cubin, but with values that it cannot run with; no configuration at all.
  std::string resident = plain_config();
  resident.replace(resident.find("residents=0"), 11, "residents=2");
  for (const std::string& pin : {resident, std::string("tile=64"), plain_config() + ",tile=64"}) {
    CAPTURE(pin);
    ::setenv("MOETUNE_PIN", ("decode_attention:" + pin).c_str(), 1);
    const Opened pinned({s.folder / "cache.db"});
    CHECK(moetune_family_open(pinned.runtime(), "decode_attention", kFamily, &family) == MOETUNE_INVALID_ARGUMENT);
    CHECK(says("MOETUNE_PIN: "));
  }
  ::unsetenv("MOETUNE_PIN");
  for (const char* text : {"group", "group=", "=4", "group=4,group=4", "grup=4", "head_dim=65", "batch=4", "dtype=i7",
                           "group=99999999999999999999", "group=4,,page=16", ",", "group=-4", "page=17"}) {
    CAPTURE(text);
    CHECK(moetune_family_open(runtime, "decode_attention", text, &family) != MOETUNE_OK);
    CHECK(std::string(moetune_last_error()).size() > 10);
  }
  for (const auto& [text, words] :
       {std::pair{"batch=3", "'batch' is a free dimension of decode_attention"},
        {"group=4,head_dim=64,context=100", "'context' is a free dimension of decode_attention"},
        {"grup=4", "unknown dimension of decode_attention 'grup'; did you mean 'group'?"}}) {
    CAPTURE(text);
    CHECK(moetune_family_open(runtime, "decode_attention", text, &family) == MOETUNE_INVALID_ARGUMENT);
    CHECK(says(words));
  }
  const std::string long_text(1 << 20, 'x');
  CHECK(moetune_family_open(runtime, "decode_attention", long_text.c_str(), &family) != MOETUNE_OK);
  CHECK(moetune_family_open(runtime, long_text.c_str(), "", &family) != MOETUNE_OK);
  CHECK(std::string(moetune_last_error()).size() < 4096);
  CHECK(family == nullptr);
}

TEST_CASE("files that vanish or are broken while they serve") {
  Served s;
  const std::string before = s.opened->generation();
  std::filesystem::remove(s.folder / "cache.db");
  CHECK(moetune_refresh(s.opened->runtime(), nullptr) == MOETUNE_BAD_FILE);
  CHECK(s.opened->generation() == before);
  CHECK(s.launch(s.arguments) == MOETUNE_OK);
  std::ofstream(s.folder / "cache.db") << std::string(10'000, 'x');
  CHECK(moetune_refresh(s.opened->runtime(), nullptr) == MOETUNE_BAD_FILE);
  CHECK(s.opened->generation() == before);
  CHECK(s.launch(s.arguments) == MOETUNE_OK);
  std::filesystem::remove(s.folder / "cache.db");
  store(s.folder / "cache.db", {{"batch=2,q_heads=4,kv_heads=1,head_dim=128,context=64,page=16"}});
  CHECK_OK(moetune_refresh(s.opened->runtime(), nullptr));  // of another family alone: what was loaded serves
  CHECK(s.opened->warnings().find("nothing is tuned for decode_attention") != std::string::npos);
  CHECK(s.launch(s.arguments) == MOETUNE_OK);
}

TEST_CASE("a pack serves below a cache, and one that was altered or is of a newer moetune leaves the cache alone") {
  const Folder folder;
  store(folder / "packed.db", {{kProblem}, {"batch=2,q_heads=4,kv_heads=1,head_dim=64,context=512,page=16"}});
  export_pack(Cache::open(folder / "packed.db", Cache::Mode::read_only), folder / "a.pack", {});
  {
    const Opened opened({folder / "a.pack"});
    CHECK(opened.family(kFamily) != nullptr);
    CHECK(opened.warnings().size() <= 1);
  }
  store(folder / "cache.db", {{kProblem}});
  for (const char* change :
       {"DELETE FROM winners WHERE workload = 2", "UPDATE winners SET time_us = 1", "DELETE FROM pack",
        "UPDATE pack SET manifest = replace(manifest, ':1', ':9'), digest = 'x'"}) {
    CAPTURE(change);
    std::filesystem::copy_file(folder / "a.pack", folder / "b.pack", std::filesystem::copy_options::overwrite_existing);
    Database(folder / "b.pack", Database::Access::read_write, std::chrono::seconds(5)).execute(change);
    const Opened opened({folder / "cache.db", folder / "b.pack"});
    CHECK(opened.family(kFamily) != nullptr);
    CHECK(opened.warnings().find("b.pack") != std::string::npos);
    const Opened alone({folder / "cache.db"});
    CHECK(alone.family(kFamily) != nullptr);
    CHECK(alone.generation() == opened.generation());
    const Opened above({folder / "b.pack", folder / "cache.db"});
    CHECK(above.family(kFamily) != nullptr);
    CHECK(above.generation() == alone.generation());
  }
}

TEST_CASE("files on a read-only disk serve, and are read again by a refresh") {
  const Folder folder;
  const auto outcome = cache_test::on_small_disk(folder / "disk", 32 << 20, [&]() -> std::string {
    const std::filesystem::path file = folder / "disk/cache.db";
    store(file, {{kProblem}});
    if (!cache_test::make_read_only(folder / "disk")) return "cannot remount";
    const Opened opened({file});
    moetune_family* const family = opened.family(kFamily);
    const std::int64_t extents[] = {2, 1, 64};
    moetune_choice choice;
    if (moetune_pick(family, extents, 3, 0, &choice) != MOETUNE_OK) return moetune_last_error();
    if (moetune_refresh(opened.runtime(), nullptr) != MOETUNE_OK) return moetune_last_error();
    const std::string misses = (folder / "disk/misses.json").string();
    if (moetune_write_misses(opened.runtime(), misses.c_str()) == MOETUNE_OK)
      return "misses are written to a disk that is read-only";
    return says("Read-only file system") ? "" : moetune_last_error();
  });
  if (outcome) {
    CHECK(*outcome == "");
  } else {
    MESSAGE("skipped: this machine does not let a test mount a tmpfs");
  }
}

TEST_CASE("an empty pack is said to be one, not a cache to search into") {
  const Folder folder;
  store(folder / "cache.db", {{kProblem}});
  std::ofstream(folder / "empty.pack").flush();
  const Opened opened({folder / "empty.pack", folder / "cache.db"});
  CHECK(opened.warnings().find("empty.pack is empty; it was not copied whole") != std::string::npos);
  CHECK(opened.warnings().find("writing") == std::string::npos);
  CHECK(opened.family(kFamily) != nullptr);
}

TEST_CASE("devices that there are not") {
  const Folder folder;
  store(folder / "cache.db", {{kProblem}});
  const std::string path = (folder / "cache.db").string();
  const char* const paths[] = {path.c_str()};
  moetune_runtime* runtime = nullptr;
  for (const std::int32_t device : {-2, -7, INT32_MIN, 2, 99, INT32_MAX}) {
    CAPTURE(device);
    const moetune_open_options options{sizeof options, paths, 1, device, 0};
    CHECK(moetune_open(&options, &runtime) == MOETUNE_WRONG_DEVICE);
    CHECK(says("there is no device " + std::to_string(device)));
    CHECK(runtime == nullptr);
  }
  for (const std::int32_t device : {0, 1}) {  // the cache is of the first
    const moetune_open_options options{sizeof options, paths, 1, device, 0};
    moetune_family* family = nullptr;
    moetune_choice choice;
    const std::int64_t extents[] = {2, 1, 64};
    std::string text(4096, '\0');
    REQUIRE_OK(moetune_open(&options, &runtime));
    REQUIRE_OK(moetune_family_open(runtime, "decode_attention", kFamily, &family));
    REQUIRE_OK(moetune_pick(family, extents, 3, 0, &choice));
    REQUIRE_OK(moetune_explain(family, &choice, text.data(), text.size(), nullptr));
    CHECK(nlohmann::json::parse(text.c_str())["inherited"] == (device == 1));
    moetune_close(runtime);
  }
}

}  // namespace moetune::bad_input_test

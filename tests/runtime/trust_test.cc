// Trusted keys: which packs a server loads, and that what it loads is what was verified.
#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "base/regular_file.h"
#include "base/replace_file.h"
#include "cache/pack.h"
#include "cache/pack_signature.h"
#include "runtime/runtime.h"
#include "tests/runtime/fake_cache.h"
#include "tests/runtime/opened.h"

namespace moetune::trust_test {
using namespace testing;

namespace {

namespace fs = std::filesystem;

constexpr const char* kShape = "batch=2,q_heads=4,kv_heads=1,head_dim=64,context=512,page=16";
constexpr const char* kShapes = "group=4,head_dim=64,page=16";

struct Packs {
  Packs() {
    make_key_files(folder / "key");
    make_key_files(folder / "other");
    make("a", 64);
    make("b", 32);
  }
  void make(const std::string& name, int tile) const {
    const fs::path source = folder / (name + "-source");
    store(source, {{kShape, plain_config(tile)}});
    export_pack(Cache::open(source, Cache::Mode::read_only), pack(name), {});
  }
  fs::path pack(const std::string& name) const { return folder / (name + ".pack"); }
  std::string bytes(const std::string& name) const { return read_regular_file(pack(name), kMostPackBytes); }
  std::string signature(const std::string& name, const std::string& key = "key") const {
    return signatures_text({sign_pack(read_secret_key(folder / key), bytes(name))});
  }
  void sign(const std::string& name, const std::string& key = "key") const {
    replace_file(signature_path(pack(name)), signature(name, key));
  }
  OpenOptions options(std::vector<fs::path> paths) const {
    fake_device();
    return {.paths = std::move(paths), .device = 0, .trusted_keys = {(folder / "key.pub").string()}};
  }

  Folder folder;
};

// The configuration that a pick gives; "" if the family is not tuned.
std::string picked(Runtime& runtime) {
  try {
    Family& family = runtime.family("decode_attention", kShapes);
    Extents extents;
    for (const std::int64_t extent : {2, 1, 512}) extents.push_back(extent);
    return family.entry(family.pick(extents, 0)).config;
  } catch (const RuntimeError& error) {
    CHECK(error.status == MOETUNE_NOT_TUNED);
    return "";
  }
}

bool warns(const Runtime& runtime, const std::string& words) {
  return runtime.warnings().find(words) != std::string::npos;
}

}  // namespace

TEST_CASE("with trusted keys only signed packs are loaded, the others are warnings") {
  const Packs packs;
  packs.sign("b");
  Runtime runtime(packs.options({packs.pack("a"), packs.pack("b")}));
  CHECK(warns(runtime, "a.pack is not signed"));
  CHECK(picked(runtime) == plain_config(32));  // b's, though a comes first
  packs.sign("a", "other");
  runtime.refresh("");
  CHECK(warns(runtime, "which is not a trusted key"));
  CHECK(picked(runtime) == plain_config(32));
  packs.sign("a");
  runtime.refresh("");
  CHECK(runtime.warnings() == "");
  CHECK(picked(runtime) == plain_config(64));
  std::string altered = packs.bytes("a");
  altered[altered.size() / 2] ^= 1;
  replace_file(packs.pack("a"), altered);
  runtime.refresh("");
  CHECK(warns(runtime, "does not match its signature"));
  CHECK(picked(runtime) == plain_config(32));
}

TEST_CASE("nothing trusted is nothing opened") {
  const Packs packs;
  CHECK_THROWS_AS(Runtime(packs.options({packs.pack("a")})), BrokenEnvironment);
  packs.sign("a");
  Runtime runtime(packs.options({packs.pack("a")}));
  CHECK(picked(runtime) == plain_config(64));
  OpenOptions wrong = packs.options({packs.pack("a")});
  wrong.trusted_keys = {(packs.folder / "absent.pub").string()};
  CHECK_THROWS_AS(Runtime{wrong}, BadInput);
}

TEST_CASE("a pack by another name, and a folder's cache, are no way around") {
  const Packs packs;
  fs::create_directory(packs.folder / "folder");
  packs.sign("b");
  fs::copy_file(packs.pack("b"), packs.folder / "folder" / "b.pack");
  fs::copy_file(signature_path(packs.pack("b")), packs.folder / "folder" / "b.pack.sig");
  fs::copy_file(packs.pack("a"), packs.folder / "folder" / "a.db");
  store(packs.folder / "folder" / "0.db", {{kShape, plain_config(64)}});
  Runtime runtime(packs.options({packs.folder / "folder"}));
  CHECK(picked(runtime) == plain_config(32));
  CHECK(warns(runtime, "0.db is left out: trusted keys are given"));
  CHECK(warns(runtime, "a.db is left out"));
  Runtime named(packs.options({packs.folder / "folder" / "a.db", packs.pack("b")}));
  CHECK(warns(named, "is a pack by another name"));
  CHECK(picked(named) == plain_config(32));
  Runtime own(packs.options({packs.folder / "folder" / "0.db", packs.pack("b")}));  // the user's own cache
  CHECK(picked(own) == plain_config(64));
}

TEST_CASE("the environment gives keys as well, and a wrong one opens nothing") {
  const Packs packs;
  packs.sign("b");
  OpenOptions options = packs.options({packs.pack("a"), packs.pack("b")});
  options.trusted_keys.clear();
  const std::string keys = (packs.folder / "other.pub").string() + ":" + (packs.folder / "key.pub").string();
  ::setenv("MOETUNE_TRUSTED_KEYS", keys.c_str(), 1);
  Runtime runtime(options);
  CHECK(picked(runtime) == plain_config(32));
  ::setenv("MOETUNE_TRUSTED_KEYS", "no such file", 1);
  CHECK_THROWS_AS(Runtime{options}, BadInput);
  for (const char* none : {":", "::", " ", " : "}) {
    ::setenv("MOETUNE_TRUSTED_KEYS", none, 1);
    CHECK_THROWS_WITH_AS(Runtime{options}, doctest::Contains("names no key"), BadInput);
  }
  ::setenv("MOETUNE_TRUSTED_KEYS", "", 1);
  Runtime all(options);
  CHECK(picked(all) == plain_config(64));
  ::unsetenv("MOETUNE_TRUSTED_KEYS");
}

TEST_CASE("the C interface takes keys, and a caller that was built before there were any") {
  const Packs packs;
  packs.sign("b");
  const std::string path = packs.pack("a").string(), signed_path = packs.pack("b").string();
  const char* const paths[] = {path.c_str(), signed_path.c_str()};
  const std::string key = (packs.folder / "key.pub").string();
  const char* const keys[] = {key.c_str()};
  fake_device();
  moetune_open_options options{sizeof options, paths, 2, 0, 0, keys, 1};
  moetune_runtime* runtime = nullptr;
  REQUIRE_OK(moetune_open(&options, &runtime));
  char text[1000];
  REQUIRE_OK(moetune_warnings(runtime, text, sizeof text, nullptr));
  CHECK(std::string(text).find("a.pack is not signed") != std::string::npos);
  moetune_close(runtime);
  options.size = offsetof(moetune_open_options, trusted_keys);
  REQUIRE_OK(moetune_open(&options, &runtime));
  REQUIRE_OK(moetune_warnings(runtime, text, sizeof text, nullptr));
  CHECK(std::string(text).empty());
  moetune_close(runtime);
  options.size = sizeof options - 1;
  CHECK(moetune_open(&options, &runtime) == MOETUNE_INVALID_ARGUMENT);
  options.size = sizeof options;
  options.trusted_keys = nullptr;
  CHECK(moetune_open(&options, &runtime) == MOETUNE_INVALID_ARGUMENT);
  CHECK(says("options.trusted_keys is null"));
}

TEST_CASE("while packs are replaced, every refresh finds a pack that is signed") {
  const Packs packs;
  const std::string contents[] = {packs.bytes("a"), packs.bytes("b")};
  const std::string signatures[] = {packs.signature("a"), packs.signature("b")};
  packs.sign("a");
  Runtime runtime(packs.options({packs.pack("a")}));
  std::atomic<bool> ending{false};
  std::thread installer([&] {  // as sync does: both signatures, the pack, its own signature
    for (int i = 1; !ending; ++i) {
      const std::string head = "moetune signature 1\n";
      replace_file(signature_path(packs.pack("a")), signatures[i % 2] + signatures[1 - i % 2].substr(head.size()));
      replace_file(packs.pack("a"), contents[i % 2]);
      replace_file(signature_path(packs.pack("a")), signatures[i % 2]);
    }
  });
  std::string refused;
  for (int i = 0; i < 200; ++i) {
    try {
      runtime.refresh("");
    } catch (const BrokenEnvironment& error) {
      refused = error.what();
    }
  }
  ending = true;
  installer.join();
  CHECK(refused == "");
}

}  // namespace moetune::trust_test

// A user's kernel in a pack: its kernel.json travels there, and a server without its folder launches it.
#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>

#include "base/replace_file.h"
#include "cache/pack.h"
#include "kernels/registry.h"
#include "tests/runtime/fake_cache.h"
#include "tests/runtime/opened.h"

namespace moetune::packed_kernel_test {
using namespace testing;

namespace {

namespace fs = std::filesystem;

// The scripted driver's "double" writes y = 2 x.
std::string description(const std::string& name, const std::string& arguments = R"("x", "y", {"i64": "n"})") {
  return R"({"kernel": ")" + name + R"json(", "source": "a.cu",
 "problem": [{"name": "n", "default": 64, "range": [1, 4096], "free": true}, {"name": "kind", "choices": ["plain", "odd"]}],
 "tensors": [{"name": "x", "dtype": "f32", "shape": ["n"]},
             {"name": "y", "dtype": "f32", "shape": ["n"], "role": "output", "check": "exact"}],
 "parameters": [{"name": "threads", "values": [32, 64]}], "defaults": [{"config": {"threads": 32}}],
 "launches": [{"entry": "double", "grid": "ceil_div(n, threads)", "block": "threads", "arguments": [)json" +
         arguments + R"(]}],
 "reference": {"config": "threads=32"}})";
}

// A pack of one winner of such a kernel, whose folder no longer counts afterwards.
fs::path packed(const Folder& folder, const std::string& name, const std::string& text) {
  const fs::path own = folder / name, source = folder / (name + ".db"), pack = folder / (name + ".pack");
  fs::create_directories(own);
  replace_file(own / "kernel.json", text);
  replace_file(own / "a.cu", "");
  ::setenv("MOETUNE_KERNELS", own.c_str(), 1);
  FakeWinner winner{"n=64", ""};
  winner.kernel = name;
  store(source, {winner});
  export_pack(Cache::open(source, Cache::Mode::read_only), pack, {.description = own_description});
  ::unsetenv("MOETUNE_KERNELS");
  fs::remove_all(own);
  return pack;
}

// dlpack.h's layout.
struct Tensor {
  void* data;
  std::int32_t device_type = 2, device_id = 0, ndim = 1;
  std::uint8_t code = 2, bits = 32;
  std::uint16_t lanes = 1;
  const std::int64_t* shape;
  const std::int64_t* strides = nullptr;
  std::uint64_t byte_offset = 0;
};

}  // namespace

TEST_CASE("a pack's kernel is launched without its folder") {
  const Folder folder;
  const fs::path pack = packed(folder, "packed_double", description("packed_double"));
  moetune_shown_call shown{};
  shown.size = sizeof shown;
  CHECK(moetune_show_call("packed_double", nullptr, 0, nullptr, &shown) == MOETUNE_UNKNOWN_NAME);
  const Opened opened({pack});
  CHECK(opened.warnings().find("not used") == std::string::npos);
  alignas(16) float x[68] = {}, y[64] = {};  // x begins behind its address
  for (int i = 0; i < 64; ++i) x[4 + i] = static_cast<float>(i);
  const std::int64_t size = 64;
  Tensor of_x{.data = x, .shape = &size, .byte_offset = 16}, of_y{.data = y, .shape = &size};
  const DLTensor* tensors[] = {reinterpret_cast<const DLTensor*>(&of_x), nullptr};
  REQUIRE_OK(moetune_show_call("packed_double", tensors, 2, "kind=plain", &shown));
  CHECK(std::string(shown.specialization) == "");
  CHECK(std::string(shown.problem) == "n=64");
  CHECK(shown.slot_count == 2);
  CHECK(std::string(shown.slots[1].name) == "y");
  CHECK(shown.slots[1].role == 1);
  CHECK(shown.slots[1].shape[0] == 64);
  CHECK(shown.slots[1].dimensions[0] == 0);
  REQUIRE(shown.extent_count == 1);
  moetune_family* family = nullptr;
  REQUIRE_OK(moetune_family_open(opened.runtime(), "packed_double", shown.specialization, &family));
  moetune_choice choice;
  REQUIRE_OK(moetune_pick(family, shown.extents, 1, 0, &choice));
  tensors[1] = reinterpret_cast<const DLTensor*>(&of_y);
  moetune_arguments arguments;
  std::int64_t extents[MOETUNE_MAX_EXTENTS];
  std::size_t count = 0;
  REQUIRE_OK(moetune_bind(family, tensors, 2, shown.options, &arguments, extents, &count));
  REQUIRE_OK(moetune_launch(family, &choice, &arguments, nullptr, 0, nullptr));
  CHECK(y[63] == 126);
}

TEST_CASE("a pack made of a pack keeps the kernels that it describes") {
  const Folder folder;
  const fs::path pack = packed(folder, "packed_twice", description("packed_twice"));
  export_pack(Cache::open(pack, Cache::Mode::read_only), folder / "again.pack", {});
  const Opened opened({folder / "again.pack"});
  moetune_family* family = nullptr;
  CHECK_OK(moetune_family_open(opened.runtime(), "packed_twice", "", &family));
}

TEST_CASE("results are not used if their pack's kernel.json is not the one that is known") {
  const Folder folder, others;
  const Opened first({packed(folder, "packed_first", description("packed_first"))});
  // Another text on tuning makes no other kernel.
  std::string tuned = description("packed_first");
  tuned.insert(1, R"("doc": "doubles", )");
  CHECK(Opened({packed(others, "packed_first", tuned)}).warnings().find("not used") == std::string::npos);
  const Opened second({packed(others, "packed_first", description("packed_first", R"("y", "x", {"i64": "n"})"))});
  CHECK(second.warnings().find("the results of packed_first are not used: its kernel.json is another one") !=
        std::string::npos);
  moetune_family* family = nullptr;
  CHECK(moetune_family_open(second.runtime(), "packed_first", "", &family) == MOETUNE_NOT_TUNED);
}

TEST_CASE("what a hostile pack describes is a warning, and its other results serve") {
  const Folder folder;
  const std::string deep = std::string(100, '[') + std::string(100, ']');
  for (const auto& [name, text, why] : {std::tuple{"decode_attention", description("decode_attention"), "built-in"},
                                        {"act_mul", description("act_mul"), "built-in"},
                                        {"../outside", description("../outside"), "kernel"},
                                        {"packed_other", description("packed_x"), "must be 'packed_other'"},
                                        {"packed_deep", deep, "nested"},
                                        {"packed_no_json", std::string("{"), "parse error"},
                                        {"packed_no_object", std::string("[]"), ""},
                                        {"packed_large", std::string((1 << 20) + 1, ' '), "larger than 1 MiB"}}) {
    const std::string reason = add_packed_kernel(name, text, "a.pack");
    CHECK(reason != "");
    CHECK_MESSAGE(reason.find(why) != std::string::npos, reason);
  }
  CHECK(known_kernel("packed_other") == nullptr);
}

}  // namespace moetune::packed_kernel_test

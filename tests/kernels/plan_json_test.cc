#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "kernels/packed_integers.h"
#include "kernels/plan.h"

using moetune::BadInput;
using moetune::Buffer;
using moetune::Fill;
using moetune::pack_integers;
using moetune::Plan;
using moetune::unpack_integers;
using Json = nlohmann::json;

namespace {

Plan rich_plan() {
  Plan plan;
  plan.unit = {"templates/toy/toy.cu", {{"TILE", "64"}, {"NAME", "a \"quoted\" one"}, {"ALPHA", "1"}}};
  plan.scratch = {{"partials", std::int64_t{5} << 32, false}, {"tickets", 4, true}};
  moetune::TensorMap map{
      "k",         32, moetune::DType::f16, moetune::TensorMap::Swizzle::b128, {128, 4096, 8}, {256, 1 << 20},
      {64, 128, 1}};
  moetune::Launch first{"main_kernel", {4, 5, 6}, {128, 1, 1}, {2, 1, 1}, 230000, false, {}};
  first.arguments = {{"q", moetune::Pointer{"q", 0}},
                     {"partials", moetune::Pointer{"partials", std::int64_t{1} << 40}},
                     {"none", moetune::Pointer{}},
                     {"scale", 0.1f},
                     {"stride", std::int64_t{-2}},
                     {"count", std::int32_t{-2147483647 - 1}},
                     {"k_map", map}};
  plan.launches = {first, {"combine", {1, 1, 1}, {32, 4, 2}, {1, 1, 1}, 0, true, {}}};
  plan.memsets = {{"tickets", 0, 4, 0, 0}, {"partials", 16, 32, 255, 2}};
  return plan;
}

template <typename T>
T through_text(const T& value) {
  return Json::parse(Json(value).dump()).template get<T>();
}

Buffer through_text_with(Fill fill) {
  Buffer buffer{"page_table", moetune::DType::i32, static_cast<std::int64_t>(fill.integers.size()), {}, true,
                fill};
  return through_text(buffer);
}

}  // namespace

TEST_CASE("a plan comes back from JSON text exactly") {
  const Plan plan = rich_plan(), back = through_text(plan);
  CHECK(back.unit == plan.unit);
  REQUIRE(back.scratch.size() == 2);
  CHECK(back.scratch[0].name == "partials");
  CHECK(back.scratch[0].bytes == std::int64_t{5} << 32);
  CHECK_FALSE(back.scratch[0].zeroed);
  CHECK(back.scratch[1].zeroed);
  REQUIRE(back.launches.size() == 2);
  const moetune::Launch& first = back.launches[0];
  CHECK(first.entry == "main_kernel");
  CHECK(first.grid == moetune::Dim3{4, 5, 6});
  CHECK(first.block == moetune::Dim3{128, 1, 1});
  CHECK(first.cluster == moetune::Dim3{2, 1, 1});
  CHECK(first.dynamic_shared == 230000);
  CHECK_FALSE(first.programmatic_dependent);
  CHECK(back.launches[1].programmatic_dependent);
  CHECK(first == plan.launches[0]);
  CHECK(back.launches == plan.launches);
  CHECK(back.memsets == plan.memsets);
  CHECK(back.scratch == plan.scratch);
  CHECK(std::get<float>(first.arguments[3].value) == 0.1f);
  CHECK(Json(back) == Json(plan));
}

TEST_CASE("an empty plan comes back empty") {
  const Plan back = through_text(Plan{});
  CHECK(back.unit == moetune::CompileUnit{});
  CHECK(back.scratch.empty());
  CHECK(back.launches.empty());
}

TEST_CASE("a buffer comes back from JSON text exactly") {
  const Buffer buffer{"k",
                      moetune::DType::bf16,
                      std::int64_t{1} << 33,
                      moetune::Role::output,
                      true,
                      {Fill::Kind::normal, 0.1f, {}, {{5, 7}, {std::int64_t{1} << 32, 1}}}};
  const Buffer back = through_text(buffer);
  CHECK(back.name == "k");
  CHECK(back.dtype == moetune::DType::bf16);
  CHECK(back.elements == std::int64_t{1} << 33);
  CHECK(back.role == moetune::Role::output);
  CHECK(back.rotates);
  CHECK(back.fill.kind == Fill::Kind::normal);
  CHECK(back.fill.scale == 0.1f);
  REQUIRE(back.fill.poison.size() == 2);
  CHECK(back.fill.poison[0].begin == 5);
  CHECK(back.fill.poison[0].count == 7);
  CHECK(back.fill.poison[1].begin == std::int64_t{1} << 32);
  CHECK(back.fill.poison[1].count == 1);
}

TEST_CASE("every integer of a fill comes back, the extreme ones too") {
  Fill fill{Fill::Kind::integers, 1, {0, -1, 1, 2147483647, -2147483647 - 1, 5, 5}, {}};
  CHECK(through_text_with(fill).fill.integers == fill.integers);
  CHECK(through_text_with({Fill::Kind::integers, 1, {}, {}}).fill.integers.empty());
}

TEST_CASE("long lists are short text: a page table under 5 characters an element, a run under 2") {
  std::vector<std::int64_t> pages(20'000), run(20'000);
  for (std::size_t i = 0; i < pages.size(); ++i) {
    pages[i] = static_cast<std::int64_t>(i * 7919 % pages.size());
    run[i] = static_cast<std::int64_t>(i * 16);
  }
  CHECK(unpack_integers(pack_integers(pages)) == pages);
  CHECK(unpack_integers(pack_integers(run)) == run);
  CHECK(pack_integers(pages).size() < 5 * pages.size());
  CHECK(pack_integers(run).size() < 2 * run.size());
}

TEST_CASE("packing keeps any list of 64-bit integers") {
  const auto low = std::numeric_limits<std::int64_t>::min(), high = std::numeric_limits<std::int64_t>::max();
  for (const std::vector<std::int64_t>& list : std::vector<std::vector<std::int64_t>>{
           {}, {0}, {low}, {high, low, high}, {low, 0, high, -1, 1}, {63, 64, -64, -65, 8191, 8192}}) {
    CHECK(unpack_integers(pack_integers(list)) == list);
  }
}

TEST_CASE("packed text that pack_integers never writes is refused") {
  CHECK_THROWS_AS(unpack_integers("A!"), BadInput);
  const std::string cut = pack_integers(std::vector<std::int64_t>{1'000'000'007});
  CHECK_THROWS_WITH_AS(unpack_integers(cut.substr(0, 4)), "a packed list ends within an integer", BadInput);
  CHECK_THROWS_AS(unpack_integers(std::string(32, '/')), BadInput);
  CHECK_THROWS_AS(moetune::bytes_of_hex("abc"), BadInput);
  CHECK_THROWS_AS(moetune::bytes_of_hex("xy"), BadInput);
}

TEST_CASE("a document that is no plan says what it misses") {
  Json missing = rich_plan();
  missing.erase("launches");
  CHECK_THROWS_WITH_AS(missing.get<Plan>(), doctest::Contains("launches"), BadInput);
  Json wrong_type = rich_plan();
  wrong_type["launches"][0]["grid"] = "wide";
  CHECK_THROWS_AS(wrong_type.get<Plan>(), BadInput);
  Json wrong_swizzle = rich_plan();
  wrong_swizzle["launches"][0]["arguments"][6]["tensor_map"]["swizzle"] = "b129";
  CHECK_THROWS_WITH_AS(wrong_swizzle.get<Plan>(), doctest::Contains("did you mean 'b128'"), BadInput);
  Json earlier = rich_plan();
  earlier.erase("version");
  CHECK_THROWS_AS(earlier.get<Plan>(), BadInput);
  Json later = rich_plan();
  later["version"] = 3;
  CHECK_THROWS_WITH_AS(later.get<Plan>(), doctest::Contains("another version"), BadInput);
  CHECK_THROWS_AS(Json::array().get<Plan>(), BadInput);
  CHECK_THROWS_AS(Json("text").get<Buffer>(), BadInput);
}

TEST_CASE("lists, names and numbers past what a plan can hold are refused") {
  const auto refused = [](const auto& change) {
    Json json = rich_plan();
    change(json);
    CHECK_THROWS_AS(json.get<Plan>(), BadInput);
  };
  refused([](Json& json) {
    for (int i = 0; i < 5; ++i) json["launches"].push_back(json["launches"][0]);
  });
  refused([](Json& json) {
    for (int i = 0; i < 40; ++i) json["launches"][0]["arguments"].push_back({{"name", "x"}, {"i32", i}});
  });
  refused([](Json& json) { json["launches"][0]["entry"] = std::string(32, 'x'); });
  refused([](Json& json) { json["launches"][0]["arguments"][5]["i32"] = std::int64_t{1} << 31; });
  refused([](Json& json) { json["launches"][0]["arguments"][5]["i32"] = 0.5; });
  refused([](Json& json) { json["launches"][0]["arguments"][6]["tensor_map"]["dims"] = {1, 2, 3, 4, 5, 6}; });
}

TEST_CASE("a failed read leaves the target as it was") {
  Plan plan = rich_plan();
  Json broken = rich_plan();
  broken["launches"][1].erase("entry");
  CHECK_THROWS_AS(broken.get_to(plan), BadInput);
  CHECK(plan.launches.size() == 2);
}

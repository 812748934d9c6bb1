#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "kernels/plan.h"

using moetune::BadInput;
using moetune::Plan;
using Json = nlohmann::json;

namespace {

Plan rich_plan() {
  Plan plan;
  plan.unit = {"templates/toy/toy.cu", {{"TILE", "64"}, {"NAME", "a \"quoted\" one"}, {"ALPHA", "1"}}};
  plan.scratch = {{"partials", std::int64_t{5} << 32, false}, {"tickets", 4, true}};
  moetune::TensorMap map{
      "k", 32, moetune::DType::f16, moetune::TensorMap::Swizzle::b128, {128, 4096, 8}, {256, 1 << 20}, {64, 128, 1}};
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

TEST_CASE("a plan's text is as the library writes the document, whatever the plan") {
  Plan odd = rich_plan();
  odd.unit.source = "a \"quoted\" \\ path\n";
  odd.unit.defines.emplace_back("\x01", "\xc3\xa9");
  odd.unit.instances = {"f<float, 64>", "g"};
  for (const float value : {0.f, -0.f, 1.f, 1e-30f, 3.4e38f, -123456.78f, 0.08838834764831845f}) {
    odd.launches[0].arguments[3].value = value;
    for (const Plan& plan : {rich_plan(), Plan{}, odd}) {
      const std::string text = plan_text(plan);
      CHECK(Json::parse(text).dump() == text);
      CHECK(Json::parse(text).get<Plan>() == plan);
    }
  }
}

TEST_CASE("an empty plan comes back empty") {
  const Plan back = through_text(Plan{});
  CHECK(back.unit == moetune::CompileUnit{});
  CHECK(back.scratch.empty());
  CHECK(back.launches.empty());
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
  CHECK_THROWS_AS(earlier.get<Plan>(), moetune::OtherPlanVersion);
  Json later = rich_plan();
  later["version"] = 3;
  CHECK_THROWS_WITH_AS(later.get<Plan>(), doctest::Contains("another version"), BadInput);
  CHECK_THROWS_AS(Json::array().get<Plan>(), BadInput);
}

TEST_CASE("lists, names and numbers past what a plan can hold are refused") {
  const auto refused = [](const auto& change) {
    Json json = rich_plan();
    change(json);
    CHECK_THROWS_AS(json.get<Plan>(), BadInput);
  };
  refused([](Json& json) {
    for (int i = 0; i < 9; ++i) json["launches"].push_back(json["launches"][0]);
  });
  refused([](Json& json) {
    for (int i = 0; i < 40; ++i) json["launches"][0]["arguments"].push_back({{"name", "x"}, {"i32", i}});
  });
  refused([](Json& json) { json["launches"][0]["entry"] = std::string(64, 'x'); });
  refused([](Json& json) { json["launches"][0]["arguments"][5]["i32"] = std::int64_t{1} << 31; });
  refused([](Json& json) { json["launches"][0]["arguments"][5]["i32"] = 0.5; });
  const Json too_much = ~std::uint64_t{0};
  for (const Json& wrong : {Json(-1), Json(1.5), too_much}) {
    CAPTURE(wrong);
    refused([&](Json& json) { json["launches"][0]["grid"][1] = wrong; });
    refused([&](Json& json) { json["launches"][0]["dynamic_shared"] = wrong; });
    refused([&](Json& json) { json["launches"][0]["arguments"][6]["tensor_map"]["box"][0] = wrong; });
    refused([&](Json& json) { json["scratch"][0]["bytes"] = wrong; });
    refused([&](Json& json) { json["memsets"][0]["bytes"] = wrong; });
    refused([&](Json& json) { json["memsets"][0]["value"] = wrong; });
    refused([&](Json& json) { json["memsets"][0]["before"] = wrong; });
  }
  refused([&](Json& json) {
    json["launches"][0]["arguments"][5]["i64"] = too_much;
    json["launches"][0]["arguments"][5].erase("i32");
  });
  refused([](Json& json) { json["launches"][0]["arguments"][3]["f32"] = 1e300; });
  refused([](Json& json) { json["launches"][0]["block"].push_back(1); });
  refused([](Json& json) { json["launches"][0]["arguments"][6]["tensor_map"]["dims"] = {1, 2, 3, 4, 5, 6}; });
}

// A loop over JSON takes null for an empty list, a number for one element and an object for its values.
TEST_CASE("what should be a list and is none is refused, not read as one") {
  for (const char* place : {"/launches", "/scratch", "/memsets", "/defines", "/launches/0/arguments",
                            "/launches/0/arguments/6/tensor_map/dims", "/launches/0/arguments/6/tensor_map/strides",
                            "/launches/0/arguments/6/tensor_map/box"}) {
    for (const Json& other : {Json(nullptr), Json(1), Json::object(), Json{{"a", 1}, {"b", 2}}}) {
      CAPTURE(place);
      CAPTURE(other);
      Json json = rich_plan();
      json.at(Json::json_pointer(place)) = other;
      CHECK_THROWS_WITH_AS(json.get<Plan>(), doctest::Contains("are no list"), BadInput);
    }
  }
  Json version = rich_plan();
  version["version"] = 2.5;
  CHECK_THROWS_WITH_AS(version.get<Plan>(), doctest::Contains("no integer"), BadInput);
}

TEST_CASE("a failed read leaves the target as it was") {
  Plan plan = rich_plan();
  Json broken = rich_plan();
  broken["launches"][1].erase("entry");
  CHECK_THROWS_AS(broken.get_to(plan), BadInput);
  CHECK(plan.launches.size() == 2);
}

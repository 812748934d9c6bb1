#include "kernels/buffer_json.h"

#include <doctest/doctest.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/error.h"

namespace moetune {
namespace {

using Json = nlohmann::json;
using Blobs = std::vector<std::vector<std::uint8_t>>;

std::vector<Buffer> there_and_back(const std::vector<Buffer>& buffers) {
  Blobs blobs;
  const std::string text = write_buffers(buffers, blobs).dump();
  Blobs same_blobs;
  CHECK(buffers_text(buffers, same_blobs) == text);
  CHECK(same_blobs == blobs);
  return read_buffers(Json::parse(text), blobs);
}

Buffer listed(std::vector<std::int32_t> integers) {
  Buffer buffer{.name = "ids", .dtype = DType::i64, .elements = static_cast<std::int64_t>(integers.size())};
  buffer.fill = {Fill::Kind::integers, 1, std::move(integers), {}};
  return buffer;
}

}  // namespace

TEST_CASE("buffers come back exactly") {
  Buffer k{.name = "k", .dtype = DType::bf16, .elements = std::int64_t{1} << 33, .rotates = true};
  k.fill = {Fill::Kind::normal, 0.1f, {}, {{5, 7}, {std::int64_t{1} << 32, 1}}};
  Buffer draws{.name = "draws", .dtype = DType::u8, .elements = 9, .role = Role::in_out};
  draws.fill = {.kind = Fill::Kind::zipf, .scale = 1.5f, .values = 200};
  draws.check = OutputCheck::sets_between("offsets");
  Buffer y{.name = "y", .elements = 3, .role = Role::output};
  y.check = OutputCheck::within({1e-5, 3.0, 640});
  Buffer logits{.name = "logits", .elements = 4};
  logits.fill = {.kind = Fill::Kind::columns, .scale = 2, .shifts = {0.5f, -1}};
  Buffer sums = listed({0, 3, 5});
  sums.sequences = 2;
  sums.offsets = true;
  Buffer written{.name = "written", .dtype = DType::u8, .elements = 2};
  written.fill.kind = Fill::Kind::arrays;
  for (const std::uint8_t first : {1, 9})
    written.fill.contents.push_back(
        std::make_shared<const std::vector<std::uint8_t>>(std::vector<std::uint8_t>{first, 7}));
  const std::vector<Buffer> back = there_and_back({k, draws, y, listed({3, 2}), logits, sums, written});
  REQUIRE(back.size() == 7);
  CHECK(back[6].fill.kind == Fill::Kind::arrays);
  REQUIRE(back[6].fill.contents.size() == 2);
  CHECK(*back[6].fill.contents[1] == std::vector<std::uint8_t>{9, 7});
  CHECK(back[5].sequences == 2);
  CHECK(back[5].offsets);
  CHECK(back[3].sequences == 0);
  CHECK(back[4].fill.kind == Fill::Kind::columns);
  CHECK(back[4].fill.shifts == std::vector<float>{0.5f, -1});
  CHECK(back[0].name == "k");
  CHECK(back[0].dtype == DType::bf16);
  CHECK(back[0].elements == std::int64_t{1} << 33);
  CHECK(back[0].role == Role::input);
  CHECK(back[0].rotates);
  CHECK(back[0].fill.kind == Fill::Kind::normal);
  CHECK(back[0].fill.scale == 0.1f);
  REQUIRE(back[0].fill.poison.size() == 2);
  CHECK(back[0].fill.poison[1].begin == std::int64_t{1} << 32);
  CHECK(back[0].fill.poison[1].count == 1);
  CHECK(back[1].role == Role::in_out);
  CHECK(back[1].fill.kind == Fill::Kind::zipf);
  CHECK(back[1].fill.values == 200);
  CHECK(back[1].check.kind == OutputCheck::Kind::set_per_segment);
  CHECK(back[1].check.segments == "offsets");
  CHECK(back[2].check.kind == OutputCheck::Kind::tolerance);
  CHECK(back[2].check.tolerance.dissimilarity == 1e-5);
  CHECK(back[2].check.tolerance.baseline_factor == 3.0);
  CHECK(back[2].check.tolerance.terms == 640);
  CHECK(back[3].fill.integers == std::vector<std::int32_t>{3, 2});
}

TEST_CASE("every integer of a fill comes back, the extreme ones too") {
  const std::vector<std::int32_t> extreme = {
      0, -1, std::numeric_limits<std::int32_t>::max(), std::numeric_limits<std::int32_t>::min(), 5, 5};
  CHECK(there_and_back({listed(extreme)})[0].fill.integers == extreme);
  CHECK(there_and_back({listed({})})[0].fill.integers.empty());
}

TEST_CASE("a list of a million integers is four bytes each, none of them in the text") {
  std::vector<std::int32_t> million(1'000'000);
  std::iota(million.begin(), million.end(), -500'000);
  Blobs blobs;
  const std::string text = write_buffers({listed(million)}, blobs).dump();
  CHECK(text.size() < 1000);
  REQUIRE(blobs.size() == 1);
  CHECK(blobs[0].size() == 4'000'000);
  CHECK(read_buffers(Json::parse(text), blobs)[0].fill.integers == million);
}

TEST_CASE("what write_buffers never writes is refused") {
  Blobs blobs;
  const Json json = write_buffers({listed({1, 2, 3})}, blobs);
  CHECK_THROWS_WITH_AS(read_buffers(json, {}), doctest::Contains("there is none"), BadInput);
  blobs[0].pop_back();
  CHECK_THROWS_WITH_AS(read_buffers(json, blobs), doctest::Contains("within an element"), BadInput);
  CHECK_THROWS_AS(read_buffers(Json::array({"text"}), {}), BadInput);
  Json wrong = json;
  wrong[0]["role"] = "inout";
  CHECK_THROWS_WITH_AS(read_buffers(wrong, {}), doctest::Contains("or 'in_out'"), BadInput);
}

}  // namespace moetune

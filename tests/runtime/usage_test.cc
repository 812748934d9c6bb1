// Which missed shapes are remembered when there are more than fit.
#include "runtime/usage.h"

#include <doctest/doctest.h>

#include <algorithm>

using namespace moetune;

namespace {

void miss(Usage& usage, std::int64_t batch, std::int64_t context, int times = 1, bool ragged = false) {
  Extents extents;
  extents.push_back(batch);
  extents.push_back(context);
  for (int i = 0; i < times; ++i) usage.count_pick(Cell{0, ChoiceKind::nearest}, extents, ragged);
}

std::uint64_t count_of(const std::vector<MissedShape>& missed, std::int64_t batch, std::int64_t context) {
  for (const MissedShape& shape : missed) {
    if (shape.extents[0] == batch && shape.extents[1] == context) return shape.count;
  }
  return 0;
}

}  // namespace

TEST_CASE("few shapes are counted exactly, most frequent first") {
  Usage usage;
  for (std::int64_t batch = 1; batch <= 4; ++batch) miss(usage, batch, 64, static_cast<int>(batch));
  const std::vector<MissedShape> missed = usage.missed();
  REQUIRE(missed.size() == 4);
  for (std::size_t i = 0; i < 4; ++i) {
    CHECK(missed[i].extents[0] == static_cast<std::int64_t>(4 - i));
    CHECK(missed[i].count == 4 - i);
  }
}

TEST_CASE("shapes are counted up to three significant bits from 17 on, ragged ones apart") {
  for (const auto& [context, counted] : {std::pair{9, 9}, {15, 15}, {16, 16}, {17, 20}, {20, 20}, {21, 24}}) {
    Usage usage;
    miss(usage, 4, context, 3);
    miss(usage, 4, context, 2, true);
    const std::vector<MissedShape> missed = usage.missed();
    REQUIRE(missed.size() == 2);
    for (const MissedShape& shape : missed) {
      CHECK(shape.extents[1] == counted);
      CHECK(shape.count == (shape.ragged ? 2 : 3));
    }
  }
}

TEST_CASE("shapes that come often after many others displace the rare ones") {
  Usage usage;
  for (std::int64_t batch = 1; batch <= 16; ++batch) {
    for (std::int64_t context = 1; context < std::int64_t{1} << 20; context *= 2) miss(usage, batch, context, 3);
  }
  constexpr int kOften = 10'000;
  for (int i = 0; i < kOften; ++i) {  // among rare ones that keep coming
    for (const std::int64_t batch : {3, 5, 7}) miss(usage, batch, 3);
    miss(usage, 1 + i / 20 % 16, std::int64_t{1} << i % 20);
  }
  const std::vector<MissedShape> missed = usage.missed();
  for (std::size_t i = 0; i < 3; ++i) CHECK(missed[i].extents[1] == 3);
  for (const std::int64_t batch : {3, 5, 7}) {
    CAPTURE(batch);
    CHECK(count_of(missed, batch, 3) > kOften / 2);
    CHECK(count_of(missed, batch, 3) <= kOften);
  }
  CHECK(std::is_sorted(missed.begin(), missed.end(), [](const auto& a, const auto& b) { return a.count > b.count; }));
}

#include "runtime/family_entries.h"

#include <doctest/doctest.h>

namespace moetune {
namespace {

FamilyEntry entry_of(int number) {
  FamilyEntry made;
  made.config = "tile=" + std::to_string(number / 2);
  made.source.time_us = number % 2;
  return made;
}

}  // namespace

TEST_CASE("entries keep their numbers and their places, and equal ones share a number") {
  FamilyEntries entries;
  CHECK(entries.size() == 0);
  constexpr int kMany = 20'000;
  std::vector<const FamilyEntry*> places;
  for (int i = 0; i < kMany; ++i) {
    REQUIRE(entries.add(entry_of(i)) == static_cast<std::uint32_t>(i));
    places.push_back(&entries[static_cast<std::uint32_t>(i)]);
  }
  CHECK(entries.size() == kMany);
  for (int i = 0; i < kMany; ++i) {
    REQUIRE(entries.add(entry_of(i)) == static_cast<std::uint32_t>(i));
    const FamilyEntry& entry = entries[static_cast<std::uint32_t>(i)];
    REQUIRE(&entry == places[static_cast<std::size_t>(i)]);
    REQUIRE(entry.config == entry_of(i).config);
    REQUIRE(entry.source == entry_of(i).source);
  }
  CHECK(entries.size() == kMany);
}

}  // namespace moetune

#include "jobs/session/build_store.h"

#include <doctest/doctest.h>

using namespace moetune;

namespace {

Build good_build() {
  Build build{.outcome = Outcome::ok, .digest = "d", .cubin = {1, 2, 3}, .log = "ptxas info"};
  build.entries["main"] = {.registers = 128, .spill_store_bytes = 4, .stack_bytes = 8, .static_shared = 1024};
  build.entries["main"].serialized = "insufficient register resources";
  build.seconds = 0.3;
  return build;
}

}  // namespace

TEST_CASE("a build survives the store but for the seconds it took") {
  const std::optional<Build> back = from_record("d", to_record(good_build()));
  REQUIRE(back.has_value());
  CHECK(back->outcome == Outcome::ok);
  CHECK(back->digest == "d");
  CHECK(back->cubin == good_build().cubin);
  CHECK(back->log == "ptxas info");
  CHECK(back->seconds == 0);
  REQUIRE(back->entries.contains("main"));
  CHECK(back->entries.at("main").registers == 128);
  CHECK(back->entries.at("main").spill_store_bytes == 4);
  CHECK(back->entries.at("main").static_shared == 1024);
  CHECK(back->entries.at("main").serialized == "insufficient register resources");
}

TEST_CASE("a failed build keeps its message, whatever bytes it holds") {
  Build build{.outcome = Outcome::compile_failed, .digest = "d", .message = "bad \xff token", .log = "the log"};
  const std::optional<Build> back = from_record("d", to_record(build));
  REQUIRE(back.has_value());
  CHECK(back->outcome == Outcome::compile_failed);
  CHECK(back->message.starts_with("bad "));
  CHECK(back->log == "the log");
}

TEST_CASE("a record that is not understood is compiled again") {
  const BuildRecord good = to_record(good_build());
  auto changed = [&](auto change) {
    BuildRecord record = good;
    change(record);
    return from_record("d", record).has_value();
  };
  CHECK(changed([](BuildRecord&) {}));
  CHECK_FALSE(changed([](BuildRecord& record) { record.outcome = "fine"; }));
  CHECK_FALSE(changed([](BuildRecord& record) { record.outcome = "too_slow"; }));
  CHECK_FALSE(changed([](BuildRecord& record) { record.cubin.clear(); }));
  CHECK_FALSE(changed([](BuildRecord& record) { record.facts = "{"; }));
  CHECK_FALSE(changed([](BuildRecord& record) { record.facts = "{\"entries\": 3, \"message\": \"\"}"; }));
}

#include "cli/option_table.h"

#include <doctest/doctest.h>

#include "base/error.h"

using moetune::BadInput;
using moetune::OptionTable;

namespace {

struct Parsed {
  std::string kernel, action, device = "auto";
  std::optional<std::string> config;
  std::uint64_t budget = 200;
  std::uint64_t wait = 30;
  double time = 0, regret = 2;
  bool fresh = false;
};

Parsed parse(const std::vector<std::string>& arguments, const std::vector<moetune::Setting>& settings = {}) {
  Parsed parsed;
  OptionTable table;
  table.positional("ACTION", parsed.action, true, "what to do");
  table.positional("KERNEL", parsed.kernel, false, "a kernel");
  table.text("device", "DEVICE", parsed.device, "where");
  table.text("config", "CONFIG", parsed.config, "what");
  table.whole("budget", parsed.budget, 1, 1000, "trials");
  table.span("time", parsed.time, "limit");
  table.span("wait", parsed.wait, "for something");
  table.percent("regret", parsed.regret, "loss");
  table.flag("fresh", parsed.fresh, "start afresh");
  table.only_with("budget", {"time"});
  table.only_after({"go", "run"}, {"config"});
  table.at_odds("device", {"fresh"});
  table.parse(arguments, settings);
  return parsed;
}

}  // namespace

TEST_CASE("options fill their variables and leave the others at their defaults") {
  const Parsed parsed = parse({"go", "--budget=7", "router", "--time", "1.5", "--fresh"});
  CHECK(parsed.action == "go");
  CHECK(parsed.kernel == "router");
  CHECK(parsed.budget == 7);
  CHECK(parsed.time == 1.5);
  CHECK(parsed.fresh);
  CHECK(parsed.device == "auto");
  CHECK_FALSE(parsed.config.has_value());
}

TEST_CASE("a value may hold equals signs and commas") {
  CHECK(parse({"go", "--config", "tile=64,loader=tma"}).config == "tile=64,loader=tma");
  CHECK(parse({"go", "--config=tile=64,loader=tma"}).config == "tile=64,loader=tma");
}

TEST_CASE("a span of time has units or none, and is above 0 unless it counts whole seconds") {
  CHECK(parse({"go", "--budget=7", "--time", "2m"}).time == 120);
  CHECK(parse({"go", "--budget=7", "--time", "1h30m"}).time == 5400);
  CHECK(parse({"go", "--wait", "1m"}).wait == 60);
  CHECK(parse({"go", "--wait", "0"}).wait == 0);
  CHECK(parse({"go", "--wait", "1.2s"}).wait == 2);
  for (const char* text : {"367d", "1e308h", "0", "30m1h", "soon"}) {
    CAPTURE(text);
    CHECK_THROWS_WITH_AS(
        parse({"go", "--budget=7", "--time", text}),
        ("--time takes a span of time, such as 90, 30s, 5m or 1h30m, above 0 and at most a year, not '" +
         std::string(text) + "'")
            .c_str(),
        BadInput);
  }
}

TEST_CASE("of an option that is given twice the later one holds") {
  CHECK(parse({"go", "--budget", "7", "--budget=8"}).budget == 8);
  CHECK(parse({"go", "--fresh", "--fresh"}).fresh);
  CHECK_THROWS_AS(parse({"go", "--budget", "0", "--budget", "8"}),
                  BadInput);  // the first is wrong all the same
}

TEST_CASE("an option may be spelled with underscores") {
  OptionTable table;
  std::uint64_t heads = 0;
  table.whole("kv-heads", heads, 1, 9, "heads");
  table.parse({"--kv_heads", "4"});
  CHECK(heads == 4);
  table.parse({"--kv_heads=5"});
  CHECK(heads == 5);
}

TEST_CASE("a setting stands for an option that is not given, and never for one that leaves no room for it") {
  const std::vector<moetune::Setting> settings = {{"device", "cuda:1", "config"}, {"budget", "9", "config"}};
  CHECK(parse({"go"}, settings).device == "cuda:1");
  CHECK(parse({"go"}, settings).budget == 9);
  CHECK(parse({"go", "--device", "cuda:2"}, settings).device == "cuda:2");
  CHECK(parse({"go", "--fresh"}, settings).device == "auto");
  CHECK(parse({"go"}, {{"fresh", "1", "config"}, {"device", "cuda:1", "config"}}).fresh == false);
  CHECK(parse({"stop"}, {{"config", "a=1", "config"}}).config == std::nullopt);
  CHECK(parse({"go"}, {{"time", "5", "config"}}).time == 0);  // which needs --budget
  CHECK(parse({"go", "--budget", "3"}, {{"time", "5", "config"}}).time == 5);
  CHECK(parse({"go"}, {{"nothing", "5", "config"}}).budget == 200);
  CHECK_THROWS_WITH_AS(parse({"go"}, {{"budget", "0", "/home/u/config"}}),
                       "/home/u/config: --budget takes a whole number from 1 to 1000, not '0'", BadInput);
}

TEST_CASE("a percentage may have its sign, and is at most 100") {
  for (const char* text : {"2.5", "2.5%"}) CHECK(parse({"go", "--regret", text}).regret == 2.5);
  CHECK(parse({"go", "--regret", "100%"}).regret == 100);
  for (const char* text : {"%", "2%%", "%2", "2 %", "0", "0%", "-1", "100.5%", "1e308", "nan", "inf"}) {
    CAPTURE(text);
    CHECK_THROWS_WITH_AS(parse({"go", std::string("--regret=") + text}),
                         doctest::Contains("--regret takes a percentage above 0 and at most 100, not '"), BadInput);
  }
}

TEST_CASE("words behind a double dash are words") { CHECK(parse({"go", "--", "router"}).kernel == "router"); }

TEST_CASE("a prefix of an option is not the option") { CHECK_THROWS_AS(parse({"go", "--budg", "7"}), BadInput); }

TEST_CASE("an option that would mean nothing is refused") {
  CHECK_THROWS_WITH_AS(parse({"go", "--time", "1.5"}), "--time needs --budget, too", BadInput);
  CHECK_THROWS_WITH_AS(parse({"stop", "--config", "a=1"}), "--config is for go and run, not for stop", BadInput);
  CHECK_NOTHROW(parse({"stop"}));
}

TEST_CASE("a missing required word is named") {
  CHECK_THROWS_WITH_AS(parse({}), "ACTION is missing: what to do", BadInput);
}

TEST_CASE("numbers out of range are refused at both ends") {
  CHECK(parse({"go", "--budget", "1"}).budget == 1);
  CHECK(parse({"go", "--budget", "1000"}).budget == 1000);
  CHECK_THROWS_WITH_AS(parse({"go", "--budget", "1001"}), "--budget takes a whole number from 1 to 1000, not '1001'",
                       BadInput);
  CHECK_THROWS_AS(parse({"go", "--budget", "0"}), BadInput);
  CHECK_THROWS_AS(parse({"go", "--budget", "7 "}), BadInput);
  CHECK_THROWS_AS(parse({"go", "--budget", ""}), BadInput);
  CHECK_THROWS_AS(parse({"go", "--time", "inf"}), BadInput);
  CHECK_THROWS_AS(parse({"go", "--time", "-1"}), BadInput);
}

TEST_CASE("a dimension named as an option gives way, and the user's setting goes where the option says") {
  std::string cache, usual, dimension;
  OptionTable table;
  table.add({.name = "cache",
             .value_name = "N",
             .set = [&](const std::string& value) { dimension = value; },
             .is_dimension = true});
  table.text("cache", "FILE", cache, "a file");
  table.setting("cache", usual);
  table.drop_hidden_dimensions();
  table.parse({}, {{"cache", "mine.db", "config"}});
  CHECK(usual == "mine.db");
  CHECK(cache.empty());
  CHECK(dimension.empty());
}

// workloads.json: what it may say, what it stands for, and the place that an error names.
#include "workloads/workload_list.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "base/located_json.h"
#include "kernels/registry.h"
#include "search/random.h"
#include "tests/paths.h"
#include "tests/temporary_folder.h"
#include "tests/workloads/json_schema.h"
#include "workloads/from_misses.h"

using namespace moetune;

namespace {

std::string list_text(const std::string& entries) {
  return "{\n \"moetune_workloads\": 1,\n \"workloads\": [\n" + entries + "\n]}\n";
}

std::string refused(const std::string& text) {
  try {
    parse_workloads(text, "w.json");
  } catch (const BadInput& error) {
    return error.what();
  }
  return "(accepted)";
}

testing::JsonSchema schema() {
  std::ifstream in(paths::source("workloads/workloads.schema.json"));
  return testing::JsonSchema(nlohmann::json::parse(in));
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("a range stands for a coarse grid with both ends, heaviest entries first") {
  const WorkloadList list =
      parse_workloads(list_text(R"({"kernel": "router", "preset": "qwen3-30b-a3b", "ranges": {"tokens": "1..16k"}},
                   {"kernel": "decode_attention", "preset": "qwen3-30b-a3b", "problem": "page=64",
                    "ranges": {"batch": "1..256", "context": "512..128k"}, "weight": 48})"),
                      "w.json");
  const std::vector<TuningPoint> points = points_of(list);
  CHECK(points.size() == 25 + 8);
  CHECK(points.front().kernel == "decode_attention");
  CHECK(has(points.front().problem, "batch=1,q_heads=32,kv_heads=4,head_dim=128,context=512,"));
  CHECK(has(points[24].problem, "batch=256,q_heads=32,kv_heads=4,head_dim=128,context=131072,"));
  CHECK(has(points.back().problem, "tokens=16384,"));
  double sum = 0;
  for (const TuningPoint& point : points) sum += point.weight;
  CHECK(sum == doctest::Approx(49));
}

TEST_CASE("shapes have weights, and equal problems of several entries are one") {
  const std::vector<TuningPoint> points = points_of(parse_workloads(
      list_text(
          R"({"kernel": "router", "shapes": ["tokens=1", {"problem": "tokens=64", "weight": 3}], "weight": 8},
                   {"kernel": "router", "problem": "tokens=1", "weight": 5})"),
      "w.json"));
  REQUIRE(points.size() == 2);
  CHECK(has(points[0].problem, "tokens=1,"));
  CHECK(points[0].weight == doctest::Approx(7));
  CHECK(points[1].weight == doctest::Approx(6));
}

TEST_CASE("combinations of ranges that no problem has are left out") {
  const std::vector<TuningPoint> points = points_of(parse_workloads(
      list_text(R"({"kernel": "prefill_attention", "ranges": {"seqlen_q": "512..8k", "seqlen_kv": "512..8k"}})"),
      "w.json"));
  CHECK(points.size() == 6);
  CHECK(has(refused(list_text(R"({"kernel": "prefill_attention", "problem": "seqlen_q=4096",
                                  "ranges": {"seqlen_kv": "1..64"}})")),
            "no shape of its ranges is a problem"));
}

TEST_CASE("an error names the file, the line and the key") {
  CHECK(refused(list_text("{\"kernel\": \"router\",\n \"weight\": -1}")) ==
        "w.json:5: workloads[0].weight must be a number above 0 (got -1)");
  CHECK(refused(list_text("{\"kernel\": \"rooter\"}")) ==
        "w.json:4: workloads[0].kernel is refused: unknown kernel 'rooter'; did you mean 'router'?");
  CHECK(has(refused(list_text("{\"kernel\": \"router\", \"wieght\": 1}")),
            "w.json:4: workloads[0].wieght is not known: unknown key 'wieght'; did you mean 'weight'?"));
  CHECK(has(refused(list_text("{\"kernel\": \"router\",\n\n \"ranges\": {\n  \"tokens\": \"5..1\"}}")),
            "w.json:7: workloads[0].ranges.tokens is refused: '5..1' ends before it begins"));
  CHECK(has(refused(list_text("{\"kernel\": \"router\", \"ranges\": {\"tokens\": \"1..2000k\"}}")), "must lie from"));
  CHECK(has(refused(list_text("{\"kernel\": \"router\", \"ranges\": {\"dtype\": 1}}")),
            "workloads[0].ranges.dtype is refused: unknown dimension of router with a number 'dtype'"));
  CHECK(has(refused(list_text("{\"kernel\": \"router\", \"ranges\": {\"tokns\": 1}}")), "did you mean 'tokens'?"));
  CHECK(has(refused(list_text("{\"kernel\": \"router\", \"preset\": \"x\"}")), "unknown preset"));
  CHECK(has(refused(list_text("{\"kernel\": \"router\", \"shapes\": [\"tokens=0\"]}")),
            "w.json:4: workloads[0].shapes[0] is refused"));
  CHECK(has(refused(list_text("{\"kernel\": \"router\", \"shapes\": [\"tokens=1\",\n{\"problem\": \"tokns=2\"}]}")),
            "w.json:5: workloads[0].shapes[1] is refused: unknown dimension of router 'tokns'"));
  CHECK(refused(list_text("{\"kernel\": \"router\",\n\"shapes\": []}")) ==
        "w.json:5: workloads[0].shapes must list at least one problem (got [])");
  CHECK(refused(list_text("{\"kernel\": \"router\",\n\"weight\": 1e300}")) ==
        "w.json:5: workloads[0].weight must be at most 1e12 (got 1e+300)");
  CHECK(refused(list_text("{\"kernel\": \"rou\\u0000ter\"}")) ==
        "w.json:4: workloads[0].kernel must not hold the character NUL (got \"rou\\u0000ter\")");
  CHECK(has(refused(list_text("{\"kernel\": \"router\", \"shapes\": [\"tokens=1\"], \"ranges\": {\"tokens\": 1}}")),
            "both ranges and shapes"));
  CHECK(refused("{\"workloads\": []}") == "w.json:1: the document lacks the key 'moetune_workloads'");
  CHECK(has(refused("{\"moetune_workloads\": 2, \"workloads\": []}"), "w.json:1: moetune_workloads must be 1 (got 2)"));
  CHECK(has(refused("{\"moetune_workloads\": 1, \"workloads\": 3}"), "must be a list (got 3)"));
}

TEST_CASE("a preset, a problem and what they make together are refused at their own keys") {
  const auto at_key = [](const std::string& rest, const std::string& place) {
    const std::string why = refused(list_text("{\"kernel\": \"prefill_attention\",\n" + rest + "}"));
    CAPTURE(why);
    CHECK(why.starts_with("w.json:" + place + " is refused: "));
  };
  at_key(R"("name": "x",
 "preset": "x")",
         "6: workloads[0].preset");
  at_key(R"("problem": "seqln_q=4")", "5: workloads[0].problem");
  at_key(R"("problem": "seqlen_q")", "5: workloads[0].problem");
  at_key(R"("problem": "seqlen_q=0",
 "ranges": {"seqlen_kv": "1..64"})",
         "5: workloads[0].problem");
  at_key(R"("shapes": ["seqlen_q=4"],
 "problem": "head_dim=x")",
         "6: workloads[0].problem");
  at_key(R"("preset": "qwen3-30b-a3b",
 "problem": "seqlen_q=4096,seqlen_kv=64")",
         "6: workloads[0].problem");
  at_key(R"("problem": "seqlen_q=4096",
 "ranges": {"seqlen_kv": "1..64"})",
         "6: workloads[0].ranges");
}

TEST_CASE("a number or a text of the wrong kind is refused with all that is right") {
  CHECK(refused(list_text("{\"kernel\": \"router\",\n\"weight\": 1e400}")) ==
        "w.json: workloads[0].weight is a number too large to be read (got 1e400), at line 5");
  CHECK(refused(list_text("{\"kernel\": \"router\", \"shapes\": [1]}")) ==
        "w.json:4: workloads[0].shapes[0] must be a text or an object with a problem (got 1)");
  CHECK(has(refused(list_text("{\"kernel\": \"router\", \"ranges\": {\"tokens\": 1.5}}")),
            "w.json:4: workloads[0].ranges.tokens must be an integer from 1 to "));
  CHECK(refused(list_text("{\"kernel\": \"router\", \"ranges\": {\"tokens\": true}}")) ==
        "w.json:4: workloads[0].ranges.tokens must be a whole number or a text such as 1..256 (got true)");
}

TEST_CASE("hostile files are refused in bounded time") {
  CHECK(has(refused(std::string(1000, '[')), "w.json"));
  CHECK(refused(list_text("{\"kernel\": \"router\", \"shapes\": [{\"problem\": \"kernel\"}],\n\"kern\\u0065l\": 1}")) ==
        "w.json: the key 'kernel' occurs twice in one object, at line 5");
  CHECK(has(refused(list_text("{\"kernel\": \"router\", \"weight\": 1e999}")), "w.json"));
  CHECK(has(refused(list_text("{\"kernel\": \"router\", \"ranges\": {\"tokens\": 99999999999999999999}}")), "w.json"));
  CHECK(has(refused(list_text("{\"kernel\": \"" + std::string(10'000, 'x') + "\"}")), "longer than 4096"));
  CHECK(has(refused(list_text("{\"kernel\": \"router\", \"name\": \"\xff\"}")), "w.json"));
  const TemporaryFolder folder;
  CHECK_THROWS_AS(read_workloads(folder.file("none.json")), BadInput);
  CHECK_THROWS_AS(read_workloads("/dev/zero"), BadInput);
}

TEST_CASE("a list stands for 100,000 shapes at most, however its entries share them") {
  const std::string wide =
      "{\"kernel\": \"decode_attention\", \"ranges\": {\"batch\": \"1..4096\", \"context\": \"1..1m\","
      " \"window\": \"1..1m\", \"q_len\": \"1..4\"}}";
  const WorkloadList one = parse_workloads(list_text(wide), "w.json");
  CHECK(shape_count(one.entries.front()) == 7 * 11 * 11 * 2);
  std::string many = wide;
  for (int i = 0; i < 9'999; ++i) many += ",\n" + wide;
  CHECK(has(refused(list_text(many)), "workloads[59] brings the list to more than 100000 shapes"));
}

TEST_CASE("a range of one value may be 0") {
  const WorkloadList list =
      parse_workloads(list_text("{\"kernel\": \"decode_attention\", \"ranges\": {\"page\": 0}}"), "w.json");
  CHECK(points_of(list).size() == 1);
}

TEST_CASE("altered texts are read or refused, never anything else") {
  const std::string sound = list_text(
      R"({"name": "a", "kernel": "router", "shapes": ["tokens=1"], "weight": 2}, {"kernel": "moe_combine",
         "ranges": {"tokens": "1..64"}})");
  const testing::JsonSchema known = schema();
  Random random(7);
  for (int i = 0; i < 2000; ++i) {
    std::string text = sound;
    for (std::uint64_t changes = 1 + random.below(4); changes > 0; --changes) {
      const std::size_t at = random.below(text.size());
      if (random.below(3) == 0)
        text.erase(at, 1 + random.below(5));
      else
        text[at] = "{}[]\",:0123456789.-aeknt \n"[random.below(26)];
    }
    try {
      points_of(parse_workloads(text, "w.json"));
      CAPTURE(text);
      CHECK(known.accepts(nlohmann::json::parse(text)));
    } catch (const BadInput& error) {
      CHECK(has(error.what(), "w.json"));
    }
  }
}

TEST_CASE("lines are those of the values, whatever the text looks like") {
  const LocatedJson json("\xEF\xBB\xBF\n{ \"a\\\"b\" : [ 1 ,\n {\"c\":\"}]\\\"\"} , [],\n {} ,\n 7 ] , \"d\":\n null}",
                         "f");
  const auto line_of = [&](const char* pointer) {
    return json.line_of(json.root().value().at(nlohmann::json::json_pointer(pointer)));
  };
  CHECK(line_of("") == 2);
  CHECK(line_of("/a\"b/0") == 2);
  CHECK(line_of("/a\"b/1/c") == 3);
  CHECK(line_of("/a\"b/2") == 3);
  CHECK(line_of("/a\"b/3") == 4);
  CHECK(line_of("/a\"b/4") == 5);
  CHECK(line_of("/d") == 6);
}

TEST_CASE("the schema in the repository has the keys that are read") {
  std::ifstream in(paths::source("workloads/workloads.schema.json"));
  const nlohmann::json schema = nlohmann::json::parse(in);
  std::set<std::string> keys;
  for (const auto& [key, value] : schema.at("$defs").at("workload").at("properties").items()) keys.insert(key);
  CHECK(keys == std::set<std::string>{"kernel", "name", "preset", "problem", "ranges", "shapes", "weight"});
  std::set<std::string> kernels;
  for (const nlohmann::json& name : schema["$defs"]["workload"]["properties"]["kernel"]["examples"])
    kernels.insert(name);
  for (const std::string& name : kernels) CHECK(known_kernel(name) != nullptr);
}

TEST_CASE("the schema and the reader agree on what is a list") {
  const testing::JsonSchema known = schema();
  const auto agree = [&](const std::string& text, bool right) {
    CAPTURE(text);
    CHECK(known.accepts(nlohmann::json::parse(text)) == right);
    CHECK((refused(text) == "(accepted)") == right);
  };
  for (const char* entry :
       {R"({"kernel": "router"})", R"({"kernel": "router", "ranges": {}})", R"({"kernel": "router", "name": ""})",
        R"({"kernel": "router", "ranges": {"tokens": 64}})", R"({"kernel": "router", "ranges": {"tokens": 64.0}})",
        R"({"kernel": "router", "ranges": {"tokens": "1..16K"}})", R"({"kernel": "router", "shapes": ["tokens=1"]})",
        R"({"kernel": "router", "shapes": [{"problem": "tokens=1", "weight": 0.5}], "weight": 1e12})"})
    agree(list_text(entry), true);
  for (const char* rest : {R"("shapes": [])",
                           R"("shapes": [1])",
                           R"("shapes": null)",
                           R"("shapes": [{"weight": 1}])",
                           R"("shapes": [{"problem": null}])",
                           R"("shapes": [{"problem": "tokens=1", "weight": null}])",
                           R"("ranges": {}, "shapes": ["tokens=1"])",
                           R"("ranges": null)",
                           R"("ranges": {"tokens": null})",
                           R"("ranges": {"tokens": 1.5})",
                           R"("ranges": {"tokens": "0..4"})",
                           R"("ranges": {"tokens": "1..4g"})",
                           R"("name": null)",
                           R"("preset": null)",
                           R"("problem": null)",
                           R"("problem": 3)",
                           R"("weight": null)",
                           R"("weight": 0)",
                           R"("weight": 1.1e12)",
                           R"("weight": "1")",
                           R"("other": 1)"})
    agree(list_text(std::string(R"({"kernel": "router", )") + rest + "}"), false);
  for (const char* entry : {"{}", "3", R"({"kernel": null})", R"({"kernel": 1})"}) agree(list_text(entry), false);
  for (const char* text :
       {R"({"moetune_workloads": 1, "workloads": []})", R"({"moetune_workloads": 1.0, "workloads": []})",
        R"({"moetune_workloads": 1, "workloads": [], "notes": null, "$schema": "x"})"})
    agree(text, true);
  for (const char* text :
       {"[]", R"({"moetune_workloads": 1})", R"({"workloads": []})", R"({"moetune_workloads": 2, "workloads": []})",
        R"({"moetune_workloads": null, "workloads": []})", R"({"moetune_workloads": 1, "workloads": null})",
        R"({"moetune_workloads": 1, "workloads": [], "$schema": 1})",
        R"({"moetune_workloads": 1, "workloads": [], "$schema": null})"})
    agree(text, false);
}

TEST_CASE("misses become a list, weighted by picks; what is not known is said") {
  const TemporaryFolder folder;
  std::ofstream(folder.file("misses.json"))
      << R"({"moetune_misses": 1, "hardware": "x", "misses": [{"kernel": "router", "problem": "tokens=7", "count": 30},
            {"kernel": "router", "problem": "tokens=8", "count": 10}, {"kernel": "gone", "problem": "a=1", "count": 5},
            {"kernel": "moe_combine", "problem": "tokens=3", "count": 2}]})";
  const MissedList missed = workloads_from_misses(folder.file("misses.json"));
  REQUIRE(missed.list.entries.size() == 2);
  CHECK(missed.list.entries[0].weight == 40);
  REQUIRE(missed.notes.size() == 1);
  CHECK(has(missed.notes[0], "unknown kernel 'gone'"));
  const std::vector<TuningPoint> points = points_of(missed.list);
  REQUIRE(points.size() == 3);
  CHECK(points[0].weight == doctest::Approx(30));
  CHECK(points[2].kernel == "moe_combine");
  CHECK(points_of(parse_workloads(workloads_text(missed.list), "w.json")) == points);
}

TEST_CASE("whatever was counted, the list that misses become is one that can be read") {
  const TemporaryFolder folder;
  const auto of = [&](const std::string& misses, const std::string& over = "") {
    std::ofstream(folder.file("m.json")) << "{\"moetune_misses\": 1, \"misses\": " << misses << "}";
    return workloads_from_misses(folder.file("m.json"), over).list;
  };
  const auto router = [](const std::string& count) {
    return "[{\"kernel\": \"router\", \"problem\": \"tokens=7\", \"count\": " + count + "}]";
  };
  for (const char* const count : {"0", "1", "18446744073709551615"}) {
    CAPTURE(count);
    const WorkloadList list = of(router(count));
    CHECK(parse_workloads(workloads_text(list), "w.json").entries == list.entries);
  }
  CHECK_THROWS_WITH_AS(of(router("-1")), doctest::Contains("must be a whole number"), BadInput);
  CHECK_THROWS_WITH_AS(of(router("1.5")), doctest::Contains("must be a whole number"), BadInput);
  CHECK_THROWS_WITH_AS(of("{}"), doctest::Contains("misses must be a list"), BadInput);
  CHECK_THROWS_WITH_AS(of(router("3"), "tokens=1..99999999"), doctest::Contains("must lie from 1 to"), BadField);
  std::string many = "[";
  for (int i = 0; i < 100'001; ++i)
    many += std::string(i == 0 ? "" : ",") + R"({"kernel": "router", "problem": "tokens=)" + std::to_string(i + 1) +
            R"(", "count": 1})";
  CHECK(of(many + "]").entries.front().shapes.size() == 100'000);
}

TEST_CASE("a miss outside of the ranges stays a shape, and one of another fixed value has an entry of its own") {
  const TemporaryFolder folder;
  std::string misses;
  for (const char* const problem :
       {"batch=4,kv_heads=4,q_heads=32,context=1000", "batch=500,kv_heads=4,q_heads=32,context=1000",
        "batch=8,kv_heads=4,q_heads=32,context=2000", "batch=4,kv_heads=2,q_heads=16,context=1000"})
    misses += std::string(misses.empty() ? "" : ",") + R"({"kernel": "decode_attention", "problem": ")" + problem +
              R"(", "count": 1})";
  std::ofstream(folder.file("m.json")) << R"({"moetune_misses": 1, "misses": [)" << misses << "]}";
  const MissedList missed = workloads_from_misses(folder.file("m.json"), "batch=1..256,context=512..4k");
  const std::vector<WorkloadEntry>& entries = missed.list.entries;
  REQUIRE(entries.size() == 3);
  CHECK(has(entries[0].problem, "kv_heads=4"));
  CHECK(entries[0].weight == 2);
  REQUIRE(entries[1].shapes.size() == 1);
  CHECK(has(entries[1].shapes[0].problem, "batch=500"));
  CHECK(has(entries[2].problem, "kv_heads=2"));
  CHECK(entries[2].weight == 1);
}

TEST_CASE("misses of more families than a list may hold are left out, and counted") {
  const TemporaryFolder folder;
  std::string misses;
  for (int i = 1; i <= 10'001; ++i)
    misses += std::string(i == 1 ? "" : ",") + R"({"kernel": "moe_combine", "problem": "tokens=3,hidden=)" +
              std::to_string(8 * (1 + i % 2000)) + ",top_k=" + std::to_string(1 + i / 2000) + R"(", "count": 1})";
  std::ofstream(folder.file("m.json")) << R"({"moetune_misses": 1, "misses": [)" << misses << "]}";
  const MissedList missed = workloads_from_misses(folder.file("m.json"), "tokens=1..64");
  CHECK(missed.list.entries.size() <= kMostEntries);
  REQUIRE(missed.notes.size() == 1);
  CHECK(has(missed.notes[0], std::to_string(10'001 - missed.list.entries.size()) + " families are left out"));
  CHECK(parse_workloads(workloads_text(missed.list), "w.json").entries == missed.list.entries);
}

TEST_CASE("a file without a miss is an empty list, whose ranges are checked all the same") {
  const TemporaryFolder folder;
  const auto of = [&](const std::string& misses, const std::string& over = "") {
    std::ofstream(folder.file("m.json")) << "{\"moetune_misses\": 1, \"misses\": " << misses << "}";
    return workloads_from_misses(folder.file("m.json"), over);
  };
  const MissedList none = of("[]", "batch=1..256");
  CHECK(none.none);
  CHECK(parse_workloads(workloads_text(none.list), "w.json").entries.empty());
  CHECK_THROWS_WITH_AS(of("[]", "bogus=1..2"), "over: no kernel has a free dimension 'bogus'", BadField);
  const std::string gone = R"([{"kernel": "gone", "problem": ")" + std::string(4000, 'a') + R"(", "count": 5}])";
  CHECK_FALSE(of(gone).none);
  CHECK(of(gone).notes.front().size() < 1000);
  CHECK_THROWS_AS(of(gone, "bogus=1..2"), BadField);
}

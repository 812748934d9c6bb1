#include "base/json.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/json_scanner.h"

namespace moetune {
namespace {

std::string nested(std::size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); }

}  // namespace

TEST_CASE("deep JSON is refused before it is parsed, in arrays, objects and mixes of them") {
  CHECK(parse_json(nested(kMaxJsonDepth), "it").is_array());
  CHECK_THROWS_WITH_AS(parse_json(nested(kMaxJsonDepth + 1), "a stored plan"),
                       "a stored plan: its JSON is nested more than 64 deep", BadInput);
  CHECK_THROWS_AS(parse_json(nested(200'000), "it"), BadInput);
  std::string objects, open;
  for (int i = 0; i < 200'000; ++i) objects += "{\"a\":[", open += "]}";
  CHECK_THROWS_AS(parse_json(objects + open, "it"), BadInput);
  CHECK_THROWS_AS(parse_json(objects, "it"), BadInput);  // cut off
  CHECK(parse_json_or_discard(nested(200'000)).is_discarded());
}

TEST_CASE("brackets in strings are no depth, whatever is escaped") {
  const std::string text = R"(["\"[[[[\\", "]", {"k{{": ")" + std::string(1000, '[') + "\"}]";
  CHECK(parse_json(text, "it").size() == 3);
}

TEST_CASE("more values than memory should hold are refused") {
  std::string text = "[0";
  for (std::size_t i = 0; i < kMaxJsonValues; ++i) text += ",0";
  CHECK_THROWS_WITH_AS(parse_json(text + "]", "it"), "it: its JSON holds more than 4194304 values", BadInput);
}

TEST_CASE("what is not JSON is BadInput with its place, or a discarded document") {
  CHECK_THROWS_WITH_AS(parse_json("{\n \"a\" 1}", "x.json"), doctest::Contains("x.json: parse error at line 2"),
                       BadInput);
  CHECK(parse_json_or_discard("{").is_discarded());
  CHECK_THROWS_WITH_AS(parse_json(R"({"a": 1, "a": 2})", "x.json", RepeatedKeys::refused),
                       "x.json: the key 'a' occurs twice in one object, at line 1", BadInput);
  CHECK_THROWS_WITH_AS(parse_json("{\"a\": [\"b\", \"b\", {\"b\": \"a,\"}],\n\"b\": 1,\n\"\\u0061\": 2}", "x.json",
                                  RepeatedKeys::refused),
                       "x.json: the key 'a' occurs twice in one object, at line 3", BadInput);
  CHECK(parse_json(R"([{"a": "\"a"}, {"a": {"a": 1}}])", "x.json", RepeatedKeys::refused).size() == 2);
  CHECK(parse_json(R"({"a": 1, "a": 2})", "x.json").size() == 1);
}

TEST_CASE("an object is known without making it, by what would be made") {
  const std::string texts[] = {"{}",
                               " \n{\"a\":[1,{\"b\":null}]} ",
                               "[{}]",
                               "",
                               "  ",
                               "{",
                               "{}x",
                               "{\"a\":1e999}",
                               "{\"a\":-1E400}",
                               "{\"a\":\"\xff\"}",
                               "{\"a\":01}",
                               "1",
                               "\"{}\"",
                               "{\"a\":" + nested(70) + "}",
                               "{\"a\":" + nested(20) + "}"};
  for (const std::string& text : texts)
    CHECK_MESSAGE(is_json_object(text) == parse_json_or_discard(text).is_object(), text);
}

TEST_CASE("an object is known after any change of its text") {
  const std::string texts[] = {R"({"a":[1,-2.5e-3,true,false,null,"b\u00e9\ud83d\ude00\n"],"c":{"d":"é😀"},"e":[]})",
                               R"({"build":"0123","samples_us":[101.5,0.25E+2,1e308],"x":{"y":[{},[[0]]]}})"};
  const std::string_view alphabet = "{}[]\",:\\u/ \n\x01\x7f\xc3\xa9\xf0 0123456789abdefnrtlsuEDC+-.";
  std::mt19937 random(7);
  const auto below = [&](std::size_t most) { return random() % most; };
  std::size_t objects = 0;
  for (int i = 0; i < 40'000; ++i) {
    std::string text = texts[i % 2];
    for (std::size_t changes = 1 + below(3); changes > 0 && text.size() > 8; --changes) {
      const std::size_t at = below(text.size());
      const char c = alphabet[below(alphabet.size())];
      const std::size_t how = below(10);
      if (how == 0) text.resize(at + 1);
      if (how > 0 && how < 3) text.erase(at, 1 + below(4));
      if (how >= 3 && how < 7) text.insert(at, 1, c);
      if (how >= 7) text[at] = c;
    }
    const bool is_object = parse_json_or_discard(text).is_object();
    objects += is_object ? 1 : 0;
    CHECK_MESSAGE(is_json_object(text) == is_object, text);
  }
  CHECK(objects > 4'000);
  CHECK(objects < 36'000);
}

TEST_CASE("a number that no double holds is refused with its place") {
  CHECK_THROWS_WITH_AS(parse_json("{\"a 1e999\": 1,\n\"b\": [{\"c\": 2}, -3, {\"\\u0064\": -1e400}]}", "x.json"),
                       "x.json: b[2].d is a number too large to be read (got -1e400), at line 2", BadInput);
  CHECK_THROWS_WITH_AS(parse_json("1e400", "x.json"),
                       "x.json: the document is a number too large to be read (got 1e400), at line 1", BadInput);
  CHECK_THROWS_WITH_AS(parse_json("[0.5, 1" + std::string(100'000, '0') + ", ", "x.json"),
                       doctest::Contains("x.json: [1] is a number too large to be read (got 10"), BadInput);
  CHECK(parse_json("[1e308, 1e-400]", "x.json").size() == 2);
}

TEST_CASE("what a message quotes of a text is cut") {
  const std::string text(100'000, 'a');
  for (const std::string& wrong :
       {"[\"" + text, "{\"" + text + "\": 1, \"" + text + "\": 2}", "[1" + std::string(100'000, '0') + "]"}) {
    try {
      parse_json(wrong, "x.json", RepeatedKeys::refused);
      FAIL("it is accepted");
    } catch (const BadInput& error) {
      CHECK(std::string(error.what()).size() < 400);
    }
  }
}

}  // namespace moetune

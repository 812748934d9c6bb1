#include "search/transfer.h"

#include <doctest/doctest.h>

#include "base/error.h"
#include "search/space.h"

using namespace moetune;

namespace {

constexpr const char* kKeeping = R"json({
  "kernel": "toy",
  "parameters": [
    {"name": "tile", "values": [16, 32]},
    {"name": "splits", "values": [1, 2, 4, 8, 16], "keeps": "1024 * blocks / device.sm_count"},
    {"name": "combine", "values": ["none", "last", "kernel"]}
  ],
  "let": {"blocks": "problem.batch * splits"},
  "constraints": [
    {"expr": "(splits == 1) == (combine == 'none')",
                     "why" : "parts are combined where there are several"
},
    {"expr": "blocks <= 256", "why": "enough"}
  ]
})json";

Assignment batch_on(std::int64_t batch, std::int64_t sms = 132) {
  return {{"problem.batch", Value::integer(batch)}, {"device.sm_count", Value::integer(sms)}};
}

struct Carried {
  Space space = Space::parse(kKeeping, "toy.json");

  // The texts that a configuration becomes, `times` over.
  std::vector<std::string> operator()(const char* config, const Assignment& there, const Assignment& here,
                                      int times = 1) const {
    const LegalSpace legal = space.enumerate(here);
    Transfer transfer = space.transfer(there, here);
    std::vector<std::string> texts;
    for (int i = 0; i < times; ++i) {
      const std::vector<Position> point = transfer(*legal.point_of(config), legal);
      const std::optional<ConfigId> id = legal.find(point);
      texts.push_back(id ? legal.config(*id).text() : "illegal");
    }
    return texts;
  }
};

using Texts = std::vector<std::string>;

}  // namespace

TEST_CASE("a parameter that keeps a quantity takes the value that brings it nearest, the others stay") {
  const Carried carried;
  CHECK(carried("tile=32,splits=2,combine=last", batch_on(8), batch_on(4)) == Texts{"tile=32,splits=4,combine=last"});
  CHECK(carried("tile=32,splits=4,combine=kernel", batch_on(4), batch_on(8)) ==
        Texts{"tile=32,splits=2,combine=kernel"});
  CHECK(carried("tile=16,splits=2,combine=kernel", batch_on(4), batch_on(4)) ==
        Texts{"tile=16,splits=2,combine=kernel"});
  // On a GPU with half of the multiprocessors, half of the blocks.
  CHECK(carried("tile=16,splits=8,combine=last", batch_on(4), batch_on(4, 66)) ==
        Texts{"tile=16,splits=4,combine=last"});
}

TEST_CASE("what the new value makes illegal is put right by one other parameter, each choice in its turn") {
  const Carried carried;
  CHECK(carried("tile=32,splits=2,combine=kernel", batch_on(8), batch_on(64)) ==
        Texts{"tile=32,splits=1,combine=none"});
  CHECK(carried("tile=32,splits=1,combine=none", batch_on(64), batch_on(16), 3) ==
        Texts{"tile=32,splits=4,combine=last", "tile=32,splits=4,combine=kernel", "tile=32,splits=4,combine=last"});
}

TEST_CASE("beyond the domain the nearest value stands, and what no change makes legal stays illegal") {
  const Carried carried;
  CHECK(carried("tile=16,splits=1,combine=none", batch_on(256), batch_on(1)) ==
        Texts{"tile=16,splits=16,combine=last"});
  const LegalSpace none = carried.space.enumerate(batch_on(300));
  REQUIRE(none.empty());
  Transfer transfer = carried.space.transfer(batch_on(150), batch_on(300));
  CHECK(transfer(std::vector<Position>{1, 1, 1}, none) == std::vector<Position>{1, 0, 1});
}

TEST_CASE("a problem without the dimension that a kept quantity reads is refused") {
  const Carried carried;
  CHECK_THROWS_AS(carried.space.transfer({}, batch_on(1)), BadInput);
}

TEST_CASE("a name keeps nothing, and a quantity must be one that the space knows") {
  std::string named = kKeeping;
  named.replace(named.find("\"last\", \"kernel\"]"), 17, "\"last\", \"kernel\"], \"keeps\": \"blocks\"");
  CHECK_THROWS_WITH_AS(Space::parse(named, "toy.json"), doctest::Contains("parameters[2].keeps: a name cannot grow"),
                       BadInput);
  std::string unknown = kKeeping;
  unknown.replace(unknown.find("1024 * blocks"), 13, "1024 * blokcs");
  CHECK_THROWS_WITH_AS(Space::parse(unknown, "toy.json"), doctest::Contains("blokcs"), BadInput);
}

// Shapes that a range table serves: what verify, bench and report say of them, and which rows they take.
#include <chrono>
#include <ctime>
#include <thread>

#include "tests/cli/scripted_gpu.h"

using namespace moetune::testing;

namespace {

// A table over elements=1024..16384, checked on shapes between its cells.
class Ranged {
 public:
  Ranged() {
    const Ended ended = gpu.tool.run(
        {"search", "decode_kernel", "--over", "elements=1024..16384", "--budget", "2", "--shapes", "3", "--json"});
    CAPTURE(ended.err);
    REQUIRE(ended.code == 0);
    found = document(ended);
  }
  Json run(std::vector<std::string> command) {
    command.push_back("--json");
    const Ended ended = gpu.tool.run(command);
    CAPTURE(ended.err);
    REQUIRE(ended.code == 0);
    return document(ended);
  }

  ScriptedGpu gpu;
  Json found;
};

// Of the table's cells none has so many elements.
constexpr const char* kBetween = "5000";

}  // namespace

TEST_CASE("verify, bench and report of a shape that a table serves show the table's choice") {
  Ranged ranged;
  const Json served = ranged.run({"report", "decode_kernel", "--elements", kBetween})["served"];
  REQUIRE(served.size() == 1);
  CHECK(served[0]["table"] == "table:1");
  CHECK(served[0]["launched"] == true);

  const Json verified = ranged.run({"verify", "decode_kernel", "--elements", kBetween, "--seeds", "1"});
  CHECK(verified["right"] == true);
  CHECK(verified["stored"] == true);
  CHECK(verified["table"] == "table:1");
  CHECK(verified["cubin"] == "stored");
  CHECK(verified["config"] == served[0]["config"]);
  CHECK(verified["cell"] == served[0]["cell"]);

  const Json rows =
      ranged.run({"bench", "decode_kernel", "--problem", std::string("elements=") + kBetween, "--rounds", "3"})["rows"];
  CHECK(rows[0]["what"] == "table");
  CHECK(rows[0]["table"] == "table:1");
  CHECK(rows[0]["config"] == served[0]["config"]);
  CHECK(rows[0]["outcome"] == "ok");

  const Ended text = ranged.gpu.tool.run({"verify", "decode_kernel", "--elements", kBetween, "--seeds", "1"});
  CHECK(contains(text.out, "a server launches it here: table:1, "));
  CHECK(contains(ranged.gpu.tool.run({"report", "decode_kernel", "--elements", kBetween}).out, "table:1"));

  // A search of the shape's own, later and of the same timing, goes before the table. What is stored names a second.
  for (const std::time_t now = std::time(nullptr); std::time(nullptr) == now;)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  ranged.run({"search", "decode_kernel", "--elements", kBetween, "--timing", "chained", "--budget", "2"});
  const Json own = ranged.run({"report", "decode_kernel", "--elements", kBetween})["served"];
  REQUIRE(own.size() == 2);
  CHECK(own[0]["table"].is_null());
  CHECK(own[0]["launched"] == true);
  CHECK(ranged.run({"verify", "decode_kernel", "--elements", kBetween, "--seeds", "1"})["table"].is_null());

  // Past the table nothing is known.
  const Ended past = ranged.gpu.tool.run({"verify", "decode_kernel", "--elements", "65536"});
  CHECK(past.code == 2);
  CHECK(contains(past.err, "nothing is tuned yet for decode_kernel elements=65536"));
  CHECK(ranged.run({"report", "decode_kernel", "--elements", "65536"})["served"].empty());
}

TEST_CASE("a report folds shapes that only certified a table into it") {
  Ranged ranged;
  const Json report = ranged.run({"report"});
  std::size_t folded = 0;
  for (const Json& one : report["workloads"]) {
    if (one["folded_into"].is_null()) {
      CHECK(one["winner"] == true);
    } else {
      ++folded;
      CHECK(one["winner"] == false);
      CHECK(one["folded_into"] == "table:1");
    }
  }
  REQUIRE(folded > 0);
  CHECK(report["ranges"][0]["folded"] == folded);
  const std::size_t rows = report["workloads"].size() - folded;
  const Ended text = ranged.gpu.tool.run({"report", "--wide"});
  CHECK(contains(text.out, std::to_string(rows) + " workloads, " + std::to_string(folded) + " shape"));
  CHECK(contains(text.out, "searched for it"));
  CHECK_FALSE(contains(text.out, "no cubin"));
  CHECK_FALSE(contains(text.out, "is unfinished"));
  // A search that was killed elsewhere keeps its row.
  const Json limited = ranged.run({"report", "--limit", "1"});
  CHECK(limited["workloads"].size() == 1);
}

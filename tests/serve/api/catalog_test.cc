#include "serve/api/catalog.h"

#include <doctest/doctest.h>

#include "tests/soundness/records.h"
#include "tests/temporary_folder.h"

using namespace moetune;

TEST_CASE("all winners but a recording's are listed, and count as tuned unless contended or provisional") {
  const TemporaryFolder folder;
  const CacheChoice choice{.path = folder.file("cache.db")};
  CHECK(winners_document(choice)["winners"].empty());
  CHECK(tuned_problems(choice).empty());
  Cache cache = Cache::open(choice.path, Cache::Mode::create);
  std::vector<std::string> problems;
  const auto put = [&](std::int64_t batch, const std::string& sources, bool contended, bool provisional) {
    const Workload of = testing::decode_workload(batch, 256, sources);
    WinnerRecord winner = testing::decode_winner(of);
    winner.contended = contended;
    if (provisional) winner.provenance = R"({"driver":"580","provisional":true})";
    cache.winners.put(cache.workloads.id(of.key, of.family), winner);
    problems.push_back(of.key.problem);
  };
  put(8, "s", false, false);
  put(16, "s", true, false);
  put(32, "s", false, true);
  put(64, std::string(kRecordingMark) + "s", false, false);  // of a space that was recorded
  const Document winners = winners_document(choice)["winners"];
  REQUIRE(winners.size() == 3);
  for (std::size_t i = 0; i < winners.size(); ++i) {
    CHECK(winners[i]["problem"] == problems[i]);
    CHECK(winners[i]["time_us"] == 100);
    CHECK(winners[i]["default_us"] == 120);
    CHECK(winners[i]["contended"] == (i == 1));
    CHECK(winners[i]["provisional"] == (i == 2));
  }
  CHECK(tuned_problems(choice) == TunedProblems{{{"decode_attention", problems[0]}, {"NVIDIA H200"}}});
}

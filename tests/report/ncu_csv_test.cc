#include "report/ncu_csv.h"

#include <doctest/doctest.h>

#include <fstream>

#include "base/error.h"
#include "tests/temporary_folder.h"

using namespace moetune;

namespace {

class NcuFile {
 public:
  explicit NcuFile(const std::string& text) { std::ofstream(path()) << text; }
  std::filesystem::path path() const { return folder_.path() / "ncu.csv"; }

 private:
  TemporaryFolder folder_;
};

const std::string kHeader =
    "\"ID\",\"Kernel Name\",\"gpu__time_duration.sum\",\"gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed\","
    "\"smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio\","
    "\"smsp__average_warps_issue_stalled_barrier_per_issue_active.ratio\","
    "\"smsp__average_warps_issue_stalled_barrier_not_issued_per_issue_active.ratio\"\n";
const std::string kUnits = "\"\",\"\",\"ns\",\"%\",\"inst\",\"inst\",\"inst\"\n";

void check_refused(const std::string& text, const std::string& why) {
  const NcuFile file(text);
  CHECK_THROWS_WITH_AS(read_ncu_csv(file.path()), doctest::Contains(why.c_str()), BadInput);
}

}  // namespace

TEST_CASE("a CSV of ncu's raw page gives each launch its time, shares and stalls") {
  const NcuFile file("==PROF== Connected to process 12\nright\n" + kHeader + kUnits +
                     "\"0\",\"void f<int>(\"\"a, b\"\")\",\"12,500\",\"91.5\",\"2.5\",\"3.25\",\"9\"\r\n"
                     "\"1\",\"g\",\"n/a\",\"-1\",\"nan\",\"0\",\"1e999\"\n==PROF== Disconnected\n");
  const std::vector<NcuLaunch> launches = read_ncu_csv(file.path());
  REQUIRE(launches.size() == 2);
  CHECK(launches[0].kernel == "void f<int>(\"a, b\")");
  CHECK(launches[0].time_us == doctest::Approx(12.5));
  CHECK(launches[0].dram == 91.5);
  CHECK_FALSE(launches[0].occupancy);
  REQUIRE(launches[0].stalls.size() == 2);
  CHECK(launches[0].stalls[0] == std::pair<std::string, double>("barrier", 3.25));
  CHECK_FALSE(launches[1].time_us);
  CHECK_FALSE(launches[1].dram);
  CHECK(launches[1].stalls.empty());
}

TEST_CASE("what is no such CSV is refused in a sentence that names the file") {
  check_refused("", "ncu.csv: it holds no table");
  check_refused("a,b,c\n1,2,3\n", "it holds no table");
  check_refused("\"ID\",\"Name\"\n", "it holds no table");
  check_refused(kHeader + kUnits, "holds no launch");
  check_refused(kHeader + kUnits + "\"0\",\"never closed\n", "a quote is never closed");
  check_refused("\"ID\"," + std::string(30'000, ','), "more than 20000 columns");
  std::string many = kHeader + kUnits;
  for (int i = 0; i < 1001; ++i) many += "\"0\",\"g\",1,1,1,1,1\n";
  check_refused(many, "more than 1000 launches");
  CHECK_THROWS_AS(read_ncu_csv("/dev/null"), BadInput);
  CHECK_THROWS_AS(read_ncu_csv("/nowhere/ncu.csv"), BadInput);
}

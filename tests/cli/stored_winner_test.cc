// A search on the scripted GPU of tests/fake_cuda, with the real NVRTC, and what is done with its winner.
#include <csignal>

#include "cache/cache.h"
#include "cache/file/database.h"
#include "tests/cli/tool.h"
#include "tests/paths.h"

using namespace moetune::testing;
namespace fs = std::filesystem;

namespace {

constexpr const char* kMemory = "memory=8388608";  // launches run on the CPU
const std::vector<std::string> kWorkload = {"decode_kernel", "--problem", "elements=16384"};

std::vector<std::string> command(const std::string& name, const std::vector<std::string>& more = {}) {
  std::vector<std::string> words = {name};
  words.insert(words.end(), kWorkload.begin(), kWorkload.end());
  words.insert(words.end(), more.begin(), more.end());
  words.push_back("--json");
  return words;
}

std::map<std::string, std::string> environment(const fs::path& data) {
  return {
      {"MOETUNE_LIBCUDA", paths::fake_libcuda()}, {"MOETUNE_FAKE_CUDA", kMemory}, {"MOETUNE_DATA_DIR", data.string()}};
}

const std::string kCache = "xdg/moetune/moetune.db";

// A search on a GPU that is none: done once, each test has its cache.
struct Searched {
  Tool home;
  Tool tool{environment(home.copy_data())};
  Ended ended = tool.run(command("search", {"--budget", "6", "--strategy", "random"}));

  static const Searched& once() {
    static const Searched searched;
    return searched;
  }
};

// That GPU, a copy of the templates and spaces to edit, and a tuned workload in the cache.
class Tuned {
 public:
  Tuned() {
    const Ended& searched = Searched::once().ended;
    CAPTURE(searched.err);
    REQUIRE(searched.code == 0);  // NVRTC has to be there
    found = document(searched);
    REQUIRE(found["best"].is_object());
    fs::create_directories(tool.path(kCache).parent_path());
    fs::copy_file(Searched::once().tool.path(kCache), tool.path(kCache));
  }

  // From now on only what meets this constraint is legal.
  void constrain(const std::string& expression) const { Tool::constrain(data_, "decode_kernel", expression); }

  // From now on no candidate's compilation ends (tests/fake_nvrtc); returns the file that one makes as it begins.
  fs::path hang_template() const {
    const fs::path never = tool.path("never");
    std::ofstream(data_ / "templates/decode_kernel/decode_kernel.cu") << "// hold!" << never.string();
    return never.string() + ".begun";
  }

  // From now on no candidate compiles; references and harness still do.
  void break_template() const {
    std::ofstream(data_ / "templates/decode_kernel/decode_kernel.cu") << "#error this template must not be compiled\n";
  }

 private:
  Tool home_;
  fs::path data_ = home_.copy_data();

 public:
  Tool tool{environment(data_)};
  Json found;
};

Json row(const Json& bench, const std::string& what) {
  for (const Json& each : bench["rows"]) {
    if (each["what"] == what) return each;
  }
  return nullptr;
}

}  // namespace

TEST_CASE("verify and bench of a stored winner find everything in the cache") {
  Tuned tuned;
  const Ended verified = tuned.tool.run(command("verify"));
  CHECK(verified.code == 0);
  const Json checks = document(verified);
  CHECK(checks["right"] == true);
  CHECK(checks["config"] == tuned.found["best"]["config"]);
  CHECK(checks["cubin"] == "stored");
  CHECK(checks["programs_compiled"] == 0);
  CHECK(checks["outputs"][0]["dissimilarity"].get<double>() > 0);
  CHECK(checks["outputs"][0]["terms"].get<double>() >= 1);
  CHECK(checks["checks"][0]["error_share"] == 0);  // the scripted driver rounds nothing
  const auto first_seed = [&](const std::vector<std::string>& more) {
    return document(tuned.tool.run(command("verify", more)))["checks"][0]["seed"];
  };
  CHECK(first_seed({}) != checks["checks"][0]["seed"]);
  CHECK(first_seed({"--seed", "5"}) == 5);

  const Ended benched = tuned.tool.run(command("bench", {"--rounds", "5"}));
  CHECK(benched.code == 0);
  const Json bench = document(benched);
  CHECK(bench["programs_compiled"] == 0);
  CHECK(row(bench, "winner")["cubin"] == "stored");
  CHECK(row(bench, "winner")["config"] == tuned.found["best"]["config"]);
  CHECK(row(bench, "default")["cubin"] == "cached");
  CHECK(row(bench, "reference")["cubin"] == "cached");
  for (const Json& each : bench["rows"]) CHECK(each["outcome"] == "ok");
}

TEST_CASE("a stored winner is verified and benched where its template no longer compiles") {
  Tuned tuned;
  tuned.break_template();
  const Ended verified = tuned.tool.run(command("verify"));
  CAPTURE(verified.err);
  CHECK(verified.code == 0);
  CHECK(document(verified)["cubin"] == "stored");
  CHECK(document(verified)["right"] == true);
  CHECK(contains(verified.err, "other sources"));

  const Ended benched = tuned.tool.run(command("bench", {"--rounds", "5"}));
  CHECK(benched.code == 0);
  const Json bench = document(benched);
  CHECK(row(bench, "winner")["outcome"] == "ok");
  CHECK(row(bench, "winner")["time_us"].get<double>() > 0);
  CHECK(row(bench, "winner")["cubin"] == "stored");
  CHECK(row(bench, "default")["outcome"] == "compile_failed");
  CHECK(row(bench, "default")["cubin"].is_null());
  CHECK(contains(row(bench, "default")["message"], "does not compile"));
  CHECK(row(bench, "reference")["outcome"] == "ok");

  // The same configuration by name is compiled, and so cannot be.
  const Ended named = tuned.tool.run(command("verify", {"--config", tuned.found["best"]["config"].get<std::string>()}));
  CHECK(named.code == 3);
  CHECK(contains(document(named)["error"]["message"], "does not compile"));
}

TEST_CASE("a guess at speed keeps no configuration that can run from being verified or benched") {
  Tuned tuned;
  // With loader=cp_async and a block a tile a search would not look at it.
  const std::string slow = "loader=cp_async,stages=2,producers=0,blocks_per_sm=0";
  const Ended verified = tuned.tool.run(command("verify", {"--config", slow}));
  CAPTURE(verified.err);
  CHECK(verified.code == 0);
  CHECK(document(verified)["right"] == true);
  const Json benched = document(tuned.tool.run(command("bench", {"--rounds", "5", "--config", slow})));
  CHECK(row(benched, "config")["outcome"] == "ok");
  // One that cannot run is refused with the rule.
  const std::string impossible = "loader=vector,stages=2,producers=0,blocks_per_sm=0";
  for (const char* name : {"verify", "bench"}) {
    const Ended refused = tuned.tool.run(command(name, {"--config", impossible}));
    CHECK(refused.code == 2);
    CHECK(contains(document(refused)["error"]["message"], "cannot run here: the vector loader has no ring"));
  }
}

TEST_CASE("Ctrl-C ends verify and bench at once, also while the GPU hangs") {
  Tuned tuned;
  const fs::path hangs = tuned.tool.path("hangs");
  for (const char* hang : {"hang_at=1", "hang_at=3"}) {  // in a reference, and in what is checked or timed
    tuned.tool.set_environment("MOETUNE_FAKE_CUDA", std::string(kMemory) + ",hangs=" + hangs.string() + "," + hang);
    for (const char* name : {"verify", "bench"}) {
      CAPTURE(hang);
      CAPTURE(name);
      fs::remove(hangs);
      const auto process = tuned.tool.start(command(name));
      CHECK(within_a_while([&] { return fs::exists(hangs); }));
      process->send(SIGINT);
      const Ended ended = process->wait();
      CHECK(ended.code == 130);
      CHECK(ended.seconds < 11);  // the limits are 12 s and more
      CHECK(document(ended)["interrupted"] == true);
    }
  }
}

TEST_CASE("Ctrl-C ends verify, bench and compile at once, also while a template hangs the compiler") {
  Tuned tuned;
  const fs::path begun = tuned.hang_template();
  tuned.tool.set_environment("MOETUNE_NVRTC", paths::fake_nvrtc());
  for (const std::string name : {"verify", "bench", "compile"}) {
    CAPTURE(name);
    fs::remove(begun);
    const auto process = tuned.tool.start(command(name, {"--config", "warps=8"}));
    CHECK(within_a_while([&] { return fs::exists(begun); }));
    process->send(SIGINT);
    const auto sent = std::chrono::steady_clock::now();
    const Ended ended = process->wait();
    CHECK(ended.code == 130);
    CHECK(std::chrono::steady_clock::now() - sent < std::chrono::seconds(15));  // the limit is a minute
    if (name == "compile") {
      CHECK(document(ended)["message"] == "the compiler was stopped");
    } else {
      CHECK(document(ended)["interrupted"] == true);
    }
  }
}

TEST_CASE("bench shows the roofline fraction of each row where the GPU was calibrated") {
  Tuned tuned;
  const auto winner = [&] { return row(document(tuned.tool.run(command("bench", {"--rounds", "5"}))), "winner"); };
  CHECK(winner()["roofline"].is_null());
  {
    auto cache = moetune::Cache::open(tuned.tool.path(kCache), moetune::Cache::Mode::read_write);
    cache.trials.put_calibration(cache.workloads.all()[0].key.hardware, "read_tb_s", 0.5);
    cache.trials.put_calibration(cache.workloads.all()[0].key.hardware, "launch_us", 1.0);
  }
  const Json timed = winner();
  const double time = timed["time_us"], bytes_us = timed["tb_s"].get<double>() * time / 0.5;
  CHECK(timed["roofline"].get<double>() == doctest::Approx((bytes_us + 1) / time));
}

TEST_CASE("what had to be compiled beside the winner is said") {
  Tuned tuned;
  moetune::Database(tuned.tool.path(kCache), moetune::Database::Access::read_write, std::chrono::seconds(5))
      .execute("DELETE FROM builds");
  const Json first = document(tuned.tool.run(command("bench", {"--rounds", "5"})));
  CHECK(first["programs_compiled"].get<int>() > 0);
  CHECK(row(first, "winner")["cubin"] == "stored");
  CHECK(row(first, "default")["cubin"] == "compiled");
  CHECK(row(first, "reference")["cubin"] == "compiled");
  const Json again = document(tuned.tool.run(command("bench", {"--rounds", "5"})));
  CHECK(again["programs_compiled"] == 0);
  CHECK(row(again, "default")["cubin"] == "cached");
}

TEST_CASE("a plan that its kernel does not make of the configuration is not run, whoever stored it") {
  Tuned tuned;
  {
    auto cache = moetune::Cache::open(tuned.tool.path(kCache), moetune::Cache::Mode::read_write);
    const std::int64_t workload = cache.workloads.all()[0].id;
    moetune::WinnerRecord winner = *cache.winners.find(workload);
    Json plan = Json::parse(winner.plan);
    plan["launches"][0]["grid"][0] = 1;
    winner.plan = plan.dump();
    cache.winners.put(workload, winner);
  }
  const Ended ended = tuned.tool.run(command("bench", {"--rounds", "5"}));
  CHECK(ended.code == 3);
  CHECK(contains(ended.out, "cannot be true (its launch plan is not what decode_kernel plans for"));
}

TEST_CASE("a winner that overlaps with the launch before is benched alone too") {
  Tuned tuned;
  const auto bench = [&] { return document(tuned.tool.run(command("bench", {"--rounds", "5"}))); };
  CHECK(row(bench(), "winner alone").is_null());
  {
    auto cache = moetune::Cache::open(tuned.tool.path(kCache), moetune::Cache::Mode::read_write);
    const std::int64_t workload = cache.workloads.all()[0].id;
    moetune::WinnerRecord winner = *cache.winners.find(workload);
    Json plan = Json::parse(winner.plan);
    plan["launches"][0]["programmatic_dependent"] = true;
    winner.plan = plan.dump();
    winner.provenance = "{}";  // of another version, whose plans may differ
    cache.winners.put(workload, winner);
  }
  const Json rows = bench();
  REQUIRE(row(rows, "winner alone").is_object());
  CHECK(row(rows, "winner alone")["cubin"] == "stored");
  CHECK(row(rows, "winner alone")["config"] == row(rows, "winner")["config"]);
  CHECK(row(rows, "winner")["time_us"].get<double>() == doctest::Approx(8));
  CHECK(row(rows, "winner alone")["time_us"].get<double>() == doctest::Approx(10));
}

TEST_CASE("a stored winner says which moetune found it") {
  Tuned tuned;
  const Json listed = document(tuned.tool.run({"cache", "ls", "--json"}));
  const Json shown =
      document(tuned.tool.run({"cache", "show", std::to_string(listed["workloads"][0]["id"].get<int>()), "--json"}));
  CHECK(shown["provenance"]["moetune"] == document(tuned.tool.run({"--version", "--json"}))["version"]);
  CHECK(tuned.tool.run({"cache", "check"}).code == 0);
}

TEST_CASE("a recording made on a calibrated GPU holds its ceiling, and its replay has a roofline fraction") {
  Tuned tuned;
  {
    auto cache = moetune::Cache::open(tuned.tool.path(kCache), moetune::Cache::Mode::read_write);
    cache.trials.put_calibration(cache.workloads.all()[0].key.hardware, "read_tb_s", 0.5);
  }
  tuned.constrain("loader == 'cp_async' && stages == 2 && warps == 4 && tile_kib == 16 && vector_bytes == 16");
  const std::string file = tuned.tool.path("r.zst").string();
  const Ended recorded = tuned.tool.run(command("record", {"--output", file}));
  CAPTURE(recorded.err);
  REQUIRE(recorded.code == 0);
  CHECK(document(recorded)["read_tb_s"] == 0.5);
  CHECK(document(recorded)["legal"].get<int>() < 20);
  CHECK_FALSE(contains(recorded.err, "Measuring the read ceiling"));
  const Json replayed =
      document(tuned.tool.run({"search", "--device", "replay:" + file, "--no-compile", "--budget", "3", "--json"}));
  CHECK(replayed["best"]["roofline"].get<double>() == doctest::Approx(replayed["best"]["tb_s"].get<double>() / 0.5));
}

#include <doctest/doctest.h>

#include <cmath>
#include <cstdlib>
#include <limits>
#include <set>

#include "base/error.h"
#include "cache/cache.h"
#include "cache/check.h"
#include "tests/cache/support.h"

using moetune::Cache;
using moetune::HardwareKey;
using moetune::TrialRecord;
using moetune::WinnerRecord;
using moetune::WorkloadKey;
using namespace cache_test;

namespace {

void check_equal(const TrialRecord& a, const TrialRecord& b) {
  CHECK(a.config == b.config);
  CHECK(a.outcome == b.outcome);
  CHECK(a.message == b.message);
  CHECK(a.time_us == b.time_us);
  CHECK(a.interval_low_us == b.interval_low_us);
  CHECK(a.interval_high_us == b.interval_high_us);
  CHECK(a.samples == b.samples);
  CHECK(a.facts == b.facts);
  CHECK(a.provenance == b.provenance);
}

void check_equal(const WinnerRecord& a, const WinnerRecord& b) {
  CHECK(a.config == b.config);
  CHECK(a.time_us == b.time_us);
  CHECK(a.interval_low_us == b.interval_low_us);
  CHECK(a.interval_high_us == b.interval_high_us);
  CHECK(a.default_time_us == b.default_time_us);
  CHECK(a.roofline == b.roofline);
  CHECK(a.plan == b.plan);
  CHECK(a.cubin == b.cubin);
  CHECK(a.provenance == b.provenance);
}

}  // namespace

TEST_CASE("hardware that differs in anything but its driver is other hardware") {
  const HardwareKey key = h200();
  std::vector<HardwareKey> others(8, key);
  others[0].name += ",origin=gpu";
  others[1].compute_capability++;
  others[2].sm_count--;
  others[3].l2_bytes++;
  others[4].memory_bytes++;
  others[5].sm_clock_khz++;
  others[6].memory_clock_khz++;
  others[7].origin = "recorded";
  for (std::size_t i = 0; i < others.size(); ++i) {
    CAPTURE(i);
    CHECK_FALSE(others[i].is_same(key));
    CHECK(others[i].text() != key.text());
  }
  HardwareKey updated = key;
  updated.driver = "another";
  CHECK(updated.is_same(key));
  CHECK(updated.text() == key.text());
}

TEST_CASE("a workload has one id, through every opening of the file") {
  const TempDir dir;
  const fs::path file = dir / "deep/er/cache.db";
  std::int64_t id = 0;
  {
    Cache cache = Cache::open(file, Cache::Mode::create);
    CHECK_FALSE(cache.workloads.find(workload_key()));
    id = cache.workloads.id(workload_key());
    CHECK(cache.workloads.id(workload_key()) == id);
    CHECK(cache.workloads.id(workload_key("batch=1")) != id);
    CHECK(cache.warning().empty());
    CHECK(cache.path() == file);
  }
  const Cache again = Cache::open(file, Cache::Mode::read_only);
  CHECK(again.workloads.find(workload_key()) == id);
  const std::vector<moetune::Workload> all = again.workloads.all();
  REQUIRE(all.size() == 2);
  CHECK(all[0].id == id);
  CHECK(all[0].key.kernel == "decode_attention");
  CHECK(all[0].key.problem == "batch=64");
  CHECK(all[0].key.source_digest == "0123456789abcdef");
  CHECK(all[0].key.toolchain == "nvrtc 13.0.88");
  CHECK(all[0].key.hardware.text() == h200().text());
  CHECK(all[0].key.hardware.driver == "580.1");
}

TEST_CASE("every part of a key tells workloads apart, and the driver does not") {
  const TempDir dir;
  Cache cache = Cache::open(dir / "cache.db", Cache::Mode::create);
  const auto changed = [](auto&& change) {
    WorkloadKey key = workload_key();
    change(key);
    return key;
  };
  const std::vector<WorkloadKey> keys = {
      workload_key(),
      changed([](WorkloadKey& key) { key.kernel = "router"; }),
      changed([](WorkloadKey& key) { key.problem = ""; }),
      changed([](WorkloadKey& key) { key.source_digest = "f"; }),
      changed([](WorkloadKey& key) { key.toolchain = "nvrtc 12.9"; }),
      changed([](WorkloadKey& key) { key.hardware.name = "NVIDIA H100"; }),
      changed([](WorkloadKey& key) { key.hardware.name = "a,cc=90"; }),  // no name passes for another field
      changed([](WorkloadKey& key) { key.hardware.name = "a\\,cc=90"; }),
      changed([](WorkloadKey& key) { key.hardware.name = "a\\"; }),
      changed([](WorkloadKey& key) { key.hardware.name = "a\\\\"; }),
      changed([](WorkloadKey& key) { key.hardware.compute_capability = 89; }),
      changed([](WorkloadKey& key) { key.hardware.sm_count = 114; }),
      changed([](WorkloadKey& key) { key.hardware.l2_bytes = 1; }),
      changed([](WorkloadKey& key) { key.hardware.memory_bytes = 1; }),
      changed([](WorkloadKey& key) { key.hardware.sm_clock_khz = 1; }),
      changed([](WorkloadKey& key) { key.hardware.memory_clock_khz = 1; }),
      changed([](WorkloadKey& key) { key.hardware.origin = "replay:abc"; }),
  };
  std::set<std::int64_t> ids;
  for (const WorkloadKey& key : keys) ids.insert(cache.workloads.id(key));
  CHECK(ids.size() == keys.size());
  for (const WorkloadKey& one : keys) {
    for (const WorkloadKey& other : keys)
      CHECK(one.hardware.is_same(other.hardware) == (one.hardware.text() == other.hardware.text()));
  }
  CHECK(keys[6].hardware.text().starts_with("a\\,cc=90,cc="));
  CHECK(keys[7].hardware.text().starts_with("a\\\\\\,cc=90,cc="));
  const WorkloadKey updated = changed([](WorkloadKey& key) { key.hardware.driver = "590.2"; });
  CHECK(cache.workloads.id(updated) == cache.workloads.id(workload_key()));
  cache.workloads.id(updated);
  CHECK(cache.workloads.all().front().key.hardware.driver == "590.2");
}

TEST_CASE("a hardware name cannot pass for another field") {
  HardwareKey plain = h200(), sly = h200();
  sly.name = "NVIDIA H200,cc=90";
  CHECK(plain.text() ==
        "NVIDIA "
        "H200,cc=90,sms=132,l2=62914560,memory=149250113536,sm_khz=1980000,memory_khz=3201000,origin=gpu");
  CHECK(sly.text().starts_with("NVIDIA H200\\,cc=90,cc=90"));
}

TEST_CASE("trials come back as they were, in the order they were first stored") {
  const TempDir dir;
  Cache cache = Cache::open(dir / "cache.db", Cache::Mode::create);
  const std::int64_t id = cache.workloads.id(workload_key()), other = cache.workloads.id(workload_key("batch=1"));
  TrialRecord failed = trial(2);
  failed.outcome = "compile_failed";
  failed.message = "error: 'x' is \"undefined\"\nin line 3 \xe2\x80\xa6";
  failed.time_us = 0;
  cache.trials.put(id, trial(5));
  cache.trials.put(id, failed);
  cache.trials.put(other, trial(5));
  cache.trials.put(id, trial(1));
  TrialRecord better = trial(5);
  better.time_us = 0.1;
  better.samples = 40;
  cache.trials.put(id, better);
  const std::vector<TrialRecord> all = cache.trials.of(id);
  REQUIRE(all.size() == 3);
  check_equal(all[0], better);
  check_equal(all[1], failed);
  check_equal(all[2], trial(1));
  cache.trials.clear(id);
  CHECK(cache.trials.of(id).empty());
  CHECK(cache.trials.of(other).size() == 1);
}

TEST_CASE("infinite times are kept, a NaN is refused, and so is a workload that does not exist") {
  const TempDir dir;
  Cache cache = Cache::open(dir / "cache.db", Cache::Mode::create);
  const std::int64_t id = cache.workloads.id(workload_key());
  TrialRecord odd = trial(1);
  odd.interval_high_us = std::numeric_limits<double>::infinity();
  cache.trials.put(id, odd);
  CHECK(std::isinf(cache.trials.of(id).at(0).interval_high_us));
  odd.time_us = std::numeric_limits<double>::quiet_NaN();
  CHECK_THROWS_AS(cache.trials.put(id, odd), std::invalid_argument);
  CHECK_THROWS_AS(cache.trials.put(id + 1, trial(1)), moetune::BrokenEnvironment);
  CHECK(cache.trials.of(id).size() == 1);
}

TEST_CASE("a winner comes back with its cubin, its plan and the time it was stored") {
  const TempDir dir;
  Cache cache = Cache::open(dir / "cache.db", Cache::Mode::create);
  const std::int64_t id = cache.workloads.id(workload_key());
  CHECK_FALSE(cache.winners.find(id));
  cache.winners.put(id, winner(1));
  cache.winners.put(id, winner(2));
  const std::optional<WinnerRecord> stored = cache.winners.find(id);
  REQUIRE(stored);
  check_equal(*stored, winner(2));
  CHECK(stored->stored_at.size() == 20);
  CHECK(stored->stored_at.ends_with("Z"));
  WinnerRecord bare = winner(3);
  bare.cubin.clear();
  cache.winners.put(id, bare);
  CHECK(cache.winners.find(id)->cubin.empty());
}

TEST_CASE("a workload that is forgotten leaves neither trials nor cubins, and its neighbour all") {
  TempDir folder;
  Cache cache = Cache::open(folder / "cache.db", Cache::Mode::create);
  WorkloadKey other = workload_key();
  other.problem = "batch=1";
  const std::int64_t gone = cache.workloads.id(workload_key()), kept = cache.workloads.id(other);
  for (const std::int64_t id : {gone, kept}) {
    cache.trials.put(id, trial(1));
    cache.winners.put(id, winner(static_cast<int>(id)));
  }
  cache.workloads.forget(gone);
  REQUIRE(cache.workloads.all().size() == 1);
  CHECK(cache.workloads.all().front().id == kept);
  CHECK(cache.trials.of(kept).size() == 1);
  CHECK(cache.winners.find(kept)->cubin == winner(static_cast<int>(kept)).cubin);
  CHECK(summary_of(cache).trials == 1);
  CHECK(summary_of(cache).winners == 1);
  CHECK(check_cache(cache).empty());
  CHECK(raw_text(folder / "cache.db", "SELECT count(*) FROM cubins") == "1");
}

TEST_CASE("a contended winner gives way to any other, a sound one only to a sound one") {
  const TempDir dir;
  Cache cache = Cache::open(dir / "cache.db", Cache::Mode::create);
  const std::int64_t id = cache.workloads.id(workload_key());
  const auto put = [&](double time_us, bool contended) {
    WinnerRecord record = winner(1);
    record.time_us = time_us;
    record.contended = contended;
    cache.winners.put(id, record);
    return cache.winners.find(id)->time_us;
  };
  CHECK(put(5, true) == 5);
  CHECK(put(9, true) == 9);
  CHECK(put(20, false) == 20);  // slower, and true
  CHECK(put(3, true) == 20);
  CHECK_FALSE(cache.winners.find(id)->contended);
  CHECK(put(30, false) == 30);
}

TEST_CASE("builds are found by their digest") {
  const TempDir dir;
  Cache cache = Cache::open(dir / "cache.db", Cache::Mode::create);
  CHECK_FALSE(cache.builds.find("d1"));
  cache.builds.put("d1", {"ok", "{}", "warnings", random_bytes(1000, 1)});
  cache.builds.put("d2", {"compile_failed", "{}", "error", {}});
  const auto first = cache.builds.find("d1"), second = cache.builds.find("d2");
  REQUIRE(first);
  CHECK(first->outcome == "ok");
  CHECK(first->log == "warnings");
  CHECK(first->cubin == random_bytes(1000, 1));
  REQUIRE(second);
  CHECK(second->outcome == "compile_failed");
  CHECK(second->cubin.empty());
}

TEST_CASE("the builds unused for longest go when there are too many bytes") {
  const TempDir dir;
  Cache cache = Cache::open(dir / "cache.db", Cache::Mode::create, {.max_build_bytes = 35'000});
  for (int i = 0; i < 3; ++i) cache.builds.put(std::to_string(i), {"ok", "{}", "", random_bytes(10'000, i)});
  CHECK(summary_of(cache).builds == 3);
  CHECK(cache.builds.find("0"));  // now the freshest
  cache.builds.put("3", {"ok", "{}", "", random_bytes(10'000, 3)});
  CHECK(cache.builds.find("0"));
  CHECK_FALSE(cache.builds.find("1"));
  CHECK(cache.builds.find("2"));
  CHECK(cache.builds.find("3"));
  CHECK(summary_of(cache).build_bytes <= 35'000);
  cache.builds.put("3", {"ok", "{}", "", random_bytes(20'000, 3)});
  CHECK_FALSE(cache.builds.find("0"));
  CHECK(cache.builds.find("3")->cubin.size() == 20'000);
}

TEST_CASE("a read-only cache finds builds and writes nothing") {
  const TempDir dir;
  Cache::open(dir / "cache.db", Cache::Mode::create).builds.put("d1", {"ok", "{}", "", random_bytes(100, 1)});
  const std::string before = read_file(dir / "cache.db");
  {
    Cache cache = Cache::open(dir / "cache.db", Cache::Mode::read_only);
    CHECK(cache.builds.find("d1"));
    CHECK(broken([&] { cache.workloads.id(workload_key()); }).find("cannot be written") != std::string::npos);
  }
  CHECK(read_file(dir / "cache.db") == before);
}

TEST_CASE("calibrations belong to one device and the last one holds") {
  const TempDir dir;
  Cache cache = Cache::open(dir / "cache.db", Cache::Mode::create);
  HardwareKey other = h200();
  other.sm_count = 1;
  cache.trials.put_calibration(h200(), "read_tb_s", 4.5);
  cache.trials.put_calibration(h200(), "read_tb_s", 4.7);
  CHECK(cache.trials.calibrations(h200()).at("read_tb_s") == 4.7);
  CHECK_FALSE(cache.trials.calibrations(h200()).contains("copy_tb_s"));
  CHECK_FALSE(cache.trials.calibrations(other).contains("read_tb_s"));
}

TEST_CASE("a calibration that cannot be is unknown, and check names it") {
  const TempDir dir;
  Cache cache = Cache::open(dir / "cache.db", Cache::Mode::create);
  for (const double value : {1e308, 1e-300, -1.0}) {
    cache.trials.put_calibration(h200(), "read_tb_s", value);
    CHECK_FALSE(cache.trials.calibrations(h200()).contains("read_tb_s"));
    CHECK(check_cache(cache).size() == 1);
  }
  cache.trials.put_calibration(h200(), "read_tb_s", 4.5);
  CHECK(cache.trials.calibrations(h200()).at("read_tb_s") == 4.5);
  CHECK(check_cache(cache).empty());
}

TEST_CASE("the summary counts what is there") {
  const TempDir dir;
  Cache cache = Cache::open(dir / "cache.db", Cache::Mode::create);
  const std::int64_t id = cache.workloads.id(workload_key());
  for (int i = 0; i < 4; ++i) cache.trials.put(id, trial(i));
  cache.winners.put(id, winner(1));
  cache.builds.put("d", {"ok", "{}", "", random_bytes(5000, 1)});
  const moetune::CacheSummary summary = summary_of(cache);
  CHECK(summary.workloads == 1);
  CHECK(summary.trials == 4);
  CHECK(summary.winners == 1);
  CHECK(summary.builds == 1);
  CHECK(summary.build_bytes > 5000);
  CHECK(summary.file_bytes > 55'000);
  CHECK(summary.schema_version == 7);
  CHECK(check_cache(cache).empty());
}

TEST_CASE("the default place follows XDG") {
  const auto keep = [](const char* name) {
    return std::pair(std::string(name), std::string(std::getenv(name) ? std::getenv(name) : ""));
  };
  const auto xdg = keep("XDG_CACHE_HOME"), home = keep("HOME");
  ::setenv("HOME", "/home/ada", 1);
  ::setenv("XDG_CACHE_HOME", "/var/cache/ada", 1);
  CHECK(Cache::default_path() == "/var/cache/ada/moetune/moetune.db");
  ::setenv("XDG_CACHE_HOME", "relative", 1);
  CHECK(Cache::default_path() == "/home/ada/.cache/moetune/moetune.db");
  ::unsetenv("XDG_CACHE_HOME");
  CHECK(Cache::default_path() == "/home/ada/.cache/moetune/moetune.db");
  ::unsetenv("HOME");
  CHECK(broken([] { Cache::default_path(); }).find("XDG_CACHE_HOME") != std::string::npos);
  for (const auto& [name, value] : {xdg, home}) {
    if (!value.empty()) ::setenv(name.c_str(), value.c_str(), 1);
  }
}

// make_report_cache KIND FILE: caches for the tests of the report's page.
//   usual    two GPUs, two kernels, winners that replaced others, stale and contended ones
//   hostile  names and texts that are markup, scripts and control characters
//   ranges   a certified range table with its searches, and one whose texts are markup
//   big      100,000 trials: 40,000 of one workload, 2,000 of each of 30 more
#include <cstdio>
#include <string>

#include "cache/cache.h"
#include "cache/ranges.h"
#include "jobs/session/kernel_files.h"
#include "ranges/range_table.h"
#include "search/random.h"
#include "tests/report/reported_cache.h"

using namespace moetune;

namespace {

HardwareKey gpu(const std::string& name) {
  HardwareKey key = testing::h200();
  key.name = name;
  return key;
}

WorkloadKey attention_key(int batch, int context, const std::string& hardware = "NVIDIA H200") {
  static const std::string digest = kernel_source_digest("decode_attention");
  return {.kernel = "decode_attention",
          .problem = "batch=" + std::to_string(batch) +
                     ",q_heads=64,kv_heads=8,head_dim=128,context=" + std::to_string(context) +
                     ",dtype=bf16,page=0,lengths=full,layout=hnd,window=0,sinks=none,q_len=1,lse=none,kv_dtype=same,"
                     "kv_scale=tensor,softcap=0",
          .hardware = gpu(hardware),
          .source_digest = digest,
          .toolchain = "nvrtc 13.0.88"};
}

// The configuration of a number: others for others, below 221,184.
std::string config_of(std::uint64_t number) {
  const auto pick = [&](std::initializer_list<const char*> values) {
    const std::string value = *(values.begin() + number % values.size());
    number /= values.size();
    return value;
  };
  std::string config = "body=" + pick({"mma", "tma"}) + ",math=" + pick({"mma16", "swap", "wgmma_swap"});
  config += ",schedule=grid,residents=0,tile=" + pick({"32", "64", "128", "256"});
  config += ",warps=" + pick({"1", "2", "4", "8"}) + ",stages=" + pick({"2", "3", "4", "6"});
  config += ",producers=1,row_tiles=1,query=" + pick({"registers", "shared"});
  config += ",l2=" + pick({"normal", "evict_first"});
  config += ",splits=" + pick({"1", "2", "3", "4", "6", "8", "12", "16", "24", "33", "48", "66"});
  return config + ",combine=" + pick({"last_cta", "kernel", "cluster"}) + ",ahead=" + pick({"0", "1", "2", "4"});
}

std::string config_of(Random& random) { return config_of(random.below(221'184)); }

TrialRecord trial_of(Random& random, int number) {
  // A step that shares no factor with the number of configurations: no two trials of a search are equal.
  TrialRecord trial{.config = config_of(static_cast<std::uint64_t>(number) * 7919 % 221'184), .outcome = "ok"};
  trial.time_us = 20 + 80 * random.unit() * random.unit();
  if (random.below(20) == 0) {
    trial.outcome = random.below(2) == 0 ? "compile_failed" : "wrong_result";
    trial.time_us = 0;
  }
  trial.interval_low_us = 0.995 * trial.time_us;
  trial.interval_high_us = 1.005 * trial.time_us;
  trial.samples = 7;
  trial.facts = R"({"validate_s":0.001,"measure_s":0.02,"compile_s":0.4})";
  trial.provenance = R"({"strategy":"auto","seed":1,"device":"cuda:0"})";
  return trial;
}

WinnerRecord winner_of(Random& random, double time_us, const std::string& stored_at) {
  WinnerRecord winner;
  winner.config = config_of(random);
  winner.plan = R"({"launches":[]})";
  winner.cubin = {1, 2, 3};
  winner.time_us = time_us;
  winner.interval_low_us = 0.998 * time_us;
  winner.interval_high_us = 1.002 * time_us;
  winner.default_time_us = 1.3 * time_us;
  winner.stored_at = stored_at;
  winner.provenance = R"({"strategy":"auto","seed":1,"trials":24,"device":"cuda:0","driver":"580.1"})";
  return winner;
}

void make_usual(Cache& cache, Random& random) {
  for (const std::string hardware : {"NVIDIA H200", "NVIDIA H100"}) {
    for (const int batch : {1, 8, 64}) {
      for (const int context : {1024, 4096, 16384, 65536}) {
        const std::int64_t id = cache.workloads.id(attention_key(batch, context, hardware));
        for (int i = 0; i < 40; ++i) cache.trials.put(id, trial_of(random, i));
        const double time = 30 + 0.001 * batch * context;
        if (context == 4096) cache.winners.put(id, winner_of(random, 1.2 * time, "2026-11-01T08:00:00Z"));
        WinnerRecord winner = winner_of(random, time, "2026-11-22T08:00:00Z");
        winner.contended = context == 65536 && batch == 64;
        cache.winners.put(id, winner);
      }
    }
    cache.trials.put_calibration(gpu(hardware), "read_tb_s", 4.6);
    cache.trials.put_calibration(gpu(hardware), "bf16_tflop_s", 790);
  }
  WorkloadKey stale = attention_key(2, 2048);
  stale.source_digest = "yesterday";
  cache.winners.put(cache.workloads.id(stale), winner_of(random, 44, "2026-10-01T08:00:00Z"));
  const std::int64_t other =
      cache.workloads.id({.kernel = "saxpy", .problem = "n=1000", .hardware = gpu("NVIDIA H200")});
  for (int x = 0; x < 30; ++x) {
    TrialRecord trial = trial_of(random, x);
    trial.config = "x=" + std::to_string(x);
    cache.trials.put(other, trial);
  }
}

void make_hostile(Cache& cache, Random& random) {
  const std::string hostile = "</script><img src=x onerror=\"alert(1)\"><!--\"'`&lt;\u2028\x01\x1b[31m";
  const std::string texts[] = {
      hostile, "__proto__", "constructor", "=1+1", std::string(100'000, '<'), "javascript:alert(1)"};
  for (const std::string& text : texts) {
    WorkloadKey key{
        .kernel = text, .problem = "a=" + text, .hardware = gpu(text), .source_digest = text, .toolchain = text};
    const std::int64_t id = cache.workloads.id(key, text);
    for (int i = 0; i < 30; ++i) {
      TrialRecord trial = trial_of(random, i);
      trial.config =
          "__proto__=" + std::to_string(i % 3) + "," + (text.size() < 1000 ? text : "x") + "=" + std::to_string(i);
      trial.message = text;
      if (i == 7) trial.outcome = text;
      cache.trials.put(id, trial);
    }
    WinnerRecord winner = winner_of(random, 10, text);
    winner.config = text;
    winner.provenance = "{\"strategy\":\"</script><img src=x onerror=alert(2)>\",\"driver\":\"</style>\"}";
    cache.winners.put(id, winner);
  }
}

void make_big(Cache& cache, Random& random) {
  for (int w = 0; w <= 30; ++w) {
    const std::int64_t id = cache.workloads.id(attention_key(1 + w % 5, 1024 * (1 + w / 5)));
    for (int i = 0; i < (w == 0 ? 40'000 : 2000); ++i) cache.trials.put(id, trial_of(random, i));
    cache.winners.put(id, winner_of(random, 20, "2026-11-22T08:00:00Z"));
  }
}

constexpr const char* kMarkup = "</script><img src=x onerror=alert(3)>";

// A certified table whose cells were searched, and one whose texts are all markup.
void make_ranges(Cache& cache, Random& random) {
  RangeTable table{.ranges = "batch=1..64,context=1024..16384", .bound = 0.02, .kept = false};
  RangeKey key{.kernel = "decode_attention", .family = "head_dim=128", .hardware = gpu("NVIDIA H200")};
  for (const int batch : {1, 8, 64}) {
    for (const int context : {1024, 4096, 16384}) {
      WorkloadKey cell = attention_key(batch, context);
      cell.timing = key.timing = Timing::chained;
      key.source_digest = "older";  // of a space in which any of these configurations could run
      key.toolchain = cell.toolchain;
      WinnerRecord winner = winner_of(random, 10.0 * batch, "2026-11-22T08:00:00Z");
      const std::string fastest = batch == 8 ? config_of(7) : winner.config;
      winner.timings = R"({"chained":{"time_us":10,"default_us":12,"fastest":")" + winner.config +
                       R"(","fastest_us":10},"alone":{"time_us":11,"default_us":13,"fastest":")" + fastest +
                       R"(","fastest_us":9}})";
      cache.winners.put(cache.workloads.id(cell), winner);
      const double time = 10.0 * batch;
      table.cells.push_back({cell.problem, winner.config, time, 1.2 * time, batch == 64 ? time / 1.03 : time});
    }
  }
  table.certificate = RangeCertificate::of({0.001, 0.012, 0.05}, {-0.1});
  cache.ranges.put(key, {.table = table.text(), .progress = "", .variants = {}});
  RangeTable hostile{.ranges = "batch=1..64", .bound = 0.02};  // other ranges are no table's
  hostile.cells = {{kMarkup, kMarkup, 10, 12, 9}};
  key.kernel = key.family = key.hardware.name = key.source_digest = kMarkup;
  cache.ranges.put(key, {.table = hostile.text(), .progress = "", .variants = {}});
}

}  // namespace

int main(int count, char** words) {
  const std::string kind = count == 3 ? words[1] : "";
  void (*const make)(Cache&, Random&) = kind == "usual"     ? make_usual
                                        : kind == "hostile" ? make_hostile
                                        : kind == "big"     ? make_big
                                        : kind == "ranges"  ? make_ranges
                                                            : nullptr;
  if (make == nullptr) {
    std::fprintf(stderr, "usage: make_report_cache usual|hostile|big|ranges FILE\n");
    return 2;
  }
  Cache cache = Cache::open(words[2], Cache::Mode::create);
  Random random(5);
  make(cache, random);
  return 0;
}

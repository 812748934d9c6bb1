// Whole commands on the scripted GPU of tests/fake_cuda, with the real NVRTC: one that is sound, and one that
// fails.
#include "tests/cli/scripted_gpu.h"

#include <fstream>

#include "base/format.h"
#include "cache/cache.h"
#include "tests/texts.h"

using namespace moetune;
using namespace moetune::testing;

namespace {

Ended run_on_workload(ScriptedGpu& gpu, const char* verb, const std::vector<std::string>& more) {
  std::vector<std::string> arguments = {verb, "decode_kernel", "--problem", "elements=16384"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return gpu.tool.run(arguments);
}

}  // namespace

TEST_CASE("devices --calibrate measures what it can, keeps it, and names what stays unknown") {
  ScriptedGpu gpu(",links=40");
  const Json before = document(gpu.tool.run({"devices", "--json"}))["gpus"][0];
  CHECK(before["read_tb_s"].is_null());

  const Ended calibrated = gpu.tool.run({"devices", "--calibrate", "--json"});
  CAPTURE(calibrated.err);
  REQUIRE(calibrated.code == 0);
  const Json found = document(calibrated)["gpus"][0];
  // Every launch takes 10 us, whatever it moves: a sixteenth of the memory read with one sum for every 1024
  // elements, or half of that read and as much written.
  const double bytes = ScriptedGpu::kMemory / 16.0;
  CHECK(found["read_tb_s"].get<double>() == doctest::Approx((bytes + bytes / 1024) / 10 * 1e-6));
  CHECK(found["copy_tb_s"].get<double>() == doctest::Approx(bytes / 10 * 1e-6));
  CHECK(found["launch_us"].get<double>() == doctest::Approx(10));
  // As many elements as fit at 5 and at 36 bytes each, in powers of two.
  CHECK(found["mostly_read_tb_s"].get<double>() == doctest::Approx(32768 * 4.5 / 10 * 1e-6));
  CHECK(found["mostly_write_tb_s"].get<double>() == doctest::Approx(4096 * 36 / 10.0 * 1e-6));
  // It has no tensor cores.
  CHECK(found["bf16_tflop_s"].is_null());
  CHECK(contains(calibrated.err, "The ceiling 'tensor cores (bf16)' stays unknown"));

  // Copies: 40 GB/s to the GPU. Of one NUMA node and one GPU, nothing is known of others.
  CHECK(found["h2d_pinned_tb_s"].get<double>() == doctest::Approx(0.04));
  CHECK(found["d2h_pinned_tb_s"].get<double>() == doctest::Approx(0.02));
  CHECK(found["h2d_pageable_tb_s"].get<double>() == doctest::Approx(0.01));
  CHECK(found["d2h_pageable_tb_s"].get<double>() == doctest::Approx(0.005));
  CHECK(found["h2d_pinned_remote_tb_s"].is_null());
  CHECK(found["peer_tb_s"].is_null());
  CHECK(found["graph_node_us"].get<double>() == doctest::Approx(1));
  CHECK(found["host_launch_us"].get<double>() > 0);
  CHECK_FALSE(contains(calibrated.err, "The figure"));

  const Json kept = document(gpu.tool.run({"devices", "--json"}))["gpus"][0];
  CHECK(kept == found);
}

TEST_CASE("copies between GPUs are measured, and what cannot be measured of the machine is named") {
  // Of capability 10.0, whose tensor cores are not measured.
  ScriptedGpu gpu(",links=40,devices=2,same,unpinned,attribute0.75=10,attribute1.75=10");
  const Ended calibrated = gpu.tool.run({"devices", "--calibrate", "--json"});
  REQUIRE(calibrated.code == 0);
  const Json found = document(calibrated)["gpus"][0];
  CHECK(found["peer_tb_s"].get<double>() == doctest::Approx(0.08));
  CHECK(found["h2d_pageable_tb_s"].get<double>() == doctest::Approx(0.01));
  CHECK(found["h2d_pinned_tb_s"].is_null());
  CHECK(contains(calibrated.err, "The figure 'host to device, pinned' stays unknown: cuMemHostRegister of"));
  CHECK_FALSE(contains(calibrated.err, "tensor cores"));
}

TEST_CASE("a profiler hears the phases of a search, its trials and what the worker does") {
  ScriptedGpu gpu;
  const std::string heard = gpu.tool.path("heard").string();
  gpu.tool.set_environment("NVTX_INJECTION64_PATH", paths::fake_nvtx());
  gpu.tool.set_environment("MOETUNE_FAKE_NVTX", heard);
  REQUIRE(run_on_workload(gpu, "search", {"--budget", "2"}).code == 0);
  const std::string text = read_text(heard);
  for (const char* line : {"start preparing\n", "start searching\n", "start storing\n", "end 7\n", "push hello\n",
                           "push open\n", "push run\n", "push validate\n", "push measure\n", "push duel\n"})
    CHECK_MESSAGE(contains(text, line), line);
  CHECK(contains(text, "push trial loader="));
  const auto count = [&](const std::string& line) {
    std::size_t found = 0;
    for (std::size_t at = 0; (at = text.find(line, at)) != std::string::npos; ++at) ++found;
    return found;
  };
  CHECK(count("push ") == count("pop\n"));
  CHECK(count("start ") == count("end 7\n"));

  // One that does not load listens to nothing, and nothing waits for a pipe.
  gpu.tool.set_environment("NVTX_INJECTION64_PATH", "/dev/null");
  CHECK(run_on_workload(gpu, "verify", {}).code == 0);
}

TEST_CASE("bench --ncu and --nsys write a script that launches what serves, and report reads what ncu found") {
  ScriptedGpu gpu;
  REQUIRE(run_on_workload(gpu, "search", {"--budget", "2"}).code == 0);
  const std::string script = gpu.tool.path("look here").string();
  const Json ncu = document(run_on_workload(gpu, "bench", {"--ncu", script, "--json"}));
  const std::string command = ncu["command"];
  CHECK(ncu["what"] == "winner");
  CHECK(contains(command, "ncu --target-processes all --kernel-name 'regex:^(decode_kernel)$' --launch-skip 1"));
  CHECK(contains(command, "--log-file '" + script + ".csv' " + gpu.tool.binary() + " verify decode_kernel --problem"));
  CHECK(contains(command, "--device cuda:0 --cache "));
  CHECK(read_text(script) == "#!/bin/sh\nexec " + command + "\n");

  // What the script runs is right here, where a stand-in for ncu runs its last words.
  const std::string stand_in = gpu.tool.path("ncu").string();
  std::ofstream(stand_in) << "#!/bin/sh\nwhile [ \"$1\" != --log-file ]; do shift; done; shift 2; exec \"$@\"\n";
  std::filesystem::permissions(stand_in, std::filesystem::perms::owner_all);
  gpu.tool.set_environment("PATH", gpu.tool.path("").string() + ":/usr/bin:/bin");
  const Ended ran = gpu.tool.start_program({script})->wait();
  CHECK(ran.code == 0);
  CHECK(contains(ran.out, "right\n"));

  const Json nsys =
      document(run_on_workload(gpu, "bench", {"--config", ncu["config"], "--nsys", script, "--no-cache", "--json"}));
  CHECK(nsys["what"] == "config");
  CHECK(contains(nsys["command"], "nsys profile --trace cuda,nvtx"));
  CHECK(contains(nsys["command"], "--no-cache --seed 1 --rounds 5"));
  CHECK(run_on_workload(gpu, "bench", {"--ncu", script, "--nsys", script}).code == 2);
  CHECK(run_on_workload(gpu, "bench", {"--ncu", ""}).code == 2);

  gpu.tool.write(
      "found.csv",
      "==PROF== Connected\n"
      "\"ID\",\"Kernel Name\",\"gpu__time_duration.sum\",\"sm__warps_active.avg.pct_of_peak_sustained_active\"\n"
      "\"\",\"\",\"usecond\",\"%\"\n\"0\",\"decode_kernel\",\"1,234.5\",\"47.25\"\n");
  const std::string found = gpu.tool.path("found.csv").string();
  const Ended report = run_on_workload(gpu, "report", {"--ncu", found});
  CHECK(report.code == 0);
  CHECK(contains(report.out, "winner 1"));
  CHECK(contains(report.out, "47.2%"));
  const Json launches = document(run_on_workload(gpu, "report", {"--ncu", found, "--json"}))["ncu"];
  CHECK(launches[0]["time_us"] == 1234.5);
  CHECK(launches[0]["dram_percent"].is_null());
  CHECK(gpu.tool.run({"report", "--ncu", found}).code == 2);
}

TEST_CASE("bench --profile shows what bounds the first row") {
  ScriptedGpu gpu;
  REQUIRE(run_on_workload(gpu, "search", {"--budget", "2"}).code == 0);
  CHECK(contains(run_on_workload(gpu, "bench", {"--rounds", "2", "--profile", "roofline"}).out, "no ceiling is known"));
  {
    const std::string file = document(gpu.tool.run({"cache", "ls", "--json"}))["cache"];
    auto cache = Cache::open(file, Cache::Mode::read_write);
    const HardwareKey hardware = cache.workloads.all()[0].key.hardware;
    cache.trials.put_calibration(hardware, "read_tb_s", 0.02);
    cache.trials.put_calibration(hardware, "launch_us", 1.0);
    cache.trials.put_calibration(hardware, "h2d_pinned_tb_s", 0.04);
    cache.trials.put_calibration(hardware, "host_launch_us", 4.0);
  }
  const Ended report = gpu.tool.run({"report", "--details"});
  CHECK(contains(report.out, "host to device, pinned 40.0 GB/s; launch, on the host 4.00 µs\n"));
  CHECK(document(gpu.tool.run({"report", "--json"}))["hardware"][0]["ceilings"]["host_launch_us"] == 4.0);
  const Json bench = document(run_on_workload(gpu, "bench", {"--rounds", "2", "--json"}));
  REQUIRE(bench["floors"].size() >= 1);
  const double least = bench["floors"][0]["us"], time = bench["rows"][0]["time_us"];
  const Ended all = run_on_workload(gpu, "bench", {"--rounds", "2", "--profile", "roofline"});
  CHECK(contains(all.out, format("%.1f%%", 100 * least / time)));
  CHECK(run_on_workload(gpu, "bench", {"--profile", "deep"}).code == 2);
}

TEST_CASE("a GPU on which every launch fails after a while costs the candidates and not the command") {
  ScriptedGpu gpu(",fail_at=60,code=719");
  const Ended ended = gpu.tool.run({"search", "decode_kernel", "--problem", "elements=16384", "--json"});
  CAPTURE(ended.err);
  CHECK(ended.code == 1);
  const Json found = document(ended);
  CHECK(found["best"].is_null());
  CHECK(found["trials"]["total"].get<int>() > 0);
  CHECK(found["trials"]["launch_failed"] == found["trials"]["total"]);
  CHECK(contains(ended.err, "No valid configuration was found"));
}

TEST_CASE("a GPU that breaks ends the command, and no candidate is blamed when it works again") {
  const std::vector<std::string> search = {"search", "decode_kernel", "--problem", "elements=16384", "--budget",
                                           "8",      "--json"};
  ScriptedGpu gpu(",fail_at=60,code=214");
  const Ended broken = gpu.tool.run(search);
  CHECK(broken.code == 3);
  CHECK_MESSAGE(contains(broken.err, "the GPU itself fails"), broken.err);
  gpu.tool.set_environment("MOETUNE_FAKE_CUDA", "memory=" + std::to_string(ScriptedGpu::kMemory));
  const Ended repaired = gpu.tool.run(search);
  CAPTURE(repaired.err);
  CHECK(repaired.code == 0);
  CHECK(document(repaired)["trials"]["launch_failed"] == 0);
}

TEST_CASE("beside somebody else's load a search ends with 0 and says so, and every command shows the mark") {
  ScriptedGpu gpu(",busy=1-100000");
  const auto run = [&](const char* verb, const std::vector<std::string>& more) {
    return run_on_workload(gpu, verb, more);
  };
  const Ended searched = run("search", {"--budget", "3", "--quiet-wait", "0"});
  CAPTURE(searched.err);
  REQUIRE(searched.code == 0);
  CHECK(contains(searched.err, "Somebody else is using the GPU: a test kernel stood still for 2.0 of 5.0 ms."));
  CHECK(
      contains(searched.err, "The GPU did not get quiet in 0 s. Times measured beside that load are marked contended"));
  CHECK(contains(searched.out, "(contended: somebody else used the GPU)"));
  CHECK(contains(searched.out, "of the trials were measured while somebody else used the GPU"));
  CHECK_FALSE(contains(searched.out, "throttled"));

  const Ended report = gpu.tool.run({"report", "--wide"});
  CHECK(contains(report.out, "µs!"));
  CHECK(contains(report.out, "measured while somebody else used the GPU; search again when it is quiet"));
  CHECK(contains(gpu.tool.run({"cache", "ls"}).out, "(contended)"));
  CHECK(contains(gpu.tool.run({"cache", "show", "1"}).out, "(contended: somebody else used the GPU)"));
  CHECK(gpu.tool.run({"cache", "check"}).code == 0);

  const Ended benched = run("bench", {"--rounds", "3", "--quiet-wait", "0"});
  CHECK(benched.code == 0);
  CHECK(contains(benched.out, "the stored winner is contended"));
  CHECK(contains(benched.out, "contended: somebody else used the GPU during this bench"));
  const Ended verified = run("verify", {"--seeds", "1"});
  CHECK(verified.code == 0);
  CHECK(contains(verified.err, "Somebody else is using the GPU"));

  const Ended recorded = run("record", {"--output", gpu.tool.path("recording.json").string(), "--quiet-wait", "0"});
  CHECK(recorded.code != 0);
  CHECK_FALSE(std::filesystem::exists(gpu.tool.path("recording.json").string()));
}

TEST_CASE("bench --assume names the fields that there are") {
  ScriptedGpu gpu;
  const auto refusal = [&](const std::string& kernel, const std::string& field) {
    const Ended ended =
        gpu.tool.run({"bench", kernel, "--config", "warps=4", "--rounds", "3", "--assume", field, "--json"});
    CHECK(ended.code == 2);
    return document(ended)["error"]["message"].get<std::string>();
  };
  CHECK(contains(refusal("decode_attention", "kv_setled"), "did you mean 'kv_settled'?"));
  CHECK(contains(refusal("decode_attention", "capacity"), "unknown assumption of decode_attention 'capacity'"));
  CHECK(contains(refusal("router", "kv_settled"), "router can assume nothing of its caller"));
}

TEST_CASE("a search answers one timing, stores the winner's times under all, and bench shows them") {
  ScriptedGpu gpu(",unproduced=20");
  const auto run = [&](const char* verb, const std::vector<std::string>& more) {
    return run_on_workload(gpu, verb, more);
  };
  // A configuration that is named needs no winner.
  const char* const kNamed =
      "loader=cp_async,vector_bytes=16,tile_kib=16,stages=2,warps=4,producers=0,blocks_per_sm=1,l2=normal";
  const Ended untuned = run("bench", {"--rounds", "5", "--json"});
  CHECK(untuned.code == 2);
  CHECK(contains(document(untuned)["error"]["message"], "nothing is tuned yet"));
  const Ended named = run("bench", {"--rounds", "5", "--config", kNamed, "--json"});
  CAPTURE(named.err);
  REQUIRE(named.code == 0);
  const Json named_rows = document(named)["rows"];
  CHECK(named_rows[0]["what"] == "config");
  CHECK(named_rows[0]["outcome"] == "ok");
  CHECK(contains(named_rows[0]["config"], "tile_kib=16"));
  CHECK(named_rows[1]["what"] == "config chained");
  CHECK(named_rows.back()["what"] == "reference");
  CHECK(contains(run("bench", {"--rounds", "5", "--config", kNamed}).out, "vs config"));

  const Ended searched = run("search", {"--timing", "chained", "--budget", "3", "--json"});
  CAPTURE(searched.err);
  REQUIRE(searched.code == 0);
  const Json found = document(searched);
  CHECK(found["timing"] == "chained");
  const double chained = found["timings"]["chained"]["time_us"];
  CHECK(found["best"]["time_us"].get<double>() == doctest::Approx(chained).epsilon(0.05));
  CHECK(found["timings"]["overlapped"]["time_us"].get<double>() == doctest::Approx(chained + 20));
  CHECK(found["timings"]["alone"]["time_us"].get<double>() >= chained + 19.9);
  CHECK(found["timings"]["differs"].empty());
  const Json listed = document(gpu.tool.run({"report", "--json"}))["workloads"];
  REQUIRE(listed.size() == 1);
  CHECK(listed[0]["timing"] == "chained");
  CHECK(listed[0]["timings"] == found["timings"]);

  const Ended benched = run("bench", {"--timing", "chained", "--rounds", "5", "--json"});
  CAPTURE(benched.err);
  REQUIRE(benched.code == 0);
  const Json rows = document(benched)["rows"];
  CHECK(rows[0]["what"] == "winner");
  CHECK(rows[0]["time_us"].get<double>() == doctest::Approx(chained));
  CHECK(rows[1]["what"] == "winner overlapped");
  CHECK(rows[1]["time_us"].get<double>() == doctest::Approx(chained + 20));
  CHECK(rows[2]["what"] == "winner alone");
  // Of overlapping launches nothing is stored: the chained winner stands in, which is said.
  CHECK(contains(run("bench", {"--rounds", "5"}).err, "that of chained launches"));
  CHECK(contains(run("bench", {"--timing", "chaned"}).err, "chained"));
  CHECK(contains(run("search", {"--timing", "chained", "--budget", "3"}).out, "no other winner under any"));
}

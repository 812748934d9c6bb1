// Whole commands on the scripted GPU of tests/fake_cuda, with the real NVRTC: one that is sound, and one that
// fails.
#include "tests/cli/tool.h"

using namespace moetune::testing;

namespace {

// Its launches run on the CPU: what a calibration moves, a sixteenth of it, should be little.
constexpr std::int64_t kMemory = 4 << 20;

// A small GPU, and a few configurations of decode_kernel.
class ScriptedGpu {
 public:
  explicit ScriptedGpu(const std::string& script = "")
      : tool{{{"MOETUNE_LIBCUDA", MOETUNE_FAKE_LIBCUDA},
              {"MOETUNE_FAKE_CUDA", "memory=" + std::to_string(kMemory) + script},
              {"MOETUNE_DATA_DIR", data_.string()}}} {
    Tool::constrain(
        data_, "decode_kernel",
        "loader == 'cp_async' && stages == 2 && warps == 4 && tile_kib == 16 && vector_bytes == 16 &&"
        " blocks_per_sm == 1");
  }

 private:
  Tool home_;
  std::filesystem::path data_ = home_.copy_data();

 public:
  Tool tool;
};

}  // namespace

TEST_CASE("devices --calibrate measures what it can, keeps it, and names what stays unknown") {
  ScriptedGpu gpu;
  const Json before = document(gpu.tool.run({"devices", "--json"}))["gpus"][0];
  CHECK(before["read_tb_s"].is_null());

  const Ended calibrated = gpu.tool.run({"devices", "--calibrate", "--json"});
  CAPTURE(calibrated.err);
  REQUIRE(calibrated.code == 0);
  const Json found = document(calibrated)["gpus"][0];
  // Every launch takes 10 us, whatever it moves: a sixteenth of the memory read with one sum for every 1024
  // elements, or half of that read and as much written.
  const double bytes = kMemory / 16.0;
  CHECK(found["read_tb_s"].get<double>() == doctest::Approx((bytes + bytes / 1024) / 10 * 1e-6));
  CHECK(found["copy_tb_s"].get<double>() == doctest::Approx(bytes / 10 * 1e-6));
  CHECK(found["launch_us"].get<double>() == doctest::Approx(10));
  // As many elements as fit at 5 and at 36 bytes each, in powers of two.
  CHECK(found["mostly_read_tb_s"].get<double>() == doctest::Approx(32768 * 4.5 / 10 * 1e-6));
  CHECK(found["mostly_write_tb_s"].get<double>() == doctest::Approx(4096 * 36 / 10.0 * 1e-6));
  // It has no tensor cores.
  CHECK(found["bf16_tflop_s"].is_null());
  CHECK(contains(calibrated.err, "The ceiling 'tensor cores (bf16)' stays unknown"));

  const Json kept = document(gpu.tool.run({"devices", "--json"}))["gpus"][0];
  CHECK(kept == found);
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

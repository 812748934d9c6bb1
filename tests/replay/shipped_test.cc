#include "replay/shipped.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "base/error.h"
#include "tests/replay/sample_recording.h"

using namespace moetune;
namespace fs = std::filesystem;

TEST_CASE("every recording in the binary can be read, and found by kernel and problem") {
  for (const ShippedRecording& shipped : list_shipped_recordings()) {
    CAPTURE(shipped.path);
    const Recording recording = read_shipped_recording(shipped.header.kernel, shipped.header.problem);
    CHECK(recording.hardware.name == shipped.header.hardware);
    CHECK(recording.trials.size() == recording.space.size());
    CHECK(recording.optimum_us() > 0);
  }
}

TEST_CASE("shipped recordings are listed, found by problem, and missing ones answered with what there is") {
  const fs::path dir = fs::temp_directory_path() / ("moetune_shipped_test" + std::to_string(::getpid()));
  fs::create_directories(dir / "replay/recordings");
  Recording recording = sample_recording();
  write_recording(recording, dir / "replay/recordings/a.json.zst");
  recording.problem = "n=2048,dtype=bf16";
  write_recording(recording, dir / "replay/recordings/b.json.zst");
  ::setenv("MOETUNE_DATA_DIR", dir.c_str(), 1);
  const std::vector<ShippedRecording> all = list_shipped_recordings();
  REQUIRE(all.size() == 2);
  CHECK(all[1].path == "replay/recordings/b.json.zst");
  CHECK(read_shipped_recording("axpy", "n=2048,dtype=bf16").problem == "n=2048,dtype=bf16");
  CHECK_THROWS_WITH_AS(
      read_shipped_recording("axpy", "n=1"),
      "no shipped recording of axpy for n=1; there is one for: n=1024,dtype=bf16; n=2048,dtype=bf16",
      BadInput);
  CHECK_THROWS_WITH_AS(read_shipped_recording("router", "n=1"),
                       "no shipped recording of router for n=1: there is none of this kernel", BadInput);
  ::unsetenv("MOETUNE_DATA_DIR");
  fs::remove_all(dir);
}

#include "replay/shipped.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "tests/replay/sample_recording.h"
#include "tests/temporary_folder.h"

using namespace moetune;
namespace fs = std::filesystem;

TEST_CASE("every recording in the binary can be read, and is what its header says") {
  for (const ShippedRecording& shipped : list_shipped_recordings()) {
    CAPTURE(shipped.path);
    const Recording recording = shipped.read();
    CHECK(recording.kernel == shipped.header.kernel);
    CHECK(recording.problem == shipped.header.problem);
    CHECK(recording.hardware.name == shipped.header.hardware);
    CHECK(recording.trials.size() == recording.space.size());
    CHECK(recording.optimum_us() > 0);
  }
}

TEST_CASE("shipped recordings are listed by path, each with its name, its header and its rows") {
  const TemporaryFolder dir;
  fs::create_directories(dir / "replay/recordings");
  Recording recording = sample_recording();
  write_recording(recording, dir / "replay/recordings/a.json.zst");
  recording.problem = "n=2048,dtype=bf16";
  write_recording(recording, dir / "replay/recordings/b.json.zst");
  std::ofstream(dir / "replay/recordings/broken.json.zst") << "not compressed, no recording";
  ::setenv("MOETUNE_DATA_DIR", dir.path().c_str(), 1);
  const std::vector<ShippedRecording> all = list_shipped_recordings();
  REQUIRE(all.size() == 3);
  CHECK(all[0].damage == "");
  CHECK(all[2].damage == "replay/recordings/broken.json.zst: not a moetune recording");
  CHECK_THROWS_AS(all[2].read(), BadInput);
  CHECK(all[1].path == "replay/recordings/b.json.zst");
  CHECK(all[1].name() == "b");
  CHECK(all[1].header.problem == "n=2048,dtype=bf16");
  CHECK(all[1].read().problem == "n=2048,dtype=bf16");
  CHECK(all[0].read().problem == "n=1024,dtype=bf16");
  ::unsetenv("MOETUNE_DATA_DIR");
}

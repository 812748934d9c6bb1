#include "replay/recording.h"

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "replay/compressed_file.h"
#include "replay/recording_format.h"
#include "tests/refusal.h"
#include "tests/replay/sample_recording.h"
#include "tests/temporary_folder.h"
#include "tests/texts.h"

using namespace moetune;
using testing::replaced;
namespace fs = std::filesystem;

namespace {

std::string error(const std::string& text) {
  return refusal_of([&] { parse_recording(text, "r.json"); });
}

}  // namespace

TEST_CASE("a recording reads back exactly as it was written, failures included") {
  const TemporaryFolder folder;
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    const Recording written = sample_recording(seed);
    write_recording(written, folder / "r.json.zst");
    const Recording read = read_recording(folder / "r.json.zst");
    CHECK(read.hardware.text() == written.hardware.text());
    CHECK(read.hardware.driver == written.hardware.driver);
    CHECK(read.limits.shared_per_block == written.limits.shared_per_block);
    CHECK(read.limits.memory_bytes == written.limits.memory_bytes);
    CHECK(read.limits.threads_per_sm == written.limits.threads_per_sm);
    CHECK(read.kernel == written.kernel);
    CHECK(read.problem == written.problem);
    CHECK(read.source_digest == written.source_digest);
    CHECK(read.toolchain == written.toolchain);
    CHECK(read.recorded_at == written.recorded_at);
    CHECK(read.digest.size() == 32);
    CHECK(read.optimum_us() == written.optimum_us());
    REQUIRE(read.space.size() == written.space.size());
    REQUIRE(read.trials.size() == written.trials.size());
    for (ConfigId id = 0; id < read.space.size(); ++id) {
      CHECK(read.space.config(id) == written.space.config(id));
      CHECK(read.trials[id].outcome == written.trials[id].outcome);
      CHECK(read.trials[id].time_us == written.trials[id].time_us);
      CHECK(read.trials[id].samples_us == written.trials[id].samples_us);
      CHECK(read.trials[id].message == written.trials[id].message);
    }
  }
  CHECK(folder.count() == 1);  // no temporary file stays
}

TEST_CASE("a recording may hold the read ceiling of its GPU, and need not") {
  Recording recording = sample_recording();
  const std::string without = format_recording(recording);
  CHECK(without.find("read_tb_s") == std::string::npos);
  CHECK(parse_recording(without, "r.json").read_tb_s == 0);
  recording.read_tb_s = 4.7;
  recording.launch_us = 1.5;
  const std::string with = format_recording(recording);
  CHECK(parse_recording(with, "r.json").read_tb_s == 4.7);
  CHECK(parse_recording(with, "r.json").launch_us == 1.5);
  CHECK(error(replaced(with, "\"read_tb_s\":4.7", "\"read_tb_s\":0")) ==
        "r.json: 'read_tb_s' is 0, not from 0.001 to 1000");
  CHECK(error(replaced(with, "\"read_tb_s\":4.7", "\"read_tb_s\":\"fast\"")) ==
        "r.json: 'read_tb_s' is \"fast\", not a number");
  CHECK(error(replaced(with, "\"read_tb_s\":4.7", "\"read_tb_s\":1e999")).starts_with("r.json: "));
}

TEST_CASE("the digest follows the content, not the compression") {
  const std::string text = format_recording(sample_recording(1));
  const std::string digest = parse_recording(text, "r.json").digest;
  CHECK(parse_recording(compress_zstd(text), "r.json.zst").digest == digest);
  CHECK(parse_recording(format_recording(sample_recording(2)), "r.json").digest != digest);
}

TEST_CASE("columns that this version does not know are passed over: earlier ones hold static facts") {
  const std::string plain = format_recording(sample_recording());
  const std::string facts = R"("facts":[{"name":"registers","values":[32,null,64,96,128]}],"messages":)";
  const Recording read = parse_recording(replaced(plain, "\"messages\":", facts), "r.json");
  CHECK(read.trials.size() == 5);
  CHECK(read.space.config(4) == sample_recording().space.config(4));
}

TEST_CASE("the header is read without the rows") {
  const std::string text = format_recording(sample_recording());
  const std::string header_only = text.substr(0, text.find('\n') + 1) + "rows that are not even JSON";
  const RecordingHeader header = parse_recording_header(compress_zstd(header_only), "r.json.zst");
  CHECK(header.hardware == "NVIDIA H200");
  CHECK(header.kernel == "axpy");
  CHECK(header.problem == "n=1024,dtype=bf16");
  CHECK(header.recorded_at == "2025-11-02");
  CHECK_THROWS_AS(parse_recording_header("{}", "r.json"), BadInput);
}

TEST_CASE("an optimum needs a row that worked") {
  Recording recording = sample_recording();
  for (RecordedTrial& trial : recording.trials) trial.outcome = Outcome::crashed;
  CHECK(std::isinf(recording.optimum_us()));
}

TEST_CASE("each damage to a recording is named with the file") {
  const std::string text = format_recording(sample_recording());
  CHECK(error("").starts_with("r.json: "));
  CHECK(error("{}") ==
        "r.json: neither a moetune recording, nor a cache of Kernel Tuner, nor results in T4's or KTT's JSON");
  CHECK(error("garbage").starts_with("r.json: parse error at line 1, column 1"));
  CHECK(error(text.substr(0, 100)) == "r.json: the recording ends after its header");
  CHECK(error(text.substr(0, text.size() - 20)).starts_with("r.json: the rows: parse error"));
  CHECK(error(replaced(text, "\"moetune_recording\":1", "\"moetune_recording\":2")) ==
        "r.json: recording format 2; this moetune reads format 1");
  CHECK(error(replaced(text, "\"rows\":5", "\"rows\":6")) == "r.json: a column of positions is too short or too long");
  CHECK(error(replaced(text, "\"kernel\"", "\"kernle\"")).find("key 'kernel' not found") != std::string::npos);
  CHECK(error(replaced(text, "[\"ok\"", "[\"fine\"")) == "r.json: unknown outcome 'fine'");
  for (const std::string position : {"7", "-1", "70000"}) {
    CHECK(error(replaced(text, "\"positions\":[[0,0,1", "\"positions\":[[0,0," + position)) ==
          "r.json: row 2 lies outside the domain of 'tile'");
  }
  CHECK(error(replaced(text, "\"rows\":5", "\"rows\":9000000000000000000")) ==
        "r.json: a column of positions is too short or too long");
  CHECK(error(replaced(text, "[0,1,0,0,1]", "[0,0,0,0,1]")) == "r.json: a configuration occurs twice");
  CHECK(error(replaced(text, "\"time_us\":[", "\"time_us\":[1.0,")) ==
        "r.json: the column 'time_us' does not hold 5 rows");
  CHECK(error(replaced(text, "[64,16,-4]", "[64,\"x\",-4]")) ==
        "r.json: the values of 'tile' are neither all integers nor all names");
  const std::string zst = compress_zstd(text);
  CHECK(error(zst.substr(0, zst.size() / 2)).starts_with("r.json: "));
  std::string flipped = zst;
  flipped[flipped.size() / 2] = static_cast<char>(flipped[flipped.size() / 2] ^ 0x55);
  CHECK(error(flipped).starts_with("r.json: "));
}

TEST_CASE("numbers that no GPU has and no clock measures are refused with the file's name") {
  Recording recording = sample_recording();
  recording.read_tb_s = 4.5;
  recording.launch_us = 1.5;
  const std::string text = format_recording(recording);
  const std::size_t limits = text.find("\"limits\"");
  const auto with_limit = [&](const std::string& from, const std::string& to) {
    return text.substr(0, limits) + replaced(text.substr(limits), from, to);
  };
  for (const std::string count : {"0", "-128", "1000000", "1.5", "true", "\"many\""}) {
    CHECK(error(with_limit("\"sm_count\":132", "\"sm_count\":" + count))
              .starts_with("r.json: 'sm_count' in limits is " + count));
    CHECK(error(replaced(text, "\"sm_count\":132", "\"sm_count\":" + count))
              .starts_with("r.json: 'sm_count' in hardware is " + count));
  }
  CHECK(error(with_limit("\"threads_per_sm\":2048", "\"threads_per_sm\":0")) ==
        "r.json: 'threads_per_sm' in limits is 0, not from 32 to 1073741824");
  for (const std::string ceiling : {"-4.5", "1e30", "true"})
    CHECK(error(replaced(text, "\"read_tb_s\":4.5", "\"read_tb_s\":" + ceiling)).starts_with("r.json: 'read_tb_s'"));
  CHECK(error(replaced(text, "\"launch_us\":1.5", "\"launch_us\":1e9")) ==
        "r.json: 'launch_us' is 1000000000.0, not from 0.001 to 10000");
  CHECK(error(replaced(text, "[64,16,-4]", "[64,64,-4]")) == "r.json: 'tile' has the value 64 twice");
  CHECK(error(replaced(text, "[64,16,-4]", "[64,16.5,-4]")) == "r.json: a value of 'tile' is 16.5, not an integer");
  CHECK(error(replaced(text, "[64,16,-4]", "[64,true,-4]")) == "r.json: a value of 'tile' is true, not an integer");
  CHECK(error(replaced(text, "\"loader\"", "\"tile\"")) == "r.json: the parameter 'tile' occurs twice");
  CHECK(error(replaced(text, "\"rows\":5", "\"rows\":5.5")) == "r.json: 'rows' is 5.5, not an integer");
  CHECK(error(replaced(text, "\"positions\":[[0,0,1", "\"positions\":[[0,0,0.5")) ==
        "r.json: row 2 lies outside the domain of 'tile'");
  for (const std::string time : {"-1.5", "0", "1e-30", "1e300", "true"}) {
    CHECK(error(replaced(text, "\"samples_us\":[[", "\"samples_us\":[[" + time + ","))
              .starts_with("r.json: a sample of row 0 is "));
    const std::size_t begin = text.find("\"time_us\":[") + 11, end = text.find(',', begin);
    CHECK(error(text.substr(0, begin) + time + text.substr(end)).starts_with("r.json: the time of row 0 is "));
    CHECK(error(text.substr(0, begin) + "null" + text.substr(end)) == "r.json: row 0 is ok but has no time");
  }
}

TEST_CASE("a compressed file that unpacks to more than is read is refused") {
  std::string bomb;
  for (int i = 0; i < 40; ++i) bomb += compress_zstd(std::string(16 << 20, ' '));
  CHECK(error(bomb) == "r.json: its content is larger than 512 MiB");
}

TEST_CASE("what is written goes through no name or link that somebody can have prepared") {
  const TemporaryFolder folder;
  std::ofstream(folder / "precious") << "years of work";
  std::filesystem::create_symlink("precious", folder / ("r.json.zst.tmp" + std::to_string(::getpid())));
  std::filesystem::create_symlink("precious", folder / "r.json.zst");
  write_recording(sample_recording(), folder / "r.json.zst");
  CHECK(std::filesystem::file_size(folder / "precious") == 13);
  CHECK(read_recording(folder / "r.json.zst").space.size() == 5);
}

TEST_CASE("a pipe is no recording") {
  const TemporaryFolder folder;
  REQUIRE(::mkfifo(std::string(folder / "pipe").c_str(), 0600) == 0);
  CHECK_THROWS_WITH_AS(read_recording(folder / "pipe"), doctest::Contains("is not a regular file"), BadInput);
}

TEST_CASE("files that cannot be read or written say why") {
  const TemporaryFolder folder;
  CHECK_THROWS_AS(read_recording(folder / "none.json"), BadInput);
  CHECK_THROWS_AS(read_recording(folder / "."), BadInput);
  CHECK_THROWS_AS(write_recording(sample_recording(), folder / "no_such_folder/r.json.zst"), BrokenEnvironment);
}

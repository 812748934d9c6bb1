#include "soundness/soundness.h"

#include <doctest/doctest.h>

#include "base/error.h"
#include "tests/refusal.h"
#include "tests/soundness/forgeries.h"

using namespace moetune;
using namespace moetune::testing;

namespace {

KnownKernel known(bool is_current = true) { return {&decode(), &shared_space("decode_attention"), is_current}; }

FamilyRange stored(const RangeKey& key, const RangeRecord& record) {
  FamilyRange range{.key = key, .table = record.table};
  for (const StoredLaunch& variant : record.variants)
    range.variants.push_back({variant.config, variant.interface, "digest"});
  range.stored_at = record.stored_at;
  return range;
}

std::string refused(const FamilyRange& range, bool is_current = true) {
  return refusal_of([&] { read_sound_range(range, known(is_current)); });
}

}  // namespace

TEST_CASE("an honest winner and an honest table are sound, of today's sources and of others") {
  const Workload of = decode_workload(8, 256, "s");
  for (const bool is_current : {true, false}) {
    CHECK(why_unsound(of, known_workload(of.key, known(is_current))) == "");
    CHECK(why_unsound(of, decode_winner(of), WinnerParts::all, known_workload(of.key, known(is_current))) == "");
    const SoundRange sound =
        read_sound_range(stored(decode_range_key("s"), decode_record(decode_table().text())), known(is_current));
    CHECK(sound.outdated == "");
    CHECK(sound.problems.size() == sound.table.cells.size());
    CHECK(sound.table == decode_table());
  }
  FamilyRange uncompiled = stored(decode_range_key("s"), decode_record(decode_table().text()));
  uncompiled.variants.clear();
  CHECK(refused(uncompiled) == "");
  WinnerRecord without = decode_winner(of);
  without.cubin.clear();
  without.default_launch.cubin.clear();
  CHECK(why_unsound(of, without, WinnerParts::without_cubins, known_workload(of.key, known())) == "");
}

TEST_CASE("the GPU of a stored result has the sizes of its key, and else the limits of its architecture") {
  HardwareKey key = h200_key();
  key.sm_count = 78;
  key.l2_bytes = 1234;
  key.memory_bytes = 5678;
  const DeviceLimits limits = stored_limits(key), usual = limits_of_architecture("sm_90a");
  CHECK(limits.sm_count == 78);
  CHECK(limits.l2_bytes == 1234);
  CHECK(limits.memory_bytes == 5678);
  CHECK(limits.compute_capability == 90);
  CHECK(limits.shared_per_block == usual.shared_per_block);
}

TEST_CASE("what no honest search stores is named, though its digests are right") {
  for (const ForgedWinner& forged : forged_winners()) {
    CAPTURE(forged.what);
    Workload of = decode_workload(8, 256, "s");
    WinnerRecord winner = decode_winner(of);
    forged.forge(of, winner);
    const std::string wrong = why_unsound(of, winner, WinnerParts::all, known_workload(of.key, known()));
    CHECK_MESSAGE(wrong.find(forged.what) != std::string::npos, wrong);
  }
  for (const ForgedTable& forged : forged_tables()) {
    CAPTURE(forged.what);
    RangeTable table = decode_table();
    RangeKey key = decode_range_key("s");
    RangeRecord record = decode_record("");
    forged.forge(table, key, record);
    record.table = table.text();
    const std::string wrong = refused(stored(key, record));
    CHECK_MESSAGE(wrong.find(forged.what) != std::string::npos, wrong);
  }
}

TEST_CASE("what a table of other sources calls otherwise is outdated, and its numbers are judged all the same") {
  RangeTable table = decode_table();
  table.cells[4].config = "of=before";
  RangeKey key = decode_range_key("s");
  const SoundRange outdated = read_sound_range(stored(key, decode_record(table.text())), known(false));
  CHECK(outdated.outdated.find("unknown parameter 'of'") != std::string::npos);
  CHECK(outdated.problems.size() == table.cells.size());           // for those who show it
  CHECK(refused(stored(key, decode_record(table.text()))) != "");  // of today's sources

  table = decode_table();
  table.cells[4].problem =
      stored_problem(decode(), "batch=2,q_heads=4,kv_heads=1,head_dim=128,context=64,page=16").text();
  CHECK(refused(stored(key, decode_record(table.text())), false).find("of another family") != std::string::npos);
  table = decode_table();
  table.bound = 1e308;
  CHECK(refused(stored(key, decode_record(table.text())), false) != "");
}

TEST_CASE("what a server reads of a winner is judged as the whole of it is") {
  for (const ForgedWinner& forged : forged_winners()) {
    Workload of = decode_workload(8, 256, "s");
    WinnerRecord winner = decode_winner(of);
    forged.forge(of, winner);
    if (winner.time_us == 100 && winner.interval_low_us == 99 && winner.interval_high_us == 101) continue;
    CAPTURE(forged.what);
    FamilyWinner read;
    read.workload = of;
    read.time_us = winner.time_us;
    read.interval_low_us = winner.interval_low_us;
    read.interval_high_us = winner.interval_high_us;
    read.default_time_us = winner.default_time_us;
    read.stored_at = winner.stored_at;
    CHECK(why_unsound(read, decode(), stored_problem(decode(), of.key)).find(forged.what) != std::string::npos);
  }
}

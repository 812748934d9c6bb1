// mla_decode's templates on the CPU against the answers in float64.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "tests/kernels/answers/answers.h"
#include "tests/simt/simt_problem.h"

using namespace moetune;
using namespace moetune::testing;

namespace {

const std::string kRelayBase =
    "BODY=relay,ROW_TILES=4,TILE=64,STAGES=2,PAIR=1,PARTS=1,SCHEDULE=grid,overhead=0,splits=1";

struct LatentCase {
  std::string problem;
  std::vector<std::string> configs;
};

// Keys times the scales of groups are rounded to the type of q.
IsRight rounded_latent(const Problem& problem) {
  if (!problem.is("kv_scale", "group")) return rounded_attention(problem);
  const double rounding = problem.is("dtype", "f16") ? 0x1p-9 : 0x1p-6;
  return [rounding](const std::string&, double got, double right) { return is_near(got, right, rounding); };
}

// What a configuration of the body mma says, before its splits.
#define WARPS_OF(TILES, TOKENS, RING) "BODY=mma,ROW_TILES=" TILES ",TILE=" TOKENS ",STAGES=" RING

const std::vector<LatentCase> kLatentCases = {
    {"batch=1,heads=16,context=1", {"", WARPS_OF("1", "32", "2"), "TILE=32,STAGES=4"}},
    {"batch=2,heads=16,context=150,page=16,lse=yes",
     {"", "splits=2", "TILE=32,splits=3,STAGES=4", "PARTS=2,splits=2", "PARTS=8,splits=8,TILE=32",
      WARPS_OF("1", "64", "1"), WARPS_OF("1", "32", "2") ",splits=3"}},
    {"batch=2,heads=40,context=210,queries=2,lengths=ragged,lse=yes",
     {"", "TILE=32,STAGES=2,splits=4", "PAIR=2,splits=2", "PAIR=2,PARTS=4,splits=8,TILE=32,STAGES=2",
      WARPS_OF("2", "32", "3") ",splits=2"}},
    {"batch=1,heads=72,context=90,page=128,dtype=f16,kv_dtype=f16",
     {"splits=2", "PAIR=2", "PAIR=2,PARTS=2,splits=2", WARPS_OF("2", "64", "1")}},
    {"batch=2,heads=20,context=3,queries=4,lse=yes,page=32", {"", "TILE=32", WARPS_OF("2", "32", "1")}},
    {"batch=2,heads=8,context=75,page=1,lengths=ragged",
     {WARPS_OF("1", "32", "3"), WARPS_OF("1", "64", "1") ",splits=2", "", "TILE=32,STAGES=4,PARTS=2,splits=2"}},
    {"batch=2,heads=16,context=150,page=16,lse=yes,kv_dtype=e4m3",
     {"TILE=32", "TILE=64,STAGES=1", "TILE=32,STAGES=4,splits=2", "TILE=32,PARTS=4,splits=4", WARPS_OF("1", "64", "1"),
      WARPS_OF("2", "32", "3") ",splits=2"}},
    {"batch=1,heads=40,context=70,queries=2,page=1,lengths=ragged,dtype=f16,kv_dtype=e4m3",
     {"TILE=32,STAGES=3", WARPS_OF("2", "32", "2")}},
    {"batch=2,heads=8,context=90,page=32,lse=yes,kv_dtype=e4m3,kv_scale=group,lengths=ragged",
     {"TILE=32", "TILE=32,STAGES=3,PARTS=2,splits=2", WARPS_OF("1", "64", "2")}},
    {"batch=1,heads=80,context=80,queries=2,tokens=chosen,lse=yes,lengths=ragged",
     {"", "TILE=32,STAGES=4,splits=3", "PARTS=2,splits=2", WARPS_OF("2", "64", "1"), WARPS_OF("2", "32", "3")}},
    {"batch=2,heads=20,context=70,queries=3,tokens=chosen,page=16,kv_dtype=e4m3,lengths=ragged",
     {"TILE=32,STAGES=3", WARPS_OF("2", "32", "2") ",splits=2"}},
    {"batch=1,heads=16,context=100,queries=2,tokens=chosen,kv_dtype=e4m3,kv_scale=group,lse=yes,dtype=f16",
     {"TILE=32,splits=2", "TILE=32,STAGES=3", WARPS_OF("1", "32", "2"), WARPS_OF("1", "64", "1")}},
};

#undef WARPS_OF

}  // namespace

TEST_CASE("simt: mla_decode's exact reference agrees with float64") {
  for (const char* const problem :
       {"batch=1,heads=3,context=1", "batch=2,heads=5,context=70,page=16,lse=yes,queries=2",
        "batch=8,heads=2,context=40,page=1,lengths=ragged,dtype=f16,kv_dtype=f16",
        "batch=2,heads=3,context=40,page=16,kv_dtype=e4m3,lse=yes",
        "batch=2,heads=3,context=40,page=16,kv_dtype=e4m3,kv_scale=group,queries=2,lengths=ragged",
        "batch=2,heads=3,context=30,queries=2,tokens=chosen,kv_dtype=e4m3,kv_scale=group,lse=yes,lengths=ragged",
        "batch=1,heads=5,context=30,queries=2,tokens=chosen,page=1,lengths=ragged"}) {
    CAPTURE(problem);
    const SimtProblem latent("mla_decode", problem, 3);
    check_outputs(latent.reference(Reference::exact), latent.on_cpu(),
                  [](const std::string&, double got, double right) { return is_near(got, right, 1e-4); });
  }
}

TEST_CASE("simt: mla_decode's bodies attend as float64 does, under several schedules") {
  std::uint64_t schedule = 0;
  for (const LatentCase& one : kLatentCases) {
    CAPTURE(one.problem);
    const SimtProblem latent("mla_decode", one.problem, 3);
    const HostTensors right = latent.on_cpu();
    for (const std::string& changes : one.configs) {
      CAPTURE(changes);
      check_outputs(latent.run(latent.config(kRelayBase, changes), schedule++), right, rounded_latent(latent.problem));
    }
  }
}

TEST_CASE("simt: mla_decode reads nothing behind a sequence's end, and a poisoned token shows") {
  // Rows of NaN lie in unused pages and behind the last token; table entries past the end are garbage.
  for (const std::string& changes :
       {std::string("TILE=64"), std::string("TILE=32,splits=3"), std::string("TILE=32,PARTS=2,splits=4"),
        std::string("SCHEDULE=spans,overhead=1,TILE=32"),
        std::string("BODY=mma,ROW_TILES=1,TILE=32,STAGES=2,splits=2")}) {
    CAPTURE(changes);
    SimtProblem latent("mla_decode", "batch=3,heads=16,context=120,page=16,lse=yes", 3);
    const std::vector<std::int32_t> lengths = {120, 0, 37};
    const auto shorten = [&](SimtTensors& tensors) {
      std::memcpy(tensors.bytes("lengths").data(), lengths.data(), 12);
    };
    SimtTensors made = latent.tensors();
    HostTensors inputs = made.inputs();
    inputs.at("lengths").assign(lengths.begin(), lengths.end());
    const HostTensors right = answer_on_cpu(latent.problem, latent.call, inputs);
    CHECK(std::isinf(right.at("lse")[16]));
    const std::vector<double> table = inputs.at("page_table");
    const auto poison = [&](SimtTensors& tensors, int sequence, int token) {
      const auto page = static_cast<std::size_t>(table[static_cast<std::size_t>(sequence * 8 + token / 16)]);
      const std::size_t row = (page * 16 + static_cast<std::size_t>(token % 16)) * 1152;
      std::memset(tensors.bytes("kv").data() + row, 0xFF, 1152);
    };
    const Config config = latent.config(kRelayBase, changes);
    latent.edit = [&](SimtTensors& tensors) {
      shorten(tensors);
      for (int token = 0; token < 128; ++token) poison(tensors, 1, token);
      for (int token = 37; token < 128; ++token) poison(tensors, 2, token);
      auto* const entries = reinterpret_cast<std::int32_t*>(tensors.bytes("page_table").data());
      std::fill(entries + 8, entries + 16, 1 << 30);
      std::fill(entries + 16 + 3, entries + 24, -7);
    };
    check_outputs(latent.run(config, 5), right, rounded_latent(latent.problem));
    latent.edit = [&](SimtTensors& tensors) {
      shorten(tensors);
      poison(tensors, 2, 36);
    };
    const HostTensors poisoned = latent.run(config, 6);
    CHECK(std::isnan(poisoned.at("o")[2 * 16 * 512]));
    CHECK_FALSE(std::isnan(poisoned.at("o")[0]));
  }
}

TEST_CASE("simt: mla_decode sees the chosen tokens alone, in any order, with holes") {
  // What nobody chose is NaN, in every part of a token.
  for (const std::string& latent_of :
       {std::string(""), std::string(",kv_dtype=e4m3"), std::string(",kv_dtype=e4m3,kv_scale=group")}) {
    CAPTURE(latent_of);
    SimtProblem latent("mla_decode", "batch=2,heads=16,context=70,queries=2,tokens=chosen,page=16,lse=yes" + latent_of,
                       3);
    const std::int64_t width = latent_of.empty() ? 1152 : latent_of.ends_with("group") ? 512 : 576;
    // The second list is empty; the third has one token, behind 65 holes.
    const auto chosen = [](std::int64_t list, std::int64_t entry) -> std::int32_t {
      if (list == 1 || (list == 2 && entry != 65) || (list != 2 && entry % 3 == 1)) return -1;
      return static_cast<std::int32_t>((list * 70 + entry) * 37 % 280);
    };
    latent.edit = [&](SimtTensors& tensors) {
      auto* const entries = reinterpret_cast<std::int32_t*>(tensors.bytes("indices").data());
      std::vector<bool> seen(288);
      for (std::int64_t i = 0; i < 280; ++i) {
        entries[i] = chosen(i / 70, i % 70);
        if (entries[i] >= 0) seen[static_cast<std::size_t>(entries[i])] = true;
      }
      for (std::size_t token = 0; token < 280; ++token) {
        if (seen[token]) continue;
        const auto poison = [&](const char* name, std::size_t bytes) {
          std::memset(tensors.bytes(name).data() + token * bytes, 0xFF, bytes);
        };
        poison("kv", static_cast<std::size_t>(width));
        if (!latent_of.ends_with("group")) continue;
        poison("group_scales", 16);
        poison("rope", 128);
      }
    };
    HostTensors inputs = latent.tensors().inputs();
    for (std::int64_t i = 0; i < 280; ++i) inputs.at("indices")[static_cast<std::size_t>(i)] = chosen(i / 70, i % 70);
    const HostTensors right = answer_on_cpu(latent.problem, latent.call, inputs);
    CHECK(std::isinf(right.at("lse")[16]));
    CHECK(right.at("o")[16 * 512] == 0);
    for (const std::string& changes : {std::string("TILE=32"), std::string("TILE=32,PARTS=2,splits=2"),
                                       std::string("BODY=mma,ROW_TILES=1,TILE=64,STAGES=1,splits=2")}) {
      CAPTURE(changes);
      check_outputs(latent.run(latent.config(kRelayBase, changes), 9), right, rounded_latent(latent.problem));
    }
  }
}

TEST_CASE("simt: mla_decode with queries, pages and outputs that lie apart") {
  SimtProblem latent("mla_decode", "batch=2,heads=16,context=70,queries=2,page=32", 3);
  // q: sequence, token, head; kv: page, token; the table's rows; o: sequence, token, head.
  latent.call.integers = {2 * 16 * 640, 16 * 640, 640, 40 * 584, 584, 3, 2 * 16 * 520, 16 * 520, 520};
  const HostTensors right = latent.on_cpu();
  for (const std::string& changes : {std::string(""), std::string("PARTS=2,splits=2"), std::string("SCHEDULE=spans"),
                                     std::string("BODY=mma,ROW_TILES=2,TILE=32,STAGES=1,splits=2")}) {
    CAPTURE(changes);
    check_outputs(latent.run(latent.config(kRelayBase, changes), 7), right, rounded_latent(latent.problem));
  }
}

TEST_CASE("simt: mla_decode with a scale of 0, and one below") {
  SimtProblem latent("mla_decode", "batch=2,heads=16,context=40,page=16,lse=yes", 3);
  for (const float scale : {0.0f, -0.07f}) {
    CAPTURE(scale);
    latent.call.reals[0] = scale;
    const HostTensors right = latent.on_cpu();
    for (const std::string& changes :
         {std::string(""), std::string("SCHEDULE=spans"), std::string("BODY=mma,ROW_TILES=1,TILE=32,STAGES=1")}) {
      CAPTURE(changes);
      check_outputs(latent.run(latent.config(kRelayBase, changes), 8), right, rounded_latent(latent.problem));
    }
  }
}

namespace {

// A problem whose sequences have the given lengths; what they do not have of pages and table is NaN and garbage.
struct RaggedLatent {
  RaggedLatent(const std::string& text, std::vector<std::int32_t> tokens, int sm_count)
      : latent("mla_decode", text, sm_count), lengths(std::move(tokens)) {
    const std::int64_t page = latent.problem["page"], context = latent.problem["context"];
    const auto columns = static_cast<std::size_t>((context + page - 1) / page);
    HostTensors inputs = latent.tensors().inputs();
    inputs.at("lengths").assign(lengths.begin(), lengths.end());
    for (double& length : inputs.at("lengths")) length = std::clamp(length, 0.0, static_cast<double>(context));
    right = answer_on_cpu(latent.problem, latent.call, inputs);
    latent.edit = [this, page, context, columns, table = inputs.at("page_table")](SimtTensors& tensors) {
      std::memcpy(tensors.bytes("lengths").data(), lengths.data(), lengths.size() * 4);
      auto* const entries = reinterpret_cast<std::int32_t*>(tensors.bytes("page_table").data());
      for (std::size_t sequence = 0; sequence < lengths.size(); ++sequence) {
        const std::int64_t length = std::clamp<std::int64_t>(lengths[sequence], 0, context);
        for (std::size_t column = 0; column < columns; ++column) {
          const std::int64_t held =
              std::clamp<std::int64_t>(length - static_cast<std::int64_t>(column) * page, 0, page);
          const auto of = static_cast<std::size_t>(table[sequence * columns + column]);
          std::uint8_t* const rows = tensors.bytes("kv").data() + of * static_cast<std::size_t>(page) * 1152;
          std::memset(rows + held * 1152, 0xFF, static_cast<std::size_t>((page - held) * 1152));
          if (held == 0) entries[sequence * columns + column] = column % 2 == 0 ? -7 : 1 << 30;
        }
      }
    };
  }

  HostTensors run(const std::string& changes, std::uint64_t schedule, int times = 1) const {
    return latent.run(latent.config(kRelayBase, "SCHEDULE=spans," + changes), schedule, times);
  }

  SimtProblem latent;
  std::vector<std::int32_t> lengths;
  HostTensors right;
};

}  // namespace

TEST_CASE("simt: mla_decode's spans over sequences of any lengths, under several schedules") {
  std::uint64_t schedule = 0;
  const auto check = [&](const RaggedLatent& latent, const std::vector<std::string>& configs) {
    CAPTURE(latent.latent.problem.text());
    for (const std::string& changes : configs) {
      CAPTURE(changes);
      check_outputs(latent.run(changes, schedule++), latent.right, rounded_latent(latent.latent.problem));
    }
  };
  // Many without tokens in a row, between two that fill the ring; more than context, and less than none.
  check({"batch=14,heads=16,context=100,page=16,lse=yes", {70, 0, 0, 0, 0, 0, -3, 0, 0, 0, 5, 0, 0, 1000}, 2},
        {"", "overhead=1,TILE=32,STAGES=3", "overhead=8"});
  // Each shorter than a tile.
  check({"batch=40,heads=3,context=31,page=32,lse=yes,dtype=f16,kv_dtype=f16", std::vector<std::int32_t>(40, 7), 3},
        {"TILE=32,STAGES=4", "overhead=2"});
  // More blocks than tiles; nothing at all.
  check({"batch=2,heads=16,context=150,page=16,lse=yes", {150, 20}, 19}, {"", "overhead=1", "overhead=4,TILE=32"});
  check({"batch=3,heads=8,context=64,lse=yes", {0, 0, 0}, 2}, {"", "overhead=2"});
  // One long sequence.
  check({"batch=1,heads=16,context=1000,page=64,lse=yes", {990}, 5}, {"", "overhead=1,TILE=32,STAGES=2"});
  // Several queries, of which the first see nothing; two blocks of rows, apart and as pairs.
  check({"batch=5,heads=20,context=260,queries=4,page=32,lse=yes", {260, 2, 129, 0, 65}, 4},
        {"", "PAIR=2", "PAIR=2,TILE=32,STAGES=3,overhead=1", "overhead=2,TILE=32,STAGES=2"});
  check({"batch=6,heads=128,context=200,page=128,lse=yes", {200, 1, 0, 64, 130, 192}, 7},
        {"PAIR=2", "PAIR=2,overhead=1", "PAIR=1,TILE=32,STAGES=3"});
}

TEST_CASE("simt: mla_decode's spans give the same bits in every run, over scratch that is in use") {
  const RaggedLatent latent("batch=4,heads=128,context=230,page=16,lse=yes", {230, 61, 0, 118}, 10);
  for (const std::string& changes : {std::string("PAIR=2"), std::string("TILE=32,STAGES=3")}) {
    CAPTURE(changes);
    const HostTensors once = latent.run(changes, 1);
    check_outputs(once, latent.right, rounded_latent(latent.latent.problem));
    check_outputs(latent.run(changes, 2, 2), once);
  }
}

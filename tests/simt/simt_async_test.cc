// mbarriers, the copy engine and wgmma of the emulator: what they do, and which mistakes they report.
#include <doctest/doctest.h>

#include <numeric>

#include "kernels/attention/call.h"
#include "tests/simt/matrix_operand.h"
#include "tests/simt/simt_device.h"
#include "tests/simt/tensor_box.h"

using namespace moetune;
using namespace moetune::testing;

namespace {

using Bytes = std::vector<std::uint8_t>;

enum CopyMistake {
  kNone,
  kNoWait,
  kWrongParity,
  kTooFewBytes,
  kTooManyBytes,
  kExtraArrival,
  kNoInit,
  kOverwritten,
  kMisaligned,
  kTwice,
  kNeverLands,
  kEarly,
  kInitTwice,
  kOtherBlock,
  kPastShared
};
enum ProductMistake {
  kNoBegin = 20,
  kNoProductWait,
  kOneWarpLess,
  kOneLaneLess,
  kOtherOperands,
  kReleasedEarly,
  kNeverAwaited,
  kUnaligned,
  kChangesSums
};

struct AsyncRun {
  std::string complaint;
  Bytes out;
};

AsyncRun run_async(const char* element, const LaunchPlan& plan, const std::map<std::string, Bytes>& inputs,
                   std::size_t out_bytes, std::uint64_t seed) {
  SimtDevice device({"tests/simt/kernels/async.cu", {{"ELEMENT", element}}}, {.seed = seed, .patience_seconds = 5});
  AsyncRun run{"", Bytes(out_bytes)};
  SimtBuffers buffers{{"out", run.out}};
  for (const auto& [name, bytes] : inputs) buffers.emplace(name, SimtBuffer(bytes));
  try {
    device.run(plan, buffers);
  } catch (const SimtError& error) {
    run.complaint = error.what();
  }
  return run;
}

Launch& add_launch(LaunchPlan& plan, const char* entry, std::uint32_t threads, std::uint32_t shared) {
  Launch& launch = plan.launches.emplace_back();
  launch.entry = entry;
  launch.block[0] = threads;
  launch.dynamic_shared = shared;
  return launch;
}

Bytes counting(std::size_t count) {
  Bytes bytes(count);
  for (std::size_t i = 0; i < count; ++i) bytes[i] = static_cast<std::uint8_t>(i * 7 + i / 256);
  return bytes;
}

AsyncRun bulk(int mistake, std::uint64_t seed, bool begins_early = false) {
  LaunchPlan plan;
  Launch& launch = add_launch(plan, "bulk", 64, 2056);
  launch.programmatic_dependent = begins_early;
  launch.arguments = {pointer_argument("in"), pointer_argument("out"), {"bytes", 512}, {"mistake", mistake}};
  return run_async("Bf16", plan, {{"in", counting(512)}}, 512, seed);
}

bool says(const AsyncRun& run, const std::string& part) { return run.complaint.find(part) != std::string::npos; }

// Five dimensions of u8, bf16 or f32, packed but for a gap behind each row.
TensorMap map_of(DType dtype, TensorMap::Swizzle swizzle, std::uint32_t row) {
  TensorMap map;
  map.buffer = "in";
  map.dtype = dtype;
  map.swizzle = swizzle;
  const auto bytes = static_cast<std::uint64_t>(dtype_bytes(dtype));
  map.dims = {row + 3, 7, 3, 2, 2};
  map.strides = {row * bytes + 64, 8 * (row * bytes + 64), 24 * (row * bytes + 64), 48 * (row * bytes + 64)};
  map.box = {row, 5, 2, 1, 2};
  return map;
}

// Element values of a matrix, small enough to be exact in e4m3.
double element_of(std::size_t row, std::size_t column) {
  return (static_cast<double>((row * 5 + column * 3) % 17) - 8) / 4;
}

// `places` (M or N) by K 16, as its rows of 128 bytes lie: of K, or transposed, of `places`.
Bytes matrix(DType dtype, std::size_t places, bool transposed, std::size_t seed) {
  Bytes bytes(transposed ? 16 * 128 : places * 128);
  for (std::size_t place = 0; place < places; ++place) {
    for (std::size_t k = 0; k < 16; ++k) {
      const std::size_t row = transposed ? k : place, column = transposed ? place : k;
      const std::uint32_t at = swizzled(static_cast<std::uint32_t>(row * 128 + column * 2), 128);
      store_element(dtype, &bytes[at], 0, element_of(place + seed, k));
    }
  }
  return bytes;
}

AsyncRun product(const char* element, bool transposed, int mistake, std::uint64_t seed, std::uint32_t threads = 128) {
  const DType dtype = element[0] == 'B' ? DType::bf16 : DType::f16;
  const Bytes a = matrix(dtype, 64, transposed, 0), b = matrix(dtype, 64, transposed, 100);
  LaunchPlan plan;
  Launch& launch = add_launch(plan, "product", threads, 8192 * 3);
  launch.arguments = {pointer_argument("a"),
                      pointer_argument("b"),
                      pointer_argument("out"),
                      {"a_units", static_cast<std::int32_t>(a.size() / 16)},
                      {"b_units", static_cast<std::int32_t>(b.size() / 16)},
                      {"transposed", transposed ? 1 : 0},
                      {"mistake", mistake}};
  return run_async(element, plan, {{"a", a}, {"b", b}}, 64 * 64 * 4, seed);
}

std::size_t wrong_products(const Bytes& out, double factor) {
  std::size_t wrong = 0;
  for (std::size_t row = 0; row < 64; ++row) {
    for (std::size_t column = 0; column < 64; ++column) {
      double right = 0;
      for (std::size_t k = 0; k < 16; ++k) right += factor * element_of(row, k) * element_of(column + 100, k);
      wrong += load_element(DType::f32, out.data(), static_cast<std::int64_t>(row * 64 + column)) != right;
    }
  }
  return wrong;
}

}  // namespace

TEST_CASE("simt: bulk copies land where they are waited for, and each mistake with them is named") {
  for (std::uint64_t seed = 0; seed < 6; ++seed) {
    CAPTURE(seed);
    CHECK(bulk(kNone, seed).complaint == "");
    CHECK(bulk(kNone, seed).out == counting(512));
    if (seed % 4 == 0) CHECK(says(bulk(kWrongParity, seed), "has not landed"));  // else it may land at once
    CHECK(says(bulk(kTooFewBytes, seed), "which lacks 0 of 1 arrivals and 16 bytes"));
    CHECK(says(bulk(kTooManyBytes, seed), "16 bytes landed that nobody expects at the mbarrier at byte 2048"));
    CHECK(says(bulk(kExtraArrival, seed), "an arrival more than the 1 of a phase at the mbarrier at byte 2048"));
    CHECK(says(bulk(kNoInit, seed),
               "there is no initialized mbarrier at byte 2048 of the shared memory of block (0,0,0)"));
    CHECK(says(bulk(kInitTwice, seed), "initializes the mbarrier at byte 2048 of shared memory twice"));
    CHECK(says(bulk(kOverwritten, seed),
               "the mbarrier at byte 2048 of the shared memory of block (0,0,0) was overwritten"));
    CHECK(says(bulk(kMisaligned, seed), "a bulk copy at byte 8 of shared memory, which is no multiple of 16"));
    CHECK(says(bulk(kPastShared, seed), "a bulk copy to byte 2560 of dynamic shared memory, which has 2056"));
    CHECK(says(bulk(kOtherBlock, seed), "in a block that the cluster does not have"));
    CHECK(says(bulk(kEarly, seed, true), "before it has waited for the launch in front"));
  }
  CHECK(bulk(kNoWait, 0).out == Bytes(512, 0xff));
  CHECK(says(bulk(kNeverLands, 0), "sent to byte 0 of shared memory has not landed"));
  CHECK(says(bulk(kTwice, 0), "asks for a copy to where one of thread (0,0,0) of block (0,0,0) has not landed"));
}

TEST_CASE("simt: boxes of tensors of every element size and swizzle, within the tensor and past its ends") {
  using Swizzle = TensorMap::Swizzle;
  for (const auto& [dtype, swizzle, row] : {std::tuple{DType::bf16, Swizzle::b128, 64u},
                                            {DType::u8, Swizzle::b128, 128u},
                                            {DType::f32, Swizzle::b64, 16u},
                                            {DType::bf16, Swizzle::b32, 16u},
                                            {DType::e4m3, Swizzle::none, 48u}}) {
    const TensorMap map = map_of(dtype, swizzle, row);
    const auto bytes = static_cast<std::uint32_t>(dtype_bytes(dtype));
    const Bytes in = counting(96 * (row * bytes + 64));
    const std::uint32_t swizzle_bytes = swizzle == Swizzle::none ? 0 : row * bytes, box_bytes = row * bytes * 20;
    for (const std::array<int, 5>& at :
         {std::array{0, 0, 0, 0, 0}, {0, 1, 1, 1, 0}, {-5, 4, 2, 1, 1}, {9, -3, -1, 0, -1}, {0, 0, 0, 2, 0}}) {
      LaunchPlan plan;
      Launch& launch = add_launch(plan, "box", 32, box_bytes + 8);
      launch.arguments = {{"map", map}, pointer_argument("out"), {"bytes", static_cast<std::int32_t>(box_bytes)}};
      for (const int c : at) launch.arguments.push_back({"c", c});
      const AsyncRun run = run_async("Bf16", plan, {{"in", in}}, box_bytes, 0);
      REQUIRE(run.complaint == "");
      std::size_t wrong = 0;
      for (std::uint32_t i = 0; i < box_bytes; ++i) {
        const int place[] = {at[0] + static_cast<int>(i / bytes % row), at[1] + static_cast<int>(i / bytes / row % 5),
                             at[2] + static_cast<int>(i / bytes / row / 5 % 2), at[3],
                             at[4] + static_cast<int>(i / bytes / row / 10)};
        std::uint64_t from = 0;
        bool inside = true;
        for (std::size_t d = 0; d < 5; ++d) {
          inside = inside && place[d] >= 0 && static_cast<std::uint64_t>(place[d]) < map.dims[d];
          from += static_cast<std::uint64_t>(place[d]) * (d == 0 ? bytes : map.strides[d - 1]);
        }
        // By the words of the PTX ISA: with rows of 128 bytes, unit u of row r lies at u ^ r % 8.
        std::uint32_t lies = i;
        if (swizzle_bytes == 128) lies = i / 128 * 128 + ((i / 16 % 8) ^ (i / 128 % 8)) * 16 + i % 16;
        if (swizzle_bytes == 64) lies = i / 64 * 64 + ((i / 16 % 4) ^ (i / 128 % 4)) * 16 + i % 16;
        if (swizzle_bytes == 32) lies = i / 32 * 32 + ((i / 16 % 2) ^ (i / 128 % 2)) * 16 + i % 16;
        wrong += run.out[lies] != (inside ? in[from + i % bytes] : 0);
      }
      CHECK(wrong == 0);
    }
  }
}

TEST_CASE("simt: tensor maps that the driver refuses, or that are of another rank") {
  const TensorMap sound = map_of(DType::bf16, TensorMap::Swizzle::b128, 64);
  alignas(16) std::uint8_t tensor[32] = {};
  const auto refused = [&](auto&& change) {
    TensorMap map = sound;
    change(map);
    CHECK_THROWS_AS(encode_for_simt(map, tensor), SimtError);
  };
  CHECK_NOTHROW(encode_for_simt(sound, tensor));
  CHECK_THROWS_AS(encode_for_simt(sound, tensor + 8), SimtError);
  refused([](TensorMap& map) { map.strides[1] += 8; });
  refused([](TensorMap& map) { map.strides[0] = std::uint64_t{1} << 40; });
  refused([](TensorMap& map) { map.box[1] = 257; });
  refused([](TensorMap& map) { map.box[2] = 0; });
  refused([](TensorMap& map) { map.dims[3] = 0; });
  refused([](TensorMap& map) { map.box[0] = 32; });
  refused([](TensorMap& map) { map.box[0] = 128; });
  refused([](TensorMap& map) { map.box = {64, 5, 2, 1}; });
  LaunchPlan plan;
  TensorMap flat = sound;
  flat.dims = {64, 7};
  flat.strides = {192};
  flat.box = {64, 5};
  add_launch(plan, "box", 32, 1024).arguments = {
      {"map", flat}, pointer_argument("out"), {"bytes", 640}, {"c", 0}, {"c", 0}, {"c", 0}, {"c", 0}, {"c", 0}};
  CHECK(says(run_async("Bf16", plan, {{"in", Bytes(2048)}}, 640, 0), "a copy of rank 5 with a tensor map of rank 2"));
}

TEST_CASE("simt: blocks of a cluster bring each other parts of a box, round by round") {
  for (const std::uint32_t blocks : {1u, 2u, 4u}) {
    TensorMap map;
    map.buffer = "in";
    map.dtype = DType::u8;
    map.dims = {128, blocks, 6, 1, 1};
    map.strides = {128, 128 * blocks, 768 * blocks, 768 * blocks};
    map.box = {128, 1, 1, 1, 1};
    const Bytes in = counting(768 * blocks);
    LaunchPlan plan;
    Launch& launch = add_launch(plan, "share", 32, 128 * blocks + 16);
    launch.grid[0] = launch.cluster[0] = blocks;
    const auto run = [&](int mistake, std::uint64_t seed) {
      launch.arguments = {{"map", map}, pointer_argument("out"), {"rounds", 6}, {"mistake", mistake}};
      return run_async("Bf16", plan, {{"in", in}}, in.size() * blocks, seed);
    };
    for (std::uint64_t seed = 0; seed < 8; ++seed) {
      const AsyncRun sound = run(kNone, seed);
      REQUIRE(sound.complaint == "");
      for (std::size_t i = 0; i < sound.out.size(); ++i) REQUIRE(sound.out[i] == in[i % in.size()]);
    }
    if (blocks == 1) continue;
    std::size_t reported = 0, early = 0;
    for (std::uint64_t seed = 0; seed < 8; ++seed) {
      const AsyncRun careless = run(kNoWait, seed);
      reported += careless.complaint != "" || careless.out != run(kNone, seed).out;
      early += says(run(kNeverLands, seed), "of its cluster, which is not running");
    }
    CHECK(reported == 8);
    CHECK(early > 0);
  }
}

TEST_CASE("simt: an arrival behind copies comes once they have landed") {
  const Bytes in = counting(64 * 16);
  LaunchPlan plan;
  Launch& launch = add_launch(plan, "arrive_behind_copies", 64, 65 * 16 + 8);
  for (std::uint64_t seed = 0; seed < 4; ++seed) {
    Bytes right(in.size());
    for (std::size_t i = 0; i < in.size(); ++i) right[i] = in[i ^ 16];
    launch.arguments = {pointer_argument("in"), pointer_argument("out"), {"mistake", int{kNone}}};
    const AsyncRun sound = run_async("Bf16", plan, {{"in", in}}, in.size(), seed);
    CHECK(sound.complaint == "");
    CHECK(sound.out == right);
    launch.arguments[2] = {"mistake", int{kNoWait}};
    CHECK(run_async("Bf16", plan, {{"in", in}}, in.size(), seed).out != right);
  }
}

TEST_CASE("simt: wgmma multiplies swizzled operands, transposed or not, and each mistake with it is named") {
  for (const char* const element : {"Bf16", "Fp16"}) {
    for (const bool transposed : {false, true}) {
      const AsyncRun run = product(element, transposed, kNone, 1);
      REQUIRE(run.complaint == "");
      CHECK(wrong_products(run.out, 2) == 0);  // the second product adds to the first
    }
  }
  for (std::uint64_t seed = 0; seed < 3; ++seed) {
    CHECK(says(product("Bf16", false, kNoBegin, seed), "wgmma without wgmma_begin in its group"));
    CHECK(says(product("Bf16", false, kOneWarpLess, seed), "wgmma"));
    CHECK(says(product("Bf16", false, kOneLaneLess, seed), "the lanes of its warp have not issued the same number"));
    CHECK(says(product("Bf16", false, kOtherOperands, seed), "have given other operands to the same wgmma"));
    CHECK(says(product("Bf16", false, kReleasedEarly, seed),
               "shared memory that a wgmma reads was changed before it had ended"));
    CHECK(says(product("Bf16", true, kNeverAwaited, seed), "ends before it has waited for its wgmma"));
    CHECK(says(product("Bf16", false, kUnaligned, seed), "does not begin with the first of eight rows"));
    CHECK(says(product("Bf16", false, kChangesSums, seed), "accumulators were changed before their wgmma had ended"));
    CHECK(product("Bf16", false, kNoProductWait, seed).out == Bytes(64 * 64 * 4, 0xff));
  }
  CHECK(says(product("Bf16", false, kNone, 0, 96), "wgmma by a warpgroup of 3 warps"));
}

TEST_CASE("simt: wgmma with A in registers, which stay as they are until it has ended") {
  const Bytes b = matrix(DType::f16, 64, true, 100);
  Bytes a(64 * 16 * 2);
  for (std::size_t i = 0; i < 64 * 16; ++i)
    store_element(DType::f16, a.data(), static_cast<std::int64_t>(i), element_of(i / 16, i % 16));
  LaunchPlan plan;
  Launch& launch = add_launch(plan, "product_of_registers", 128, 2048);
  const auto run = [&](int mistake) {
    launch.arguments = {
        pointer_argument("a"), pointer_argument("b"), pointer_argument("out"), {"b_units", 128}, {"mistake", mistake}};
    return run_async("Fp16", plan, {{"a", a}, {"b", b}}, 64 * 64 * 4, 2);
  };
  const AsyncRun sound = run(kNone);
  CHECK(sound.complaint == "");
  CHECK(wrong_products(sound.out, 1) == 0);
  CHECK(says(run(kReleasedEarly), "registers of A were changed before their wgmma had ended"));
}

TEST_CASE("simt: elements of a matrix lie where the layouts of the PTX ISA have them") {
  const auto descriptor = [](std::uint64_t start, std::uint64_t leading, std::uint64_t stride, std::uint64_t swizzle) {
    return start >> 4 | leading >> 4 << 16 | stride >> 4 << 32 | swizzle << 62;
  };
  std::string error;
  // Without a swizzle: 8 rows of 16 bytes lie together.
  const MatrixOperand plain(descriptor(4096, 2048, 256, 0), 2, false, error);
  CHECK(error == "");
  CHECK(plain.address(3, 5) == 4096 + 3 * 16 + 5 * 2);
  CHECK(plain.address(11, 9) == 4096 + 256 + 3 * 16 + 2048 + 2);
  const MatrixOperand narrow(descriptor(0, 128, 1024, 0), 2, true, error);
  CHECK(narrow.address(5, 3) == 3 * 16 + 5 * 2);
  CHECK(narrow.address(13, 11) == 1024 + 128 + 3 * 16 + 5 * 2);
  // Rows of 128 swizzled bytes; the second K begins 32 bytes further.
  const MatrixOperand rows(descriptor(8192 + 32, 0, 1024, 1), 2, false, error);
  CHECK(error == "");
  CHECK(rows.address(0, 0) == 8192 + 32);
  CHECK(rows.address(9, 10) == 8192 + 1024 + 128 + ((3 ^ 1) * 16) + 4);
  const MatrixOperand columns(descriptor(1024, 4096, 1024, 1), 2, true, error);
  CHECK(columns.address(70, 12) == 1024 + 4096 + 1024 + 4 * 128 + (4 * 16) + 12);
  const MatrixOperand bytes(descriptor(2048, 0, 1024, 1), 1, false, error);
  CHECK(bytes.address(2, 20) == 2048 + 2 * 128 + ((1 ^ 2) * 16) + 4);
  // 64 and 32 bytes wide.
  const MatrixOperand half(descriptor(1024, 0, 512, 2), 2, false, error);
  CHECK(half.address(10, 8) == 1024 + 512 + 2 * 64 + ((1 ^ 1) * 16));
  const MatrixOperand quarter(descriptor(1024, 0, 256, 3), 2, false, error);
  CHECK(quarter.address(5, 8) == 1024 + 5 * 32 + ((1 ^ 1) * 16));
  const auto complaint = [&](std::uint64_t word, unsigned element_bytes, bool transposed) {
    const MatrixOperand operand(word, element_bytes, transposed, error);
    return error;
  };
  CHECK(complaint(descriptor(1024 + 128, 0, 1024, 1), 2, false) != "");
  CHECK(complaint(descriptor(1024, 0, 1024, 1) | std::uint64_t{1} << 49, 2, false) != "");
  CHECK(complaint(descriptor(1024, 0, 1024, 1) | std::uint64_t{1} << 14, 2, false) != "");
  CHECK(complaint(descriptor(1024, 64, 1024, 1), 1, true) != "");
}

// What the driver is asked for: devices, permits, launches, tensor maps, and whose errors are whose.
#include "launch/driver.h"

#include <doctest/doctest.h>

#include <cstring>

#include "base/error.h"
#include "tests/fake_cuda/launch_record.h"
#include "tests/fake_cuda/tensor_map.h"
#include "tests/launch/scripted.h"
#include "tests/runtime/driver_calls.h"

namespace moetune::driver_test {
using namespace testing;
using Kind = cuda::CudaError::Kind;

namespace {

using Floats = std::array<float, 4>;

// Launches `entry` with what is permitted to its function; nullopt if it was taken.
std::optional<Kind> refusal(const std::string& entry, const LaunchShape& shape, const LaunchShape& permitted) {
  scripted_context();
  const cuda::Stream stream = cuda::make_stream();
  try {
    const cuda::Module module = cuda::load_module(kFakeCubin);
    const cuda::Function function = cuda::find_function(module, entry);
    cuda::permit(function, permitted);
    Floats x{}, y{};
    void *first = x.data(), *second = y.data();
    std::int64_t n = 4;
    void* parameters[] = {&first, &second, &n};
    cuda::launch(function, shape, parameters, stream);
  } catch (const cuda::CudaError& error) {
    return error.kind;
  }
  return std::nullopt;
}

LaunchShape shared(std::uint32_t bytes) { return {.dynamic_shared = bytes}; }
LaunchShape clustered(Dim3 cluster) { return {.grid = cluster, .cluster = cluster}; }

TensorMap map_of(DType type, TensorMap::Swizzle swizzle, std::uint32_t inner) {
  TensorMap map;
  map.buffer = "k";
  map.dtype = type;
  map.swizzle = swizzle;
  for (const std::uint64_t size : {std::uint64_t{inner}, std::uint64_t{100}, std::uint64_t{7}})
    map.dims.push_back(size);
  for (const std::uint64_t bytes : {4096, 65536}) map.strides.push_back(bytes);
  for (const std::uint32_t size : {inner, 16U, 2U}) map.box.push_back(size);
  return map;
}

fake_cuda::FakeTensorMap encoded(const TensorMap& map, cuda::Address base) {
  scripted_context();
  const cuda::EncodedTensorMap opaque = cuda::encode_tensor_map(map, base);
  fake_cuda::FakeTensorMap given;
  std::memcpy(&given, opaque.bytes.data(), sizeof given);
  return given;
}

}  // namespace

TEST_CASE("each GPU is described by its own attributes, and none by another's") {
  scripted_context();
  CHECK(cuda::describe_device(0).key.name == "Fake GPU 0");
  const DeviceInfo info = cuda::describe_device(2);
  const HardwareKey& key = info.key;
  CHECK(std::tuple(key.name, key.compute_capability, key.sm_count, key.l2_bytes, key.memory_bytes, key.sm_clock_khz,
                   key.memory_clock_khz,
                   key.driver) == std::tuple("Fake GPU 2", 89, 6, 6291456, 16 << 20, 2520000, 10501000, "CUDA 13.0"));
  const DeviceLimits& limits = info.limits;
  CHECK(std::tuple(limits.compute_capability, limits.sm_count, limits.shared_per_block, limits.shared_per_sm,
                   limits.registers_per_sm, limits.threads_per_sm, limits.l2_bytes,
                   limits.memory_bytes) == std::tuple(89, 6, 101376, 102400, 32768, 1536, 6291456, 16 << 20));
  CHECK(std::tuple(info.id, info.pci_bus_id, info.uuid, info.architecture, info.memory_bus_bits) ==
        std::tuple("cuda:2", "0000:02:00.0", "GPU-02ababab-abab-abab-abab-abababababab", "sm_89", 384));
}

TEST_CASE("access to a peer may be open already") {
  scripted_context();
  const cuda::Context peer(1);
  scripted_context().make_current();
  CHECK_NOTHROW(cuda::open_access_to(peer));
  CHECK_NOTHROW(cuda::open_access_to(peer));
}

TEST_CASE("a launch asks for as much as its function was permitted, and for no more") {
  constexpr std::uint32_t kUsual = 48 << 10, kMost = 232448;
  CHECK_FALSE(refusal("double", shared(kUsual), {}));
  CHECK(refusal("double", shared(kUsual + 1), {}) == Kind::request);
  CHECK_FALSE(refusal("double", shared(kUsual + 1), shared(kUsual + 1)));
  CHECK_FALSE(refusal("double", shared(kMost), shared(kMost)));
  CHECK(refusal("double", shared(0), shared(kMost + 1)) == Kind::request);
  CHECK(refusal("double__fixed1024", shared(0), shared(kMost)) == Kind::request);
  CHECK_FALSE(refusal("double", clustered({8, 1, 1}), {}));
  for (const Dim3 cluster : {Dim3{9, 1, 1}, Dim3{1, 16, 1}, Dim3{2, 2, 3}}) {
    CHECK(refusal("double", clustered(cluster), {}) == Kind::other);
    CHECK_FALSE(refusal("double", clustered(cluster), clustered(cluster)));
  }
  // Whatever the device can do.
  DeviceLimits limits = cuda::describe_device(0).limits;
  const cuda::Module module = cuda::load_module(kFakeCubin);
  const cuda::Function function = cuda::find_function(module, "double__fixed1024");
  cuda::permit_all(function, "double__fixed1024", limits);
  LaunchShape widest = clustered({1, 16, 1});
  widest.dynamic_shared = kMost - 1024;
  Floats x{}, y{};
  void *first = x.data(), *second = y.data();
  std::int64_t n = 4;
  void* parameters[] = {&first, &second, &n};
  CHECK_NOTHROW(cuda::launch(function, widest, parameters, cuda::make_stream()));
}

TEST_CASE("a launch has the shape of its plan, axis by axis") {
  fake_cuda::LaunchRecord records[2];
  call_driver("fakeRecordLaunches", &records[0], 2);
  LaunchShape shape{.grid = {4, 6, 5}, .block = {32, 2, 3}, .cluster = {1, 3, 5}, .dynamic_shared = 4096};
  CHECK_FALSE(refusal("double", shape, clustered({1, 3, 5})));
  shape.programmatic_dependent = true;
  shape.cluster = {1, 1, 1};
  CHECK_FALSE(refusal("double", shape, {}));
  REQUIRE(call_driver("fakeRecordLaunches", static_cast<fake_cuda::LaunchRecord*>(nullptr), 0) == 2);
  for (const fake_cuda::LaunchRecord& record : records) {
    CHECK(record.grid == shape.grid);
    CHECK(record.block == shape.block);
    CHECK(record.dynamic_shared == 4096);
  }
  CHECK(records[0].cluster == Dim3{1, 3, 5});
  CHECK(records[1].cluster == Dim3{0, 0, 0});
  CHECK_FALSE(records[0].overlaps);
  CHECK(records[1].overlaps);
}

TEST_CASE("a tensor map is encoded as it was planned, for every type and swizzle") {
  constexpr cuda::Address kBase = 0x7000;
  const auto given = encoded(map_of(DType::bf16, TensorMap::Swizzle::b128, 64), kBase);
  CHECK(given.base == kBase);
  CHECK(given.rank == 3);
  CHECK(given.dims == std::array<std::uint64_t, 5>{64, 100, 7, 0, 0});
  CHECK(given.strides == std::array<std::uint64_t, 4>{4096, 65536, 0, 0});
  CHECK(given.box == std::array<std::uint32_t, 5>{64, 16, 2, 0, 0});
  CHECK(given.promotion == 2);  // 128 bytes
  // The numbers of cuda.h.
  constexpr std::pair<DType, int> kTypes[] = {{DType::u8, 0},  {DType::e4m3, 0}, {DType::i32, 3}, {DType::i64, 5},
                                              {DType::f16, 6}, {DType::f32, 7},  {DType::bf16, 9}};
  for (const auto& [type, number] : kTypes)
    CHECK(encoded(map_of(type, TensorMap::Swizzle::none, 16), kBase).type == number);
  int number = 0;
  for (const auto swizzle :
       {TensorMap::Swizzle::none, TensorMap::Swizzle::b32, TensorMap::Swizzle::b64, TensorMap::Swizzle::b128})
    CHECK(encoded(map_of(DType::bf16, swizzle, 16), kBase).swizzle == number++);
}

TEST_CASE("a tensor map whose parts do not agree, or that the copy engine cannot read, is refused") {
  const auto refuses = [](const char* why, const auto& spoil) {
    TensorMap map = map_of(DType::bf16, TensorMap::Swizzle::b128, 64);
    cuda::Address base = 0x7000;
    spoil(map, base);
    CHECK_THROWS_WITH_AS(encoded(map, base), doctest::Contains(why), cuda::CudaError);
  };
  constexpr const char *kParts = "do not agree in rank", *kDriver = "CUDA_ERROR_INVALID_VALUE";
  refuses(kParts, [](TensorMap& map, cuda::Address&) { map.strides = {}, map.strides.push_back(4096); });
  refuses(kParts, [](TensorMap& map, cuda::Address&) { map.box = {}, map.box.push_back(64); });
  refuses(kParts, [](TensorMap& map, cuda::Address&) { map.dims = {}, map.strides = {}, map.box = {}; });
  refuses(kDriver, [](TensorMap&, cuda::Address& base) { base += 8; });
  refuses(kDriver, [](TensorMap& map, cuda::Address&) { map.strides.back() = 65544; });
  refuses(kDriver, [](TensorMap& map, cuda::Address&) { map.swizzle = TensorMap::Swizzle::b64; });  // of 128
}

TEST_CASE("an error is a candidate's, the device's, or either's, by its code") {
  constexpr std::pair<int, Kind> kKinds[] = {
      {1, Kind::request},   {500, Kind::request}, {801, Kind::request}, {2, Kind::memory},   {200, Kind::image},
      {209, Kind::image},   {218, Kind::image},   {222, Kind::image},   {46, Kind::device},  {100, Kind::device},
      {214, Kind::device},  {220, Kind::device},  {802, Kind::device},  {803, Kind::device}, {226, Kind::suspect},
      {304, Kind::suspect}, {714, Kind::suspect}, {999, Kind::suspect}, {700, Kind::other},  {719, Kind::other}};
  for (const auto& [code, kind] : kKinds) {
    CAPTURE(code);
    CHECK(refusal("double__refuse" + std::to_string(code), {}, {}) == kind);
  }
  CHECK(refusal("nothing", {}, {}) == Kind::request);
}

TEST_CASE("a scope's context and capture mode give way to what was there before") {
  int other_context = 0;
  void *other = &other_context, *found = nullptr;
  REQUIRE(call_driver("cuCtxSetCurrent", other) == 0);
  int mode = 1;  // of the thread
  REQUIRE(call_driver("cuThreadExchangeStreamCaptureMode", &mode) == 0);
  const int before = mode;
  void* stream = nullptr;
  REQUIRE(call_driver("cuStreamCreate", &stream, 1U) == 0);
  {
    const cuda::CurrentContext scope(scripted_context());
    CHECK(scripted_context().is_current());
    CHECK_FALSE(scripted_context().owns(cuda::StreamRef(stream)));
    CHECK(scripted_context().owns(cuda::make_stream()));
    CHECK(scripted_context().owns(cuda::StreamRef(nullptr)));
  }
  REQUIRE(call_driver("cuCtxGetCurrent", &found) == 0);
  CHECK(found == other);
  mode = before;
  REQUIRE(call_driver("cuThreadExchangeStreamCaptureMode", &mode) == 0);
  CHECK(mode == 1);
  scripted_context().make_current();
}

TEST_CASE("a stream captures again after a capture that failed") {
  scripted_context();
  const cuda::Stream stream = cuda::make_stream();
  CHECK_THROWS_AS(cuda::capture(stream, [] { throw BadInput("no launch"); }), BadInput);
  CHECK_NOTHROW(cuda::capture(stream, [] {}));
}

}  // namespace moetune::driver_test

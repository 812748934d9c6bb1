// Plans bound to a caller's own addresses and enqueued on its stream, on the scripted driver.
#include "launch/bound_plan.h"

#include <doctest/doctest.h>

#include <array>
#include <string>

#include "tests/launch/scripted.h"

using namespace moetune;

namespace {

constexpr std::size_t kElements = 8;

Launch doubling(const std::string& entry, Pointer x, Pointer y) {
  return testing::doubling(entry, x, y, std::int64_t{kElements});
}

// A caller's arrays, which the scripted driver takes for device memory.
struct Caller {
  using Array = std::array<float, kElements + 1>;
  alignas(16) Array x{}, y{}, z{};
  cuda::Stream stream = (testing::scripted_context(), cuda::make_stream());

  Caller() {
    for (std::size_t i = 0; i < kElements; ++i) x[i] = static_cast<float>(i + 1);
  }
  AddressOf addresses() {
    return [this](std::string_view name) -> cuda::Address {
      if (name == "x") return reinterpret_cast<cuda::Address>(x.data());
      if (name == "y") return reinterpret_cast<cuda::Address>(y.data());
      return name == "z" ? reinterpret_cast<cuda::Address>(z.data()) : 0;
    };
  }
  void run(const LaunchPlan& plan) {
    const LoadedCubin loaded(plan, testing::kFakeCubin);
    BoundPlan(plan, loaded.functions(), addresses()).enqueue(stream);
    cuda::synchronize(stream);
  }
};

std::string refusal(const LaunchPlan& plan) {
  Caller caller;
  try {
    caller.run(plan);
  } catch (const cuda::CudaError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("launches run in order, each on the caller's addresses and offsets") {
  LaunchPlan plan;
  plan.launches = {doubling("double", {"x"}, {"y", 4}), doubling("double", {"y", 4}, {"z"})};
  Caller caller;
  caller.run(plan);
  CHECK(caller.y[0] == 0);  // before the offset
  for (std::size_t i = 0; i < kElements; ++i) {
    CHECK(caller.y[i + 1] == 2 * caller.x[i]);
    CHECK(caller.z[i] == 4 * caller.x[i]);
  }
}

TEST_CASE("a memset runs before the launch that it names, or after all of them") {
  LaunchPlan plan;
  plan.launches = {doubling("double", {"x"}, {"y"}), doubling("double", {"y"}, {"z"})};
  plan.memsets = {{"y", 0, 4, 0, 1}, {"z", 4, 4, 0, 2}};  // y[0] between the launches, z[1] at the end
  Caller caller;
  caller.run(plan);
  CHECK(caller.y[0] == 0);
  CHECK(caller.y[1] == 2 * caller.x[1]);
  CHECK(caller.z[0] == 0);
  CHECK(caller.z[1] == 0);
  CHECK(caller.z[2] == 4 * caller.x[2]);
}

TEST_CASE("bytes are copied to a variable of the cubin before the launch that reads it") {
  LaunchPlan plan;
  plan.launches = {doubling("double", {"x"}, {"y"}), doubling("double", {"y"}, {"z"})};
  plan.memsets = {{"y", 4, 8, 0, 1, "fixed"}};  // what the first launch wrote
  Caller caller;
  const LoadedCubin loaded(plan, testing::kFakeCubin);
  const auto symbols = [&](const Memset& memset) { return loaded.symbol(memset); };
  BoundPlan(plan, loaded.functions(), caller.addresses(), symbols).enqueue(caller.stream);
  std::array<float, 2> found{};
  cuda::copy_to_host({reinterpret_cast<std::uint8_t*>(found.data()), sizeof found}, loaded.symbol(plan.memsets[0]),
                     caller.stream);
  CHECK(found[0] == 2 * caller.x[1]);
  CHECK(found[1] == 2 * caller.x[2]);
  CHECK(caller.z[1] == 4 * caller.x[1]);

  Memset wrong = plan.memsets[0];
  wrong.bytes = 65;
  CHECK_THROWS_WITH_AS(loaded.symbol(wrong), doctest::Contains("'fixed' has 64 bytes; the plan copies 65"),
                       cuda::CudaError);
  wrong.symbol = "missing";
  CHECK_THROWS_WITH_AS(loaded.symbol(wrong), doctest::Contains("cuModuleGetGlobal(missing)"), cuda::CudaError);
}

TEST_CASE("a struct by value is passed in its place") {
  LaunchPlan plan;  // of two words, of which the kernel takes the first for a pointer
  Caller caller;
  StructValue of_x;
  of_x.words = {reinterpret_cast<std::uint64_t>(caller.x.data()), 7};
  plan.launches = {testing::doubling("double", of_x, Pointer{"y"}, std::int64_t{4})};
  caller.run(plan);
  CHECK(caller.y[3] == 2 * caller.x[3]);
}

TEST_CASE("each tensor map is encoded where it begins, and passed in its place") {
  const auto map_from = [](const char* buffer, std::int64_t offset) {
    TensorMap map;
    map.buffer = buffer;
    map.offset = offset;
    map.dtype = DType::f32;
    map.dims.push_back(4);
    map.box.push_back(4);
    return map;
  };
  LaunchPlan plan;  // a map's first bytes are its base here, which the kernel takes for a pointer
  plan.launches = {testing::doubling("double", map_from("x", 16), map_from("y", 0), std::int64_t{4}),
                   testing::doubling("double", map_from("y", 0), map_from("z", 16), std::int64_t{4})};
  plan.launches[0].dynamic_shared = 100'000;  // which is permitted when the cubin is loaded
  Caller caller;
  caller.run(plan);
  for (std::size_t i = 0; i < 4; ++i) {
    CHECK(caller.y[i] == 2 * caller.x[4 + i]);
    CHECK(caller.z[4 + i] == 2 * caller.y[i]);
  }
  CHECK(caller.y[4] == 0);
}

TEST_CASE("one loaded cubin serves several bindings, and each is enqueued as often as one likes") {
  LaunchPlan plan;
  plan.launches = {doubling("double", {"x"}, {"y"})};
  Caller first, second;
  second.x[0] = 50;
  const LoadedCubin loaded(plan, testing::kFakeCubin);
  const BoundPlan of_first(plan, loaded.functions(), first.addresses());
  const BoundPlan of_second(plan, loaded.functions(), second.addresses());
  of_second.enqueue(second.stream);
  of_first.enqueue(first.stream);
  first.x[0] = 3;  // read when it runs again
  const cuda::Graph graph = cuda::capture(first.stream, [&] { of_first.enqueue(first.stream); });
  cuda::launch(graph, first.stream);
  cuda::synchronize(first.stream);
  cuda::synchronize(second.stream);
  CHECK(first.y[0] == 6);
  CHECK(second.y[0] == 100);
}

TEST_CASE("a plan that holds nothing launches nothing") {
  Caller caller;
  BoundPlan().enqueue(caller.stream);
  cuda::synchronize(caller.stream);
  CHECK(caller.y == Caller::Array{});
}

TEST_CASE("a name without an address is refused when the plan is bound") {
  LaunchPlan argument, memset, map;
  argument.launches = {doubling("double", {"x"}, {"w"})};
  CHECK(refusal(argument) == "the plan names no buffer or scratch 'w'");
  memset.memsets = {{"counters", 0, 4, 0, 0}};
  CHECK(refusal(memset) == "the plan names no buffer or scratch 'counters'");
  map.launches = {doubling("double", {"x"}, {"y"})};
  TensorMap tensor;
  tensor.buffer = "k";
  map.launches[0].arguments.push_back({"k_map", tensor});
  CHECK(refusal(map) == "the plan names no buffer or scratch 'k'");
}

TEST_CASE("a launch that the driver refuses is a CUDA error") {
  LaunchPlan plan;
  plan.launches = {doubling("double__refuse1", {"x"}, {"y"})};
  CHECK(refusal(plan).find("cuLaunchKernel") != std::string::npos);
}

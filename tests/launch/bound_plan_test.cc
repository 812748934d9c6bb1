// Plans bound to a caller's own addresses and enqueued on its stream, on the scripted driver.
#include "launch/bound_plan.h"

#include <doctest/doctest.h>

#include <array>
#include <cstdlib>
#include <map>
#include <string>

#include "tests/paths.h"

using namespace moetune;

namespace {

constexpr std::size_t kElements = 8;
constexpr std::array<std::uint8_t, 5> kCubin = {'f', 'a', 'k', 'e', 0};

const cuda::Context& context() {
  static const cuda::Context opened = [] {
    ::setenv("MOETUNE_LIBCUDA", paths::fake_libcuda(), 1);
    cuda::initialize();
    return cuda::Context(0);
  }();
  return opened;
}

Launch doubling(const std::string& entry, Pointer x, Pointer y) {
  Launch launch;
  launch.entry = entry;
  launch.arguments = {{"x", x}, {"y", y}, {"n", std::int64_t{kElements}}};
  return launch;
}

// A caller's arrays, which the scripted driver takes for device memory.
struct Caller {
  using Array = std::array<float, kElements + 1>;
  Array x{}, y{}, z{};
  cuda::Stream stream = (context(), cuda::make_stream());

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
    const LoadedCubin loaded(plan, kCubin);
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

TEST_CASE("one loaded cubin serves several bindings, and each is enqueued as often as one likes") {
  LaunchPlan plan;
  plan.launches = {doubling("double", {"x"}, {"y"})};
  Caller first, second;
  second.x[0] = 50;
  const LoadedCubin loaded(plan, kCubin);
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

// What a cubin may keep on the device: real cubins of NVRTC's, and damaged ones.
#include "tuner/compile/cubin_state.h"

#include <doctest/doctest.h>

#include <random>
#include <string>
#include <vector>

#include "base/error.h"
#include "tuner/compile/compiler.h"
#include "tuner/compile/nvrtc.h"

using namespace moetune;

namespace {

// Of the device code in front of a kernel `k`, whose body may use int* p and int n.
Build compiled(const std::string& in_front, const std::string& body) {
  Compiler::Options options;
  options.architecture = "sm_90a";
  options.reader = [&](const std::string&) -> std::optional<std::string> {
    return in_front + "\nextern \"C\" __global__ void k(int* p, int n) {" + body + "}\n";
  };
  return Compiler(options).compile({"k.cu", {}});
}

std::string numbers(int count) {
  std::string text;
  for (int i = 0; i < count; ++i)
    text += "constexpr long long kNumber" + std::to_string(i) + " = " + std::to_string(i) + ";\n";
  return text;
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("constants, shared memory and printing are no state") {
  const std::pair<const char*, const char*> sound[] = {
      {"", "p[0] = n;"},
      {"constexpr int kA = 5; constexpr float kB = 0; struct S { static constexpr long kC = 7; };",
       "p[0] = n + kA + S::kC;"},
      {"__constant__ int table[1000];", "p[0] = table[n];"},
      {"", "__shared__ int s[1000]; s[n] = p[n]; __syncthreads(); p[0] = s[n ^ 1];"},
      {"", "int local[100]; for (int i = 0; i < n; ++i) local[i] = p[i]; p[0] = local[p[1]];"},
      {"", "printf(\"%d\\n\", n);"},
      {"__device__ int counter;", "p[0] = atomicAdd(&counter, 1);"},  // as large as a constant
      {"__device__ int4 few;", "p[0] = few.x++;"}};
  for (const auto& [in_front, body] : sound) {
    CAPTURE(body);
    const Build build = compiled(in_front, body);
    CHECK_MESSAGE(build.outcome == Outcome::ok, build.message << build.log);
  }
  CHECK(compiled(numbers(120), "p[0] = n;").outcome == Outcome::ok);
}

TEST_CASE("what a launch could leave to the next one is refused before it is run, and the message names it") {
  const struct {
    const char *in_front, *body, *reason;
  } stateful[] = {
      {"__device__ int memo[100];", "p[0] = memo[n]++;", "it keeps 'memo' of 400 bytes in device memory"},
      {"static __device__ float memo[5] = {1};", "memo[n] += 1; p[0] = memo[1];", "'memo' of 20 bytes"},
      {"__device__ int4 a, b;", "p[0] = a.x++ + b.y--;", "of 16 bytes"},
      {"__managed__ int memo[100];", "p[0] = memo[n]++;", "'memo' of 400 bytes"},
      {"", "static __device__ int memo[9]; p[0] = memo[n]++;", "memo' of 36 bytes"},
      {"", "asm volatile(\".global .b32 memo[64];\"); p[0] = n;", "memo"},
      {"", "int* q = (int*)malloc(64); q[0] = n; *(int**)p = q;", "it calls 'malloc' of the device's runtime"},
      {"", "int* q = new int[n]; *(int**)p = q;", "it calls 'malloc'"},
      {"", "free(*(void**)p);", "it calls 'free'"}};
  for (const auto& [in_front, body, reason] : stateful) {
    CAPTURE(body);
    CAPTURE(in_front);
    const Build build = compiled(in_front, body);
    CHECK(build.outcome == Outcome::compile_failed);
    CHECK(build.repeatable);
    CHECK(build.cubin.empty());
    CHECK_MESSAGE(contains(build.message, reason), build.message << build.log);
  }
  const Build build = compiled(numbers(130), "p[0] = n;");
  CHECK(build.outcome == Outcome::compile_failed);
  CHECK_MESSAGE(contains(build.message, "it keeps 1040 bytes in device memory"), build.message);
}

TEST_CASE("constants of CUDA's own headers may take more, if the caller says so") {
  const Build build = compiled(numbers(100), "p[0] = n;");
  CHECK(why_stateful(build.cubin, 799).find("it keeps 800 bytes") == 0);
  CHECK(why_stateful(build.cubin, 800).empty());
}

TEST_CASE("a cubin says how many bytes each parameter has") {
  const Build build = compiled(
      "struct Five { char c[5]; };\n"
      "extern \"C\" __global__ void other(Five five, short s, double d) { if (s) *(double*)&five = d; }",
      "p[0] = n;");
  CHECK(parameter_bytes(build.cubin, "k") == std::vector<std::size_t>{8, 4});
  CHECK(parameter_bytes(build.cubin, "other") == std::vector<std::size_t>{5, 2, 8});
  CHECK(parameter_bytes(build.cubin, "none").empty());
  CHECK(parameter_bytes({}, "k").empty());
}

TEST_CASE("a cubin that is cut off or altered is read within its bytes, and refused unless it says nothing else") {
  const std::vector<std::uint8_t> whole = compiled("constexpr int kA = 5;", "p[0] = n + kA;").cubin;
  REQUIRE(why_stateful(whole) == "");
  std::size_t refused = 0;
  for (std::size_t size = 0; size < whole.size(); ++size) {
    const std::vector<std::uint8_t> cut(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size));
    refused += contains(why_stateful(cut), "is no cubin");
  }
  CHECK(refused > whole.size() * 9 / 10);  // program headers, which a kernel need not have, may come last
  CHECK(contains(why_stateful({}), "is no cubin"));
  CHECK(contains(why_stateful(std::vector<std::uint8_t>(5000, 0xff)), "is no cubin"));

  std::mt19937 random(7);
  std::size_t altered = 0;
  for (int i = 0; i < 20'000; ++i) {
    std::vector<std::uint8_t> bytes = whole;
    for (int flips = 0; flips < 4; ++flips)
      bytes[random() % bytes.size()] = static_cast<std::uint8_t>(random() % 4 == 0 ? 0xff : random());
    altered += !why_stateful(bytes).empty();
    CHECK(parameter_bytes(bytes, "k").size() <= 65536);
  }
  CHECK(altered > 100);
}

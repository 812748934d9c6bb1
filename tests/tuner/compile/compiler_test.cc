#include "tuner/compile/compiler.h"

#include <doctest/doctest.h>

#include <map>

#include "base/error.h"
#include "tuner/compile/nvrtc.h"

using moetune::Build;
using moetune::Compiler;
using moetune::CompileUnit;
using moetune::Outcome;
using namespace std::chrono_literals;

namespace {

using Files = std::map<std::string, std::string>;

Compiler::Options options_for(Files files, std::string architecture = "sm_80") {
  Compiler::Options options;
  options.architecture = std::move(architecture);
  options.reader = [files = std::move(files)](const std::string& path) -> std::optional<std::string> {
    const auto found = files.find(path);
    return found == files.end() ? std::nullopt : std::optional(found->second);
  };
  return options;
}

const Files kScale = {{"scale.cu",
                       "#include \"templates/common/factor.cuh\"\n"
                       "extern \"C\" __global__ void scale(float* x) {\n"
                       "  __shared__ float tile[TILE];\n"
                       "  tile[threadIdx.x] = x[threadIdx.x];\n"
                       "  __syncthreads();\n"
                       "  x[threadIdx.x] = kFactor * tile[TILE - 1 - threadIdx.x];\n"
                       "}\n"},
                      {"templates/common/factor.cuh", "#pragma once\nconstexpr float kFactor = 2;\n"},
                      {"unrelated.cuh", "int unrelated;"}};

CompileUnit scale_of(int tile) { return {"scale.cu", {{"TILE", std::to_string(tile)}}}; }

double seconds_to_compile(const Compiler& compiler, Build& build) {
  const auto begin = std::chrono::steady_clock::now();
  build = compiler.compile({"slow.cu", {}});
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// Keeps NVRTC's front end, which gives no occasion to stop it, busy for minutes and in little memory.
std::string slow_front_end() {
  std::string text =
      "__device__ constexpr long f(long r) { for (long i = 0; i < 50000; i++) r = (r * 31 + i) % 1000003; "
      "return r; }\n";
  for (int i = 0; i < 5000; ++i) {
    text += "constexpr long v" + std::to_string(i) + " = f(" + std::to_string(i) + ");\n";
  }
  return text + "extern \"C\" __global__ void k(long* p) { p[0] = v0; }\n";
}

// Thousands of entangled statements: tens of seconds of optimizer and assembler.
std::string slow_back_end() {
  std::string text = "extern \"C\" __global__ void k(float* p, int n) {\n  float a[64];\n";
  const auto a = [](int i) { return "a[" + std::to_string(i % 64) + "]"; };
  for (int i = 0; i < 64; ++i) text += a(i) + " = p[" + std::to_string(i) + "];\n";
  for (int i = 0; i < 12000; ++i) {
    text += a(31 * i) + " = " + a(7 * i + 1) + " * " + a(13 * i + 5) + " + p[" + std::to_string(i) + "]; if (" +
            a(3 * i) + " > n) " + a(11 * i) + " += p[" + a(i) + " > 3 ? n : " + std::to_string(i) + "];\n";
  }
  for (int i = 0; i < 64; ++i) text += "p[" + std::to_string(i) + "] = " + a(i) + ";\n";
  return text + "}\n";
}

}  // namespace

TEST_CASE("a template becomes a cubin with the facts of its entry") {
  for (const char* architecture : {"sm_80", "sm_90a", "sm_120a"}) {
    CAPTURE(architecture);
    const Compiler compiler(options_for(kScale, architecture));
    const Build build = compiler.compile(scale_of(256));
    REQUIRE_MESSAGE(build.outcome == Outcome::ok, build.log);
    REQUIRE(build.cubin.size() > 4);
    CHECK(std::string(build.cubin.begin() + 1, build.cubin.begin() + 4) == "ELF");
    REQUIRE(build.entries.contains("scale"));
    CHECK(build.entries.at("scale").static_shared == 1024);
    CHECK(build.entries.at("scale").registers > 0);
    CHECK(build.entries.at("scale").spill_store_bytes == 0);
    CHECK(build.seconds > 0);
    CHECK(build.repeatable);
    CHECK(build.digest == compiler.digest(scale_of(256)));
  }
}

TEST_CASE("bad source is an outcome with the line that is wrong and the whole log") {
  Files files = kScale;
  files["scale.cu"] += "\n__global__ void broken() { int x = ; }\n";
  const Build build = Compiler(options_for(files)).compile(scale_of(32));
  CHECK(build.outcome == Outcome::compile_failed);
  CHECK(build.cubin.empty());
  CHECK(build.message == "scale.cu(9): error: expected an expression");
  CHECK(build.log.find("1 error detected in the compilation of \"scale.cu\"") != std::string::npos);
  CHECK(build.repeatable);
}

TEST_CASE("a header that is missing is the compiler's error, not an exception") {
  Files files = kScale;
  files.erase("templates/common/factor.cuh");
  const Build build = Compiler(options_for(files)).compile(scale_of(32));
  CHECK(build.outcome == Outcome::compile_failed);
  CHECK(build.message.find("templates/common/factor.cuh") != std::string::npos);
}

TEST_CASE("what ptxas refuses is an outcome too") {
  const Build build = Compiler(options_for(kScale)).compile(scale_of(60000));
  CHECK(build.outcome == Outcome::compile_failed);
  CHECK(build.message.find("uses too much shared data") != std::string::npos);
}

TEST_CASE("an architecture that NVRTC does not know is refused at once, and so is what is none") {
  CHECK_THROWS_AS(Compiler(options_for(kScale, "sm_30")), moetune::BrokenEnvironment);
  CHECK_THROWS_AS(Compiler(options_for(kScale, "sm_999")), moetune::BrokenEnvironment);
  for (const char* none : {"", "90", "sm_", "sm_9", "sm_90b", "compute_90", "sm_90a "}) {
    CHECK_THROWS_AS(Compiler(options_for(kScale, none)), moetune::BadInput);
  }
}

TEST_CASE("a compilation ends at its time limit whether or not NVRTC can be stopped") {
  for (const std::string& source : {slow_back_end(), slow_front_end()}) {
    Compiler::Options options = options_for({{"slow.cu", source}});
    options.time_limit = 500ms;
    Build build;
    const double took = seconds_to_compile(Compiler(options), build);
    CHECK(took < 30);  // with the start of the compiler on a slow machine
    CHECK(build.outcome == Outcome::compile_failed);
    CHECK(build.message.starts_with("the compiler took longer than 0.5 s"));
    CHECK_FALSE(build.repeatable);
  }
}

TEST_CASE("a digest covers headers, defines and architecture, and no unrelated file") {
  const std::string before = Compiler(options_for(kScale)).digest(scale_of(32));
  CHECK(Compiler(options_for(kScale)).digest(scale_of(32)) == before);
  CHECK(Compiler(options_for(kScale)).digest(scale_of(64)) != before);
  CHECK(Compiler(options_for(kScale, "sm_89")).digest(scale_of(32)) != before);

  Files files = kScale;
  files["unrelated.cuh"] = "int edited;";
  CHECK(Compiler(options_for(files)).digest(scale_of(32)) == before);
  files["templates/common/factor.cuh"] = "#pragma once\nconstexpr float kFactor = 3;\n";
  CHECK(Compiler(options_for(files)).digest(scale_of(32)) != before);
}

TEST_CASE("the toolchain is named to the update, for it is part of a key") {
  CHECK(Compiler(options_for(kScale)).toolchain() == "nvrtc " + moetune::Nvrtc::load()->facts().version);
}

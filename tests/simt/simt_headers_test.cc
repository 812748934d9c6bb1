// The headers that stand in for those of templates/common with PTX say the same as them, and convert as they do.
#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <regex>
#include <set>
#include <sstream>

#include "kernels/dtype.h"
#include "tests/paths.h"
#include "tests/simt/simt_device.h"
#include "tests/texts.h"

namespace fs = std::filesystem;
using namespace moetune;
using namespace moetune::testing;

namespace {

const fs::path kReal = paths::source("templates/common");
const fs::path kStandIns = paths::source("tests/simt/device/templates/common");

std::string one_spaced(const std::string& text) {
  std::istringstream words(text);
  std::string line;
  for (std::string word; words >> word;) line += (line.empty() ? "" : " ") + word;
  return line;
}

// Device functions by declaration, from the return type to the last parameter; what it maps to is the body.
std::map<std::string, std::string> functions_of(const std::string& text) {
  static const std::regex declared("__device__ (?:__forceinline__ )?([^;{]*\\)) (?:const )?\\{");
  std::map<std::string, std::string> functions;
  for (auto i = std::sregex_iterator(text.begin(), text.end(), declared); i != std::sregex_iterator(); ++i) {
    const auto begin = static_cast<std::size_t>(i->position() + i->length());
    std::size_t end = begin;
    for (int depth = 1; depth > 0 && end < text.size(); ++end) depth += (text[end] == '{') - (text[end] == '}');
    functions[one_spaced((*i)[1])] += text.substr(begin, end - begin);
  }
  return functions;
}

bool has_ptx(const std::string& body) { return std::regex_search(body, std::regex("\\basm\\b|extern __shared__")); }

std::set<fs::path> stand_ins() {
  std::set<fs::path> names;
  for (const fs::directory_entry& entry : fs::directory_iterator(kStandIns)) names.insert(entry.path().filename());
  return names;
}

}  // namespace

TEST_CASE("simt's headers declare every function that has PTX in the real ones, and the same") {
  CHECK(stand_ins().size() >= 6);
  for (const fs::path& name : stand_ins()) {
    CAPTURE(name.string());
    const std::string text = read_text(kStandIns / name);
    const auto real = functions_of(read_text(kReal / name)), mine = functions_of(text);
    CHECK_FALSE(real.empty());
    const bool continues = text.find("#include_next") != std::string::npos;
    for (const auto& [function, body] : real) {
      CAPTURE(function);
      if (has_ptx(body) || !continues) CHECK(mine.contains(function));
    }
    for (const auto& [function, body] : mine) {
      CAPTURE(function);
      CHECK((real.contains(function) || function.find("flush_subnormal") != std::string::npos));
      CHECK_FALSE(has_ptx(body));
    }
  }
}

TEST_CASE("functions are compared by their whole declaration") {
  const auto functions = functions_of(
      "__device__ __forceinline__ u32 f(u32 a,\n    u64 b) {\n  if (a) {\n asm(\"\");\n}\n}\n"
      "  static __device__ __forceinline__ u32 f(u32 a) { return a; }");
  REQUIRE(functions.size() == 2);
  CHECK(has_ptx(functions.at("u32 f(u32 a, u64 b)")));
  CHECK_FALSE(has_ptx(functions.at("u32 f(u32 a)")));
}

TEST_CASE("simt converts between element types as the host does") {
  // Every upper half of a float, with lower halves around the ties of both types.
  const std::vector<std::uint32_t> lower = {0,      1,      0x0fff, 0x1000, 0x1001, 0x2fff,
                                            0x3000, 0x7fff, 0x8000, 0x8001, 0xffff};
  const std::size_t count = lower.size() << 16;
  std::vector<std::uint8_t> in(count * 4), bf16(count * 2), fp16(count * 2);
  for (std::size_t i = 0; i < count; ++i)
    store_integer(DType::i32, in.data(), static_cast<std::int64_t>(i),
                  static_cast<std::int32_t>(i / lower.size() << 16 | lower[i % lower.size()]));
  std::vector<std::uint8_t> back(65536 * 8), widened_e4m3(256 * 2);
  LaunchPlan plan;
  Launch& launch = plan.launches.emplace_back();
  launch.entry = "conversions";
  launch.grid[0] = 16;
  launch.block[0] = 128;
  launch.arguments = {{"in", Pointer{"in"}},     {"bf16", Pointer{"bf16"}},
                      {"fp16", Pointer{"fp16"}}, {"back", Pointer{"back"}},
                      {"e4m3", Pointer{"e4m3"}}, {"elements", static_cast<std::int32_t>(count)}};
  SimtDevice({"tests/simt/kernels/conversions.cu", {}})
      .run(plan, {{"in", std::as_const(in)}, {"bf16", bf16}, {"fp16", fp16}, {"back", back}, {"e4m3", widened_e4m3}});
  int wrong = 0;
  const auto compare = [&](double mine, double right) {
    wrong += !(mine == right || (mine != mine && right != right));
  };
  for (std::int64_t i = 0; i < static_cast<std::int64_t>(count); ++i) {
    const double value = load_element(DType::f32, in.data(), i);
    compare(load_element(DType::bf16, bf16.data(), i), round_to(DType::bf16, value));
    compare(load_element(DType::f16, fp16.data(), i), round_to(DType::f16, value));
  }
  CHECK(wrong == 0);
  for (std::int64_t bits = 0; bits < 65536; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    compare(load_element(DType::f32, back.data(), bits), load_element(DType::bf16, &half, 0));
    compare(load_element(DType::f32, back.data(), 65536 + bits), load_element(DType::f16, &half, 0));
  }
  CHECK(wrong == 0);
  for (std::int64_t bits = 0; bits < 256; ++bits) {
    const auto byte = static_cast<std::uint8_t>(bits);
    compare(load_element(DType::f16, widened_e4m3.data(), bits), load_element(DType::e4m3, &byte, 0));
  }
  CHECK(wrong == 0);
}

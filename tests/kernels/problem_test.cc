#include "kernels/problem.h"

#include <doctest/doctest.h>

#include "base/error.h"
#include "kernels/kernel.h"

using moetune::BadInput;
using moetune::parse_problem;
using moetune::Preset;
using moetune::Problem;
using moetune::ProblemSchema;
using moetune::Value;

namespace {

const ProblemSchema kSchema = {
    {"batch", "sequences", Value::integer(1), 1, 1024, {}},
    {"context", "tokens in the cache", Value::integer(4096), 0, 1 << 20, {}},
    {"dtype", "element type", Value::named("bf16", 0), 0, 0, {"bf16", "fp16"}},
};
const Preset kPreset = {"small", "a small model", {{"batch", "8"}, {"dtype", "fp16"}}};

}  // namespace

TEST_CASE("a problem names every dimension in schema order") {
  CHECK(parse_problem("toy", kSchema, nullptr, "").text() == "batch=1,context=4096,dtype=bf16");
  CHECK(parse_problem("toy", kSchema, nullptr, "dtype=fp16,batch=2").text() == "batch=2,context=4096,dtype=fp16");
}

TEST_CASE("the user's dimensions stand over the preset's, and these over the defaults") {
  const Problem problem = parse_problem("toy", kSchema, &kPreset, "batch=64");
  CHECK(problem.kernel == "toy");
  CHECK(problem["batch"] == 64);
  CHECK(problem["context"] == 4096);
  CHECK(problem.is("dtype", "fp16"));
  CHECK(problem.dims.at("dtype") == Value::named("fp16", 1));
}

TEST_CASE("a canonical text parses back to the same problem") {
  const Problem problem = parse_problem("toy", kSchema, &kPreset, "context=0");
  CHECK(parse_problem("toy", kSchema, nullptr, problem.text()) == problem);
}

TEST_CASE("texts in schema order are read as texts in any other order are") {
  const auto outcome = [](const std::string& text) {
    try {
      return parse_problem("toy", kSchema, nullptr, text).text();
    } catch (const BadInput& error) {
      return std::string(error.what());
    }
  };
  CHECK(outcome("batch=2,context=8,dtype=fp16") == outcome("dtype=fp16,context=8,batch=2"));
  for (const char* bad : {"batch=0,context=8,dtype=fp16", "batch=2,context=8,dtype=fp17",
                          "batch=2,context=8x,dtype=fp16", "batch=99999999999999999999,context=8,dtype=fp16"})
    CHECK(outcome(bad).find("toy: ") == 0);
  for (const char* odd :
       {"batch=2,context=8,dtype=fp16,", "batch=2,context=8,dtype=fp16,batch=2", "batch=2,,dtype=fp16",
        "batch=2,context=8=9,dtype=fp16", "batch=,context=8,dtype=fp16", "batch=2,context=8,dtype"}) {
    CAPTURE(odd);
    CHECK_THROWS_AS(parse_problem("toy", kSchema, nullptr, odd), BadInput);
  }
  CHECK(outcome("batch=2,context=8") == "batch=2,context=8,dtype=bf16");
  CHECK(outcome("batch=2,dtype=fp16") == "batch=2,context=4096,dtype=fp16");
}

TEST_CASE("both ends of a range are in it") {
  CHECK(parse_problem("toy", kSchema, nullptr, "batch=1024,context=0")["batch"] == 1024);
  CHECK_THROWS_AS(parse_problem("toy", kSchema, nullptr, "batch=1025"), BadInput);
  CHECK_THROWS_AS(parse_problem("toy", kSchema, nullptr, "context=-1"), BadInput);
}

TEST_CASE("k and m stand for 1024 and its square, as in ranges") {
  CHECK(parse_problem("toy", kSchema, nullptr, "batch=1k,context=2K").text() == "batch=1024,context=2048,dtype=bf16");
  CHECK(parse_problem("toy", kSchema, nullptr, "context=0k")["context"] == 0);
  for (const char* beyond : {"batch=2k", "batch=1m", "batch=0k", "batch=-1k", "batch=9223372036854775807k"}) {
    CAPTURE(beyond);
    CHECK_THROWS_WITH_AS(parse_problem("toy", kSchema, nullptr, beyond),
                         doctest::Contains("is out of range (an integer from 1 to 1024)"), BadInput);
  }
  for (const char* odd : {"batch=1kk", "batch=k", "batch=1 k", "batch=1g"}) {
    CAPTURE(odd);
    CHECK_THROWS_WITH_AS(parse_problem("toy", kSchema, nullptr, odd), doctest::Contains("is not an integer"), BadInput);
  }
}

TEST_CASE("a bad dimension says what would be right") {
  const auto fails_with = [](const char* text, const char* sentence) {
    CHECK_THROWS_WITH_AS(parse_problem("toy", kSchema, nullptr, text), sentence, BadInput);
  };
  fails_with("bach=4", "unknown dimension of toy 'bach'; did you mean 'batch'?");
  fails_with("batch=0", "toy: batch=0 is out of range (an integer from 1 to 1024)");
  fails_with("batch=99999999999999999999",
             "toy: batch=99999999999999999999 is out of range (an integer from 1 to 1024)");
  fails_with("batch=4x", "toy: batch=4x is not an integer (an integer from 1 to 1024)");
  fails_with("batch=99999999999999999999x",
             "toy: batch=99999999999999999999x is not an integer (an integer from 1 to 1024)");
  fails_with("dtype=bf15", "toy: dtype=bf15 is not a choice; it takes one of bf16, fp16");
}

TEST_CASE("a dimension that occurs twice or has no value is refused") {
  CHECK_THROWS_AS(parse_problem("toy", kSchema, nullptr, "batch=1,batch=2"), BadInput);
  CHECK_THROWS_AS(parse_problem("toy", kSchema, nullptr, "batch"), BadInput);
  CHECK_THROWS_AS(parse_problem("toy", kSchema, nullptr, "batch="), BadInput);
}

TEST_CASE("expressions see every dimension and the device's limits") {
  const Problem problem = parse_problem("toy", kSchema, nullptr, "batch=3,dtype=fp16");
  const moetune::DeviceLimits limits = moetune::limits_of_architecture("sm_90a");
  const moetune::Assignment environment = moetune::expression_environment(problem, limits);
  CHECK(environment.number("problem.batch") == 3);
  CHECK(environment.is("problem.dtype", "fp16"));
  CHECK(environment.number("device.compute_capability") == 90);
  CHECK(environment.number("device.sm_count") == 132);
  CHECK(environment.number("device.shared_per_block") == 232448);
  CHECK(environment.number("device.shared_per_sm") == 233472);
  CHECK(environment.number("device.registers_per_sm") == 65536);
  CHECK(environment.number("device.threads_per_sm") == 2048);
  CHECK(environment.number("device.l2_bytes") == limits.l2_bytes);
  CHECK(environment.size() == 3 + 7);
}

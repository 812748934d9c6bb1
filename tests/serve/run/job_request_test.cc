// Requests by themselves, on both sides of each bound.
#include "serve/run/job_request.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "base/error.h"

namespace moetune::job_request_test {

TEST_CASE("each number of a request is within its bounds") {
  struct Bound {
    const char *kind, *field;
    double most;
  };
  const JobLimits limits{.seconds = 500};
  for (const Bound& bound : {Bound{"search", "time_s", 500}, Bound{"search", "trial_time_s", 3600},
                             Bound{"search", "until_gain", 1}, Bound{"verify", "trial_time_s", 3600}}) {
    CAPTURE(bound.field);
    const auto read = [&](const nlohmann::json& value) {
      parse_job_request(bound.kind, {{"kernel", "decode_kernel"}, {bound.field, value}}, limits, {"cuda:0"});
    };
    for (const double value : {bound.most / 2, bound.most}) CHECK_NOTHROW(read(value));
    for (const nlohmann::json& value : {nlohmann::json(bound.most * 1.001), nlohmann::json(-0.001),
                                        nlohmann::json(1e300), nlohmann::json("1"), nlohmann::json(true)})
      CHECK_THROWS_WITH_AS(read(value), doctest::Contains("must be a number from 0 to"), BadField);
  }
}

}  // namespace moetune::job_request_test

#include "tuner/scouts.h"

#include <doctest/doctest.h>

#include <future>

#include "tests/tuner/doubling_kernel.h"
#include "tests/tuner/scripted_device.h"

using namespace moetune;

namespace {

// Sends configuration 5 out once.
class SendsFive : public Searcher {
 public:
  std::vector<ConfigId> learnt;

  std::vector<ConfigId> ask(std::size_t) override { return {}; }
  void tell(const Observation&) override {}
  std::vector<ConfigId> scout(std::size_t) override {
    return std::exchange(sent_, true) ? std::vector<ConfigId>() : std::vector<ConfigId>{5};
  }
  void learn(ConfigId id, const Facts&) override { learnt.push_back(id); }

 private:
  bool sent_ = false;
};

LegalSpace ten_points() {
  Parameter x{"x", {}, ""};
  std::vector<Position> rows;
  for (Position value = 0; value < 10; ++value) {
    x.values.push_back(Value::integer(value));
    rows.push_back(value);
  }
  return LegalSpace({x}, rows);
}

}  // namespace

TEST_CASE("a scout that is not compiled when its facts are due is learnt later, and nothing waits for it") {
  std::promise<void> compiled;
  const std::shared_future<void> may_end = compiled.get_future().share();
  const DoublingKernel kernel;
  const LegalSpace space = ten_points();
  ScriptedDevice device;
  device.limits() = limits_of_architecture("sm_90a");
  TuneRequest request;
  request.kernel = &kernel;
  request.problem = doubling_problem(1024);
  request.space = &space;
  request.ready_first = true;
  SendsFive searcher;
  CompilePool pool({.digest = [](const CompileUnit&) { return std::string("one"); },
                    .build =
                        [&](const CompileUnit&) {
                          may_end.wait();
                          Build build;
                          build.entries["double"] = {.registers = 40};
                          return build;
                        }},
                   1);
  const TuneTools tools{.device = device, .compiler = &pool};
  Scouts scouts(request, tools, searcher);
  scouts.send(8, 0);
  scouts.learn_due(kScoutedFor - 1);
  scouts.learn_due(kScoutedFor);
  CHECK(searcher.learnt.empty());
  CHECK(scouts.unmeasured() == 0);

  compiled.set_value();
  pool.submit(kernel.plan(space.config(5), request.problem, device.limits()).unit).wait();
  scouts.learn_due(kScoutedFor + 1);
  CHECK(searcher.learnt == std::vector<ConfigId>{5});
  CHECK(scouts.unmeasured() == 1);
}

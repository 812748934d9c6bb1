#include "jobs/propose/external_proposer.h"

#include <doctest/doctest.h>

#include "base/error.h"
#include "tests/within_a_while.h"
#include "tuner/tune.h"

using namespace moetune;

namespace {

// 8 x 2 points; x=7 goes with loader=tma alone.
LegalSpace two_parameters() {
  std::vector<Parameter> parameters = {{"x", {}, ""},
                                       {"loader", {Value::named("plain", 0), Value::named("tma", 1)}, ""}};
  std::vector<Position> rows;
  for (Position x = 0; x < 8; ++x) {
    parameters[0].values.push_back(Value::integer(x));
    if (x < 7) rows.insert(rows.end(), {x, 0});
    rows.insert(rows.end(), {x, 1});
  }
  return LegalSpace(parameters, rows);
}

// A proposer that is a shell script, on a space of 15 configurations.
struct Proposing {
  LegalSpace space = two_parameters();
  std::vector<std::string> warnings;
  std::chrono::milliseconds answer{testing::kPatience};
  std::unique_ptr<ExternalProposer> proposer;

  void start(const std::string& script) {
    ExternalProposer::Task task{
        .space = space,
        .hello = {{"kernel", "k"}},
        .why_illegal = [](const Config& config) { return "not with x=" + config.at("x").text(); },
        .tell =
            [](const Trial& trial, const Build*) {
              return Document{{"config", assignment_document(trial.config)},
                              {"outcome", "ok"},
                              {"time_us", trial.result.measurement.median_us}};
            },
        .answer = answer};
    const auto listener = [this](const Event& event) {
      if (const auto* const warning = std::get_if<Warning>(&event.what)) {
        CHECK(warning->kind == WarningKind::proposer);
        warnings.push_back(warning->text);
      }
    };
    proposer = std::make_unique<ExternalProposer>(ProposerCommand{"script", script}, std::move(task),
                                                  Events{.listener = listener});
  }
  // The canonical texts that it suggests, waiting for its answer.
  std::vector<std::string> ask(std::size_t n = 4, const std::vector<ConfigId>& open = {}) {
    std::vector<std::string> texts;
    for (const ConfigId id : proposer->ask(n, open, [] { return false; })) texts.push_back(space.config(id).text());
    return texts;
  }
  void tell(const std::string& config, double us) {
    Trial trial{.id = *space.find_text(config), .config = space.config(*space.find_text(config))};
    trial.result.measurement.median_us = us;
    proposer->tell(trial, nullptr);
  }
  // The one warning of a proposer that is left out.
  std::string why_left_out() {
    CHECK(proposer->state() == Proposer::State::gone);
    CHECK(ask().empty());
    CHECK(warnings.size() == 1);
    return proposer->report().why_left_out;
  }
};

using Texts = std::vector<std::string>;

// Answers each ask with `answer`, and other messages with nothing.
std::string on_ask(const std::string& answer) {
  return "while read -r line; do case $line in *'\"ask\"'*) " + answer + ";; esac; done";
}

const char* const kMissed = "script is left out, and auto goes on without it: it ";

}  // namespace

TEST_CASE("a proposer is asked, answers, is told, and is asked again after a result alone") {
  Proposing it;
  it.start(R"(read -r hello; read -r ask
    echo '{"configs": [{"loader": "tma", "x": 3}, {"x": 4, "loader": "plain"}]}'
    read -r told
    test "$told" = '{"tell":{"config":{"x":3,"loader":"tma"},"outcome":"ok","time_us":5.0}}' || exit 9
    read -r ask; test "$ask" = '{"ask":{"n":2,"open":[{"x":4,"loader":"plain"}]}}' || exit 8
    echo '{"configs": []}'
    read -r told; read -r ask; echo '{"done": true}'; cat >/dev/null)");
  CHECK(it.ask() == Texts{"x=3,loader=tma", "x=4,loader=plain"});
  CHECK(it.ask().empty());  // until a result
  const ConfigId open = *it.space.find_text("x=4,loader=plain");
  it.tell("x=3,loader=tma", 5);
  CHECK(it.ask(2, {open}).empty());
  CHECK(it.proposer->state() == Proposer::State::suggests);
  it.tell("x=4,loader=plain", 6);
  CHECK(it.ask().empty());
  CHECK(it.proposer->state() == Proposer::State::done);
  CHECK(it.proposer->report().suggested == 2);
  CHECK(it.proposer->report().rejected == 0);
  CHECK(it.proposer->report().done);
  CHECK(it.warnings.empty());
}

TEST_CASE("what cannot be tried is rejected with the reason, and the rest is taken") {
  const std::vector<std::pair<std::string, std::string>> wrong = {
      {R"({"x": 7, "loader": "plain"})", "not with x=7"},
      {R"({"x": 9, "loader": "tma"})", "unknown value of x '9'; did you mean"},
      {R"({"x": 1, "loder": "tma"})", "unknown parameter 'loder'; did you mean 'loader'?"},
      {R"({"x": 1})", "parameter 'loader' has no value"},
      {R"({"x": [[{}]], "loader": 1.5})", "unknown value of"},
      {R"("x=1")", "a configuration must be an object"},
      {R"({"x": 1, "loader": "tma"})", "it was tried: ok, 12.5 us"},
      {R"({"x": 2, "loader": "tma"})", "it waits to be tried"}};
  for (const auto& [config, reason] : wrong) {
    CAPTURE(config);
    Proposing it;
    // The reason comes back as the name of a parameter, in a message that is rejected in turn.
    it.start("read -r hello; read -r told; read -r ask; echo '{\"configs\": [" + config +
             ", {\"x\": 5, \"loader\": \"tma\"}]}'; read -r rejected; case $rejected in '{\"reject\":{\"why\":\"'*\"" +
             reason + "\"*) echo '{\"done\": true}';; *) echo \"$rejected\" >&2; exit 9;; esac; cat >/dev/null");
    it.tell("x=1,loader=tma", 12.5);
    const std::vector<ConfigId> open = {*it.space.find_text("x=2,loader=tma")};
    CHECK(it.ask(4, open) == Texts{"x=5,loader=tma"});
    it.tell("x=5,loader=tma", 1);
    CHECK(it.ask().empty());
    CHECK(it.proposer->report().done);
    CHECK(it.proposer->report().rejected == (config.front() == '{'));
    CHECK(it.proposer->report().why_left_out.empty());
  }
}

TEST_CASE("a message that is none of the four, or malformed, is rejected in one sentence") {
  const std::vector<std::pair<std::string, std::string>> messages = {
      {R"({"variants": []})", "variants cannot be tried here"},
      {R"({"variations": []})", "unknown message 'variations'"},
      {R"({})", "unknown message '{}'"},
      {R"({"configs": 7})", "configs must be an array of objects"},
      {R"({"sample": 7})", "sample needs n, a whole number up to 256"},
      {R"({"sample": {"n": 257}})", "sample needs n, a whole number up to 256"},
      {R"({"sample": {"n": -1}})", "sample needs n, a whole number up to 256"},
      {R"({"sample": {"n": 2, "near": {"x": 1}}})", "parameter 'loader' has no value"},
      {R"({"wait": "long"})", "wait needs a number of seconds"}};
  for (const auto& [message, reason] : messages) {
    CAPTURE(message);
    Proposing it;
    it.start("read -r hello; read -r ask; echo '" + message + "'; read -r rejected; case $rejected in *\"" + reason +
             "\"*) echo '{\"done\": true}';; *) echo \"$rejected\" >&2; exit 9;; esac; cat >/dev/null");
    CHECK(it.ask().empty());
    it.tell("x=1,loader=tma", 1);
    it.ask();
    CHECK(it.proposer->report().why_left_out.empty());
    CHECK(it.proposer->report().done);
  }
}

TEST_CASE("a message holds so many configurations, and no more") {
  for (const std::size_t count : {ExternalProposer::kMostConfigs, ExternalProposer::kMostConfigs + 1}) {
    CAPTURE(count);
    Proposing it;
    it.start(
        "read -r hello; read -r ask; printf '{\"configs\": ['; i=1; while [ $i -lt " + std::to_string(count) +
        " ]; do printf '{\"x\":1,\"loader\":\"tma\"},'; i=$((i+1)); done; echo '{\"x\":2,\"loader\":\"tma\"}]}'; cat "
        ">/dev/null");
    CHECK(it.ask() == (count == ExternalProposer::kMostConfigs ? Texts{"x=1,loader=tma", "x=2,loader=tma"} : Texts{}));
    CHECK(it.proposer->state() == Proposer::State::suggests);
  }
}

TEST_CASE("a sample is of legal configurations that are new, near one if it says so") {
  for (const bool near : {false, true}) {
    CAPTURE(near);
    Proposing it;
    // It suggests what the sample holds, word for word.
    it.start(
        "read -r hello; read -r told; read -r ask; echo '{\"sample\": {\"n\": 14" +
        std::string(near ? ", \"near\": {\"x\": 7, \"loader\": \"plain\"}" : "") +
        "}}'; read -r sample; sample=${sample#'{\"sample\":'}; echo \"{\\\"configs\\\": ${sample%?}}\"; cat >/dev/null");
    it.tell("x=7,loader=tma", 1);
    const std::vector<ConfigId> open = {*it.space.find_text("x=0,loader=tma")};
    const Texts found = it.ask(100, open);
    CHECK(found.size() == 13);  // of 15
    CHECK(std::ranges::find(found, "x=7,loader=tma") == found.end());
    CHECK(std::ranges::find(found, "x=0,loader=tma") == found.end());
    CHECK(it.proposer->report().rejected == 0);
    // The nearest to what is not legal is found by its loader, or by its x.
    if (near) CHECK((found[0].ends_with("loader=plain") || found[0].ends_with("loader=tma")));
  }
}

TEST_CASE("what is suggested beyond what was asked for waits, and is not asked for again") {
  Proposing it;
  it.start(on_ask(
      "echo '{\"configs\": [{\"x\":1,\"loader\":\"tma\"},{\"x\":2,\"loader\":\"tma\"},{\"x\":3,\"loader\":\"tma\"}]}'"));
  CHECK(it.ask(2).size() == 2);
  it.tell("x=1,loader=tma", 1);
  it.tell("x=3,loader=tma", 1);                                       // auto was quicker
  CHECK(it.ask(2, {*it.space.find_text("x=2,loader=tma")}).empty());  // the same answer: all are tried or open
  CHECK(it.proposer->report().rejected == 3);
}

TEST_CASE("a result is told again only if it has changed") {
  Proposing it;
  it.start(
      "read -r hello; read -r a; read -r b; read -r ask; case $b in *2.0*) echo '{\"done\": true}';; esac; cat >/dev/null");
  it.tell("x=1,loader=tma", 1);
  it.tell("x=1,loader=tma", 1);
  it.tell("x=1,loader=tma", 2);
  CHECK(it.ask().empty());
  CHECK(it.proposer->state() == Proposer::State::done);
}

TEST_CASE("a proposer that dies, exits half-way or is not there is left out with one sentence") {
  const std::vector<std::pair<std::string, std::string>> ends = {
      {"echo oops >&2; exit 4", "exited with status 4; it said: oops"},
      {"kill -9 $$", "exited with status 137"},
      {"read -r hello; exit 0", "exited with status 0"},
      {"printf '{\"configs\": ['", "exited with status 0"},
      {"exec >&-; sleep 1000", "closed its output"},
      {"/no/such/program", "exited with status 127; it said: "}};
  for (const auto& [script, why] : ends) {
    CAPTURE(script);
    Proposing it;
    it.start(script);
    CHECK(it.ask().empty());
    CHECK(it.why_left_out().starts_with(why));
    CHECK(it.warnings[0].find(kMissed + why) != std::string::npos);
  }
}

TEST_CASE("what a proposer suggested before it ended is tried") {
  Proposing it;
  it.start("echo '{\"configs\": [{\"x\":1,\"loader\":\"tma\"}]}'; read -r hello; exit 1");
  const Texts first = it.ask();
  CHECK(first == Texts{"x=1,loader=tma"});
  it.tell("x=1,loader=tma", 1);
  it.ask();
  CHECK(it.why_left_out() == "exited with status 1");
}

TEST_CASE("a proposer that babbles is left out with one sentence") {
  const std::vector<std::pair<std::string, std::string>> babble = {
      {"echo hello; sleep 1000", "wrote no message: line 1: parse error at line 1, column 1"},
      {"echo '[1]'; sleep 1000", "wrote no message: line 1 is no JSON object"},
      {"echo; sleep 1000", "wrote no message: line 1: parse error"},
      {"printf '{\"configs\": [\"\\377\"]}\\n'; sleep 1000", "wrote no message: line 1: parse error"},
      {"cat /dev/urandom", "wrote "},
      {"cat /dev/zero", "wrote a line of more than 1048576 bytes"},
      {"head -c 100000 /dev/zero | tr '\\0' '['; echo; sleep 1000",
       "wrote no message: line 1: its JSON is nested more than 64"},
      {"yes '{\"wait\": 1}'", "wrote more than 1000 messages between two results"},
      {"yes '{\"sample\": {\"n\": 256}}'", "wrote more than 1000 messages between two results"},
      {"yes '{\"variants\": []}'", "wrote more than 1000 messages between two results"},
      {"yes >&2", "did not answer for "}};
  for (const auto& [script, why] : babble) {
    CAPTURE(script);
    Proposing it;
    if (why.starts_with("did not")) it.answer = std::chrono::milliseconds(300);
    it.start(script);
    // Variants answer: a slow program has not said too much by then.
    CHECK(testing::within_a_while([&] { return it.ask().empty() && it.proposer->state() == Proposer::State::gone; }));
    CHECK(it.why_left_out().starts_with(why));
    CHECK(it.why_left_out().size() <= 600);
  }
}

TEST_CASE("a proposer that never answers is waited for so long, or as long as it asks for within a limit") {
  Proposing silent;
  silent.answer = std::chrono::milliseconds(200);
  silent.start("cat >/dev/null");
  CHECK(silent.ask().empty());
  CHECK(silent.why_left_out().starts_with("did not answer for 0.2"));

  Proposing thinking;
  thinking.answer = std::chrono::milliseconds(500);
  thinking.start(on_ask("echo '{\"wait\": 100}'; sleep 1; echo '{\"configs\": [{\"x\":1,\"loader\":\"tma\"}]}'"));
  CHECK(thinking.ask() == Texts{"x=1,loader=tma"});

  Proposing waits_no_longer;
  waits_no_longer.start(on_ask("echo '{\"wait\": 0.1}'"));
  CHECK(waits_no_longer.ask().empty());
  CHECK(waits_no_longer.why_left_out().starts_with("did not answer for "));
}

TEST_CASE("nobody waits for an answer on a GPU, or once the search is over") {
  Proposing it;
  it.start("cat >/dev/null");
  CHECK(it.proposer->ask(4, {}, {}).empty());
  CHECK(it.proposer->ask(4, {}, [] { return true; }).empty());
  CHECK(it.proposer->state() == Proposer::State::suggests);
  it.proposer->end();
  CHECK(it.proposer->ask(4, {}, [] { return false; }).empty());
  CHECK(it.warnings.empty());
}

TEST_CASE("a proposer's name is the program's alone") {
  const auto name_of = [](std::string strategy) {
    const std::string command = strategy.substr(strategy.find(':') + 1);
    const auto taken = take_proposer_command(strategy);
    REQUIRE(taken);
    CHECK(taken->command == command);
    CHECK(strategy == "external:" + taken->name);
    return taken->name;
  };
  CHECK(name_of("external:./propose.py --key secret") == "propose.py");
  CHECK(name_of("external:  /usr/bin/python3 x.py") == "python3");
  CHECK(name_of("external:KEY=secret ./propose.py") == "command");
  CHECK(name_of("external:KEY='a secret' ./propose.py") == "command");
  CHECK(name_of("external:'./a program' secret") == "command");
  CHECK(name_of("external:./p.py;rm") == "command");
  CHECK(name_of("external:bin/") == "command");
  CHECK(name_of("external:" + std::string(1000, 'x')).size() == 64);
  std::string other = "local", empty = "external: ";
  CHECK(!take_proposer_command(other));
  CHECK(other == "local");
  CHECK_THROWS_WITH_AS(take_proposer_command(empty),
                       "strategy: external: needs the command of a program, as in external:./propose.py", BadField);
}

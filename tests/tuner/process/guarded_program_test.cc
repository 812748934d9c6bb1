#include "tuner/process/guarded_program.h"

#include <doctest/doctest.h>
#include <signal.h>

#include <cstdlib>
#include <fstream>

#include "tests/within_a_while.h"

using namespace moetune;
using moetune::testing::kPatience;
using moetune::testing::within_a_while;

namespace {

GuardedProgram::Clock::time_point in_a_while() { return GuardedProgram::Clock::now() + kPatience; }

// The state letter of a process, as /proc has it; 'X' if it is gone.
char process_state(int pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string text;
  std::getline(file, text);
  const std::size_t at = text.rfind(") ");
  return at == std::string::npos ? 'X' : text.at(at + 2);
}

bool is_gone(int pid) { return process_state(pid) == 'X' || process_state(pid) == 'Z'; }

int next_number(GuardedProgram& program) {
  const auto line = program.next_line(in_a_while());
  REQUIRE(line);
  return std::atoi(line->c_str());
}

// Why the program is over, once no line comes any more.
std::string end_of(GuardedProgram& program) {
  while (program.next_line(in_a_while())) {
  }
  return program.why_over();
}

}  // namespace

TEST_CASE("a program answers line by line, and its last lines come before its end") {
  GuardedProgram program("read line; echo \"got $line\"; echo second; echo words >&2; exit 3");
  CHECK(!program.next_line(GuardedProgram::Clock::now()));
  CHECK(program.why_over().empty());
  program.send("hello there");
  CHECK(program.next_line(in_a_while()) == "got hello there");
  CHECK(program.next_line(in_a_while()) == "second");
  CHECK(end_of(program) == "exited with status 3; it said: words");
  program.send("to nobody");
  CHECK(!program.next_line(in_a_while()));
}

TEST_CASE("only the last words on stderr are kept, however many there are") {
  GuardedProgram program("head -c 3000000 /dev/zero | tr '\\0' 'x' >&2; echo last >&2; exit 1");
  const std::string why = end_of(program);
  CHECK(why.starts_with("exited with status 1; it said: ...xxx"));
  CHECK(why.ends_with("xlast"));
  CHECK(why.size() < 500);
}

TEST_CASE("a line may be as long as the limit, and no longer") {
  const std::string limit = std::to_string(GuardedProgram::kLongestLine);
  GuardedProgram fits("head -c " + limit + " /dev/zero | tr '\\0' 'x'; echo; sleep 1000");
  const auto line = fits.next_line(in_a_while());
  REQUIRE(line);
  CHECK(line->size() == GuardedProgram::kLongestLine);
  GuardedProgram ended("head -c $((" + limit + " + 1)) /dev/zero | tr '\\0' 'x'; echo; sleep 1000");
  CHECK(end_of(ended) == "wrote a line of more than " + limit + " bytes");
  GuardedProgram endless("cat /dev/zero");
  CHECK(end_of(endless) == "wrote a line of more than " + limit + " bytes");
}

TEST_CASE("a program that does not read costs no more than a limit") {
  GuardedProgram program("sleep 1000");
  const std::string line(std::size_t{1} << 20, 'x');
  for (std::size_t sent = 0; sent <= GuardedProgram::kMostUnread + (2u << 20); sent += line.size()) program.send(line);
  CHECK(program.why_over() == "does not read what it is sent");
}

TEST_CASE("a program may close either stream") {
  GuardedProgram deaf("exec <&-; echo ready; sleep 0.2; echo still here");
  CHECK(deaf.next_line(in_a_while()) == "ready");
  deaf.send("a line that nobody reads");
  CHECK(deaf.next_line(in_a_while()) == "still here");
  GuardedProgram mute("exec >&-; sleep 1000");
  CHECK(end_of(mute) == "closed its output");
}

TEST_CASE("a program that ignores signals ends with its object, and with it what it started") {
  int first = 0, second = 0, third = 0;
  {
    GuardedProgram program(
        "trap '' TERM INT HUP; sleep 1000 & echo $!; setsid sh -c 'trap \"\" TERM; echo $$; while :; do sleep 1000; "
        "done' & read line; echo $$; while :; do sleep 1000; done");
    first = next_number(program);
    second = next_number(program);
    program.send("go on");
    third = next_number(program);
    CHECK(!is_gone(first));
    CHECK(!is_gone(second));
    CHECK(!is_gone(third));
  }
  CHECK(is_gone(first));
  CHECK(is_gone(second));
  CHECK(is_gone(third));
}

TEST_CASE("children that live on end when their program does, even in a session of their own") {
  GuardedProgram program("setsid sleep 1000 >&- 2>&- & echo $!; exit 0");
  const int child = next_number(program);
  CHECK(end_of(program) == "exited with status 0");
  CHECK(is_gone(child));
}

TEST_CASE("a program is given the time to end by itself") {
  std::string pattern = "/tmp/moetune-guarded-XXXXXX";
  REQUIRE(mkstemp(pattern.data()) >= 0);
  { GuardedProgram program("cat >/dev/null; echo ended >" + pattern); }
  std::ifstream file(pattern);
  std::string word;
  file >> word;
  CHECK(word == "ended");
  std::remove(pattern.c_str());
}

TEST_CASE("what kills the guard kills the program") {
  GuardedProgram program("sleep 1000 & echo $$ $!; kill -9 $PPID; sleep 1000");
  const auto numbers = program.next_line(in_a_while());
  REQUIRE(numbers);
  CHECK(end_of(program) == "closed its output");
  const int shell = std::atoi(numbers->c_str()), child = std::atoi(numbers->c_str() + numbers->find(' '));
  CHECK(within_a_while([&] { return is_gone(shell) && is_gone(child); }));
}

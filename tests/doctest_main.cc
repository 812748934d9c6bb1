// A test program's main. Programs that are also started as something else (a worker process) link a file that
// defines other_role; the rest have none. Filters that match no test case fail, as a test that cannot fail is none.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>
#include <unistd.h>

#include <cstdio>

#include "tests/other_role.h"

namespace {

bool nothing_ran = false;

struct Counting : doctest::IReporter {
  explicit Counting(const doctest::ContextOptions&) {}
  void test_run_end(const doctest::TestRunStats& run) override { nothing_ran = run.numTestCasesPassingFilters == 0; }
  void report_query(const doctest::QueryData&) override {}
  void test_run_start() override {}
  void test_case_start(const doctest::TestCaseData&) override {}
  void test_case_reenter(const doctest::TestCaseData&) override {}
  void test_case_end(const doctest::CurrentTestCaseStats&) override {}
  void test_case_exception(const doctest::TestCaseException&) override {}
  void subcase_start(const doctest::SubcaseSignature&) override {}
  void subcase_end() override {}
  void log_assert(const doctest::AssertData&) override {}
  void log_message(const doctest::MessageData&) override {}
  void test_case_skipped(const doctest::TestCaseData&) override {}
};

REGISTER_LISTENER("counting", 1, Counting);

}  // namespace

// Stand in for the C library's, for SQLite as well: a test's files need not outlast a power cut, and waiting for the
// disk was two thirds of the time of those that store.
extern "C" [[gnu::visibility("default")]] int fsync(int) { return 0; }
extern "C" [[gnu::visibility("default")]] int fdatasync(int) { return 0; }

int main(int argc, char** argv) {
  int status = 0;
  if (other_role != nullptr && other_role(argc, argv, status)) return status;
  doctest::Context context(argc, argv);
  status = context.run();
  if (nothing_ran) std::fputs("no test case matches the filters\n", stderr);
  return nothing_ran ? 1 : status;
}

// Command lines, a word a line: an exit code that there is, and never "a bug in moetune".
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>

#include "cli/command_line.h"
#include "replay/recording.h"
#include "tests/fuzz/cache_content.h"
#include "tests/fuzz/mutator.h"
#include "tests/fuzz/target.h"
#include "tests/replay/sample_recording.h"

namespace moetune::fuzz {
namespace {

const std::vector<std::string> kCommands = {
    "search\n--device\nreplay:r.zst\n--budget\n4\n--no-cache",
    "search\n--device\nreplay:r.zst\n--budget\n9\n--cache\nc.db\n--json",
    "search\n--device=replay:r.zst\n--strategy\nlocal\n--seed\n7\n--time\n1\n--fresh\n--verbose",
    "search\ndecode_attention\n--preset\nqwen3-30b-a3b\n--problem\nbatch=4,context=512\n--device\nreplay:"
    "none",
    "report\n--cache\nsample.db\n--wide",
    "report\ndecode_kernel\n--cache\nsample.db\n--json",
    "report\n--cache\nsample.db\n--html\nout.html\n--csv\nout.csv\n--t4\nt4",
    "compare\nsample.db\nsample.db\n--json",
    "compare\n2026-11-22\ngpu:H200\n--cache\nsample.db",
    "compare\nkey:1\nkey:2\n--cache\nsample.db\n--significant\n--exit-code",
    "cache\nls\n--cache\nsample.db",
    "cache\nshow\n1\n--cache\nsample.db",
    "cache\ncheck\n--cache\nsample.db\n--json",
    "cache\nextract\n2\nfolder\n--cache\nsample.db",
    "cache\nexport\nmodels.pack\n--cache\nsample.db",
    "cache\ngc\n--dry-run\n--cache\nsample.db",
    "cache\nrm\n7\n--cache\nsample.db",
    "kernels\ndecode_attention",
    "kernels\n--json",
    "space\ndecode_kernel\n--arch\nsm_90a",
    "space\ndecode_kernel\n--problem\nelements=1000,dtype=f32",
    "compile\ndecode_kernel\n--arch\nsm_80\n--config\nstages=2",
    "verify\ndecode_kernel\n--config\nstages=2",
    "bench\ndecode_kernel\n--cache\nsample.db",
    "record\ndecode_kernel\n--output\nout.zst",
    "cache\nls\n--kernel\ndecode_kernel\n--sort\nage\n--limit\n2\n--stale\n--cache\nsample.db",
    "report\ndecode_kernel\n--elements\n1048576\n--cache\nsample.db",
    "__complete\ncache\nshow\n--cache\nsample.db\n",
    "__complete\nsearch\ndecode_attention\n--problem\nbatch=1,",
    "completion\nbash",
    "man\nsearch",
    "help\nenvironment",
    "search\n--help",
    "--version"};

// Points stdout and stderr at a file in memory for as long as it lives.
class CapturedOutput {
 public:
  CapturedOutput() : file_(::memfd_create("output", MFD_CLOEXEC)) {
    for (const int stream : {STDOUT_FILENO, STDERR_FILENO}) {
      kept_[stream - 1] = ::fcntl(stream, F_DUPFD_CLOEXEC, 10);
      ::dup2(file_, stream);
    }
  }
  CapturedOutput(const CapturedOutput&) = delete;
  ~CapturedOutput() {
    for (const int stream : {STDOUT_FILENO, STDERR_FILENO}) {
      ::dup2(kept_[stream - 1], stream);
      ::close(kept_[stream - 1]);
    }
    ::close(file_);
  }

  std::string text() const {
    std::string text(static_cast<std::size_t>(std::max<off_t>(::lseek(file_, 0, SEEK_END), 0)), '\0');
    const ssize_t got = ::pread(file_, text.data(), text.size(), 0);
    text.resize(static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    return text;
  }

 private:
  int file_;
  int kept_[2];
};

class CommandTarget : public Target {
 public:
  explicit CommandTarget(const Folder& folder)
      : mutator_(kCommands, {"--", "-", "---", "=", "\n", "\n--json", "\n--help", "--cache", "--budget", "search",
                             "cache", "replay:r.zst", "sample.db", "r.zst", "\x1b[2J", "--time", "1e-300", ","}) {
    std::filesystem::current_path(folder);
    write_sample_cache("sample.db");
    write_recording(sample_recording(), "r.zst");
    ::setenv("HOME", folder.c_str(), 1);
    ::unsetenv("XDG_CACHE_HOME");
    ::setenv("MOETUNE_NVRTC", "/nonexistent", 1);
    ::setenv("MOETUNE_LIBCUDA", "/nonexistent", 1);
  }

  // Nothing outside of the folder is touched.
  std::string make(Random& random) override {
    std::string input = mutator_.make(random);
    std::replace(input.begin(), input.end(), '/', '_');
    return input;
  }

  void run(const std::string& input) override {
    std::vector<std::string> words(1);
    for (const char c : input) {
      if (c == '\n') {
        words.emplace_back();
      } else if (c != '\0') {  // which no argument holds
        words.back() += c;
      }
    }
    int code = 0;
    std::string output;
    {
      const CapturedOutput captured;
      code = run_command_line(words);
      output = captured.text();
    }
    const std::size_t bug = output.find("a bug in moetune");
    if (bug != std::string::npos) throw Finding(output.substr(bug, 300));
    if (code < 0 || code > 3) throw Finding("the exit code is " + std::to_string(code));
    if (output.find('\x1b') != std::string::npos) throw Finding("a control sequence of an argument is printed");
  }

 private:
  const Mutator mutator_;
};

}  // namespace

std::unique_ptr<Target> command_target(const Folder& folder) { return std::make_unique<CommandTarget>(folder); }

}  // namespace moetune::fuzz

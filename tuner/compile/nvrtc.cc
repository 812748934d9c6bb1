#include "tuner/compile/nvrtc.h"

#include <dlfcn.h>
#include <nvrtc.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <iostream>
#include <mutex>
#include <optional>
#include <thread>

#include "base/error.h"

namespace moetune {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

// The functions moetune calls, named and typed as nvrtc.h declares them.
struct Functions {
  decltype(&::nvrtcGetErrorString) get_error_string = nullptr;
  decltype(&::nvrtcGetNumSupportedArchs) get_num_supported_archs = nullptr;
  decltype(&::nvrtcGetSupportedArchs) get_supported_archs = nullptr;
  decltype(&::nvrtcCreateProgram) create_program = nullptr;
  decltype(&::nvrtcDestroyProgram) destroy_program = nullptr;
  decltype(&::nvrtcCompileProgram) compile_program = nullptr;
  decltype(&::nvrtcGetPTXSize) get_ptx_size = nullptr;
  decltype(&::nvrtcGetPTX) get_ptx = nullptr;
  decltype(&::nvrtcGetCUBINSize) get_cubin_size = nullptr;
  decltype(&::nvrtcGetCUBIN) get_cubin = nullptr;
  decltype(&::nvrtcGetProgramLogSize) get_log_size = nullptr;
  decltype(&::nvrtcGetProgramLog) get_log = nullptr;
  decltype(&::nvrtcSetFlowCallback) set_flow_callback = nullptr;  // since 12.8; may be absent
};

template <typename Function>
void resolve(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
}

// An empty string, or the name that the library lacks.
std::string resolve_all(void* library, Functions& functions) {
  std::string missing;
  const auto required = [&](const char* name, auto& function) {
    resolve(library, name, function);
    if (function == nullptr && missing.empty()) missing = name;
  };
  required("nvrtcGetErrorString", functions.get_error_string);
  required("nvrtcGetNumSupportedArchs", functions.get_num_supported_archs);
  required("nvrtcGetSupportedArchs", functions.get_supported_archs);
  required("nvrtcCreateProgram", functions.create_program);
  required("nvrtcDestroyProgram", functions.destroy_program);
  required("nvrtcCompileProgram", functions.compile_program);
  required("nvrtcGetPTXSize", functions.get_ptx_size);
  required("nvrtcGetPTX", functions.get_ptx);
  required("nvrtcGetCUBINSize", functions.get_cubin_size);
  required("nvrtcGetCUBIN", functions.get_cubin);
  required("nvrtcGetProgramLogSize", functions.get_log_size);
  required("nvrtcGetProgramLog", functions.get_log);
  resolve(library, "nvrtcSetFlowCallback", functions.set_flow_callback);
  return missing;
}

struct Opened {
  void* handle = nullptr;
  std::string path;
};

std::string loader_error() {
  const char* text = ::dlerror();
  return text != nullptr ? text : "unknown error";
}

// libnvrtc opens its builtins by bare soname and carries no run path, so they must be in the process before
// it asks; the loader then finds them by soname wherever they came from.
Opened open_library(const fs::path& path) {
  if (path.has_parent_path()) {
    for (const fs::path& builtins : versioned_files(path.parent_path(), "libnvrtc-builtins.so.")) {
      ::dlopen(builtins.c_str(), RTLD_NOW | RTLD_GLOBAL);
    }
  }
  void* handle = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) return {};
  std::string real = path.string();
  if (Dl_info info; ::dladdr(::dlsym(handle, "nvrtcVersion"), &info) != 0) real = info.dli_fname;
  return {handle, real};
}

constexpr const char* kAdvice =
    "install the CUDA toolkit or run scripts/setup, which fetches NVRTC into build/cuda; or set "
    "MOETUNE_NVRTC to "
    "libnvrtc.so or its folder";

Opened open_insisted(const fs::path& insisted) {
  std::vector<fs::path> candidates = {insisted};
  if (fs::is_directory(insisted)) candidates = nvrtc_libraries_in(insisted);
  if (candidates.empty()) {
    throw BrokenEnvironment("MOETUNE_NVRTC: no libnvrtc.so.* in the folder " + insisted.string());
  }
  Opened opened = open_library(candidates.front());
  if (opened.handle == nullptr) {
    throw BrokenEnvironment("MOETUNE_NVRTC: cannot open " + candidates.front().string() + ": " +
                            loader_error());
  }
  return opened;
}

Opened open_first(const NvrtcSearch& search) {
  if (!search.insisted.empty()) return open_insisted(search.insisted);
  std::vector<fs::path> candidates;
  std::string looked;
  for (const fs::path& folder : search.folders) {
    for (fs::path& library : nvrtc_libraries_in(folder)) candidates.push_back(std::move(library));
    looked += (looked.empty() ? "" : ", ") + folder.string();
  }
  if (search.loader_path) {
    for (const char* name : {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"})
      candidates.emplace_back(name);
    looked += std::string(looked.empty() ? "" : ", ") + "the loader's path";
  }
  std::string failures;
  for (const fs::path& candidate : candidates) {
    if (Opened opened = open_library(candidate); opened.handle != nullptr) return opened;
    const std::string reason = loader_error();
    if (candidate.has_parent_path()) failures += "; " + reason;
  }
  throw BrokenEnvironment("NVRTC (libnvrtc.so) not found in: " + looked + failures + "; " + kAdvice);
}

// One run of the compiler. Shared with the thread that runs it, which may outlive whoever waits.
struct Run {
  NvrtcJob job;
  Functions functions;
  Clock::time_point deadline;
  std::mutex mutex;
  std::condition_variable done;
  std::optional<NvrtcResult> result;  // guarded by mutex
  bool left_behind = false;           // guarded by mutex
};

// Runs that nobody waits for any more and that still hold NVRTC's front end, which is one for the whole
// process.
std::atomic<int> runs_left_behind = 0;

int past_deadline(void* run, void*) { return Clock::now() > static_cast<const Run*>(run)->deadline ? 1 : 0; }

std::string limit_text(std::chrono::milliseconds limit) {
  char text[64];
  std::snprintf(text, sizeof text, "took longer than %g s", static_cast<double>(limit.count()) / 1000);
  return text;
}

NvrtcResult::Status status_of(nvrtcResult code) {
  switch (code) {
    case NVRTC_SUCCESS:
      return NvrtcResult::Status::ok;
    case NVRTC_ERROR_COMPILATION:
      return NvrtcResult::Status::rejected;
    case NVRTC_ERROR_INVALID_OPTION:
      return NvrtcResult::Status::bad_option;
    case NVRTC_ERROR_CANCELLED:
      return NvrtcResult::Status::timed_out;
    default:
      return NvrtcResult::Status::broken;
  }
}

// NVRTC counts a text's closing zero in its size.
template <typename Size, typename Get>
std::string take_text(nvrtcProgram program, Size get_size, Get get) {
  std::size_t size = 0;
  if (get_size(program, &size) != NVRTC_SUCCESS || size == 0) return {};
  std::string text(size, '\0');
  if (get(program, text.data()) != NVRTC_SUCCESS) return {};
  text.resize(text.find_last_not_of('\0') + 1);
  return text;
}

std::vector<std::uint8_t> take_cubin(const Functions& nvrtc, nvrtcProgram program) {
  std::size_t size = 0;
  if (nvrtc.get_cubin_size(program, &size) != NVRTC_SUCCESS || size == 0) return {};
  std::vector<std::uint8_t> cubin(size);
  if (nvrtc.get_cubin(program, reinterpret_cast<char*>(cubin.data())) != NVRTC_SUCCESS) cubin.clear();
  return cubin;
}

NvrtcResult run_nvrtc(Run& run) {
  const Functions& nvrtc = run.functions;
  std::vector<const char*> names, texts, options;
  for (std::size_t i = 1; i < run.job.sources.size(); ++i) {
    names.push_back(run.job.sources[i].path.c_str());
    texts.push_back(run.job.sources[i].text.c_str());
  }
  for (const std::string& option : run.job.options) options.push_back(option.c_str());

  NvrtcResult result;
  nvrtcProgram program = nullptr;
  const SourceFile& main = run.job.sources.front();
  nvrtcResult code = nvrtc.create_program(&program, main.text.c_str(), main.path.c_str(),
                                          static_cast<int>(names.size()), texts.data(), names.data());
  if (code == NVRTC_SUCCESS) {
    if (nvrtc.set_flow_callback != nullptr) nvrtc.set_flow_callback(program, past_deadline, &run);
    code = nvrtc.compile_program(program, static_cast<int>(options.size()), options.data());
  }
  result.status = status_of(code);
  if (code != NVRTC_SUCCESS) result.error = nvrtc.get_error_string(code);
  if (result.status == NvrtcResult::Status::timed_out) result.error = limit_text(run.job.time_limit);
  if (program == nullptr) return result;
  result.log = take_text(program, nvrtc.get_log_size, nvrtc.get_log);
  if (code == NVRTC_SUCCESS) {
    result.cubin = take_cubin(nvrtc, program);
    result.ptx = take_text(program, nvrtc.get_ptx_size, nvrtc.get_ptx);
  }
  nvrtc.destroy_program(&program);
  return result;
}

// A compiler thread that is still running while exit() destroys libraries under it would crash the process on
// its way out, so from the first such thread on the process ends without destructors.
void end_without_destructors() {
  static std::once_flag once;
  std::call_once(once, [] {
    ::on_exit(
        [](int status, void*) {
          std::cout.flush();
          std::fflush(nullptr);
          ::_exit(status);
        },
        nullptr);
  });
}

NvrtcJob probe(std::string architecture, bool no_cache) {
  NvrtcJob job;
  job.sources = {{"probe.cu", "extern \"C\" __global__ void probe(float* p) { p[0] += p[1]; }\n"}};
  job.options = {"--gpu-architecture=" + std::move(architecture)};
  if (no_cache) job.options.emplace_back("--no-cache");
  return job;
}

// "13.0.88" out of PTX's "// Cuda compilation tools, release 13.0, V13.0.88". nvrtcVersion() gives "13.0"
// only, and two updates of one release generate different code.
std::string version_in_ptx(const std::string& ptx) {
  const std::string marker = "Cuda compilation tools, release ";
  const std::size_t line = ptx.find(marker);
  const std::size_t begin = line == std::string::npos ? line : ptx.find(", V", line);
  if (begin == std::string::npos) return {};
  const std::size_t end = ptx.find_first_not_of("0123456789.", begin + 3);
  return ptx.substr(begin + 3, end - begin - 3);
}

}  // namespace

struct Nvrtc::Impl {
  Functions functions;
  std::string path;
  std::string version;
  std::vector<int> architectures;
  bool has_disk_cache = false;
};

Nvrtc::Nvrtc(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Nvrtc::~Nvrtc() = default;

const std::string& Nvrtc::path() const { return impl_->path; }
const std::string& Nvrtc::version() const { return impl_->version; }
bool Nvrtc::has_disk_cache() const { return impl_->has_disk_cache; }
const std::vector<int>& Nvrtc::architectures() const { return impl_->architectures; }

std::shared_ptr<const Nvrtc> Nvrtc::load() {
  static std::mutex mutex;
  static std::shared_ptr<const Nvrtc> loaded;
  const std::lock_guard lock(mutex);
  if (loaded == nullptr) loaded = load(NvrtcSearch::of_process());
  return loaded;
}

std::shared_ptr<const Nvrtc> Nvrtc::load(const NvrtcSearch& search) {
  const Opened opened = open_first(search);
  auto impl = std::make_unique<Impl>();
  impl->path = opened.path;
  if (const std::string missing = resolve_all(opened.handle, impl->functions); !missing.empty()) {
    throw BrokenEnvironment(impl->path + " has no " + missing + ": it is no NVRTC of CUDA 11.2 or later; " +
                            kAdvice);
  }
  int count = 0;
  impl->functions.get_num_supported_archs(&count);
  impl->architectures.resize(static_cast<std::size_t>(std::max(count, 0)));
  if (count > 0) impl->functions.get_supported_archs(impl->architectures.data());
  if (impl->architectures.empty())
    throw BrokenEnvironment(impl->path + " knows no GPU architecture; " + kAdvice);

  const std::shared_ptr<Nvrtc> nvrtc(new Nvrtc(std::move(impl)));
  Impl& facts = *nvrtc->impl_;
  const std::string target = "compute_" + std::to_string(facts.architectures.front());
  NvrtcResult result = nvrtc->compile(probe(target, true));
  facts.has_disk_cache = result.status == NvrtcResult::Status::ok;
  if (result.status == NvrtcResult::Status::bad_option) result = nvrtc->compile(probe(target, false));
  facts.version = version_in_ptx(result.ptx);
  if (result.status != NvrtcResult::Status::ok || facts.version.empty()) {
    throw BrokenEnvironment(facts.path + " cannot compile an empty kernel (" + result.error +
                            "): " + result.log +
                            "; is libnvrtc-builtins of the same version beside it? else " + kAdvice);
  }
  return nvrtc;
}

NvrtcResult Nvrtc::compile(const NvrtcJob& job) const {
  const auto run = std::make_shared<Run>();
  run->job = job;
  run->functions = impl_->functions;
  run->deadline = Clock::now() + job.time_limit;
  std::thread worker([run] {
    NvrtcResult result = run_nvrtc(*run);
    const std::lock_guard lock(run->mutex);
    run->result = std::move(result);
    if (run->left_behind) --runs_left_behind;
    run->done.notify_one();
  });

  std::unique_lock lock(run->mutex);
  if (run->done.wait_until(lock, run->deadline + kStopSlack, [&] { return run->result.has_value(); })) {
    NvrtcResult result = *std::move(run->result);
    lock.unlock();
    worker.join();
    return result;
  }
  const int stuck_before = runs_left_behind++;
  run->left_behind = true;
  worker.detach();
  end_without_destructors();
  NvrtcResult result;
  result.status = NvrtcResult::Status::timed_out;
  result.error = limit_text(job.time_limit);
  if (stuck_before > 0) result.error += ", waiting for an earlier compilation that cannot be stopped";
  result.log =
      "NVRTC " + result.error + "; it gave no occasion to stop it and still runs on a thread of its own";
  return result;
}

}  // namespace moetune

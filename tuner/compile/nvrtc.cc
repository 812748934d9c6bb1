#include "tuner/compile/nvrtc.h"

#include <dlfcn.h>
#include <nvrtc.h>

#include <algorithm>
#include <mutex>

#include "base/error.h"
#include "base/regular_file.h"

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
  decltype(&::nvrtcAddNameExpression) add_name_expression = nullptr;
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
  required("nvrtcAddNameExpression", functions.add_name_expression);
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
  require_regular_file(path);
  void* handle = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) return {};
  std::string real = path.string();
  if (Dl_info info; ::dladdr(::dlsym(handle, "nvrtcVersion"), &info) != 0) real = info.dli_fname;
  return {handle, real};
}

constexpr const char* kAdvice =
    "install the CUDA toolkit, or nvidia-cuda-nvrtc by pip beside moetune's Python package; beside its source "
    "scripts/setup fetches NVRTC into build/cuda; or set MOETUNE_NVRTC to libnvrtc.so or its folder";

Opened open_requested(const fs::path& requested) {
  std::vector<fs::path> candidates = {requested};
  if (fs::is_directory(requested)) candidates = nvrtc_libraries_in(requested);
  if (candidates.empty()) {
    throw BrokenEnvironment("MOETUNE_NVRTC: no libnvrtc.so.* in the folder " + requested.string());
  }
  Opened opened = open_library(candidates.front());
  if (opened.handle == nullptr) {
    throw BrokenEnvironment("MOETUNE_NVRTC: cannot open " + candidates.front().string() + ": " + loader_error());
  }
  return opened;
}

Opened open_first(const NvrtcSearch& search) {
  if (!search.requested.empty()) return open_requested(search.requested);
  std::vector<fs::path> candidates;
  std::string looked;
  for (const fs::path& folder : search.folders) {
    for (fs::path& library : nvrtc_libraries_in(folder)) candidates.push_back(std::move(library));
    looked += (looked.empty() ? "" : ", ") + folder.string();
  }
  if (search.loader_path) {
    for (const char* name : {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"}) candidates.emplace_back(name);
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

int past_deadline(void* deadline, void*) {
  return Clock::now() > *static_cast<const Clock::time_point*>(deadline) ? 1 : 0;
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

NvrtcResult run_nvrtc(const Functions& nvrtc, const NvrtcJob& job) {
  std::vector<const char*> names, texts, options;
  for (std::size_t i = 1; i < job.sources.size(); ++i) {
    names.push_back(job.sources[i].path.c_str());
    texts.push_back(job.sources[i].text.c_str());
  }
  for (const std::string& option : job.options) options.push_back(option.c_str());

  NvrtcResult result;
  Clock::time_point deadline = Clock::now() + job.time_limit;
  nvrtcProgram program = nullptr;
  const SourceFile& main = job.sources.front();
  nvrtcResult code = nvrtc.create_program(&program, main.text.c_str(), main.path.c_str(),
                                          static_cast<int>(names.size()), texts.data(), names.data());
  if (code == NVRTC_SUCCESS) {
    if (nvrtc.set_flow_callback != nullptr) nvrtc.set_flow_callback(program, past_deadline, &deadline);
    for (const std::string& instance : job.instances) nvrtc.add_name_expression(program, instance.c_str());
    code = nvrtc.compile_program(program, static_cast<int>(options.size()), options.data());
  }
  result.status = status_of(code);
  if (code != NVRTC_SUCCESS) result.error = nvrtc.get_error_string(code);
  if (program == nullptr) return result;
  result.log = take_text(program, nvrtc.get_log_size, nvrtc.get_log);
  if (code == NVRTC_SUCCESS) {
    result.cubin = take_cubin(nvrtc, program);
    if (result.cubin.empty()) result.ptx = take_text(program, nvrtc.get_ptx_size, nvrtc.get_ptx);
  }
  nvrtc.destroy_program(&program);
  return result;
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
  NvrtcFacts facts;
};

Nvrtc::Nvrtc(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Nvrtc::~Nvrtc() = default;

const NvrtcFacts& Nvrtc::facts() const { return impl_->facts; }

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
  NvrtcFacts& facts = impl->facts;
  facts.path = opened.path;
  if (const std::string missing = resolve_all(opened.handle, impl->functions); !missing.empty()) {
    throw BrokenEnvironment(facts.path + " has no " + missing + ": it is no NVRTC of CUDA 11.2 or later; " + kAdvice);
  }
  int count = 0;
  impl->functions.get_num_supported_archs(&count);
  facts.architectures.resize(static_cast<std::size_t>(std::max(count, 0)));
  if (count > 0) impl->functions.get_supported_archs(facts.architectures.data());
  if (facts.architectures.empty()) throw BrokenEnvironment(facts.path + " knows no GPU architecture; " + kAdvice);

  const std::string target = "compute_" + std::to_string(facts.architectures.front());
  NvrtcResult result = run_nvrtc(impl->functions, probe(target, true));
  facts.has_disk_cache = result.status == NvrtcResult::Status::ok;
  if (result.status == NvrtcResult::Status::bad_option) result = run_nvrtc(impl->functions, probe(target, false));
  facts.version = version_in_ptx(result.ptx);
  if (result.status != NvrtcResult::Status::ok || facts.version.empty()) {
    throw BrokenEnvironment(facts.path + " cannot compile an empty kernel (" + result.error + "): " + result.log +
                            "; is libnvrtc-builtins of the same version beside it? else " + kAdvice);
  }
  return std::shared_ptr<const Nvrtc>(new Nvrtc(std::move(impl)));
}

NvrtcResult Nvrtc::compile(const NvrtcJob& job) const { return run_nvrtc(impl_->functions, job); }

}  // namespace moetune

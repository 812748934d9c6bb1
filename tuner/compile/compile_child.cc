#include "tuner/compile/compile_child.h"

#include <malloc.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "tuner/process/child_main.h"

namespace moetune {
namespace {

using Json = nlohmann::json;

// Paths, options and logs may hold any bytes.
std::string text_of(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

Bytes bytes_of(const std::string& text) { return {text.begin(), text.end()}; }

std::uint64_t resident_memory() {
  unsigned long long whole = 0, resident = 0;
  std::FILE* file = std::fopen("/proc/self/statm", "re");
  if (file == nullptr) return 0;
  if (std::fscanf(file, "%llu %llu", &whole, &resident) != 2) resident = 0;
  std::fclose(file);
  return resident * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
}

// Ends the process once it has more memory than it may. A limit of the kernel's would make the compiler
// report an ordinary error of the source, which another run need not repeat, and counts what is reserved and
// never used.
void watch_memory(std::uint64_t limit) {
  if (limit == 0) return;
  std::thread([limit] {
    while (resident_memory() <= limit) std::this_thread::sleep_for(std::chrono::milliseconds(50));
    std::fprintf(stderr, "it needs more than %.3g GiB of memory\n", static_cast<double>(limit) / (1 << 30));
    _exit(1);
  }).detach();
}

// NVRTC frees all it has at the end of a compilation. Memory that is kept for the next one is not faulted in
// again, which saves 5,000 page faults, 4% of the time of a decode_attention unit.
void keep_freed_memory() {
  constexpr int kKept = 256 << 20;
  mallopt(M_MMAP_THRESHOLD, kKept);
  mallopt(M_TRIM_THRESHOLD, kKept);
  mallopt(M_TOP_PAD, 16 << 20);
}

Message load(const Json& request) {
  watch_memory(request.at("memory_limit"));
  keep_freed_memory();
  const NvrtcFacts& facts = Nvrtc::load()->facts();
  return {text_of({{"path", facts.path},
                   {"version", facts.version},
                   {"has_disk_cache", facts.has_disk_cache},
                   {"architectures", facts.architectures}}),
          {}};
}

Message compile(const Json& request, const Message& message) {
  NvrtcJob job;
  request.at("options").get_to(job.options);
  request.at("instances").get_to(job.instances);
  job.time_limit = std::chrono::milliseconds(request.at("limit_ms").get<std::int64_t>());
  for (std::size_t i = 0; i < message.blobs.size(); ++i) {
    const Bytes& text = message.blobs[i];
    job.sources.push_back({request.at("paths").at(i), std::string(text.begin(), text.end())});
  }
  NvrtcResult result = Nvrtc::load()->compile(job);
  return {text_of({{"status", static_cast<int>(result.status)}, {"error", result.error}}),
          {std::move(result.cubin), bytes_of(result.log)}};
}

Message answer(const Message& message) {
  try {
    const Json request = parse_json(message.header, "a request");
    if (request.at("op") == "load") return load(request);
    if (request.at("op") == "compile") return compile(request, message);
    throw BadInput("the compiler process knows no such request");
  } catch (const std::exception& error) {
    return {text_of({{"failed", error.what()}}), {}};
  }
}

Json reply_content(const Message& reply) {
  Json json = parse_json(reply.header, "the compiler process's reply");
  if (json.contains("failed")) throw BrokenEnvironment(json.at("failed").get<std::string>());
  return json;
}

}  // namespace

bool is_compile_call(int argc, char** argv, int& status) {
  return serve_as_child(
      argc, argv, kCompileVerb, [] { return answer; }, status);
}

Message load_request(std::uint64_t memory_limit) {
  return {text_of({{"op", "load"}, {"memory_limit", memory_limit}}), {}};
}

NvrtcFacts load_reply(const Message& reply) {
  const Json json = reply_content(reply);
  return {.path = json.at("path"),
          .version = json.at("version"),
          .has_disk_cache = json.at("has_disk_cache"),
          .architectures = json.at("architectures")};
}

Message compile_request(const NvrtcJob& job) {
  Message message;
  Json paths = Json::array();
  for (const SourceFile& source : job.sources) {
    paths.push_back(source.path);
    message.blobs.push_back(bytes_of(source.text));
  }
  message.header = text_of({{"op", "compile"},
                            {"paths", paths},
                            {"options", job.options},
                            {"instances", job.instances},
                            {"limit_ms", job.time_limit.count()}});
  return message;
}

NvrtcResult compile_reply(Message reply) {
  const Json json = parse_json(reply.header, "a reply");
  NvrtcResult result;
  if (json.contains("failed")) {  // an exception of this job's, which says nothing of the next
    json.at("failed").get_to(result.error);
    return result;
  }
  result.status = static_cast<NvrtcResult::Status>(json.at("status").get<int>());
  json.at("error").get_to(result.error);
  result.cubin = std::move(reply.blobs.at(0));
  result.log.assign(reply.blobs.at(1).begin(), reply.blobs.at(1).end());
  return result;
}

}  // namespace moetune

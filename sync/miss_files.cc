#include "sync/miss_files.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "base/json.h"
#include "base/json_fields.h"
#include "base/regular_file.h"
#include "base/replace_file.h"
#include "jobs/stored/misses.h"

namespace moetune {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kEnding = "misses.json", kClaimed = ".claimed", kPosted = ".posted";
constexpr std::size_t kMostFiles = 1000;
constexpr std::size_t kMostAtOnce = 1000, kMostBodyBytes = 512 << 10;  // of a request
constexpr std::size_t kMostBytes = std::size_t{16} << 20;
constexpr std::size_t kLongestHardware = 128;
constexpr std::size_t kMissBytes = 256;  // of a miss in a request, its hardware included, beside its problem

using Counts = std::map<std::pair<std::string, std::string>, std::uint64_t>;

fs::path with(const fs::path& file, std::string_view ending) { return file.string() + std::string(ending); }

void rename_file(const fs::path& from, const fs::path& to) {
  std::error_code failure;
  fs::rename(from, to, failure);
  if (failure) throw BrokenEnvironment("cannot rename " + from.string() + ": " + failure.message());
}

// By the names that runtimes write.
std::vector<fs::path> miss_files(const fs::path& folder) {
  std::set<fs::path> found;
  std::error_code failure;
  for (fs::directory_iterator it(folder, failure), end; !failure && it != end; it.increment(failure)) {
    std::string name = it->path().string();
    if (name.ends_with(kClaimed)) name.resize(name.size() - kClaimed.size());
    if (name.ends_with(kEnding) && found.size() < kMostFiles) found.insert(name);
  }
  if (failure) throw BrokenEnvironment("cannot read the folder " + folder.string() + ": " + failure.message());
  return {found.begin(), found.end()};
}

// The counts that were posted of the same runtime; nothing if there is no such file, or if it is of another runtime:
// counts only grow.
Counts posted_before(const fs::path& file, const std::vector<MissedWorkload>& now) {
  Counts before;
  try {
    if (!fs::exists(file)) return {};
    for (const MissedWorkload& one : read_misses(file)) before[{one.kernel, one.problem}] = one.count;
  } catch (const BadInput&) {
    return {};
  }
  for (const MissedWorkload& one : now) {
    const auto found = before.find({one.kernel, one.problem});
    if (found != before.end() && one.count < found->second) return {};
  }
  return before;
}

void write_posted(const fs::path& file, const Counts& counts) {
  nlohmann::json misses = nlohmann::json::array();
  for (const auto& [what, count] : counts)
    misses.push_back({{"kernel", what.first}, {"problem", what.second}, {"count", count}});
  const nlohmann::json document = {{"moetune_misses", 1}, {"misses", misses}};
  replace_file(file, document.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace), Durable::yes);
}

// "" if the file names none. Each miss of a request repeats it, so it is bounded.
std::string hardware_of(const fs::path& file) {
  std::string name = text_field(parse_json(read_regular_file(file, kMostBytes), file.string()), "hardware");
  if (name.size() <= kLongestHardware) return name;
  throw BadInput(file.string() + ": the name of its hardware has " + std::to_string(name.size()) + " bytes; at most " +
                 std::to_string(kLongestHardware) + " are taken");
}

class Post {
 public:
  Post(const ServiceClient& service, PostedMisses& result) : service_(service), result_(result) {}

  void file(const fs::path& name) {
    const fs::path claimed = with(name, kClaimed);
    std::error_code absent;
    if (fs::exists(fs::symlink_status(claimed, absent))) claimed_file(name, claimed);  // of a try that failed
    if (!fs::exists(fs::symlink_status(name, absent))) return;
    rename_file(name, claimed);
    claimed_file(name, claimed);
  }

 private:
  // Shapes that the service has no kernel for, or that are past its limits.
  void warn_of_refused(const HttpResponse& answer, std::size_t sent) {
    const nlohmann::json reply = parse_json_or_discard(answer.body);
    const bool counted = reply.is_object() && reply.contains("accepted") && reply["accepted"].is_number_unsigned();
    if (!counted || reply["accepted"] >= sent) return;
    const auto why = reply.find("why");
    const bool says = why != reply.end() && why->is_array() && !why->empty() && why->front().is_string();
    result_.warnings.push_back(
        "the service takes " + std::to_string(reply["accepted"].get<std::uint64_t>()) + " of " + std::to_string(sent) +
        " misses; " +
        (says ? "of the others it says: " + plain_text(why->front().get<std::string>().substr(0, 300))
              : "the others are past its limits"));
  }

  void claimed_file(const fs::path& name, const fs::path& claimed) {
    std::string why;
    try {
      why = send(read_misses(claimed), hardware_of(claimed), with(name, kPosted));
    } catch (const BadInput& error) {
      why = error.what();
    }
    if (why.empty()) {
      ++result_.files;
      return rename_file(claimed, with(name, kPosted));
    }
    rename_file(claimed, with(name, ".refused"));
    result_.warnings.push_back(why + "; it is kept as " + with(name, ".refused").string());
  }

  // "" if the service took them.
  std::string send(const std::vector<MissedWorkload>& all, const std::string& hardware, const fs::path& posted) {
    const Counts before = posted_before(posted, all);
    nlohmann::json misses = nlohmann::json::array();
    for (const MissedWorkload& one : all) {
      const auto found = before.find({one.kernel, one.problem});
      const std::uint64_t more = one.count - (found == before.end() ? 0 : found->second);
      if (more == 0) continue;
      nlohmann::json miss = {{"kernel", one.kernel}, {"problem", one.problem}, {"count", more}};
      if (!hardware.empty()) miss["hardware"] = hardware;
      misses.push_back(std::move(miss));
    }
    Counts sent = before;
    for (std::size_t first = 0, last = 0; first < misses.size(); first = last) {
      nlohmann::json some = nlohmann::json::array();
      for (std::size_t bytes = 0; last < misses.size() && some.size() < kMostAtOnce; ++last) {
        bytes += misses[last]["problem"].get_ref<const std::string&>().size() + kMissBytes;
        if (bytes > kMostBodyBytes && !some.empty()) break;
        some.push_back(misses[last]);
      }
      const HttpResponse answer = service_.post(
          "/v1/misses",
          nlohmann::json{{"misses", some}}.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
      if (answer.status >= 300)
        return "the service refuses the misses of " + posted.stem().string() + " (" + std::to_string(answer.status) +
               ") " + error_text(answer);
      result_.misses += some.size();
      warn_of_refused(answer, some.size());
      for (const nlohmann::json& one : some) sent[{one["kernel"], one["problem"]}] += one["count"].get<std::uint64_t>();
      if (last < misses.size()) write_posted(posted, sent);  // if the next is refused, these do not go again
    }
    return "";
  }

  const ServiceClient& service_;
  PostedMisses& result_;
};

}  // namespace

void post_misses(const ServiceClient& service, const fs::path& folder, PostedMisses& result) {
  Post post(service, result);
  std::optional<BrokenEnvironment> first;
  for (const fs::path& name : miss_files(folder)) {
    try {
      post.file(name);
    } catch (const ServiceFailure&) {
      throw;
    } catch (const BrokenEnvironment& error) {  // of this file: NAME.posted is a folder, say
      if (!first) first = error;
    }
  }
  if (first) throw BrokenEnvironment(*first);
}

}  // namespace moetune

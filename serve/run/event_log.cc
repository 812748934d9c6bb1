#include "serve/run/event_log.h"

#include <algorithm>
#include <chrono>

namespace moetune {
namespace {

constexpr std::size_t kMostTaken = 64 << 10;

std::uint64_t microseconds_now() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::microseconds>(now).count());
}

}  // namespace

EventLog::EventLog(std::size_t most_events, std::size_t most_bytes)
    : most_events_(most_events), most_bytes_(most_bytes), last_id_(microseconds_now()) {}

std::uint64_t EventLog::append(std::string_view type, std::uint64_t job, const Document& data) {
  const std::string line = data.dump(-1, ' ', false, Document::error_handler_t::replace);
  const std::lock_guard lock(mutex_);
  const std::uint64_t id = ++last_id_;
  std::string text = "id: " + std::to_string(id) + "\nevent: ";
  text.append(type).append("\ndata: ").append(line).append("\n\n");
  bytes_ += text.size();
  entries_.push_back({id, job, std::move(text)});
  while (entries_.size() > most_events_ || (bytes_ > most_bytes_ && entries_.size() > 1)) {
    bytes_ -= entries_.front().text.size();
    entries_.pop_front();
  }
  return id;
}

void EventLog::warn(const char* kind, const std::string& text, std::uint64_t job) {
  Document document = {{"type", "warning"}, {"warning", kind}, {"text", text}};
  if (job > 0) document["job"] = job;
  append("warning", job, document);
}

EventLog::Cursor EventLog::read(std::optional<std::uint64_t> after, std::uint64_t job) const {
  const std::lock_guard lock(mutex_);
  return Cursor(*this, std::min(after.value_or(last_id_), last_id_), job);
}

std::string EventLog::Cursor::take() {
  const std::lock_guard lock(log_.mutex_);
  std::string text;
  if (after_ >= log_.last_id_) return text;
  const std::uint64_t first = log_.last_id_ - log_.entries_.size() + 1;
  if (after_ + 1 < first) {
    text = "id: " + std::to_string(first - 1) + "\nevent: lost\ndata: {}\n\n";
    after_ = first - 1;
  }
  while (after_ < log_.last_id_ && text.size() < kMostTaken) {
    const Entry& entry = log_.entries_[after_ + 1 - first];
    if (job_ == 0 || entry.job == job_ || entry.job == 0) text += entry.text;
    ++after_;
  }
  return text;
}

}  // namespace moetune

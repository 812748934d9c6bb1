// The latest events of all jobs, as server-sent events: a ring with growing ids, read by any number of cursors.
//
// Thread-safe. A cursor is a position, so that a reader who is slow costs no memory: what the ring has lost by then is
// one "lost" event. Ids go on growing over restarts, because they begin at the microseconds since 1970.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "jobs/session/documents.h"

namespace moetune {

class EventLog {
 public:
  explicit EventLog(std::size_t most_events = 8192, std::size_t most_bytes = std::size_t{8} << 20);

  // `job`: 0 for an event of no job. Returns the event's id.
  std::uint64_t append(std::string_view type, std::uint64_t job, const Document& data);
  // `kind`: "memory", "packs", "queue".
  void warn(const char* kind, const std::string& text, std::uint64_t job = 0);

  // The events after the event `after`, or after the newest if there is none; of one job, unless `job` is 0.
  class Cursor {
   public:
    // The text of what is new, in pieces of some 64 KiB; "" for nothing.
    std::string take();

   private:
    friend class EventLog;
    Cursor(const EventLog& log, std::uint64_t after, std::uint64_t job) : log_(log), after_(after), job_(job) {}
    const EventLog& log_;
    std::uint64_t after_, job_;
  };
  Cursor read(std::optional<std::uint64_t> after, std::uint64_t job = 0) const;

 private:
  struct Entry {
    std::uint64_t id, job;
    std::string text;  // "id: 7\nevent: trial\ndata: {...}\n\n"
  };

  const std::size_t most_events_, most_bytes_;
  mutable std::mutex mutex_;
  std::deque<Entry> entries_;  // ids one after the other
  std::size_t bytes_ = 0;
  std::uint64_t last_id_;
};

}  // namespace moetune

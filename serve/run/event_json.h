// A job's events as JSON, and back: what a server-sent stream carries, so that whoever renders a local job's events
// renders a remote one's with the same code.
//
// Pure functions. What a reader does not know of an event is left out. Throws BadInput for a text that is no event.
#pragma once

#include <string_view>

#include "jobs/session/documents.h"
#include "tuner/events.h"

namespace moetune {

// {"type": "trial", ...}; null for an event that is not sent: a trial's beginning.
Document event_document(const Event& event);

// Calls the listener with the event that `text` describes, if it is one.
void play_event(std::string_view text, JobId job, const EventListener& listener);

}  // namespace moetune

// A job's events in words, for people. Pure functions, and the listener of commands that show no progress.
#pragma once

#include <string>
#include <string_view>

#include "cli/output.h"
#include "tuner/events.h"

namespace moetune {

std::string_view phase_words(Phase phase);  // "duel of the finalists"

// News that a reader should see at once: the device, the space, a figure, a warning. "" for all other events.
std::string note_of(const Event& event);

// Writes what note_of() says, if anything, and a warning whatever is quiet.
void say(const Event& event, const Output& output);

// Says each event. `output` must outlive it.
EventListener note_listener(const Output& output);

}  // namespace moetune

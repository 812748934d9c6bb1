// The child's side: `moetune ROLE --fd N --parent PID`, which ChildProcess starts. Not for users.
#pragma once

#include <functional>
#include <string_view>

#include "tuner/process/protocol.h"

namespace moetune {

// Answers one request.
using ChildHandler = std::function<Message(const Message&)>;

// If the arguments are `ROLE --fd N --parent PID`, serves requests on the socket until it closes and returns
// true with the exit status; else returns false. `make_handler` is called once, in the child only. The child
// ends at once if PID is not (or no longer) its parent process.
bool serve_as_child(int argc, char** argv, std::string_view role, const std::function<ChildHandler()>& make_handler,
                    int& status);

}  // namespace moetune

// The guard of a user's program: `moetune guard --fd N COMMAND`, which GuardedProgram starts. Not for users.
//
// The guard runs COMMAND by /bin/sh in a process group of its own, with its own standard streams. Once the socket N
// closes, as it does when the parent dies, or the shell has ended, it kills the group and whatever else descends from
// it: orphans become its children (PR_SET_CHILD_SUBREAPER), also those with a session of their own.
#pragma once

namespace moetune {

// If the arguments ask for it, guards until the end and returns true with the exit status: the shell's, 128 + the
// signal that it died of, or 0 if the socket closed.
bool is_guard_call(int argc, char** argv, int& status);

}  // namespace moetune

// The roles of the executable when it starts itself: a compiler process, a GPU worker, or the
// guard of a user's program. Not for users.
#pragma once

namespace moetune {

// If the arguments ask for a child process, serves as one and returns true with the exit status. Whatever
// program tunes or compiles calls it first in main().
bool is_child_call(int argc, char** argv, int& status);

}  // namespace moetune

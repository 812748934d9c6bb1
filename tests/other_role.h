// What a test program does when it is started as something other than a test run.
#pragma once

// True where the arguments name such a role; `status` is then the exit status. Absent (null) in most
// programs.
[[gnu::weak]] bool other_role(int argc, char** argv, int& status);

// A long result on a terminal goes through a pager: what PAGER names, else less, which ends at once if all of it fits
// the screen. While one lives, stdout leads to it; its end waits until the reader has left it. Without a terminal,
// with TERM=dumb, PAGER= or PAGER=cat, or if there is no less, it does nothing. One at a time, on the main thread.
#pragma once

#include <sys/types.h>

#include "cli/output.h"

namespace moetune {

class Pager {
 public:
  explicit Pager(const Output& output);
  ~Pager();
  Pager(const Pager&) = delete;
  Pager& operator=(const Pager&) = delete;

 private:
  pid_t child_ = -1;
  int screen_ = -1;  // what stdout was
};

}  // namespace moetune

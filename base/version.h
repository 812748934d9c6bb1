// The version of moetune, as CMakeLists.txt states it: what --version prints and what stored winners say.
#pragma once

#include <string_view>

namespace moetune {

std::string_view version();  // "0.1.0"

// The commit that an executable was built of, which its main() states: "1a2b3c4d5e6f", with "+" behind it if files were
// changed since. "" if nobody has.
std::string_view commit();
void set_commit(std::string_view commit);  // of a text that lasts

}  // namespace moetune

// The version of moetune, as CMakeLists.txt states it: what --version prints and what stored winners say.
#pragma once

#include <string_view>

namespace moetune {

std::string_view version();  // "0.1.0"

}  // namespace moetune

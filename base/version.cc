#include "base/version.h"

namespace moetune {

std::string_view version() { return MOETUNE_VERSION; }

}  // namespace moetune

#include "search/parameter.h"

#include "base/error.h"

namespace moetune {

ConfigParts split_config(const Config& config, const std::vector<Parameter>& parameters) {
  ConfigParts parts;
  for (const Parameter& parameter : parameters) {
    const Value* value = config.find(parameter.name);
    if (value == nullptr) throw BadInput("parameter '" + parameter.name + "' has no value in '" + config.text() + "'");
    (parameter.at_launch ? parts.launch : parts.compiled).set(parameter.name, *value);
  }
  if (config.size() != parameters.size())
    throw BadInput("'" + config.text() + "' has parameters that the space does not know");
  return parts;
}

}  // namespace moetune

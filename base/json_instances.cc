#include "base/json_instances.h"

template class nlohmann::basic_json<>;
template class nlohmann::basic_json<nlohmann::ordered_map>;
template class nlohmann::detail::serializer<nlohmann::json>;
template class nlohmann::detail::serializer<nlohmann::ordered_json>;
template class std::map<std::string, nlohmann::json, std::less<>>;
template class std::vector<nlohmann::json>;
template class std::vector<nlohmann::ordered_json>;

#include "serve/api/api_answers.h"

#include "base/error.h"
#include "base/json.h"
#include "base/utf8.h"

namespace moetune {

ServerResponse json_answer(const Document& document, int status) {
  return {.status = status,
          .headers = {{"Content-Type", "application/json"}},
          .body = escape_json_controls(document.dump(-1, ' ', false, Document::error_handler_t::replace)) + "\n",
          .stream = {}};
}

ServerResponse refusal_answer(const Refusal& refusal) {
  Document error = {{"code", refusal.code}, {"message", refusal.message}};
  if (!refusal.field.empty()) error["field"] = refusal.field;
  ServerResponse response = json_answer({{"error", std::move(error)}}, refusal.status);
  if (refusal.retry_after > 0) response.headers.emplace_back("Retry-After", std::to_string(refusal.retry_after));
  if (!refusal.allow.empty()) response.headers.emplace_back("Allow", refusal.allow);
  response.delay = refusal.delay;
  if (refusal.status == 401) response.headers.emplace_back("WWW-Authenticate", "Bearer");
  return response;
}

ServerResponse text_answer(std::string body, const std::string& type) {
  return {.status = 200, .headers = {{"Content-Type", type}}, .body = std::move(body), .stream = {}};
}

ServerResponse tagged_answer(const ServerRequest& request, ServerResponse response, const std::string& tag) {
  const std::string quoted = "\"" + tag + "\"";
  const std::string known = request.header("if-none-match");
  if (known == "*" || known.find(quoted) != std::string::npos) {
    response.status = 304;
    response.body.clear();
    response.pieces = nullptr;
  }
  response.headers.emplace_back("ETag", quoted);
  return response;
}

nlohmann::json json_body(const ServerRequest& request) {
  try {
    nlohmann::json body = parse_json(request.body, "the body", RepeatedKeys::refused);
    if (!body.is_object()) throw Refusal{400, "bad_request", "The body must be a JSON object."};
    return body;
  } catch (const BadInput& error) {
    throw Refusal{400, "bad_request", error.what()};
  }
}

}  // namespace moetune

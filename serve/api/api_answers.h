// Answers that the routes share, as JSON, and the ways in which a request is refused. Pure functions.
#pragma once

#include <chrono>
#include <string>

#include "http/http_server.h"
#include "jobs/session/documents.h"

namespace moetune {

// Ends a request: {"error": {"code", "message"}} with a status.
struct Refusal {
  int status;
  std::string code, message;
  int retry_after = 0;                 // seconds; 0: not said
  std::string field = {};              // of the request; "" if none
  std::string allow = {};              // the methods that the path takes; "": not said
  std::chrono::milliseconds delay{0};  // before the answer is sent
};

ServerResponse json_answer(const Document& document, int status = 200);
ServerResponse refusal_answer(const Refusal& refusal);
ServerResponse text_answer(std::string body, const std::string& type);

// With an ETag over the body; 304 if the client has it.
ServerResponse tagged_answer(const ServerRequest& request, ServerResponse response, const std::string& tag);

// The body as an object. Throws Refusal.
nlohmann::json json_body(const ServerRequest& request);

}  // namespace moetune

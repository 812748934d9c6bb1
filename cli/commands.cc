#include "cli/command.h"

namespace moetune {

std::vector<std::unique_ptr<Command>> all_commands() {
  std::vector<std::unique_ptr<Command>> commands;
  commands.push_back(make_search_command());
  commands.push_back(make_prepare_command());
  commands.push_back(make_tune_command());
  commands.push_back(make_workloads_command());
  commands.push_back(make_retune_command());
  commands.push_back(make_report_command());
  commands.push_back(make_compare_command());
  commands.push_back(make_kernels_command());
  commands.push_back(make_space_command());
  commands.push_back(make_import_command());
  commands.push_back(make_compile_command());
  commands.push_back(make_devices_command());
  commands.push_back(make_verify_command());
  commands.push_back(make_bench_command());
  commands.push_back(make_record_command());
  commands.push_back(make_cache_command());
  commands.push_back(make_serve_command());
  commands.push_back(make_sync_command());
  commands.push_back(make_doctor_command());
  commands.push_back(make_completion_command());
  commands.push_back(make_man_command());
  return commands;
}

}  // namespace moetune

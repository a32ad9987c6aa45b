#include "sim/exec/program.h"

namespace carillon::sim {

const ProgramFunction* Program::FindEntry(std::string_view name) const {
  for (const ProgramFunction& function : functions) {
    if (function.is_entry && function.name == name) return &function;
  }
  return nullptr;
}

}  // namespace carillon::sim

// The subcommands that need no server: one file each.
#pragma once

#include "cli/command.h"

namespace octavo {

Command run_command();

}  // namespace octavo

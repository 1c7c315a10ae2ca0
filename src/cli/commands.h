// The subcommands that need no server: one file each.
#pragma once

#include "cli/command.h"

namespace octavo {

Command run_command();
Command info_command();
Command bench_latency_command();
Command bench_throughput_command();
Command bench_serve_command();
Command bench_kernels_command();
Command bench_perplexity_command();
Command quantize_command();

}  // namespace octavo

// Subcommands: how one is described, and how the command line is read (surface document, section 1: dashes
// and underscores alike, --config FILE.yaml, the nearest flag suggested).
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace octavo {

struct Command {
  std::string name;  ///< "serve", or "bench serve" for one below another
  std::string help;
  /// Adds flags; returns what runs after they were parsed (its result is the exit code).
  std::function<std::function<int()>(CLI::App&)> setup;
};

/// Parses, runs, and turns Error into a message and exit code 1; a wrong command line is exit code 2.
int run_command_line(int argc, char** argv, const std::vector<Command>& commands);

/// Flags as CLI11 wants them: underscores of names to dashes, vLLM's short forms of several letters ("-tp")
/// to long ones, and --config FILE.yaml replaced by what the file says, before the other flags so that those
/// win.
std::vector<std::string> normalise_arguments(const std::vector<std::string>& arguments);
/// "port: 8000" and the like, as arguments. Error naming the file.
std::vector<std::string> read_config_file(const std::string& path);
/// The same of its text.
std::vector<std::string> parse_config_file(const std::string& text, const std::string& path);
/// The candidate with the least edit distance, or empty if none is near.
std::string nearest(const std::string& word, const std::vector<std::string>& candidates);

}  // namespace octavo

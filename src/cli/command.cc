#include "cli/command.h"

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <map>

#include "base/error.h"
#include "base/version.h"

namespace octavo {
namespace {

void set_up_log() {
  auto logger = spdlog::stderr_color_mt("octavo");
  const char* prefix = std::getenv("VLLM_LOGGING_PREFIX");
  logger->set_pattern(str(prefix ? prefix : "", "%^%l%$ %m-%d %H:%M:%S %v"));
  const char* level = std::getenv("VLLM_LOGGING_LEVEL");
  std::string name = level ? level : "INFO";
  for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  logger->set_level(spdlog::level::from_str(name));
  spdlog::set_default_logger(std::move(logger));
}

CLI::App* find_or_add(CLI::App& root, const std::string& name, const std::string& help) {
  CLI::App* parent = &root;
  size_t space = name.find(' ');
  if (space != name.npos) {
    std::string group = name.substr(0, space);
    auto known = root.get_subcommands([&](CLI::App* app) { return app->get_name() == group; });
    parent = known.empty() ? nullptr : known[0];
    if (!parent) {
      parent = root.add_subcommand(group, "Measure: latency, throughput, a running server, the kernels");
      parent->require_subcommand(1);
    }
  }
  CLI::App* app = parent->add_subcommand(space == name.npos ? name : name.substr(space + 1), help);
  app->option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  app->get_formatter()->column_width(44);
  return app;
}

std::vector<std::string> flag_names(const CLI::App& app) {
  std::vector<std::string> out;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) out.push_back("--" + name);
    for (const std::string& name : option->get_fnames()) out.push_back("--" + name);
  }
  return out;
}

/// What CLI11 did not know, with the nearest that we do.
int report_unknown(const CLI::App& app, const std::vector<std::string>& arguments) {
  for (const std::string& argument : arguments) {
    if (!argument.starts_with("-") || argument == "-") continue;
    std::string name = argument.substr(0, argument.find('='));
    if (app.get_option_no_throw(name)) continue;
    std::string guess = nearest(name, flag_names(app));
    fprintf(stderr, "octavo %s: unknown flag %s%s\n", app.get_name().c_str(), name.c_str(),
            guess.empty() ? "" : (", did you mean " + guess + "?").c_str());
    return 2;
  }
  fprintf(stderr, "octavo %s: unexpected argument; see --help\n", app.get_name().c_str());
  return 2;
}

const CLI::App& deepest(const CLI::App& app) {
  auto chosen = app.get_subcommands();
  return chosen.empty() ? app : deepest(*chosen[0]);
}

int parse_and_run(CLI::App& root, const std::vector<std::string>& given,
                  const std::map<const CLI::App*, std::function<int()>>& actions) {
  std::vector<std::string> arguments = normalise_arguments(given);
  try {
    root.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
  } catch (const CLI::ExtrasError&) {
    const CLI::App& app = deepest(root);
    if (&app == &root && !arguments.empty() && !arguments[0].starts_with("-")) {
      std::vector<std::string> names;
      for (const CLI::App* sub : root.get_subcommands([](CLI::App*) { return true; }))
        names.push_back(sub->get_name());
      std::string guess = nearest(arguments[0], names);
      fprintf(stderr, "octavo: unknown command %s%s\n", arguments[0].c_str(),
              guess.empty() ? "" : (", did you mean " + guess + "?").c_str());
      return 2;
    }
    return report_unknown(app, arguments);
  } catch (const CLI::ParseError& e) {
    return root.exit(e) == 0 ? 0 : 2;
  }
  auto action = actions.find(&deepest(root));
  if (action == actions.end()) {
    printf("%s", root.help().c_str());
    return 2;
  }
  return action->second();
}

}  // namespace

int run_command_line(int argc, char** argv, const std::vector<Command>& commands) {
  set_up_log();
  CLI::App root("Octavo: serves large language models on CPUs, over the OpenAI API", "octavo");
  root.set_version_flag("--version,-V", kVersion);
  root.require_subcommand(0, 1);
  std::map<const CLI::App*, std::function<int()>> actions;
  for (const Command& command : commands) {
    CLI::App* app = find_or_add(root, command.name, command.help);
    actions[app] = command.setup(*app);
  }
  try {
    return parse_and_run(root, {argv + 1, argv + argc}, actions);
  } catch (const std::exception& e) {  // an Error, or memory that there is not
    fprintf(stderr, "octavo: %s\n", e.what());
    return 1;
  }
}

}  // namespace octavo

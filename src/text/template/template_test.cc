#include "text/template/template.h"

#include <gtest/gtest.h>

#include "text/template/jinja_cases.h"

namespace octavo::jinja {
namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kCasesNow = 1749990896;  // 2025-06-15 12:34:56 UTC

TEST(Template, RendersAsJinja2) {
  setenv("TZ", "UTC", 1);
  const Json context = Json::parse(kCaseContext);
  for (const JinjaCase& c : kCases) {
    try {
      const std::string rendered = Template(c.source).render(context, kCasesNow);
      if (c.expected)
        EXPECT_EQ(rendered, c.expected) << c.source;
      else
        ADD_FAILURE() << c.source << "\nshould fail, but renders " << rendered;
    } catch (const TemplateError& e) {
      if (c.expected) ADD_FAILURE() << c.source << "\nfails: " << e.what();
    }
  }
}

std::string render(std::string_view source, const Json& context = Json::object(),
                   const TemplateLimits& limits = {}) {
  return Template(source, limits).render(context, kCasesNow);
}

/// Runs a template that must fail.
TemplateError failure(std::string_view source, const TemplateLimits& limits = {}) {
  try {
    const std::string rendered = render(source, Json::object(), limits);
    ADD_FAILURE() << source << " renders " << rendered.substr(0, 100);
  } catch (const TemplateError& e) {
    return e;
  }
  return TemplateError("", 0, 0);
}

TEST(Template, ErrorsCarryTheirPlace) {
  const auto place = [](std::string_view source) {
    const TemplateError e = failure(source);
    return std::pair(e.line(), e.column());
  };
  EXPECT_EQ(place("ab\n\n  {{ x | nope }}"), std::pair(3, 10));
  EXPECT_EQ(place("{% for x in [1] %}\n{{ x + 'a' }}\n{% endfor %}"), std::pair(2, 4));
  EXPECT_EQ(place("é{{ raise_exception('no') }}"), std::pair(1, 5));
  EXPECT_EQ(place("{% if a %}\nx"), std::pair(2, 2));
  EXPECT_EQ(place("{{ 'a' }}\n{{ b is nope }}"), std::pair(2, 9));
  EXPECT_EQ(failure("{{ raise_exception('say why') }}").message(), "say why");
  EXPECT_NE(std::string(failure("a\n{{ x.y }}").what()).find("line 2, column"), std::string::npos);
}

// BL-06: what the language does not have stops the start, whether or not a request would come to it.
TEST(Template, UnknownConstructsFailWhenCompiled) {
  for (const char* source :
       {"{{ messages | no_such_filter }}", "{% if false %}{{ x is no_such_test }}{% endif %}",
        "{% no_such_tag %}", "{% macro m() %}{{ x|nope }}{% endmacro %}", "{% include 'a' %}",
        "{% import 'a' as b %}", "{% extends 'a' %}", "{% do x %}",
        "{% autoescape true %}{% endautoescape %}", "{{ \"\\N{DASH}\" }}", "\xff"})
    EXPECT_THROW(Template{source}, TemplateError) << source;
}

TEST(Template, LimitsStopHostileTemplates) {
  const char* const kHostile[] = {
      "{{ 'x' * 10**9 }}",
      "{{ 'x' * 10**18 }}",
      "{{ [0] * 10**12 }}",
      "{{ range(10**12) }}",
      "{{ 'a'.center(10**12) }}{{ 'a'.zfill(10**15) }}",
      "{{ '%999999999d' % 1 }}",
      "{{ '{:>99999999999}'.format(1) }}",
      "{{ 'a'|indent(10**15) }}",
      "{{ [1]|batch(10**15, 'x')|list }}",
      "{{ 2 ** 64 }}{{ 9223372036854775807 + 1 }}",
      "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
      "{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}",
      "{% set ns = namespace(l=[]) %}{% for i in range(1000) %}{% set ns.l = [ns.l] %}{% endfor %}",
      "{% set ns = namespace(s='xx') %}{% for i in range(60) %}{% set ns.s = ns.s + ns.s %}{% endfor %}",
      // A small graph that is a huge tree:
      "{% set ns = namespace(l=[1]) %}{% for i in range(100) %}{% set ns.l = [ns.l, ns.l] %}{% endfor %}{{ "
      "ns.l }}",
      "{% set a = namespace(l=[1]) %}{% set b = namespace(l=[1]) %}{% for i in range(100) %}{% set a.l = "
      "[a.l, a.l] %}"
      "{% set b.l = [b.l, b.l] %}{% endfor %}{{ a.l == b.l }}",
      "{% for a in range(99999) %}{% for b in range(99999) %}{% for c in range(99999) %}{% endfor %}{% "
      "endfor %}"
      "{% endfor %}",
  };
  TemplateLimits limits;
  limits.steps = 5'000'000;
  for (const char* source : kHostile) EXPECT_FALSE(failure(source, limits).message().empty()) << source;
}

std::string repeated(const std::string& what, int times) {
  std::string out;
  for (int i = 0; i < times; ++i) out += what;
  return out;
}

TEST(Template, DeepSourcesAreRefused) {
  for (const char* open : {"(", "[", "{1:", "-", "not ", "a[", "f(", "1+(", "'a' if "})
    EXPECT_THROW(Template("{{ " + repeated(open, 100'000)), TemplateError) << open;
  for (const char* chain : {"+1", ".a", "[0]", "|upper", " and 1", "()", " is defined"})
    EXPECT_THROW(Template("{{ a" + repeated(chain, 100'000) + " }}"), TemplateError) << chain;
  for (const char* block :
       {"{% if 1 %}", "{% for a in b %}", "{% macro a() %}", "{% filter upper %}", "{% set a %}"})
    EXPECT_THROW(Template(repeated(block, 100'000)), TemplateError) << block;
  // Long is fine where it is not deep.
  EXPECT_EQ(render("{% if 0 %}" + repeated("{% elif 0 %}", 10'000) + "{% else %}x{% endif %}"), "x");
}

TEST(Template, SelfReferencesEnd) {
  EXPECT_EQ(render("{% set ns = namespace() %}{% set ns.me = ns %}{{ ns.me.me is defined }}"), "True");
  EXPECT_EQ(render("{% for x in [1, 2] %}{{ loop.changed(loop) }}{% endfor %}"), "TrueFalse");
  // A macro that outlives the loop that defined it keeps its scope.
  EXPECT_EQ(render("{% set ns = namespace() %}{% for x in [1, 2] %}{% set y = x * 10 %}{% macro m() %}{{ y "
                   "}}{% endmacro %}"
                   "{% if loop.first %}{% set ns.m = m %}{% endif %}{% endfor %}{{ ns.m() }}"),
            "10");
}

TEST(Template, LongConversationsStayWithinLimits) {
  Json messages = Json::array();
  for (int i = 0; i < 2000; ++i) messages.push_back({{"role", "user"}, {"content", std::string(400, 'x')}});
  // 800 kB of prompt, accumulated the slow way that some templates have.
  const std::string out = render(
      "{% set ns = namespace(p='') %}{% for m in messages %}{% set ns.p = ns.p + m.content %}{% endfor %}{{ "
      "ns.p }}",
      {{"messages", messages}});
  EXPECT_EQ(out.size(), 800'000u);
}

TEST(Template, TextIsUnicode) {
  EXPECT_EQ(render("{{ x[1] }}{{ x|length }}{{ x[::-1] }}", {{"x", "a😀é"}}), "😀3é😀a");
  EXPECT_THROW(render("{{ x }}", {{"x", "\xff"}}), TemplateError);
}

}  // namespace
}  // namespace octavo::jinja

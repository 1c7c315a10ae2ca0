"""Renders the snippets of snippets.txt with jinja2, set up as transformers sets it up, and writes the table that
src/text/template/template_test.cc checks our interpreter against.

    pip install jinja2==3.1.6 && python make_cases.py
"""
import datetime
import json
import pathlib

import jinja2
from jinja2 import nodes
from jinja2.ext import Extension
from jinja2.sandbox import ImmutableSandboxedEnvironment

HERE = pathlib.Path(__file__).parent
NOW = datetime.datetime(2025, 6, 15, 12, 34, 56)


class Generation(Extension):
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return nodes.CallBlock(self.call_method("_run"), [], [], body).set_lineno(line)

    def _run(self, caller):
        return caller()


class Namespace(jinja2.utils.Namespace):
    def __init__(*args, **kwargs):
        self, args = args[0], args[1:]
        attributes = dict(*args, **kwargs)
        for name in attributes:
            Namespace._check(name)
        jinja2.utils.Namespace.__init__(self, attributes)

    def __setitem__(self, name, value):
        Namespace._check(name)
        jinja2.utils.Namespace.__setitem__(self, name, value)

    @staticmethod
    def _check(name):
        if name.startswith("_"):
            raise jinja2.exceptions.SecurityError(name)


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def environment():
    env = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, "jinja2.ext.loopcontrols"])
    env.filters["tojson"] = lambda x, ensure_ascii=False, indent=None, separators=None, sort_keys=False: json.dumps(
        x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = NOW.strftime
    env.globals["namespace"] = Namespace
    return env


def literal(text):
    """A C++ string literal; octal escapes end after three digits, unlike hexadecimal ones."""
    out = []
    for byte in text.encode():
        char = chr(byte)
        if char in '"\\':
            out.append("\\" + char)
        elif char == "\n":
            out.append("\\n")
        elif 0x20 <= byte < 0x7F and char != "?":
            out.append(char)
        else:
            out.append(f"\\{byte:03o}")
    return '"' + "".join(out) + '"'


def main():
    env = environment()
    snippets = (HERE / "snippets.txt").read_text(encoding="utf-8").split("\n")
    context = json.loads(snippets[0])
    rows = []
    for snippet in snippets[1:]:
        if not snippet or snippet.startswith("## "):
            continue
        source = snippet.replace("⏎", "\n")
        try:
            expected = literal(env.from_string(source).render(**json.loads(json.dumps(context))))
        except Exception as error:  # any failure of the template
            print(f"error {snippet!r}: {type(error).__name__}: {error}")
            expected = "nullptr"
        rows.append(f"    {{{literal(source)}, {expected}}},\n")
    (HERE / "../../src/text/template/jinja_cases.h").write_text(
        "// Made by tests/jinja/make_cases.py with jinja2: source, what it renders (null: an error).\n"
        "// clang-format off\n"
        "#pragma once\n\nnamespace octavo::jinja {\n\n"
        f"inline constexpr const char* kCaseContext =\n    {literal(json.dumps(context, ensure_ascii=False))};\n\n"
        "struct JinjaCase {\n  const char* source;\n  const char* expected;\n};\n\n"
        "inline constexpr JinjaCase kCases[] = {\n" + "".join(rows) + "};\n\n}  // namespace octavo::jinja\n",
        encoding="utf-8")
    print(len(rows), "cases")


if __name__ == "__main__":
    main()

"""Octavo and its peers, interleaved on this machine: one table, JSON lines and a plot.

    python3 bench/compare --prepare          environments of the peers and model files (long; once)
    python3 bench/compare --quick            the bars of decode, prefill and serving, about ten minutes
    python3 bench/compare                    everything, hours
    python3 bench/compare --report F.jsonl   tables and plot of an earlier run

A round gives each row (an engine with a format) one turn, in an order that rotates from round to round; ratios are taken within a
round and their median is shown. A missing engine or file is a line of the report.
"""
import argparse
import contextlib
import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import time

import catalogue
import engines
import report
import serving

CACHE = pathlib.Path.home() / ".cache" / "octavo-peers"
MODELS = pathlib.Path(os.environ.get("OCTAVO_REAL_MODELS") or pathlib.Path.home() / ".cache" / "octavo" / "models")
FAILURES = (engines.Failed, OSError, subprocess.TimeoutExpired)


class Recorder:
    """Every figure goes to the file at once: a run that is cut short keeps what it has."""

    def __init__(self, path):
        self.path, self.lines, self.started = path, [], time.monotonic()
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")

    def put(self, **line):
        self.lines.append(line)
        with open(self.path, "a") as file:
            file.write(json.dumps(line) + "\n")

    def figure(self, model, row, what, round_number, value, **more):
        if value is None:
            return
        self.put(model=model, row=row, what=what, round=round_number, value=value, **more)
        self.say(f"round {round_number}: {model} {row}: {what}: {report.number(value)}")

    def missing(self, model, row, why):
        self.put(model=model, row=row, missing=str(why))
        self.say(f"{model} {row}: missing: {why}")

    def say(self, text):
        print(f"[{time.monotonic() - self.started:6.0f} s] {text}", file=sys.stderr, flush=True)


def rotated(items, by):
    by = by % len(items) if items else 0
    return items[by:] + items[:by]


class Comparison:
    def __init__(self, args, context, recorder):
        self.args, self.context, self.recorder, self.gone = args, context, recorder, set()

    def wanted(self, row):
        return not self.args.rows or any(word.strip() in (row.name, row.engine, row.format) for word in self.args.rows.split(","))

    def workloads(self, row):
        return [w for w in catalogue.WORKLOADS if not self.args.quick or row.engine in w.quick]

    def offline_round(self, model, round_number):
        rows = [row for row in catalogue.ROWS if self.wanted(row)]
        for row in rotated(rows, round_number):
            workloads = self.workloads(row)
            if (model, row) in self.gone or not workloads:
                continue
            try:
                self.offline_turn(model, row, workloads, round_number)
            except FAILURES as why:
                self.gone.add((model, row))
                self.recorder.missing(model, row.name, why)

    def offline_turn(self, model, row, workloads, round_number):
        with contextlib.closing(engines.start(self.context, row, model)) as engine:
            for case in catalogue.cases_of(workloads):
                with engines.neighbour(self.context) if case.neighbour else contextlib.nullcontext():
                    result = engine.measure(case, self.args.timeout)
                for w in workloads:
                    if (w.sequences, w.prompt, w.neighbour) == (case.sequences, case.prompt, case.neighbour):
                        self.recorder.figure(model, row.name, w.name, round_number, result[w.phase], weight_bytes=engine.weight_bytes)

    def limits(self, round_number):
        try:
            for what, value in engines.limits(self.context).items():
                self.recorder.figure("", "limits", what, round_number, value)
        except engines.Failed as why:
            self.recorder.missing("", "limits", why)

    def serve(self, model, rounds):
        rows = [row for row in map(catalogue.row_named, catalogue.SERVING_ROWS) if self.wanted(row)]
        rows = [row for row in rows if any(self.measured(load, row) for load in catalogue.LOADS)]
        servers = []
        with contextlib.ExitStack() as stack:
            for row in rows:
                try:
                    servers.append(self.start_server(stack, row, model))
                except FAILURES as why:
                    self.recorder.missing(model, row.name + " server", why)
            for round_number in range(rounds):
                for load in catalogue.LOADS:
                    those = [server for server in servers if self.measured(load, server.row)]
                    self.load_round(rotated(those, round_number), load, round_number)

    def measured(self, load, row):
        return not self.args.quick or row.name in load.quick

    def start_server(self, stack, row, model):
        server = serving.Server(self.context, row, model)
        with contextlib.ExitStack() as closing:
            closing.callback(server.close)
            server.resume()
            server.measure(catalogue.LOADS[0], 10**6, self.args.timeout, requests=catalogue.SERVING_CONCURRENCY)  # warm-up
            server.pause()
            stack.enter_context(closing.pop_all())
        self.recorder.say(f"{model} {row.name}: server ready after {server.seconds_to_ready:.1f} s")
        return server

    def load_round(self, servers, load, round_number):
        for server in servers:
            model, row = server.model, server.row.name
            if (model, row, load.name) in self.gone:
                continue
            server.resume()
            try:
                seed = round_number * len(catalogue.LOADS) + catalogue.LOADS.index(load)
                answer = server.measure(load, seed, self.args.timeout)
            except FAILURES as why:
                self.gone.add((model, row, load.name))
                self.recorder.missing(model, f"{row}: {load.name}", why)
                continue
            finally:
                server.pause()
            for metric, key in serving.METRICS.items():
                self.recorder.figure(model, row, f"{load.name}: {metric}", round_number, answer.get(key))

    def run(self):
        for round_number in range(self.args.rounds):
            if not self.args.only_serving:
                self.limits(round_number)
                for model in self.args.models_compared.split(","):
                    self.offline_round(model, round_number)
        if not self.args.only_offline:
            self.serve("smollm2", self.args.rounds)


def arguments():
    parser = argparse.ArgumentParser(prog="bench/compare", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--prepare", action="store_true", help="set up environments and model files, measure nothing")
    parser.add_argument("--only", default="llamacpp,llamacpp-avx2,vllm,openvino,transformers", help="environments to --prepare")
    parser.add_argument("--quick", action="store_true", help="only what the bars need")
    parser.add_argument("--rounds", type=int, help="default: 3 with --quick, else 5")
    parser.add_argument("--rows", default="", help="engines, formats or rows, separated by commas (default: all)")
    parser.add_argument("--models-compared", help="1b1,smollm2; default: 1b1 with --quick, else both")
    parser.add_argument("--only-serving", action="store_true")
    parser.add_argument("--only-offline", action="store_true")
    parser.add_argument("--isa", choices=["", "avx2"], default="", help="cap Octavo, llama.cpp, PyTorch and oneDNN")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--timeout", type=float, default=900, help="seconds for one figure")
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build"))
    parser.add_argument("--cache", type=pathlib.Path, default=CACHE, help=f"environments of the peers (default: {CACHE})")
    parser.add_argument("--models", type=pathlib.Path, default=MODELS, help=f"model files (default: {MODELS})")
    parser.add_argument("--smollm2", type=pathlib.Path, help="its folder (default: smollm2-135m-instruct below --models)")
    parser.add_argument("--out", type=pathlib.Path, help="JSON lines (default: BUILD/compare.jsonl); the plot stands beside it")
    parser.add_argument("--report", type=pathlib.Path, help="show an earlier run")
    args = parser.parse_args()
    args.rounds = args.rounds or (3 if args.quick else 5)
    args.models_compared = args.models_compared or ("1b1" if args.quick else "1b1,smollm2")
    args.out = args.out or args.report or args.build / "compare.jsonl"
    args.smollm2 = args.smollm2 or args.models / "smollm2-135m-instruct"
    return args


def with_matplotlib(cache):
    """Goes on in the `tools` environment where that has matplotlib and this Python has not."""
    python = cache / "tools" / "bin" / "python"
    if importlib.util.find_spec("matplotlib") is None and (cache / "tools" / "ready").exists() and sys.executable != str(python):
        os.execv(python, [str(python), *sys.argv])


def main():
    args = arguments()
    with_matplotlib(args.cache)
    context = engines.Context(args.build, args.cache, args.models, args.threads, args.isa, args.out.with_suffix(".logs"))
    if args.prepare:
        import prepare
        done = prepare.prepare(args.cache, args.models, args.build / "octavo", args.smollm2, args.threads, set(args.only.split(",")))
        prepare.compile_vllm(context, set(args.only.split(",")))
        return 0 if done else 1
    if not args.report:
        recorder = Recorder(args.out)
        load = os.getloadavg()[0]
        recorder.put(about="machine", threads=args.threads, isa=args.isa or "all", load_average=load)
        if load > 0.5:
            recorder.say(f"load average {load:.1f}: the machine is not quiet, figures are not final")
        try:
            Comparison(args, context, recorder).run()
        except KeyboardInterrupt:
            recorder.say("interrupted: what was measured so far follows")
    results = report.read(args.out)
    print(report.text(results))
    path, remark = report.plot(results, args.out.with_suffix(""))
    print(f"\njson {args.out}" + (f", plot {path}" if path else "") + (f" ({remark})" if remark else ""))
    return 0


if __name__ == "__main__":
    sys.exit(main())

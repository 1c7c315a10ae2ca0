"""From measurements (JSON lines) to tables, bars and a plot."""
import html
import json
import statistics

from catalogue import BARS, PREFILL_FLOPS_1B1, ROWS, WORKLOADS
from serving import METRICS

COLOURS = {"octavo": "#1b6e53", "llama.cpp": "#c76b29", "vllm": "#5b6abf", "openvino": "#8a8a8a", "transformers": "#c2a83e"}


class Results:
    """values[model, row][what] = {round: value}; `what` is a workload, "load: metric" or a limit (row "limits")."""

    def __init__(self, lines):
        self.values, self.missing, self.weights = {}, {}, {}
        for line in lines:
            key = (line["model"], line["row"])
            if "missing" in line:
                self.missing.setdefault(key, line["missing"])
                continue
            if "weight_bytes" in line:
                self.weights[key] = line["weight_bytes"]
            self.values.setdefault(key, {}).setdefault(line["what"], {})[line["round"]] = line["value"]

    def median(self, model, row, what):
        rounds = self.values.get((model, row), {}).get(what)
        return statistics.median(rounds.values()) if rounds else None

    def models(self):
        return sorted({model for model, row in self.values if row != "limits"})

    def rounds_of(self, model, row, what):
        return self.values.get((model, row), {}).get(what, {})


def text_table(rows, left=(0,)):
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = ["  ".join(cell.ljust(width) if i in left else cell.rjust(width) for i, (cell, width) in enumerate(zip(row, widths))).rstrip()
             for row in rows]
    return "\n".join([lines[0], "-" * len(lines[0]), *lines[1:]])


def number(value):
    if value is None:
        return "-"
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def offline_table(results, model):
    columns = [w.name for w in WORKLOADS if any(results.median(model, row.name, w.name) for row in ROWS)]
    if not columns:
        return ""
    rows = [["tokens/s, medians", "weights GB", *columns]]
    for row in sorted(ROWS, key=lambda row: -row.bits):
        weights = results.weights.get((model, row.name))
        cells = [number(results.median(model, row.name, column)) for column in columns]
        if (model, row.name) in results.values and any(cell != "-" for cell in cells):
            rows.append([row.name, f"{weights / 1e9:.2f}" if weights else "-", *cells])
    return text_table(rows)


def serving_table(results, model):
    loads = []
    for (of, _), values in results.values.items():
        if of == model:
            loads += [what.split(": ")[0] for what in values if ": " in what]
    rows = [["serving (ms, tokens/s)", *METRICS]]
    for load in dict.fromkeys(loads):
        for row in ROWS:
            cells = [results.median(model, row.name, f"{load}: {metric}") for metric in METRICS]
            if any(cells):
                rows.append([f"{load}, {row.name}", *map(number, cells)])
    return text_table(rows) if len(rows) > 1 else ""


def missing_lines(results):
    return "\n".join(f"missing: {model} {row}: {why}" for (model, row), why in results.missing.items())


def is_latency(what):
    return any(word in what for word in ("TTFT", "TPOT", "ITL"))


def ratios(results, bar):
    """One ratio per round: ours against theirs measured in the same round, on the same machine state; above 1 ours is the better."""
    ours = results.rounds_of(bar.model, bar.ours, bar.what)
    if bar.against == "bandwidth":
        weights, limit = results.weights.get((bar.model, bar.ours)), results.rounds_of("", "limits", bar.against)
        return [weights * ours[r] / limit[r] for r in ours if r in limit and weights]
    if bar.against == "F32 FMA peak":
        limit = results.rounds_of("", "limits", bar.against)
        return [PREFILL_FLOPS_1B1 * ours[r] / limit[r] for r in ours if r in limit]
    theirs = results.rounds_of(bar.model, bar.against, bar.base or bar.what)
    return [theirs[r] / ours[r] if is_latency(bar.what) else ours[r] / theirs[r] for r in ours if r in theirs]


def bars_table(results):
    rows = [["ratio, median of rounds", "value", "min", "max", "bar", ""]]
    for bar in BARS:
        values = ratios(results, bar)
        if not values:
            continue
        middle = statistics.median(values)
        verdict = "" if not bar.least else "ok" if middle >= bar.least else "BELOW"
        against = f"{bar.against} {bar.base}".strip() + (" (inverse)" if is_latency(bar.what) else "")
        rows.append([f"{bar.model} {bar.what}: {bar.ours} / {against}", f"{middle:.2f}", f"{min(values):.2f}", f"{max(values):.2f}",
                     f"{bar.least:.2f}" if bar.least else "-", " ".join(filter(None, [verdict, bar.note]))])
    return text_table(rows, left=(0, 5)) if len(rows) > 1 else ""


def limits_line(results):
    bandwidth, peak = (results.median("", "limits", what) for what in ("bandwidth", "F32 FMA peak"))
    return f"read bandwidth {bandwidth / 1e9:.1f} GB/s, F32 FMA peak {peak / 1e9:.0f} GFLOP/s (medians)" if bandwidth and peak else ""


def text(results):
    parts = [limits_line(results)]
    for model in results.models():
        parts += [part for part in (offline_table(results, model), serving_table(results, model)) if part]
    parts = [part for part in parts if part]
    parts += [part for part in (bars_table(results), missing_lines(results)) if part]
    return "\n\n".join(parts)


def panels(results):
    """(title, [(row name, median)]) for each workload and for saturated serving."""
    for model in results.models():
        whats = [w.name for w in WORKLOADS] + sorted({what for (of, _), values in results.values.items() if of == model
                                                      for what in values if what.endswith(": output tokens/s")})
        for what in whats:
            entries = [(row.name, results.median(model, row.name, what)) for row in ROWS]
            entries = [(name, value) for name, value in entries if value]
            if entries:
                yield f"{model}, {what}" + ("" if "tokens/s" in what else ", tokens/s"), entries


def plot(results, stem):
    """STEM.png with matplotlib, else STEM.svg; returns the path and a remark."""
    shown = list(panels(results))
    if not shown:
        return None, "nothing to plot"
    try:
        import matplotlib
        matplotlib.use("Agg")
        from matplotlib import pyplot
    except ImportError:
        path = f"{stem}.svg"
        with open(path, "w") as file:
            file.write(svg(shown))
        return path, "matplotlib is not installed: plotted as SVG"
    columns = 3
    lines = -(-len(shown) // columns)
    figure, axes = pyplot.subplots(lines, columns, figsize=(15, 0.6 + 2.6 * lines), squeeze=False)
    for axis in axes.flat[len(shown):]:
        axis.axis("off")
    for axis, (title, entries) in zip(axes.flat, shown):
        names, values = zip(*reversed(entries))
        drawn = axis.barh(names, values, color=[COLOURS[name.split()[0]] for name in names])
        axis.bar_label(drawn, [number(value) for value in values], padding=2, fontsize=8)
        axis.set_title(title, fontsize=9)
        axis.tick_params(labelsize=8)
        axis.margins(x=0.15)
        axis.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    path = f"{stem}.png"
    figure.savefig(path, dpi=110)
    return path, ""


def svg(shown):
    width, line, out, y = 760, 18, [], 10
    for title, entries in shown:
        y += 22
        out.append(f'<text x="10" y="{y}" font-weight="bold">{html.escape(title)}</text>')
        most = max(value for _, value in entries)
        for name, value in entries:
            y += line
            length = 480 * value / most
            out.append(f'<text x="150" y="{y}" text-anchor="end">{html.escape(name)}</text>'
                       f'<rect x="158" y="{y - 11}" width="{length:.1f}" height="13" fill="{COLOURS[name.split()[0]]}"/>'
                       f'<text x="{164 + length:.1f}" y="{y}">{number(value)}</text>')
        y += 8
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{y + 20}" font-family="sans-serif" font-size="12">'
            f'<rect width="100%" height="100%" fill="white"/>{"".join(out)}</svg>\n')


def read(path):
    with open(path) as file:
        return Results([json.loads(line) for line in file if line.startswith("{") and '"row"' in line])

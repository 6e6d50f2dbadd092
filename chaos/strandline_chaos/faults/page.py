"""The page of a chaos run: one file of HTML with its style and drawings, without any script.

Everything that a run or its options tell is escaped, and a policy in the page forbids to load or to
run anything.
"""

from __future__ import annotations

import math
from html import escape
from typing import TYPE_CHECKING, Final

from strandline_chaos.faults.plan import KINDS
from strandline_chaos.faults.series import AFTERMATH_S, BESIDE_S, Series, Window
from strandline_chaos.faults.verdict import ALL_ANOMALIES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from strandline_chaos.faults.series import Around, Report, Second, Span

WIDTH: Final = 1000
LEFT: Final = 92
RIGHT: Final = 12
PLOT: Final = WIDTH - LEFT - RIGHT
LANE: Final = 24
HEIGHT: Final = 150
HEAD: Final = 8
_DECADES: Final = 5
"""Powers of ten of the latencies' axis: from a millisecond to a hundred seconds."""
GLYPHS: Final = {
    "kill": "K",
    "pause": "P",
    "partition": "N",
    "delay": "D",
    "disk-full": "F",
    "disk-slow": "S",
    "power": "W",
    "clock": "C",
}
"""A letter for each kind, so that no one has to tell colours apart."""
WORDS: Final = {
    "sound": "Every promise was kept.",
    "broken": "A promise was broken.",
    "incomplete": "No verdict can be given.",
}

STYLE: Final = """
:root{color-scheme:light dark;--bg:#fbfbfa;--fg:#1c1f23;--dim:#5c6570;--line:#d7dade;--card:#fff;
--ok:#0b6e4f;--bad:#b3261e;--maybe:#8a5a00;--a:#0072b2;--b:#d55e00;--c:#009e73;--fault:#6b4fa0}
@media (prefers-color-scheme:dark){:root{--bg:#14171a;--fg:#e6e8ea;--dim:#9aa4ae;--line:#343a40;
--card:#1b1f23;--ok:#5fd3a5;--bad:#ff8a80;--maybe:#f2c14e;--a:#56b4e9;--b:#f0a35e;--c:#4fd1a5;
--fault:#a78bda}}
*{box-sizing:border-box}
body{margin:0;background:var(--bg);color:var(--fg);font:15px/1.5 system-ui,sans-serif}
main{max-width:1100px;margin:0 auto;padding:24px 16px 64px}
h1{font-size:1.4rem;margin:0 0 4px}h2{font-size:1.1rem;margin:32px 0 8px}
p{margin:4px 0}.dim{color:var(--dim)}
.verdict{border-left:6px solid var(--tone);background:var(--card);padding:14px 18px;margin:16px 0}
.verdict strong{color:var(--tone);font-size:1.25rem}
.sound{--tone:var(--ok)}.broken{--tone:var(--bad)}.incomplete{--tone:var(--maybe)}
.cannot{border:2px solid var(--maybe);background:var(--card);padding:10px 18px;margin:16px 0}
.cannot ul{margin:4px 0;padding-left:20px}
dl{display:grid;grid-template-columns:repeat(auto-fit,minmax(112px,1fr));gap:8px;margin:16px 0}
dl div{background:var(--card);border:1px solid var(--line);padding:8px 10px}
dt{color:var(--dim);font-size:.85rem}dd{margin:0;font-size:1.2rem;font-variant-numeric:tabular-nums}
.wide{overflow-x:auto;background:var(--card);border:1px solid var(--line)}
svg{display:block;min-width:720px;width:100%;height:auto}
svg text{fill:var(--dim);font:11px system-ui,sans-serif}
svg .glyph{fill:var(--card);font-weight:700}
.grid{stroke:var(--line);stroke-width:1}.bar{fill:var(--fault)}.shade{fill:var(--fault);opacity:.12}
.a,.b,.c{fill:none;stroke-width:1.6}.a{stroke:var(--a)}.b{stroke:var(--b);stroke-dasharray:5 3}
.c{stroke:var(--c);stroke-dasharray:1.5 3}
.key{display:flex;flex-wrap:wrap;gap:4px 18px;margin:6px 0;color:var(--dim);font-size:.85rem}
.key svg{display:inline-block;min-width:0;width:34px;height:10px;vertical-align:middle}
table{border-collapse:collapse;width:100%;font-size:.88rem;font-variant-numeric:tabular-nums}
th,td{text-align:right;padding:4px 10px;border-bottom:1px solid var(--line);white-space:nowrap}
th{color:var(--dim);font-weight:600}td.text,th.text{text-align:left;white-space:normal}
td.name{text-align:left}th[colspan]{text-align:center}th{vertical-align:bottom}
.name{white-space:nowrap}tr.bad td{color:var(--bad);font-weight:600}
ul.examples{margin:2px 0;padding-left:18px}
"""


def render(report: Report) -> str:
    """The page as text."""
    series = Series(report.events, report.begun_ns)
    parts = [
        _head(report),
        _cannot(report),
        _figures(report),
        "<h2>Faults</h2>",
        _timeline(series),
        _kinds(series.spans),
        "<h2>Records a second</h2>",
        _rates(series),
        "<h2>Latency of acknowledged records</h2>",
        _latencies(series),
        "<h2>Around each fault</h2>",
        _around(series.around()),
        "<h2>Verdicts</h2>",
        _verdicts(report),
        _foot(report),
    ]
    title = escape(f"chaos live: {report.verdict.word}, seed {report.options.seed}")
    policy = "default-src 'none'; style-src 'unsafe-inline'"
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{title}</title><style>{STYLE}</style></head><body><main>\n"
        + "\n".join(part for part in parts if part)
        + "\n</main></body></html>\n"
    )


def _head(report: Report) -> str:
    word = report.verdict.word
    why = f"<p>{escape(report.verdict.why)}</p>" if report.verdict.why else ""
    options = report.options
    return (
        f"<h1>strandline chaos live</h1><p class=dim>{escape(report.target)}, seed {options.seed},"
        f" {options.seconds:g} s, {options.brokers} brokers, {escape(report.when)}</p>"
        f'<div class="verdict {word}"><strong>{word}</strong><p>{WORDS[word]}</p>{why}</div>'
    )


def _cannot(report: Report) -> str:
    rows = [f"<li><b>{escape(k)}</b>: {escape(why)}</li>" for k, why in report.cannot.items()]
    rows += [f"<li><b>skipped</b>: {escape(each)}</li>" for each in report.skipped]
    if not rows:
        return ""
    return f"<div class=cannot><b>Not part of this run</b><ul>{''.join(rows)}</ul></div>"


def _figures(report: Report) -> str:
    checked, groups, sends = report.verdict.check, report.verdict.groups, report.verdict.sends
    figures = {
        "sent": sends["invoke"],
        "acknowledged": report.verdict.acknowledged,
        "surely not written": sends["fail"],
        "outcome unknown": sends["invoke"] - sends["ok"] - sends["fail"],
        "read back": checked.read,
        "commits": groups.commits,
        "faults": sum(report.faults().values()),
        "lost with permission": report.verdict.reported_lost,
    }
    cells = [f"<div><dt>{name}</dt><dd>{value:,}</dd></div>" for name, value in figures.items()]
    return f"<dl>{''.join(cells)}</dl>"


# Drawings.


class _Scale:
    """Seconds to the drawing's horizontal places."""

    def __init__(self, series: Series) -> None:
        self.start_s = series.start_s
        self.length_s = max(series.end_s - series.start_s, 1.0)

    def x(self, at_s: float) -> float:
        inside = min(max(at_s - self.start_s, 0.0), self.length_s)
        return round(LEFT + PLOT * inside / self.length_s, 1)

    def marks(self) -> list[int]:
        steps = (1, 5, 10, 30, 60, 300, 900, 3600, 7200)
        step = next((s for s in steps if self.length_s / s <= 15), 14_400)
        first = int(-(-self.start_s // step)) * step
        return list(range(first, int(self.start_s + self.length_s) + 1, step))


def _svg(height: int, what: str, inner: str) -> str:
    return (
        f'<div class=wide><svg viewBox="0 0 {WIDTH} {height}" role="img"'
        f' aria-label="{escape(what)}">{inner}</svg></div>'
    )


def _axis(scale: _Scale, height: int) -> str:
    return "".join(
        f'<line class=grid x1="{scale.x(at)}" x2="{scale.x(at)}" y1="{HEAD}" y2="{height}"/>'
        f'<text x="{scale.x(at)}" y="{height + 14}" text-anchor="middle">{at} s</text>'
        for at in scale.marks()
    )


def _timeline(series: Series) -> str:
    scale = _Scale(series)
    lanes = sorted({victim for span in series.spans for victim in span.victims})
    height = HEAD + LANE * max(len(lanes), 1)
    drawn = [_axis(scale, height)]
    for number, lane in enumerate(lanes):
        y = HEAD + LANE * number
        drawn.append(f'<text x="8" y="{y + 16}">{escape(lane)}</text>')
        for span in series.spans:
            if lane in span.victims:
                drawn.append(_bar(span, scale, y))
    if not lanes:
        drawn.append(f'<text x="{LEFT}" y="{HEAD + 16}">no fault</text>')
    return _svg(height + 22, "timeline of faults by process", "".join(drawn))


def _bar(span: Span, scale: _Scale, y: int) -> str:
    x, end = scale.x(span.start_s), scale.x(span.end_s)
    width = max(end - x, 12.0)
    told = f"{span.number}: {span.kind} {', '.join(span.victims)} {span.detail}".strip()
    when = f"{span.start_s:.1f} s to {span.end_s:.1f} s"
    glyph = escape(GLYPHS.get(span.kind, "?"))
    return (
        f'<g><title>{escape(told)}, {when}</title><rect class=bar x="{x}" y="{y + 3}"'
        f' width="{width:.1f}" height="{LANE - 6}" rx="3"/>'
        f'<text class=glyph x="{x + width / 2:.1f}" y="{y + 16}" text-anchor="middle">'
        f"{glyph}</text></g>"
    )


def _kinds(spans: Sequence[Span]) -> str:
    used = {span.kind for span in spans}
    told = [
        f"<span><b>{GLYPHS[kind]}</b> {kind}: {escape(KINDS[kind].meaning)}</span>"
        for kind in KINDS
        if kind in used
    ]
    return f"<div class=key>{''.join(told)}</div>"


def _rates(series: Series) -> str:
    seconds = series.seconds()[:-1]  # the last one is not whole
    width_s = series.width_s
    curves = {
        "acknowledged": [each.acknowledged / width_s for each in seconds],
        "read": [each.read / width_s for each in seconds],
        "handed to groups": [each.delivered / width_s for each in seconds],
    }
    # Readers that start again read everything at once: their peaks would flatten all else.
    top = _round_up(2.0 * max([*curves["acknowledged"], 1.0]))
    return _chart(series, curves, "records a second", top=top, unit="")


def _latencies(series: Series) -> str:
    seconds = series.seconds()
    curves = {
        "half of the records within": _each(seconds, "p50_ms"),
        "99 of 100 within": _each(seconds, "p99_ms"),
    }
    return _chart(series, curves, "milliseconds, in powers of ten", top=10.0**_DECADES, unit=" ms")


def _each(seconds: Sequence[Second], name: str) -> list[float | None]:
    return [getattr(second, name) for second in seconds]


def _chart(
    series: Series,
    curves: Mapping[str, Sequence[float | None]],
    what: str,
    *,
    top: float,
    unit: str,
) -> str:
    scale, floor = _Scale(series), HEAD + HEIGHT
    in_powers = unit == " ms"
    drawn = [
        f'<rect class=shade x="{scale.x(s.start_s)}" y="{HEAD}" height="{HEIGHT}"'
        f' width="{max(scale.x(s.end_s) - scale.x(s.start_s), 1):.1f}"/>'
        for s in series.spans
    ]
    drawn.append(_axis(scale, floor))
    lines = [10.0**n for n in range(_DECADES + 1)] if in_powers else [0.0, top / 2, top]
    for value in lines:
        y = floor - HEIGHT * _share(value, top, in_powers=in_powers)
        drawn.append(f'<line class=grid x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y}" y2="{y}"/>')
        told = f"{value:,.0f}{unit}"
        drawn.append(f'<text x="{LEFT - 8}" y="{y + 4}" text-anchor="end">{told}</text>')
    width_s = series.width_s
    first = int(series.start_s // width_s)
    for style, values in zip("abc", curves.values(), strict=False):
        for run in _runs(values):
            points = " ".join(
                f"{scale.x((first + at + 0.5) * width_s)},"
                f"{floor - HEIGHT * _share(value, top, in_powers=in_powers):.1f}"
                for at, value in run
            )
            drawn.append(f'<polyline class={style} points="{points}"/>')
    key = "".join(
        f'<span><svg viewBox="0 0 34 10"><polyline class={style} points="0,5 34,5"/></svg> {name}'
        "</span>"
        for style, name in zip("abc", curves, strict=False)
    )
    return _svg(floor + 22, what, "".join(drawn)) + f"<div class=key>{key}</div>"


def _share(value: float, top: float, *, in_powers: bool) -> float:
    """The height of a value as a share of the drawing's."""
    if in_powers:
        return min(math.log10(max(value, 1.0)) / math.log10(top), 1.0)
    return min(value / top, 1.0)


def _runs(values: Iterable[float | None]) -> list[list[tuple[int, float]]]:
    """The stretches without a gap; a lone value gets a second point, to be seen."""
    runs: list[list[tuple[int, float]]] = [[]]
    for at, value in enumerate(values):
        if value is None:
            runs.append([])
        else:
            runs[-1].append((at, value))
    return [[*run, (run[0][0] + 1, run[0][1])] if len(run) == 1 else run for run in runs if run]


def _round_up(value: float) -> float:
    step = 1.0
    while step * 10 < value:
        step *= 10
    return next(step * factor for factor in (1, 2, 5, 10) if step * factor >= value)


# Tables.


def _around(rows: Sequence[Around]) -> str:
    if not rows:
        return "<p class=dim>No fault struck.</p>"
    body = "".join(_around_row(row) for row in rows)
    return (
        f"<div class=wide><table>{_AROUND_HEAD}<tbody>{body}</tbody></table></div>"
        f"<p class=dim>Before and after: {BESIDE_S:g} s each. Longest pause: the longest time in"
        " which one partition had no acknowledged record, from the start of the fault to"
        f" {AFTERMATH_S:g} s after its end or to the next fault.</p>"
    )


_AROUND_HEAD: Final = (
    "<thead><tr><th class=text rowspan=2>fault</th><th class=text rowspan=2>struck</th>"
    "<th rowspan=2>from</th><th rowspan=2>for</th><th colspan=3>records a second</th>"
    "<th colspan=3>99 of 100 within, ms</th><th rowspan=2>longest<br>pause</th></tr><tr>"
    + 2 * "<th>before</th><th>during</th><th>after</th>"
    + "</tr></thead>"
)


def _around_row(row: Around) -> str:
    span, windows = row.span, (row.before, row.during, row.after)
    detail = f" <span class=dim>{escape(span.detail)}</span>" if span.detail else ""
    cells = [
        f"<td class=text>{span.number}&nbsp;<b class=name>{escape(span.kind)}</b>{detail}</td>",
        f"<td class=name>{'<br>'.join(map(escape, span.victims))}</td>",
        f"<td>{span.start_s:.1f} s</td><td>{span.end_s - span.start_s:.1f} s</td>",
        *(f"<td>{window.per_s:,.0f}</td>" for window in windows),
        *(f"<td>{_p99(window)}</td>" for window in windows),
        f"<td>{row.longest_gap_s:.1f} s</td>",
    ]
    return f"<tr>{''.join(cells)}</tr>"


def _p99(window: Window) -> str:
    return "none" if window.p99_ms is None else f"{window.p99_ms:,.0f}"


def _verdicts(report: Report) -> str:
    rows = []
    for name, meaning in ALL_ANOMALIES.items():
        anomaly = report.verdict.anomalies[name]
        examples = "".join(f"<li>{escape(each)}</li>" for each in anomaly.examples)
        shown = f"<ul class=examples>{examples}</ul>" if examples else ""
        rows.append(
            f"<tr{' class=bad' if anomaly.count else ''}><td class=text>{name}</td>"
            f"<td>{anomaly.count:,}</td><td class=text>{escape(meaning)}{shown}</td></tr>"
        )
    return (
        "<div class=wide><table><thead><tr><th class=text>kind</th><th>found</th>"
        f"<th class=text>meaning</th></tr></thead><tbody>{''.join(rows)}</tbody></table></div>"
    )


def _foot(report: Report) -> str:
    options = report.options
    given = {
        "--victims": ",".join(each.removeprefix("broker-") for each in options.victims),
        "--fault-seconds": "" if options.fault_s is None else f"{options.fault_s:g}",
        "--rest-seconds": "" if options.rest_s is None else f"{options.rest_s:g}",
        "--rounds": "" if options.rounds is None else str(options.rounds),
    }
    again = (
        f"strandline chaos live {report.flag} --minutes {options.seconds / 60:.10g}"
        f" --seed {options.seed} --faults {','.join(options.kinds)}"
        + "".join(f" {name} {value}" for name, value in given.items() if value)
    )
    return (
        f"<h2>The same plan again</h2><p><code>{escape(again)}</code></p>"
        f"<p class=dim>strandline {escape(report.build)}</p>"
    )

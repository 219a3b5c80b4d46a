"""Draws plots of the results: `plot.py FOLDER`, with the parts as JSON on standard input. Needs matplotlib only."""

# mypy: disable-error-code="import-not-found"
from __future__ import annotations

import json
import statistics
import sys
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt

OURS, PEERS, LIMIT = "#0f766e", "#94a3b8", "#d6d3d1"
MOST_CHARTS = 4


def main() -> None:
    folder = Path(sys.argv[1])
    mpl.rcParams.update(
        {"svg.fonttype": "none", "svg.hashsalt": "ferryman", "font.size": 8, "font.family": "sans-serif"}
    )
    for part in json.load(sys.stdin):
        charts = _charts(part)
        if charts:
            _draw(charts, folder / f"{part['name']}.svg")
            print(part["name"])


def _charts(part: dict[str, Any]) -> list[tuple[str, list[dict[str, Any]]]]:
    scenarios = dict.fromkeys(one["scenario"] for one in part["series"])
    found = [
        (title, [one for one in part["series"] if one["scenario"] == title and one["values"]]) for title in scenarios
    ]
    if part["name"] == "growth":
        found = [
            (
                "ferryman, by scenario",
                [one for one in part["series"] if one["contender"] == "ferryman" and one["values"]],
            )
        ]
    # A lone bar compares nothing.
    return [(title, series) for title, series in found if len(series) > 1][:MOST_CHARTS]


def _draw(charts: list[tuple[str, list[dict[str, Any]]]], file: Path) -> None:
    rows = sum(len(series) + 2 for _, series in charts)
    figure, axes = plt.subplots(
        len(charts),
        1,
        figsize=(6.4, 0.23 * rows),
        squeeze=False,
        height_ratios=[len(series) + 1 for _, series in charts],
        layout="constrained",
    )
    for axis, (title, series) in zip(axes[:, 0], charts, strict=True):
        _bars(axis, title, series)
    figure.savefig(file, metadata={"Date": None})
    plt.close(figure)


def _bars(axis: Any, title: str, series: list[dict[str, Any]]) -> None:
    is_rate = series[0]["unit"].endswith("/s")
    by_scenario = len({one["scenario"] for one in series}) > 1
    if not by_scenario:
        series = sorted(series, key=lambda one: statistics.median(one["values"]), reverse=is_rate)
    middles = [statistics.median(one["values"]) for one in series]
    spread = [
        [middle - min(one["values"]) for one, middle in zip(series, middles, strict=True)],
        [max(one["values"]) - middle for one, middle in zip(series, middles, strict=True)],
    ]
    names = [one["scenario" if by_scenario else "contender"] for one in series]
    bars = axis.barh(names, middles, xerr=spread, color=[_colour(one) for one in series], height=0.7, ecolor="#475569")
    axis.bar_label(bars, [f" {middle:,.0f}" if middle >= 10 else f" {middle:.1f}" for middle in middles], fontsize=7)
    axis.invert_yaxis()
    axis.set_title(f"{title} ({series[0]['unit']}, {'more' if is_rate else 'less'} is better)", loc="left", fontsize=8)
    axis.spines[["top", "right"]].set_visible(False)
    axis.margins(x=0.12)


def _colour(series: dict[str, Any]) -> str:
    if series["contender"].startswith("ferryman"):
        return OURS
    return LIMIT if series["contender"].startswith("raw") else PEERS


if __name__ == "__main__":
    main()

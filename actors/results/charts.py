"""Small SVG charts for the report: pure text, no library, readable in light and dark."""

from collections.abc import Mapping, Sequence
from html import escape

WIDTH, HEIGHT = 560, 150
LEFT, BOTTOM, TOP, RIGHT = 44, 22, 8, 8
LEGEND = 14  # height of a line of names
PALETTE = ("#4c78a8", "#f58518", "#54a24b", "#e45756", "#72b7b2", "#b279a2")


def _frame(title: str, body: str, *, height: int = HEIGHT) -> str:
    return (
        f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(title)}" class="chart">'
        f"<title>{escape(title)}</title>{body}</svg>"
    )


def _number(value: float) -> str:
    return f"{value:.0f}" if abs(value) >= 10 or value == int(value) else f"{value:.1f}"


def line_chart(
    title: str, series: Mapping[str, Sequence[tuple[float, float]]], *, unit: str = "", across: str = " s"
) -> str:
    """Lines over time, or over something else.

    Args:
        title: For the eye and for a screen reader.
        series: Name → (seconds, value) in rising order of time; empty ones are left out.
        unit: Behind the largest value.
        across: Behind the largest time.
    """
    drawn = {name: points for name, points in series.items() if points}
    if not drawn:
        return _frame(title, f'<text x="{LEFT}" y="{HEIGHT / 2}">no data</text>')
    right = max(x for points in drawn.values() for x, _ in points) or 1.0
    top = max(y for points in drawn.values() for _, y in points) or 1.0
    ceiling = TOP + (LEGEND if len(drawn) > 1 else 0)  # the legend stands above the curves
    plot_width, plot_height = WIDTH - LEFT - RIGHT, HEIGHT - ceiling - BOTTOM
    parts = [_axes(right, top, unit, ceiling, across)]
    for number, (name, points) in enumerate(drawn.items()):
        path = " ".join(
            f"{LEFT + x / right * plot_width:.1f},{ceiling + plot_height * (1 - y / top):.1f}" for x, y in points
        )
        color = PALETTE[number % len(PALETTE)]
        parts.append(f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="1.5"/>')
        if len(points) == 1:  # a line of one point cannot be seen
            x, y = path.split(",")
            parts.append(f'<circle cx="{x}" cy="{y}" r="2.5" fill="{color}"/>')
        if len(drawn) > 1:
            parts.append(f'<text x="{LEFT + 8 + number * 120}" y="{TOP + 6}" fill="{color}">{escape(name)}</text>')
    return _frame(title, "".join(parts))


def _axes(right: float, top: float, unit: str, ceiling: int, across: str) -> str:
    floor = HEIGHT - BOTTOM
    return (
        f'<line x1="{LEFT}" y1="{ceiling}" x2="{LEFT}" y2="{floor}" class="axis"/>'
        f'<line x1="{LEFT}" y1="{floor}" x2="{WIDTH - RIGHT}" y2="{floor}" class="axis"/>'
        f'<text x="{LEFT - 4}" y="{ceiling + 9}" text-anchor="end">{_number(top)}{escape(unit)}</text>'
        f'<text x="{LEFT - 4}" y="{floor}" text-anchor="end">0</text>'
        f'<text x="{WIDTH - RIGHT}" y="{HEIGHT - 6}" text-anchor="end">{_number(right)}{escape(across)}</text>'
    )


def ledger_chart(
    title: str, rows: Sequence[Mapping[str, float]], stages: Sequence[str], labels: Sequence[str] = ()
) -> str:
    """One stacked bar an action, its stages from the left: where the time went.

    Args:
        title: For the eye and for a screen reader.
        rows: Stage → milliseconds.
        stages: Their order.
        labels: What each row is called, at its left; none where there are fewer.
    """
    if not rows:
        return _frame(title, f'<text x="{LEFT}" y="{HEIGHT / 2}">no data</text>')
    longest = max(sum(row.get(stage, 0.0) for stage in stages) for row in rows) or 1.0
    plot_width = WIDTH - LEFT - RIGHT
    step = min(9.0, 400 / len(rows))
    parts, y = [], TOP + 16.0
    for number, stage in enumerate(stages):
        color = PALETTE[number % len(PALETTE)]
        parts.append(f'<text x="{LEFT + number * 86}" y="{TOP + 6}" fill="{color}">{escape(stage)}</text>')
    for index, row in enumerate(rows):
        x = float(LEFT)
        if index < len(labels):
            at = f'x="{LEFT - 4}" y="{y + step - 1.5:.1f}" font-size="{min(8.0, step):.1f}"'
            parts.append(f'<text {at} text-anchor="end">{escape(labels[index])}</text>')
        for number, stage in enumerate(stages):
            width = row.get(stage, 0.0) / longest * plot_width
            if width > 0:
                color = PALETTE[number % len(PALETTE)]
                place = f'x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{max(1.0, step - 1):.1f}"'
                parts.append(
                    f'<rect {place} fill="{color}"><title>{escape(stage)} {row.get(stage, 0.0):.0f} ms</title></rect>'
                )
            x += width
        y += step
    height = int(y + 18)
    parts.append(f'<text x="{WIDTH - RIGHT}" y="{height - 4}" text-anchor="end">{longest:.0f} ms</text>')
    return _frame(title, "".join(parts), height=height)


def bar_chart(title: str, values: Mapping[str, Mapping[str, float]]) -> str:
    """Grouped bars: group → name → value."""
    names = list(dict.fromkeys(name for group in values.values() for name in group))
    top = max((v for group in values.values() for v in group.values()), default=0.0) or 1.0
    plot_width, plot_height = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM - 14
    group_width = plot_width / max(1, len(values))
    parts = [f'<line x1="{LEFT}" y1="{HEIGHT - BOTTOM}" x2="{WIDTH - RIGHT}" y2="{HEIGHT - BOTTOM}" class="axis"/>']
    for number, name in enumerate(names):
        color = PALETTE[number % len(PALETTE)]
        parts.append(f'<text x="{LEFT + number * 100}" y="{TOP + 8}" fill="{color}">{escape(name)}</text>')
    for place, (group, row) in enumerate(values.items()):
        width = min(60.0, group_width / (len(names) + 1))
        x = LEFT + place * group_width + (group_width - width * len(row)) / 2
        for number, name in enumerate(names):
            if name not in row:
                continue
            height = row[name] / top * plot_height
            y = HEIGHT - BOTTOM - height
            color = PALETTE[number % len(PALETTE)]
            parts.append(
                f'<rect x="{x:.1f}" y="{y:.1f}" width="{width - 2:.1f}" height="{height:.1f}" fill="{color}"/>'
                f'<text x="{x + width / 2:.1f}" y="{y - 2:.1f}" text-anchor="middle">{_number(row[name])}</text>'
            )
            x += width
        middle = LEFT + (place + 0.5) * group_width
        parts.append(f'<text x="{middle:.1f}" y="{HEIGHT - 6}" text-anchor="middle">{escape(group)}</text>')
    return _frame(title, "".join(parts))


def stacked(charts: Sequence[str], titles: Sequence[str]) -> str:
    """Charts below one another as one picture that stands alone: a file that any browser shows."""
    row = HEIGHT + 20
    parts = []
    for number, (chart, title) in enumerate(zip(charts, titles, strict=True)):
        place = f'y="{number * row + 16}" width="{WIDTH}" height="{HEIGHT}"'
        parts.append(f'<text x="8" y="{number * row + 12}" font-weight="bold">{escape(title)}</text>')
        parts.append(chart.replace("<svg ", f"<svg {place} ", 1))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {row * len(charts)}" font-size="10" '
        'font-family="sans-serif"><style>.axis { stroke: #888 }</style>'
        f'<rect width="100%" height="100%" fill="white"/>{"".join(parts)}</svg>\n'
    )

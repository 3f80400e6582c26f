"""Draws one chart: a Vega-Lite specification on standard input, its SVG on standard output. See `chart_drawing`."""

import resource
import sys

CPU_SECONDS = 20  # it ends then, whatever becomes of whoever started it
WRONG = 2  # exit code: the specification cannot be drawn, and standard error says why


def main() -> int:
    """Returns the exit code."""
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS + 1))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    import vl_convert  # noqa: PLC0415  # within the limits

    try:
        svg = vl_convert.vegalite_to_svg(
            sys.stdin.buffer.read().decode(), allowed_base_urls=[]
        )  # and no address is fetched
    except ValueError as error:
        sys.stderr.buffer.write(str(error).encode(errors="replace"))
        return WRONG
    sys.stdout.buffer.write(svg.encode(errors="replace"))
    return 0


if __name__ == "__main__":
    sys.exit(main())

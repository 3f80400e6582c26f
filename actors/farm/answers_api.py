"""What becomes of answers of the assistant: their charts as pictures, and their rows as files."""

from collections.abc import Mapping
from typing import Any

import attrs
import trio
from starlette.requests import Request
from starlette.responses import Response

from actors.farm.access import Caller, Endpoint, Need, RequestError
from actors.farm.bodies import json_object
from actors.farm.chart_drawing import ChartDrawer, DrawingBusy
from actors.farm.chart_spec import ChartRefused
from actors.farm.tables import Table, TableFormat, TableWrong, disposition, parse_table, write_table

CHART_BYTES = 2 << 20  # of a request
TABLE_BYTES = 8 << 20

ANSWER_SCHEMAS: Mapping[str, Any] = {
    "Chart": {
        "type": "object",
        "description": "A Vega-Lite specification as the assistant sends it: data inside, nothing that is fetched.",
        "required": ["data", "mark", "encoding"],
    },
    "Table": {
        "type": "object",
        "additionalProperties": False,
        "required": ["format", "columns", "rows"],
        "properties": {
            "format": {"enum": [one.value for one in TableFormat]},
            "columns": {"type": "array", "items": {"type": "string"}},
            "types": {"type": "array", "items": {"type": "string"}},
            "rows": {"type": "array", "items": {"type": "array"}},
            "name": {"type": "string"},
        },
    },
}


@attrs.define(eq=False)
class AnswersApi:
    """What they do."""

    drawer: ChartDrawer = attrs.field(factory=ChartDrawer)
    _writing: trio.CapacityLimiter = attrs.field(factory=lambda: trio.CapacityLimiter(1), init=False)

    async def draw(self, request: Request, _caller: Caller) -> Response:
        """An SVG; the policy of every answer lets it neither run nor fetch anything."""
        spec = await json_object(request, CHART_BYTES)
        try:
            return Response(await self.drawer.draw(spec), media_type="image/svg+xml")
        except ChartRefused as error:
            raise RequestError(str(error), status=422) from error
        except DrawingBusy as error:
            raise RequestError(str(error), status=503) from error

    async def write(self, request: Request, _caller: Caller) -> Response:
        """A file to keep."""
        body = await json_object(request, TABLE_BYTES)
        try:
            table, content = await trio.to_thread.run_sync(_written, body, limiter=self._writing)
        except TableWrong as error:
            raise RequestError(str(error), status=422) from error
        headers = {"content-disposition": disposition(table)}
        return Response(content, media_type=table.format.media_type, headers=headers)


def _written(body: Mapping[str, Any]) -> tuple[Table, bytes]:
    table = parse_table(body)
    return table, write_table(table)


def answer_endpoints(api: AnswersApi) -> tuple[Endpoint, ...]:
    """All of them."""
    return (
        Endpoint(
            "POST",
            "/api/v1/charts",
            Need.VIEWER,
            api.draw,
            "The picture of a Vega-Lite specification that holds its data.",
            body="Chart",
            ticket=True,
            answer="image/svg+xml",
        ),
        Endpoint(
            "POST",
            "/api/v1/tables",
            Need.VIEWER,
            api.write,
            "Rows as a file for a spreadsheet.",
            body="Table",
            ticket=True,
            answer="*/*",
        ),
    )

"""What passes between the main process and the SQL executor: JSON lines with length limits, both ways."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

import attrs

from runtime.ids import TenantId
from sqlassist.messages import Refusal
from sqlassist.result import PlanNumbers, ResultColumn, ResultSet, ValueType

READY = "executor ready"
"""What the executor says once it is."""
MAX_REQUEST_BYTES = 128 << 10  # the guard takes 8,000 characters, of at most 6 bytes each as JSON
MAX_ANSWER_BYTES = 4 << 20
MAX_ROW_BYTES = 1 << 20
_ROWS_BYTES = 256 << 10  # of a line with rows: small enough that answers of several queries interleave


class WireError(Exception):
    """The other end sent what is no message of ours. The connection is of no use any more."""


@attrs.frozen
class ExecuteRequest:
    """What the executor needs: never a password, and no query that it would not check itself."""

    tenant: TenantId
    source: str
    """Empty: the executor chooses."""
    sql: str
    """As it was written. The executor runs the guard on it, and executes only what that makes of it."""
    catalog_version: str = ""
    """Of the catalog that the asker checked with; if it is another, the answer is `catalog_changed`. Empty: any."""


def encode_execute(number: int, request: ExecuteRequest) -> bytes:
    """A line that asks."""
    return _line({"id": number, "do": "execute", **attrs.asdict(request)})


def encode_cancel(number: int) -> bytes:
    """A line that takes a question back."""
    return _line({"id": number, "do": "cancel"})


def decode_request(line: bytes) -> tuple[int, ExecuteRequest | None]:
    """Read a line of the main process; None is a cancel.

    Raises:
        WireError: it is none.
    """
    match _parsed(line):
        case {"id": int(number), "do": "cancel"}:
            return number, None
        case {
            "id": int(number),
            "do": "execute",
            "tenant": str(tenant),
            "source": str(source),
            "sql": str(sql),
            "catalog_version": str(version),
        }:
            return number, ExecuteRequest(TenantId(tenant), source, sql, version)
        case _:
            raise WireError("not a request")


def encode_answer(number: int, answer: ResultSet | Refusal) -> Iterator[bytes]:
    """Lines of an answer: columns, rows in pieces, end; or a refusal."""
    if isinstance(answer, Refusal):
        yield _line({"id": number, "is": "refusal", **attrs.asdict(answer)})
        return
    rows = [json.dumps(row, ensure_ascii=False, separators=(",", ":")) for row in answer.rows]
    if any(len(row.encode()) > MAX_ROW_BYTES for row in rows):
        hint = "a row is too long to be passed on: select fewer or shorter columns"
        yield _line({"id": number, "is": "refusal", "code": "row_too_long", "where": "", "hint": hint})
        return
    yield _line({"id": number, "is": "columns", "columns": [[c.name, c.type] for c in answer.columns]})
    piece: list[str] = []
    size = 0
    for row in rows:
        if piece and size + len(row) > _ROWS_BYTES:
            yield _rows_line(number, piece)
            piece, size = [], 0
        piece.append(row)
        size += len(row)
    if piece:
        yield _rows_line(number, piece)
    yield _line(
        {
            "id": number,
            "is": "end",
            "truncated": answer.is_truncated,
            "seconds": answer.seconds,
            "plan": None if answer.plan is None else dict(answer.plan.as_json()),
            "source": answer.source,
        }
    )


def encode_failure(number: int, kind: str, reason: str, source: str) -> bytes:
    """A line for an error that is not the query's."""
    return _line({"id": number, "is": "failure", "kind": kind, "reason": reason, "source": source})


@attrs.frozen
class Failure:
    """The database cannot be used."""

    kind: str
    reason: str
    source: str


@attrs.define
class Assembling:
    """An answer that comes in."""

    columns: tuple[ResultColumn, ...] = ()
    rows: list[tuple[Any, ...]] = attrs.field(factory=list)

    def take(self, message: Mapping[str, Any]) -> ResultSet | Refusal | Failure | None:
        """Add one message; returns the answer when it is whole.

        Raises:
            WireError: it is no part of an answer.
        """
        match message:
            case {"is": "columns", "columns": list(columns)}:
                self.columns = tuple(ResultColumn(name, ValueType(kind)) for name, kind in columns)
            case {"is": "rows", "rows": list(rows)}:
                self.rows.extend(tuple(row) for row in rows)
            case {"is": "end", "truncated": bool(cut), "seconds": float(seconds), "plan": plan, "source": str(source)}:
                numbers = None if plan is None else PlanNumbers(**plan)
                return ResultSet(self.columns, tuple(self.rows), cut, seconds, numbers, source)
            case {"is": "refusal", "code": str(code), "where": str(where), "hint": str(hint)}:
                return Refusal(code, where, hint)
            case {"is": "failure", "kind": str(kind), "reason": str(reason), "source": str(source)}:
                return Failure(kind, reason, source)
            case _:
                raise WireError("not a part of an answer")
        return None


def decode_answer(line: bytes) -> tuple[int, Mapping[str, Any]]:
    """(number, message) of a line of the executor.

    Raises:
        WireError: it is none.
    """
    match _parsed(line):
        case {"id": int(number), **message}:
            return number, {str(key): value for key, value in message.items()}
        case _:
            raise WireError("not an answer")


def _rows_line(number: int, rows: list[str]) -> bytes:
    return f'{{"id":{number},"is":"rows","rows":[{",".join(rows)}]}}\n'.encode()


def _line(message: Mapping[str, Any]) -> bytes:
    return json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace") + b"\n"


def _parsed(line: bytes) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError) as error:
        raise WireError("not JSON") from error

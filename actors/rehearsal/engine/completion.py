"""One completion over HTTP: whole, or as server-sent events."""

import json
import time
from collections.abc import MutableMapping
from typing import Any

import trio
from starlette.responses import JSONResponse
from starlette.types import Receive, Scope, Send

from actors.rehearsal.engine.chat import BadRequest
from actors.rehearsal.engine.work import InjectedFailure, RehearsalEngine, Work

_KINDS = {400: "BadRequestError", 401: "AuthenticationError", 500: "InternalServerError", 503: "ServiceUnavailable"}


def error_response(message: str, status: int) -> JSONResponse:
    """An error with the body that SGLang's OpenAI server gives it."""
    kind = _KINDS.get(status, "BadRequestError")
    return JSONResponse(
        {"object": "error", "message": message, "type": kind, "param": None, "code": status}, status_code=status
    )


class CompletionResponse:
    """The ASGI response for an accepted request. A client that goes away aborts it."""

    def __init__(self, engine: RehearsalEngine, work: Work) -> None:
        self._engine = engine
        self._work = work
        self._created = int(time.time())
        self._started = False
        self._text = ""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer."""
        async with trio.open_nursery() as nursery:

            async def watch() -> None:
                message: MutableMapping[str, Any] = await receive()
                while message["type"] != "http.disconnect":
                    message = await receive()
                nursery.cancel_scope.cancel()

            nursery.start_soon(watch)
            await self._answer(scope, receive, send)
            nursery.cancel_scope.cancel()

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        work = self._work

        async def on_piece(piece: str) -> None:
            self._text += piece
            if work.request.stream:
                await self._send_delta(send, piece)

        try:
            finish = await self._engine.run(work, on_piece)
        except BadRequest as error:
            await error_response(str(error), error.status)(scope, receive, send)
            return
        except InjectedFailure as error:
            await error_response(str(error), 500)(scope, receive, send)
            return
        if work.request.stream:
            await self._end_stream(send, finish)
        else:
            await JSONResponse(self._whole(finish))(scope, receive, send)

    async def _send_delta(self, send: Send, piece: str) -> None:
        await self._start_stream(send)
        await self._send_event(send, {"content": piece}, None)

    async def _start_stream(self, send: Send) -> None:
        if self._started:
            return
        self._started = True
        headers = [(b"content-type", b"text/event-stream; charset=utf-8"), (b"cache-control", b"no-cache")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await self._send_event(send, {"role": "assistant", "content": ""}, None)

    async def _end_stream(self, send: Send, finish: str) -> None:
        await self._start_stream(send)
        await self._send_event(send, {}, finish)
        if self._work.request.include_usage:
            await self._send_data(send, json.dumps(self._head("chunk") | {"choices": [], "usage": self._usage()}))
        await self._send_data(send, "[DONE]")
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _send_event(self, send: Send, delta: dict[str, str], finish: str | None) -> None:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish, "matched_stop": None}
        await self._send_data(send, json.dumps(self._head("chunk") | {"choices": [choice], "usage": None}))

    async def _send_data(self, send: Send, data: str) -> None:
        await send({"type": "http.response.body", "body": f"data: {data}\n\n".encode(), "more_body": True})

    def _head(self, kind: str) -> dict[str, Any]:
        whole = "chat.completion" if kind == "whole" else "chat.completion.chunk"
        return {
            "id": self._work.rid,
            "object": whole,
            "created": self._created,
            "model": self._engine.options.model,
        }

    def _whole(self, finish: str) -> dict[str, Any]:
        message = {"role": "assistant", "content": self._text, "reasoning_content": None, "tool_calls": None}
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": finish, "matched_stop": None}
        return self._head("whole") | {"choices": [choice], "usage": self._usage()}

    def _usage(self) -> dict[str, Any]:
        work = self._work
        prompt = work.request.prompt_tokens
        return {
            "prompt_tokens": prompt,
            "completion_tokens": work.output_tokens,
            "total_tokens": prompt + work.output_tokens,
            "prompt_tokens_details": {
                "cached_tokens": work.cached_tokens,
                "image_tokens": work.request.image_tokens,
            },
        }

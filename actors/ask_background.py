"""Runs trio in a thread of its own, so that Ctrl-C in the main thread ends a question and not the program."""

import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Any, Generic, TypeVar

import trio

from runtime.nursery import open_bare_nursery

T = TypeVar("T")
Resource = TypeVar("Resource")


class Background(Generic[Resource]):
    """An async resource that is open in another thread while the block lasts.

    Args:
        opened: Makes the context manager of it; called in that thread.
    """

    def __init__(self, opened: Callable[[], AbstractAsyncContextManager[Resource]]) -> None:
        self._opened = opened
        self._thread = threading.Thread(target=self._main, name="ask", daemon=True)
        self._ready: Future[Resource] = Future()
        self._token: trio.lowlevel.TrioToken | None = None
        self._stop = trio.Event()
        self._nursery: trio.Nursery | None = None
        self._ended: BaseException | None = None

    def __enter__(self) -> Resource:
        """Open it; raises what opening raises."""
        self._thread.start()
        try:
            return self._ready.result()
        except BaseException:
            self._end()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._end()
        if self._ended is not None:
            raise self._ended from error

    def run(self, call: Callable[[], Awaitable[T]]) -> T:
        """Run an async call there and wait for it. Ctrl-C cancels it, and is raised once it has ended.

        Raises:
            KeyboardInterrupt: it was cancelled by Ctrl-C.
            RuntimeError: the resource has failed meanwhile; leaving the block says how.
        """
        scope, result = trio.CancelScope(), Future[Any]()

        async def attempt() -> None:
            try:
                with scope:
                    result.set_result(await call())
                if not result.done():
                    result.set_exception(KeyboardInterrupt())
            except Exception as error:  # noqa: BLE001  # handed to whoever waits
                result.set_exception(error)
            finally:
                if not result.done():
                    result.set_exception(RuntimeError("it ended meanwhile"))

        def start() -> None:
            assert self._nursery is not None
            self._nursery.start_soon(attempt)

        self._soon(start)
        while True:
            try:
                done: T = result.result()
                return done
            except KeyboardInterrupt:
                if result.done():
                    raise
                self._soon(scope.cancel)

    def _main(self) -> None:
        try:
            trio.run(self._serve)
        except BaseException as error:  # noqa: BLE001  # handed to the thread that waits
            if self._ready.done():
                self._ended = error
            else:
                self._ready.set_exception(error)

    async def _serve(self) -> None:
        self._token = trio.lowlevel.current_trio_token()
        async with self._opened() as resource, open_bare_nursery() as nursery:
            self._nursery = nursery
            self._ready.set_result(resource)
            await self._stop.wait()
            nursery.cancel_scope.cancel()

    def _soon(self, call: Callable[[], Any]) -> None:
        assert self._token is not None
        try:
            self._token.run_sync_soon(call)
        except trio.RunFinishedError:
            raise RuntimeError("it ended meanwhile") from None

    def _end(self) -> None:
        try:
            if self._token is not None:
                self._soon(self._stop.set)
        except RuntimeError:  # it has ended by itself
            pass
        self._thread.join()

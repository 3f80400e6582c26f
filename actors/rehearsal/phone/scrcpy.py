"""The scrcpy server of a simulated phone: `app_process` starts it, its sockets send video and take input.

It does what the real one does where drivers are bitten: sockets in order, a dummy byte on the first, nothing sent while
the screen stands still, a new session when the screen turns, and touches aimed at another size silently ignored.
"""

from collections.abc import Mapping

import attrs
import numpy as np
import trio

from actors.rehearsal.apps.base import Canvas, TouchPhase
from actors.rehearsal.phone.handset import Handset
from actors.rehearsal.phone.process import Process, Program
from actors.rehearsal.phone.programs_input import KEY_NAMES
from actors.rehearsal.phone.scrcpy_wire import (
    VERSION_MARK,
    ControlReader,
    KeyMessage,
    ResetVideo,
    ServerOptions,
    TextMessage,
    TouchMessage,
    encode_acknowledgement,
    encode_head,
    encode_media,
    encode_session,
    parse_options,
)
from actors.rehearsal.phone.spec import VideoKind
from actors.rehearsal.phone.stream import Stream
from actors.rehearsal.phone.video import EncodedFrame, ScreenEncoder, shared_video, video_size

SERVER_CLASS = "com.genymobile.scrcpy.Server"
DEFAULT_FPS = 60.0
_PHASES = {0: TouchPhase.DOWN, 1: TouchPhase.UP, 2: TouchPhase.MOVE}


@attrs.define(eq=False)
class ScrcpyServer:
    """One run of the server, from the listening socket to the end of any connection."""

    handset: Handset
    options: ServerOptions
    _streams: list[Stream] = attrs.field(init=False, factory=list)
    _all_there: trio.Event = attrs.field(init=False, factory=trio.Event)
    _done: trio.Event = attrs.field(init=False, factory=trio.Event)
    _scopes: set[trio.CancelScope] = attrs.field(init=False, factory=set)
    _size: tuple[int, int] = attrs.field(init=False, default=(0, 0))
    _wants_key: bool = attrs.field(init=False, default=False)
    _fingers: dict[int, int] = attrs.field(init=False, factory=dict)
    ignored_touches: int = attrs.field(init=False, default=0)
    """Aimed at a video of another size."""

    @property
    def sockets(self) -> tuple[str, ...]:
        """What the connections are for, in their order."""
        return ("video",) * self.options.video + ("control",) * self.options.control

    async def run(self) -> None:
        """Listen, and serve until a connection ends."""
        if self.options.socket in self.handset.sockets:
            return
        self.handset.sockets[self.options.socket] = self._serve_socket
        try:
            await self._done.wait()
        finally:
            self.handset.sockets.pop(self.options.socket, None)
            for scope in tuple(self._scopes):
                scope.cancel()

    async def _serve_socket(self, stream: Stream) -> None:
        number = len(self._streams)
        if number >= len(self.sockets):
            return
        self._streams.append(stream)
        try:
            with trio.CancelScope() as scope:
                self._scopes.add(scope)
                if number == 0:
                    await stream.write(b"\0")
                if len(self._streams) == len(self.sockets):
                    self.handset.sockets.pop(self.options.socket, None)
                    self._all_there.set()
                await self._all_there.wait()
                if self.sockets[number] == "video":
                    await self._send_video(stream)
                else:
                    await self._take_control(stream)
        finally:
            self._done.set()

    # -- video

    def _video_size(self) -> tuple[int, int]:
        geometry = self.handset.geometry
        return video_size(geometry.width, geometry.height, self.options.max_size)

    async def _send_video(self, stream: Stream) -> None:
        self._size = self._video_size()
        head = encode_head(self.handset.spec.model, self.options.major, *self._size)
        await stream.write(head[1:])  # the zero byte went out at once
        if self.handset.spec.video is VideoKind.SHARED and not self.handset.effects.active:
            await self._send_shared(stream)
        else:
            await self._send_live(stream)

    async def _send_live(self, stream: Stream) -> None:
        fps = self.options.max_fps or DEFAULT_FPS
        encoder: ScreenEncoder | None = None
        shown: Canvas | None = None
        began_at = due = trio.current_time()
        while True:
            canvas = await self.handset.draw_screen()
            if (size := self._video_size()) != self._size:
                self._size, encoder = size, None
                if self.options.major >= 4:
                    await stream.write(encode_session(*size))
            if self._wants_key:
                self._wants_key, encoder = False, None
            if encoder is None or shown is None or not np.array_equal(canvas, shown):
                if encoder is None:
                    encoder = await trio.to_thread.run_sync(ScreenEncoder, *size, limiter=self.handset.drawing)
                    await stream.write(encode_media(encoder.config, major=self.options.major, pts_us=0, config=True))
                pts_us = int((trio.current_time() - began_at) * 1e6)
                frame = await trio.to_thread.run_sync(encoder.encode, canvas, pts_us, limiter=self.handset.drawing)
                await self._write_frame(stream, frame, pts_us)
                shown = canvas
            due = max(due + 1 / fps, trio.current_time())
            await trio.sleep_until(due)

    async def _send_shared(self, stream: Stream) -> None:
        fps = self.options.max_fps or 5.0
        spec = self.handset.spec
        draw = self.handset.fresh_screen()
        key = f"{spec.app} {spec.grainy} {self.handset.geometry.rotation}"
        video = await trio.to_thread.run_sync(shared_video, key, self._size, fps, draw, limiter=self.handset.drawing)
        began_at = due = trio.current_time()
        number = 0
        while True:
            if self._wants_key:
                self._wants_key, number = False, 0
            if number == 0:
                await stream.write(encode_media(video.config, major=self.options.major, pts_us=0, config=True))
            pts_us = int((trio.current_time() - began_at) * 1e6)
            await self._write_frame(stream, video.frames[number], pts_us)
            number = (number + 1) % len(video.frames)
            due = max(due + 1 / fps, trio.current_time())
            await trio.sleep_until(due)

    async def _write_frame(self, stream: Stream, frame: EncodedFrame, pts_us: int) -> None:
        await stream.write(encode_media(frame.data, major=self.options.major, pts_us=pts_us, key=frame.is_key))

    # -- control

    async def _take_control(self, stream: Stream) -> None:
        reader = ControlReader()
        try:
            while True:
                for message in reader.feed(await stream.read()):
                    match message:
                        case TouchMessage():
                            await self._touch(message)
                        case KeyMessage(action=0, keycode=code):
                            await self.handset.press(KEY_NAMES.get(code, str(code)))
                        case TextMessage(text=text, sequence=sequence):
                            await self.handset.type_text(text)
                            if sequence:
                                await stream.write(encode_acknowledgement(sequence))
                        case ResetVideo():
                            self._wants_key = True
                        case _:
                            pass
        finally:
            # a phone lifts the fingers of an input source that is gone
            with trio.CancelScope(shield=True):  # bounded: it waits for one drawing of the screen at most
                for finger in tuple(self._fingers.values()):
                    await self.handset.lift(finger)

    async def _touch(self, message: TouchMessage) -> None:
        phase = _PHASES.get(message.action)
        if (message.width, message.height) != self._size or phase is None:
            self.ignored_touches += 1
            return
        if phase is TouchPhase.DOWN and message.pointer not in self._fingers:
            taken = set(self._fingers.values())
            self._fingers[message.pointer] = next(n for n in range(len(taken) + 1) if n not in taken)
        finger = self._fingers.get(message.pointer)
        if finger is None:
            return
        geometry = self.handset.geometry
        x = min(max(message.x * geometry.width // message.width, 0), geometry.width - 1)
        y = min(max(message.y * geometry.height // message.height, 0), geometry.height - 1)
        if phase is TouchPhase.UP:
            del self._fingers[message.pointer]
        await self.handset.touch(phase, x, y, finger=finger)


def server_version(jar: bytes) -> str | None:
    """The version that a stand-in for the jar plays; None: any."""
    _, mark, rest = jar.partition(VERSION_MARK)
    return rest.split()[0].decode("ascii", "replace") if mark and rest.split() else None


async def _app_process(process: Process) -> int:
    handset = process.handset
    jar = handset.files.get(process.environ.get("CLASSPATH", ""))
    if process.arguments[1:2] != (SERVER_CLASS,) or jar is None:
        name = process.arguments[1] if len(process.arguments) > 1 else "?"
        await process.complain(f"java.lang.ClassNotFoundException: {name}\nAborted")
        return 134
    words = process.arguments[2:]
    version = server_version(jar.data)
    if version is not None and words[:1] != (version,):
        client = words[0] if words else "none"
        await process.complain(
            f"java.lang.IllegalArgumentException: The server version ({version}) does not match the client ({client})"
        )
        return 1
    try:
        options = parse_options(words)
    except ValueError as error:
        await process.complain(f"java.lang.IllegalArgumentException: {error}")
        return 1
    await process.print(f"[server] INFO: Device: [Corral] {handset.spec.model} (Android {handset.spec.android})")
    server = ScrcpyServer(handset, options)
    handset.scrcpy_servers.append(server)
    try:
        await server.run()
    finally:
        handset.scrcpy_servers.remove(server)
    return 0


SCRCPY_PROGRAMS: Mapping[str, Program] = {"app_process": _app_process}

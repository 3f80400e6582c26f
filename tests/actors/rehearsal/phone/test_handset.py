"""The inside of a simulated phone, without ADB."""

import trio

from actors.rehearsal.apps.base import TouchPhase
from actors.rehearsal.phone.handset import Handset
from actors.rehearsal.phone.process import Input, Write
from actors.rehearsal.phone.programs_input import swipe
from actors.rehearsal.phone.services import Shell
from policies.geometry import Geometry
from tests.kit.devices import PROBE_APPS, PROBE_PACKAGE, ProbeApp, probe_spec


def make_handset(*, app: str | None = "probe") -> Handset:
    return Handset(
        spec=probe_spec(app=app),
        apps=PROBE_APPS,
        clock=trio.current_time,
        boot_epoch=1_700_000_000.0,
        drawing=trio.CapacityLimiter(1),
    )


def probe_in(handset: Handset) -> ProbeApp:
    assert handset.front is not None
    assert isinstance(handset.front.app, ProbeApp)
    return handset.front.app


async def run(handset: Handset, script: str, stdin: bytes = b"") -> tuple[str, str, int]:
    out, err, parts = bytearray(), bytearray(), [stdin]

    def into(target: bytearray) -> Write:
        async def write(data: bytes | memoryview) -> None:
            target.extend(data)

        return write

    async def read() -> bytes:
        return parts.pop() if parts else b""

    code = await Shell(handset, Input(read), into(out), into(err)).run(script)
    return out.decode(), err.decode(), code


async def test_swipe_takes_its_time_and_always_lifts(autojump_clock: trio.testing.MockClock) -> None:
    handset = make_handset()
    await swipe(handset, (10, 20), (110, 220), 0.5)
    touches = [touch for _, touch in probe_in(handset).touches]

    assert touches[0].phase is TouchPhase.DOWN
    assert touches[-1].phase is TouchPhase.UP
    assert (touches[-1].x, touches[-1].y) == (110, 220)
    assert 29 <= len(touches) <= 33
    xs = [touch.x for touch in touches]
    assert xs == sorted(xs)

    with trio.move_on_after(0.25):
        await swipe(handset, (10, 20), (110, 220), 0.5)
    last = probe_in(handset).touches[-1][1]
    assert last.phase is TouchPhase.UP
    assert 50 <= last.x <= 70
    assert handset.finger is None


async def test_inconsistent_touches_do_not_reach_the_app() -> None:
    handset = make_handset()
    await handset.touch(TouchPhase.UP, 1, 1)
    await handset.touch(TouchPhase.MOVE, 2, 2)
    await handset.touch(TouchPhase.DOWN, 3, 3)
    await handset.touch(TouchPhase.DOWN, 4, 4)
    await handset.touch(TouchPhase.UP, 5, 5)

    seen = [(touch.phase.value, touch.x) for _, touch in probe_in(handset).touches]
    assert seen == [("down", 3), ("up", 3), ("down", 4), ("up", 5)]


async def test_a_tap_on_the_launchers_tile_starts_the_app() -> None:
    handset = make_handset(app=None)
    header, pixels = await handset.screencap_raw()
    assert len(pixels) == 360 * 640 * 4
    assert bytes(pixels[:4]) == bytes([24, 32, 44, 255])
    assert header[:8] == bytes([104, 1, 0, 0, 128, 2, 0, 0])

    await run(handset, "input tap 60 120")

    assert probe_in(handset).name == "probe"


async def test_an_app_behind_goes_on_where_it_was() -> None:
    handset = make_handset()
    probe = probe_in(handset)
    await handset.press("HOME")
    await run(handset, "input tap 300 600")
    assert handset.front is None
    assert not probe.touches
    assert await handset.start_app(PROBE_PACKAGE) is False
    assert probe_in(handset) is probe


async def test_size_and_density_can_be_overridden() -> None:
    handset = make_handset()
    assert await run(handset, "wm size 400x900; wm density 200; wm size; wm density") == (
        "Physical size: 360x640\nOverride size: 400x900\nPhysical density: 160\nOverride density: 200\n",
        "",
        0,
    )
    assert handset.geometry == Geometry(400, 900, density=200)
    assert (probe_in(handset).width, probe_in(handset).height) == (400, 900)
    await run(handset, "wm size reset && wm density reset")
    assert handset.geometry == Geometry(360, 640, density=160)
    assert (await run(handset, "wm size 1x1"))[2] == 1


async def test_scripts() -> None:
    handset = make_handset()

    assert await run(handset, "echo a; false && echo b || echo c; echo $?") == ("a\nc\n0\n", "", 0)
    assert await run(handset, "true; exit 3; echo never") == ("", "", 3)
    assert (await run(handset, "nope; echo $?"))[0] == "127\n"
    assert (await run(handset, "echo 'x"))[2] == 2
    assert await run(handset, "echo one > /sdcard/f; echo two >> /sdcard/f; cat /sdcard/f") == ("one\ntwo\n", "", 0)
    assert await run(handset, "cat", b"typed") == ("typed", "", 0)
    assert (await run(handset, "ls /sdcard; rm /sdcard/f; ls /sdcard/f"))[::2] == ("f\n", 1)
    assert (await run(handset, "dumpsys input | grep -c x; dumpsys window displays | grep -q DisplayFrames"))[2] == 0
    assert (await run(handset, "getprop | head -n 1"))[0] == "[ro.boot.serialno]: [PROBE0]\n"
    assert (await run(handset, "", b"echo typed\nexit 5\n"))[::2] == ("typed\n", 5)


async def test_package_manager() -> None:
    handset = make_handset()
    apk = b"package=com.x.y\nPK"
    assert (await run(handset, f"pm install -r -S {len(apk)}", apk))[0] == "Success\n"
    assert await run(handset, "pm list packages -3") == ("package:com.x.y\n", "", 0)
    assert (await run(handset, "pm path com.x.y"))[0] == "package:/data/app/com.x.y/base.apk\n"
    assert (await run(handset, "pm grant com.x.y android.permission.CAMERA"))[2] == 0
    package = handset.packages.find("com.x.y")
    assert package is not None
    assert package.granted == {"android.permission.CAMERA"}

    out, _, _ = await run(handset, "cmd package install-create -r -S 20")
    session = out[out.index("[") + 1 : out.index("]")]
    assert (await run(handset, f"pm install-write -S 20 {session} base.apk -", apk))[2] == 1
    assert (await run(handset, f"pm install-write -S 18 {session} base.apk -", apk))[2] == 0
    assert (await run(handset, f"pm install-commit {session}"))[0] == "Success\n"
    assert (await run(handset, f"pm install-commit {session}"))[2] == 1

    assert (await run(handset, f"pm clear {PROBE_PACKAGE}"))[0] == "Success\n"
    assert handset.front is None
    assert (await run(handset, "pm clear no.such"))[2] == 1
    assert (await run(handset, "pm uninstall com.x.y; pm uninstall com.x.y"))[2] == 1
    assert (await run(handset, "am start com.x.y/.Main"))[2] == 1


async def test_log_formats_and_limits(autojump_clock: trio.testing.MockClock) -> None:
    handset = make_handset()
    await trio.sleep(1.5)
    await run(handset, "input tap 100 100")

    assert (await run(handset, "logcat -d -v epoch"))[0].splitlines() == [
        "1700000001.500  2000  2000 I Probe   : down 100 100",
        "1700000001.500  2000  2000 I Probe   : up 100 100",
    ]
    assert (await run(handset, "logcat -d"))[0].startswith("11-14 22:13:21.500  2000")
    assert (await run(handset, "logcat -t 1 -v brief"))[0] == "I/Probe   ( 2000): up 100 100\n"
    assert len((await run(handset, "logcat -d -v epoch -T 1700000001.500"))[0].splitlines()) == 2
    assert (await run(handset, "logcat -d -v epoch -T 1700000001.501"))[0] == ""
    assert (await run(handset, "logcat -d -T yesterday"))[2] == 1
    assert (await run(handset, "logcat -d -s Other:V"))[0] == ""
    assert (await run(handset, "logcat -c; logcat -d"))[0] == ""

import stat
import sys
from pathlib import Path

import pytest

from actors.nvidia_smi import NoNvidiaSmi, query_gpu, query_gpus, query_topology, query_xids
from inference.gpu_state import Xid
from tests.kit.recorded import FOLDER


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that alone is searched for programs."""
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path


def put(folder: Path, name: str, code: str) -> None:
    file = folder / name
    file.write_text(f"#!{sys.executable} -IS\nimport sys\n{code}\n", "utf-8")
    file.chmod(file.stat().st_mode | stat.S_IXUSR)


async def test_gpus_and_their_links(tools: Path) -> None:
    code = f"""
name = "topo-8x5090.txt" if "topo" in sys.argv else "smi-1xL4.xml" if "-i" in sys.argv else "smi-8x5090.xml"
sys.stdout.write(open({str(FOLDER)!r} + "/" + name).read())
"""
    put(tools, "nvidia-smi", code)

    assert len(await query_gpus()) == 8
    assert len((await query_topology()).gpus) == 8
    one = await query_gpu(4)
    assert one is not None
    assert (one.index, one.product) == (4, "NVIDIA L4")


async def test_none(tools: Path) -> None:
    with pytest.raises(NoNvidiaSmi, match="there is no nvidia-smi on this host"):
        await query_gpus()
    assert await query_xids() is None


async def test_one_that_fails(tools: Path) -> None:
    put(tools, "nvidia-smi", "print('No devices were found'); sys.exit(6)")

    with pytest.raises(NoNvidiaSmi, match="ended with 6: No devices were found"):
        await query_gpus()


async def test_one_that_hangs(tools: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("actors.nvidia_smi.ANSWER_SECONDS", 0.3)
    put(tools, "nvidia-smi", "import time; time.sleep(60)")

    with pytest.raises(NoNvidiaSmi, match=r"did not answer within 0.3 s"):
        await query_gpus()


async def test_one_that_cannot_be_run(tools: Path) -> None:
    (tools / "nvidia-smi").write_text("#!/nowhere/at/all\n", "utf-8")
    (tools / "nvidia-smi").chmod(0o755)

    with pytest.raises(NoNvidiaSmi, match="cannot be run"):
        await query_gpus()


async def test_the_kernels_log(tools: Path) -> None:
    put(tools, "dmesg", "print('[    7.250000] NVRM: Xid (PCI:0000:41:00): 79, pid=1, GPU has fallen off the bus.')")
    assert await query_xids() == (Xid(7.25, "00000000:41:00.0", 79),)

    put(tools, "dmesg", "sys.exit('dmesg: read kernel buffer failed: Operation not permitted')")
    assert await query_xids() is None

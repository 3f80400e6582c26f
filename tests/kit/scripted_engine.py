"""A small program that is started as SGLang is: it prints its flags, reads its key, serves, and can misbehave."""

import json
import sys
from pathlib import Path

import attrs

from inference.config import EngineConfig, LaunchConfig, LaunchKind
from runtime.ids import EngineId

# What it does is told by SCRIPT, JSON in its environment:
#   lacks: [flags that its help leaves out]   refuses: {flag: value that it dies of}   grammar: false, it says nonsense
#   needs: {variable: value}, else it says nonsense   info: {settings of /server_info that differ}   child: true, one
_PROGRAM = r"""
import http.server, json, os, subprocess, sys
FLAGS = {flags}
script = json.loads(os.environ.get("SCRIPT", "{{}}"))
arguments = sys.argv[1:]
with open(os.environ["TRACE"], "a") as trace:
    trace.write(json.dumps({{"argv": arguments, "vit": os.environ.get("SGLANG_VIT_ENABLE_CUDA_GRAPH"),
                             "cards": os.environ.get("CUDA_VISIBLE_DEVICES")}}) + "\n")
if "--help" in arguments:
    print("usage: engine [-h]\n\noptions:\n  -h, --help            show this help message and exit")
    for flag in FLAGS:
        if flag not in script.get("lacks", []):
            print("  " + flag + " X\n                        what it does")
    sys.exit(script.get("help_exit", 0))
settings = dict(zip(arguments, arguments[1:] + [""]))
for flag, value in script.get("refuses", {{}}).items():
    if settings.get(flag) == value:
        sys.exit(f"RuntimeError: no kernel for {{flag}} {{value}}")
key = None
if "--config" in settings:
    with open(settings["--config"]) as config:
        key = json.loads(config.read().partition(": ")[2])
    print("mode", oct(os.stat(settings["--config"]).st_mode & 0o777), flush=True)
print("server_args={{'api_key':", repr(key), "}}", file=sys.stderr, flush=True)
if script.get("child"):
    stubborn = "import signal, time; signal.signal(15, signal.SIG_IGN); time.sleep(600)"
    child = subprocess.Popen([sys.executable, "-c", stubborn])
    print("child", child.pid, flush=True)
speaks = script.get("grammar", True) and all(os.environ.get(n) == v for n, v in script.get("needs", {{}}).items())
info = {{"version": "0.0.1", "kv_cache_dtype": settings.get("--kv-cache-dtype", "auto"), "disable_radix_cache": False,
        "chunked_prefill_size": int(settings.get("--chunked-prefill-size", 0)), "tp_size": 1,
        "max_total_num_tokens": 100000, **script.get("info", {{}})}}
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def log_message(self, *_): pass
    def answer(self, status, body, kind="application/json"):
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def allowed(self):
        if key is None or self.headers.get("Authorization") == "Bearer " + key:
            return True
        self.answer(401, b'{{"error": "Unauthorized"}}')
        return False
    def do_GET(self):
        if not self.allowed(): return
        loads = [{{"num_running_reqs": 0, "num_waiting_reqs": 0, "token_usage": 0.0}}]
        bodies = {{"/ping": {{}}, "/v1/loads": {{"loads": loads}}, "/server_info": info}}
        body = bodies.get(self.path)
        self.answer(404 if body is None else 200, json.dumps(body).encode())
    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))))
        if not self.allowed(): return
        if self.path != "/v1/chat/completions":
            return self.answer(200, b"")
        parts = [p["type"] for m in body["messages"] if isinstance(m["content"], list) for p in m["content"]]
        with open(os.environ["TRACE"], "a") as trace:
            trace.write(json.dumps({{"asked": body.get("regex"), "parts": parts, "text_only": not parts}}) + "\n")
        words = "T447,081" if speaks else "I would tap the square."
        events = [{{"choices": [{{"index": 0, "delta": {{"content": words}}, "finish_reason": None}}]}},
                  {{"choices": [{{"index": 0, "delta": {{}}, "finish_reason": "stop"}}]}},
                  {{"choices": [], "usage": {{"prompt_tokens": 70, "completion_tokens": 8}}}}]
        stream = "".join("data: " + json.dumps(e) + "\n\n" for e in events) + "data: [DONE]\n\n"
        self.answer(200, stream.encode(), "text/event-stream")
http.server.ThreadingHTTPServer((settings["--host"], int(settings["--port"])), Handler).serve_forever()
"""


@attrs.frozen
class ScriptedEngine:
    """The program in a folder, and what it was started with."""

    folder: Path

    @property
    def traces(self) -> list[dict[str, object]]:
        """One entry for each start, and for each prompt."""
        file = self.folder / "trace.jsonl"
        return [json.loads(line) for line in file.read_text("utf-8").splitlines()] if file.exists() else []

    @property
    def starts(self) -> list[dict[str, object]]:
        """Starts that were no question for help."""
        return [trace for trace in self.traces if "argv" in trace and "--help" not in str(trace["argv"])]

    def config(self, script: dict[str, object] | None = None, **launch: object) -> EngineConfig:
        """An engine that is this program; `launch` are fields of its launch section."""
        environment = {"SCRIPT": json.dumps(script or {}), "TRACE": str(self.folder / "trace.jsonl")}
        wants: dict[str, object] = {
            "kind": LaunchKind.SGLANG,
            "profile": "sglang-5090",
            "model_path": str(self.folder / "model"),
            "executable": (sys.executable, "-I", "-S", str(self.folder / "engine.py")),
            "environment": environment,
            "start_seconds": 60.0,
            "stop_grace_seconds": 2.0,
        }
        return EngineConfig(EngineId("scripted"), launch=LaunchConfig(**{**wants, **launch}), model="tiny")  # type: ignore[arg-type]


def write_scripted_engine(folder: Path, flags: tuple[str, ...]) -> ScriptedEngine:
    """Put the program into a folder; its help names these flags."""
    (folder / "engine.py").write_text(_PROGRAM.format(flags=repr(list(flags))), "utf-8")
    return ScriptedEngine(folder)

"""Prometheus metrics under SGLang's names, so that whatever watches a real engine can watch this one."""

import prometheus_client
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

_LABELS = ("model_name", "engine_type", "tp_rank", "pp_rank", "moe_ep_rank", "priority")


class EngineMetrics:
    """The numbers of one engine, in a registry of its own."""

    def __init__(self, model: str) -> None:
        self._registry = CollectorRegistry()
        values = (model, "unified", "0", "0", "0", "0")

        def gauge(name: str, what: str) -> Gauge:
            return Gauge(f"sglang:{name}", what, _LABELS, registry=self._registry).labels(*values)

        def counter(name: str, what: str) -> Counter:
            return Counter(f"sglang:{name}", what, _LABELS, registry=self._registry).labels(*values)

        def histogram(name: str, what: str) -> Histogram:
            return Histogram(f"sglang:{name}", what, _LABELS, registry=self._registry).labels(*values)

        self.running = gauge("num_running_reqs", "Requests that run.")
        self.queued = gauge("num_queue_reqs", "Requests that wait.")
        self.token_usage = gauge("token_usage", "Share of the memory that running requests hold.")
        self.used_tokens = gauge("num_used_tokens", "Tokens that running requests hold.")
        self.max_tokens = gauge("max_total_num_tokens", "Tokens that the memory holds.")
        self.cache_hit_rate = gauge("cache_hit_rate", "Share of the last prompt that was cached.")
        self.throughput = gauge("gen_throughput", "Output tokens a second of the running requests.")
        self.requests = counter("num_requests", "Requests that ended.")
        self.aborted = counter("num_aborted_requests", "Requests that were aborted.")
        self.prompt_tokens = counter("prompt_tokens", "Prompt tokens.")
        self.cached_tokens = counter("cached_tokens", "Prompt tokens that were cached.")
        self.generation_tokens = counter("generation_tokens", "Output tokens.")
        self.queue_seconds = histogram("queue_time_seconds", "Time in the queue.")
        self.first_token_seconds = histogram("time_to_first_token_seconds", "Time to the first token.")
        self._model = model
        self._vision: tuple[Counter, Counter] | None = None
        self.end_to_end_seconds = histogram("e2e_request_latency_seconds", "Time from request to answer.")

    def count_pictures(self, looked_up: int, found: int) -> None:
        """Count look-ups in the vision cache, under vLLM's names: SGLang has none for them."""
        if self._vision is None:
            labels = ("model_name", "engine")
            queries = Counter("vllm:mm_cache_queries", "Pictures looked up.", labels, registry=self._registry)
            hits = Counter("vllm:mm_cache_hits", "Pictures found.", labels, registry=self._registry)
            self._vision = (queries.labels(self._model, "0"), hits.labels(self._model, "0"))
        self._vision[0].inc(looked_up)
        self._vision[1].inc(found)

    def render(self) -> bytes:
        """Prometheus text format."""
        return prometheus_client.generate_latest(self._registry)

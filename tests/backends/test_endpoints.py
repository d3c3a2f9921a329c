"""Several servers behind one spec: who gets a call, who is taken out, who comes back."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

import loopback as wire
from clocks import now, run_jumping
from interleave.backends.protocols import ImageGenerator, ImageRequest, Message, Sampling
from interleave.backends.registry import load_generator, load_vlm
from interleave.backends.retries import RetriedGenerator, RetriedVlm
from interleave.errors import BackendError, ConfigurationError, Failure
from interleave.remote.endpoints import ESTIMATE_SECONDS, EndpointPool, read_endpoints
from interleave.remote.http_generator import HttpGenerator
from interleave.types import Text
from loopback import Loopback, free_port
from work import HANGS_AFTER


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("interleave.backends.retries.random.uniform", lambda low, high: 0.02)


@pytest.fixture
def four() -> Iterator[list[Loopback]]:
    servers = [Loopback() for _ in range(4)]
    yield servers
    for server in servers:
        server.stop()


def at(servers: list[Loopback], options: str = "probe=0.05&timeout=600&concurrency=64") -> ImageGenerator:
    return load_generator(",".join(server.url for server in servers) + f"?{options}")


async def draw_many(generator: ImageGenerator, count: int) -> list[BaseException]:
    """So many images at once, under the retry policy; returns what failed in the end."""
    retried = RetriedGenerator("the generator", generator)
    ended = await asyncio.gather(
        *(retried.generate(ImageRequest(f"cat {number}", number)) for number in range(count)),
        return_exceptions=True,
    )
    return [each for each in ended if isinstance(each, BaseException)]


async def until(true: Callable[[], bool]) -> None:
    """Wait for what must come, on a busy machine too."""
    async with asyncio.timeout(HANGS_AFTER):
        while not true():
            await asyncio.sleep(0.01)


def is_down(generator: ImageGenerator, number: int) -> bool:
    assert isinstance(generator, HttpGenerator)
    return generator.pool.endpoints[number].down


def test_calls_go_to_the_server_with_the_fewest_in_flight(four: list[Loopback]) -> None:
    async def story() -> None:
        for server in four:
            server.free.clear()
        drawing = asyncio.create_task(draw_many(at(four), 40))
        await until(lambda: sum(server.in_flight for server in four) == 40)
        for server in four:
            server.free.set()
        assert not await drawing

    asyncio.run(story())
    assert [len(server.of("/edit")) for server in four] == [10] * 4
    assert [server.most_in_flight for server in four] == [10] * 4


class Paces:
    """Servers of which each takes its own time for a call, on a clock that jumps over it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *seconds: float) -> None:
        monkeypatch.setattr("interleave.remote.endpoints.time", SimpleNamespace(monotonic=now))
        self.seconds = {f"http://{number}": each for number, each in enumerate(seconds)}
        self.asked: Counter[str] = Counter()
        self.pool = EndpointPool(list(self.seconds), self.is_healthy, probe_seconds=5)

    async def is_healthy(self, url: str) -> bool:
        return True

    async def call(self) -> None:
        async with self.pool.acquire(wait_seconds=300) as endpoint:
            self.asked[endpoint.url] += 1
            await asyncio.sleep(self.seconds[endpoint.url])

    async def calls(self, count: int, *, at_once: int) -> None:
        work = iter(range(count))

        async def worker() -> None:
            for _ in work:
                await self.call()

        await asyncio.gather(*(worker() for _ in range(at_once)))


def test_C13_a_slow_server_gets_less_and_holds_nobody_up(monkeypatch: pytest.MonkeyPatch) -> None:
    servers = Paces(monkeypatch, 4.0, 0.2, 0.2, 0.2)

    async def story() -> float:
        await servers.calls(60, at_once=8)
        return now()

    seconds = run_jumping(story())
    slow, *others = (servers.asked[url] for url in servers.seconds)
    assert slow * 3 < min(others), servers.asked
    assert seconds < 60 * 0.2 / 3 * 2 + 4, "the others waited for the slow one"


def test_C13_a_lost_connection_costs_a_moment_and_a_server_that_loses_each_rests_longer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    servers = Paces(monkeypatch, 0.0)
    lost = BackendError("lost", transient=True, kind=Failure.UNREACHABLE)

    async def waits(fails: bool) -> float:
        """How long a call waits for the server."""
        asked_at = now()
        try:
            async with servers.pool.acquire(wait_seconds=300):
                waited = now() - asked_at
                if fails:
                    raise lost
        except BackendError:
            pass
        return waited

    async def story() -> list[float]:
        await servers.call()
        return [await waits(fails) for fails in (True, True, True, True, False, True, False)]

    waited = run_jumping(story())
    assert waited == pytest.approx([0, 0.2, 0.4, 0.8, 1.6, 0, 0.2], abs=0.01)


def test_C13_a_server_that_was_slow_once_is_not_left_alone_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    servers = Paces(monkeypatch, 30.0, 0.2, 0.2, 0.2)
    slow = next(iter(servers.seconds))

    async def story() -> None:
        await servers.calls(24, at_once=1)
        assert (asked := servers.asked[slow]) <= 4
        servers.seconds[slow] = 0.2
        await servers.calls(24, at_once=1)
        assert servers.asked[slow] == asked
        await asyncio.sleep(ESTIMATE_SECONDS)
        await servers.calls(24, at_once=1)
        assert servers.asked[slow] > asked

    run_jumping(story())


@pytest.mark.usefixtures("impatient")
def test_C13_a_dead_server_is_taken_out_and_comes_back(four: list[Loopback]) -> None:
    async def story() -> None:
        generator = at(four)
        four[0].fault = lambda number, asked: wire.reset
        assert not await draw_many(generator, 40)
        tried_while_dead = len(four[0].of("/edit"))
        assert tried_while_dead <= 12, "it was asked again and again"
        await until(lambda: bool(four[0].of("/health")))
        assert four[0].of("/health"), "nobody asked whether it is back"
        four[0].fault = lambda number, asked: None
        await until(lambda: not is_down(generator, 0))
        assert not await draw_many(generator, 40)
        assert len(four[0].of("/edit")) > tried_while_dead + 4, "it never came back"

    asyncio.run(story())


@pytest.mark.usefixtures("impatient")
def test_C13_a_server_that_sends_rubbish_is_taken_out_after_two(four: list[Loopback]) -> None:
    four[0].mood = "no image"
    four[0].healthy = False

    async def one_after_another() -> None:
        generator = RetriedGenerator("the generator", at(four))
        for number in range(16):
            await generator.generate(ImageRequest(f"cat {number}", number))

    asyncio.run(one_after_another())
    assert len(four[0].of("/edit")) == 2


@pytest.mark.usefixtures("impatient")
def test_C17_a_server_whose_worker_died_stays_out_until_it_says_it_is_ready(four: list[Loopback]) -> None:
    async def story() -> None:
        generator = at(four)
        four[0].fault = lambda number, asked: wire.status(500) if asked.path == "/edit" else None
        four[0].health = {"status": "Healthy", "gpu_manager_ready": False}
        assert not await draw_many(generator, 24)
        tried = len(four[0].of("/edit"))
        four[0].fault = lambda number, asked: None
        asked_before = len(four[0].of("/health"))
        await until(lambda: len(four[0].of("/health")) > asked_before + 1)
        assert not await draw_many(generator, 24)
        assert len(four[0].of("/edit")) == tried
        four[0].health = {"status": "Healthy", "gpu_manager_ready": True}
        await until(lambda: not is_down(generator, 0))
        assert not await draw_many(generator, 24)
        assert len(four[0].of("/edit")) > tried

    asyncio.run(story())


def test_C12_while_all_are_down_calls_wait_and_go_on_by_themselves(
    four: list[Loopback], caplog: pytest.LogCaptureFixture
) -> None:
    async def story() -> None:
        generator = at(four)
        await generator.generate(ImageRequest("a cat", 1))
        for server in four:
            server.fault = lambda number, asked: wire.reset
        waiting = asyncio.create_task(draw_many(generator, 12))
        await until(lambda: "waiting for one to recover" in caplog.text)
        await until(lambda: all(len(server.of("/health")) > 1 for server in four))
        assert not waiting.done()
        edits = Counter(asked.path for server in four for asked in server.asked)["/edit"]
        assert edits <= 1 + 12 * 3, "an outage was answered with a storm"
        for server in four:
            server.fault = lambda number, asked: None
        assert not await asyncio.wait_for(waiting, HANGS_AFTER)

    asyncio.run(story())
    assert "is back" in caplog.text


def test_an_address_where_nobody_ever_answered_is_said_at_once() -> None:
    generator = load_generator(f"http://127.0.0.1:{free_port()}?timeout=600")
    for _ in range(2):
        with pytest.raises(BackendError, match="cannot be reached") as failure:
            asyncio.run(asyncio.wait_for(generator.generate(ImageRequest("a cat", 1)), HANGS_AFTER))
        assert failure.value.kind is Failure.UNREACHABLE


def test_C18_a_full_queue_is_no_reason_to_take_a_server_out(four: list[Loopback]) -> None:
    async def story() -> None:
        generator = at(four[:1])
        four[0].fault = lambda number, asked: wire.status(429, Retry_After="0") if number <= 4 else None
        assert not await draw_many(generator, 3)
        assert not four[0].of("/health")

    asyncio.run(story())


def test_a_backend_lives_through_several_event_loops(four: list[Loopback]) -> None:
    generator = at(four)
    for _ in range(3):
        assert not asyncio.run(draw_many(generator, 8))


def test_a_file_of_endpoints_is_read(four: list[Loopback]) -> None:
    lines = ["# our servers", four[0].url, "", f"127.0.0.1:{four[1].port}  # the second", four[0].url + "/"]
    Path("servers.txt").write_text("\n".join(lines), "utf-8")
    assert read_endpoints(Path("servers.txt"), 8011) == [four[0].url, four[1].url]
    assert not asyncio.run(draw_many(load_generator("http:./servers.txt"), 8))
    assert four[0].of("/edit") and four[1].of("/edit")


def test_a_bare_host_in_a_file_gets_the_port_of_the_services() -> None:
    Path("ip.txt").write_text("10.0.0.7\n10.0.0.8\n", "utf-8")
    assert read_endpoints(Path("ip.txt"), 8007) == ["http://10.0.0.7:8007", "http://10.0.0.8:8007"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "names no server"),
        ("# nothing\n", "names no server"),
        ("http://user:secret@host:8011", "not an address"),
        ("not a host", "not an address"),
        ("host:port", "not an address"),
        ("ftp://host", "not an address"),
    ],
)
def test_a_bad_file_of_endpoints_is_refused(text: str, says: str) -> None:
    Path("ip.txt").write_text(text, "utf-8")
    with pytest.raises(ConfigurationError, match=says) as refusal:
        load_generator("http:./ip.txt")
    assert "secret" not in str(refusal.value)


def test_a_file_of_endpoints_is_read_again_when_it_changes(four: list[Loopback]) -> None:
    """A server that leaves the file ends what it has begun and gets no more; a new one gets calls at once."""
    Path("servers.txt").write_text(f"{four[0].url}\n")
    generator = load_generator("http:./servers.txt")
    assert isinstance(generator, HttpGenerator) and generator.pool.file is not None
    file = generator.pool.file

    async def story() -> None:
        four[0].free.clear()
        leaving = asyncio.create_task(draw_many(generator, 2))
        await until(lambda: four[0].in_flight == 2)
        Path("servers.txt").write_text(f"{four[1].url}\n{four[2].url}\n")
        file._looked = -1e9
        assert not await draw_many(generator, 4)
        four[0].free.set()
        assert not await leaving

    asyncio.run(story())
    assert [len(server.of("/edit")) for server in four] == [2, 2, 2, 0]


def test_a_file_of_endpoints_that_is_gone_or_broken_changes_nothing(four: list[Loopback]) -> None:
    Path("servers.txt").write_text(f"{four[0].url}\n")
    generator = load_generator("http:./servers.txt")
    assert isinstance(generator, HttpGenerator) and generator.pool.file is not None
    for text in (None, "http://user@host:1\n"):
        Path("servers.txt").unlink() if text is None else Path("servers.txt").write_text(text)
        generator.pool.file._looked = -1e9
        assert not asyncio.run(draw_many(generator, 1))
    assert len(four[0].of("/edit")) == 2


def test_while_a_file_names_no_server_calls_wait_for_one(
    four: list[Loopback], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("interleave.remote.endpoints.LOOK_SECONDS", 0.01)
    Path("servers.txt").write_text(f"{four[0].url}\n")
    generator = load_generator("http:./servers.txt")

    async def story() -> None:
        Path("servers.txt").write_text("# all are being replaced\n")
        await asyncio.sleep(0.02)
        drawing = asyncio.create_task(draw_many(generator, 2))
        await asyncio.sleep(0.1)
        Path("servers.txt").write_text(f"{four[1].url}\n")
        assert not await drawing

    asyncio.run(story())
    assert [len(server.of("/edit")) for server in four] == [0, 2, 0, 0]


def test_a_server_far_slower_than_the_others_rests(monkeypatch: pytest.MonkeyPatch) -> None:
    """After its first calls it gets none, however many are in flight; later it is tried again."""
    servers = Paces(monkeypatch, 8.0, 0.2, 0.2, 0.2)
    slow = next(iter(servers.seconds))

    async def story() -> None:
        await servers.calls(40, at_once=4)
        await asyncio.sleep(8.0)
        asked = servers.asked[slow]
        await servers.calls(400, at_once=64)
        assert servers.asked[slow] == asked, "with many in flight the slow one would be the next"
        servers.seconds[slow] = 0.2
        await asyncio.sleep(ESTIMATE_SECONDS)
        await servers.calls(40, at_once=4)
        assert servers.asked[slow] > asked

    run_jumping(story())


def test_a_server_that_is_about_to_stop_gets_no_calls_while_others_have_room(
    four: list[Loopback], impatient: None
) -> None:
    four[0].fails_with(wire.status(503, Retry_After="30"))
    assert not asyncio.run(draw_many(at(four), 40))
    assert len(four[0].of("/edit")) <= 10, "those that were on their way together"


def test_several_servers_of_one_vision_language_model_share_its_calls(
    four: list[Loopback], impatient: None
) -> None:
    """As with vLLM or SGLang on several machines: when one is gone, the others answer."""
    urls = ",".join(f"{server.url}/v1" for server in four[:3])
    vlm = load_vlm(f"openai:m@{urls}?concurrency=64", "critic")
    retried = RetriedVlm("the critic", vlm)
    asked = [Message("user", (Text("hello"),))]

    async def story() -> list[str]:
        replies = [await retried.complete(asked, Sampling()) for _ in range(6)]
        four[0].stop()
        replies += [await retried.complete(asked, Sampling()) for _ in range(6)]
        return [reply.text for reply in replies]

    assert len(set(asyncio.run(story()))) == 1
    made = [len(server.of("/chat/completions")) for server in four]
    assert all(made[:3]) and sum(made) == 12, made

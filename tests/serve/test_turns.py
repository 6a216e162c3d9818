"""Which key has the next turn, by a clock that only the tests move."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import pytest

from pipeline.serve import queries as queries_module
from pipeline.serve.failures import failure_of
from pipeline.serve.queries import Queries, TooManyError
from pipeline.serve.turns import AGING, MEAN_LIFE, Claim, Turn, Turns
from pipeline.serve.usage import HALF_LIFE, NEGLIGIBLE, SWEPT_AFTER, Measured, Usage
from pipeline.settings.schema import ServeSettings


@dataclass
class Clock:
    now: float = 0.0

    def __call__(self) -> float:
        return self.now


@dataclass
class Server:
    """Places in which requests take as long as their keys' costs say."""

    places: int
    costs: dict[str, float]
    share: int | None = None
    clock: Clock = field(default_factory=Clock)
    served: list[str] = field(default_factory=list)
    spent: Counter[str] = field(default_factory=Counter)
    waiting: set[asyncio.Task[None]] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.turns = Turns(self.places, self.share, Usage(self.clock))
        self.running: list[tuple[float, Turn]] = []

    async def ask(self, key: str, times: int = 1, most: int = 100) -> None:
        for _ in range(times):
            self.waiting.add(asyncio.create_task(self._run(Claim(key, most))))
        await self.settle()

    async def end_one(self) -> str:
        """Move the clock to the end of the request that ends first, and return its key."""
        ends = min(self.running, key=lambda one: one[0])
        self.running.remove(ends)
        self.clock.now, turn = ends
        self.spent[turn.key] += self.costs[turn.key]
        self.turns.give_back_share(turn.key)
        self.turns.give_back_place(turn)
        await self.settle()
        return turn.key

    async def settle(self) -> None:
        for _ in range(3):
            await asyncio.sleep(0)

    async def close(self) -> None:
        for task in self.waiting:
            task.cancel()
        await asyncio.gather(*self.waiting, return_exceptions=True)

    async def _run(self, claim: Claim) -> None:
        turn = await self.turns.take(claim)
        self.served.append(claim.key)
        self.running.append((self.clock.now + self.costs[claim.key], turn))


def run(scenario: Callable[[Server], Awaitable[None]], server: Server) -> Server:
    async def whole() -> None:
        await scenario(server)
        await server.close()

    asyncio.run(whole())
    return server


def test_keys_that_use_the_same_take_turns():
    async def scenario(server: Server) -> None:
        await server.ask("a", 5)
        await server.ask("b", 2)
        await server.ask("c")
        while server.running:
            await server.end_one()

    served = run(scenario, Server(1, {"a": 1, "b": 1, "c": 1})).served
    assert served == ["a", "b", "c", "a", "b", "a", "a", "a"]


def test_a_key_that_used_100_times_more_waits_behind_all_others():
    async def scenario(server: Server) -> None:
        await server.ask("heavy", 3)
        await server.end_one()
        await server.ask("light", 20)
        await server.ask("other", 20)
        while server.running:
            await server.end_one()

    served = run(scenario, Server(1, {"heavy": 10.0, "light": 0.1, "other": 0.1})).served
    # Its second request runs already when the others arrive.
    assert served[:2] == ["heavy", "heavy"]
    assert served[2:42].count("heavy") == 0
    assert served[42:] == ["heavy"]


@pytest.mark.parametrize("places", [1, 4, 16])
def test_keys_get_equal_times_whatever_their_requests_cost(places: int):
    async def scenario(server: Server) -> None:
        for key in server.costs:
            await server.ask(key, places + 4)
        for _ in range(6000):
            await server.ask(await server.end_one())

    share = -(-places // 4)
    costs = {"heavy": 0.6, "a": 0.1, "b": 0.1, "c": 0.1}
    spent = run(scenario, Server(places, costs, share)).spent
    assert max(spent.values()) < 1.1 * min(spent.values())


def test_a_key_alone_has_a_turn_at_once_however_much_it_used():
    async def scenario(server: Server) -> None:
        for _ in range(50):
            await server.ask("alone", 12)
            assert server.turns.waiting == 0
            while server.running:
                await server.end_one()

    server = run(scenario, Server(16, {"alone": 5.0}, share=4))
    assert server.served == ["alone"] * 600
    assert server.clock.now == 250


def test_a_key_alone_leaves_a_share_free_for_one_that_comes():
    async def scenario(server: Server) -> None:
        await server.ask("alone", 20)
        assert server.served == ["alone"] * 12
        await server.ask("new", 4)
        assert server.served[12:] == ["new"] * 4

    run(scenario, Server(16, {"alone": 1.0, "new": 100.0}, share=4))


def test_no_key_starves_while_new_ones_keep_coming():
    async def scenario(server: Server) -> None:
        server.costs |= {f"new {number}": 0.1 for number in range(1000)}
        await server.ask("heavy", 2)
        await server.end_one()
        await server.end_one()
        await server.ask("new 0", 1)
        await server.ask("heavy", 1)
        for number in range(1, 1000):
            await server.ask(f"new {number}", 2)
            await server.end_one()
            if "heavy" in server.served[2:]:
                return

    server = run(scenario, Server(1, {"heavy": 30.0}))
    assert server.served[-1] == "heavy"
    assert server.clock.now - 60 < 60 / AGING


def test_what_runs_counts_before_it_has_ended():
    """A key whose queries are known to take long gets one place of several, not all of them."""

    async def scenario(server: Server) -> None:
        await server.ask("heavy")
        await server.end_one()
        server.clock.now += 10 * HALF_LIFE
        await server.ask("light", 4)
        await server.ask("heavy", 4)
        await server.ask("light", 8)
        server.served.clear()
        for _ in range(4):
            await server.end_one()
        assert server.served == ["heavy", "light", "light", "light"]

    run(scenario, Server(4, {"heavy": 5.0, "light": 0.1}))


def test_work_that_was_given_up_counts_until_its_thread_is_free():
    clock = Clock()

    async def give_up() -> None:
        turns = Turns(1, usage=Usage(clock))
        turn = await turns.take(Claim("a", 1))
        turns.give_back_share("a")  # nobody waits for the answer any more
        clock.now = 3.0
        assert turns.used("a") == 3.0
        turns.give_back_place(turn)
        assert turns.used("a") == 3.0
        assert not turns.running

    asyncio.run(give_up())


def test_a_request_that_is_given_up_while_it_waits_costs_no_place():
    async def scenario(server: Server) -> None:
        await server.ask("a")
        await server.ask("b", 3)
        for task in list(server.waiting):
            if not task.done():
                task.cancel()
        await server.settle()
        assert server.turns.waiting == 0
        assert server.turns.used("b") == 0
        await server.end_one()
        assert server.served == ["a"]

    run(scenario, Server(1, {"a": 1.0, "b": 1.0}))


def test_time_of_the_event_loop_counts_for_each_place_that_it_stops():
    async def scenario(server: Server) -> None:
        await server.ask("a", 3)
        server.turns.count_loop("b", 0.5)
        assert server.turns.used("b") == 1.5

    run(scenario, Server(4, {"a": 1.0}))


def test_work_of_the_event_loop_is_part_of_the_share_of_a_key():
    async def scenario(server: Server) -> None:
        server.turns.count_loop("heavy", 2.5 * MEAN_LIFE)
        for key in ("a", "b", "c", "heavy"):
            await server.ask(key, 8, most=4)
        assert server.turns.held == {"a": 4, "b": 4, "c": 4, "heavy": 2}
        # The work is forgotten before the first of the requests ends.
        await server.end_one()
        assert server.turns.held["heavy"] == 4

    run(scenario, Server(16, {"a": 1000.0, "b": 1000.0, "c": 1000.0, "heavy": 100.0}, share=4))


def test_a_key_has_a_place_however_much_the_event_loop_did_for_it():
    async def scenario(server: Server) -> None:
        server.turns.count_loop("heavy", 1000.0)
        await server.ask("heavy", 2, most=4)
        assert server.served == ["heavy"]

    run(scenario, Server(4, {"heavy": 1.0}, share=4))


def test_use_is_forgotten_by_half_in_a_half_life():
    clock = Clock()
    usage = Usage(clock)
    usage.add("a", 8.0)
    clock.now = 2 * HALF_LIFE
    assert usage.seconds("a") == pytest.approx(2.0)
    assert usage.seconds("nobody") == 0
    for number in range(SWEPT_AFTER):
        usage.add(str(number), NEGLIGIBLE / 2)
    assert len(usage.of_keys) <= SWEPT_AFTER
    assert usage.seconds("a") == pytest.approx(2.0)


def test_only_steps_of_a_coroutine_are_measured():
    clock = Clock()

    async def work() -> None:
        clock.now += 1
        try:
            await asyncio.sleep(0)
            clock.now += 2
            await asyncio.get_running_loop().create_future()
        finally:
            clock.now += 4

    async def whole() -> None:
        measured = Measured(work(), clock)
        task = asyncio.ensure_future(measured)
        await asyncio.sleep(0)
        clock.now += 100
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert measured.seconds == 7

    asyncio.run(whole())


def test_a_key_may_have_half_of_the_queries_that_may_wait(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(queries_module, "REFUSED_SECONDS", 0.0)

    async def ask() -> None:
        queries = Queries(ServeSettings(concurrency=1, waiting=4))
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()

        def work() -> None:
            asyncio.run_coroutine_threadsafe(stop.wait(), loop).result()

        asked = [asyncio.create_task(queries.run(work, Claim("a", 1))) for _ in range(3)]
        await asyncio.sleep(0)
        with pytest.raises(TooManyError):
            await queries.run(work, Claim("a", 1))
        other = asyncio.create_task(queries.run(work, Claim("b", 1)))
        await asyncio.sleep(0)
        assert queries.waiting == 3
        stop.set()
        await asyncio.gather(*asked, other)
        await queries.close()

    asyncio.run(ask())


def test_the_refusal_of_too_many_says_when_to_ask_again():
    failure = failure_of(TooManyError(), sees_internals=False)
    assert (failure.status, failure.type) == (429, "too_many_waiting")
    assert failure.headers["Retry-After"] == "5"
    assert "as many of your queries" in failure.message


def test_the_waiting_queries_of_a_key_are_not_those_of_others():
    async def ask() -> None:
        queries = Queries(ServeSettings(concurrency=1, waiting=4))
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()

        def work() -> None:
            asyncio.run_coroutine_threadsafe(stop.wait(), loop).result()

        asked = [asyncio.create_task(queries.run(work, Claim("a", 1))) for _ in range(2)]
        await asyncio.sleep(0)
        assert queries.waiting == 1
        assert not queries.others_wait("a")
        assert queries.others_wait("b")
        asked.append(asyncio.create_task(queries.run(work, Claim("b", 1))))
        await asyncio.sleep(0)
        assert queries.others_wait("a")
        stop.set()
        await asyncio.gather(*asked)
        assert not queries.others_wait("a")
        await queries.close()

    asyncio.run(ask())

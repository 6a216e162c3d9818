import threading
from concurrent.futures import ThreadPoolExecutor

from pipeline.models.conversations import made_once, made_once_each

THREADS = 8


class Shared:
    def __init__(self) -> None:
        self.made: list[str] = []
        self.asking = threading.Barrier(THREADS)

    @made_once
    def one(self) -> object:
        return self.make("one")

    @made_once
    def two(self) -> object:
        """Which is made of another."""
        return (self.one, self.make("two"))

    def make(self, name: str) -> object:
        self.made.append(name)
        threading.Event().wait(0.05)  # long enough for the others to ask meanwhile
        return object()

    def ask(self) -> object:
        self.asking.wait()
        return self.two


def test_a_property_is_made_once_by_several_threads():
    shared = Shared()
    with ThreadPoolExecutor(THREADS) as pool:
        found = [future.result() for future in [pool.submit(shared.ask) for _ in range(THREADS)]]
    assert shared.made == ["one", "two"]
    assert all(thing is found[0] for thing in found)


def test_each_name_is_made_once_by_several_threads():
    shared = Shared()
    of = made_once_each(shared.make)

    def ask(number: int) -> object:
        shared.asking.wait()
        return of(f"{number % 2}")

    with ThreadPoolExecutor(THREADS) as pool:
        found = [
            future.result() for future in [pool.submit(ask, number) for number in range(THREADS)]
        ]
    assert sorted(shared.made) == ["0", "1"]
    assert len(set(map(id, found))) == 2

"""Explores the schedules of actors that run real code: every choice within bounds, each from a fresh start.

An actor is a thread that acts only when it is chosen; it stops before each call of a port. By default an actor goes on
until it waits or ends. A schedule deviates from that by preemptions and crashes, of which it may use few: most defects
of concurrent programs need one or two (Musuvathi and Qadeer, "Iterative context bounding", 2007). A state that was
reached before with as many deviations left isn't walked again.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

Body = Callable[["Actor"], None]
GO, CRASH = "goes on", "crashes"
LONGEST = 5_000  # steps of one schedule: a schedule that takes more goes round in circles


class Killed(BaseException):
    """kill -9: no handler for errors may see it and go on."""


@dataclass(frozen=True, order=True)
class Choice:
    """What happens next: an actor makes its pending call, or crashes before it."""

    actor: str
    what: str = GO


@dataclass(frozen=True)
class Bounds:
    """The deviations that a schedule may use."""

    preemptions: int = 1
    crashes: int = 0

    def covers(self, other: Bounds) -> bool:
        return self.preemptions >= other.preemptions and self.crashes >= other.crashes

    def after(self, choice: Choice, free: bool) -> Bounds | None:
        """What is left after a choice; None where nothing is left for it. `free`: the choice preempts no actor."""
        crashes = self.crashes - (choice.what == CRASH)
        preemptions = self.preemptions - (choice.what == GO and not free)
        return None if crashes < 0 or preemptions < 0 else Bounds(preemptions, crashes)


class World(Protocol):
    """What actors act on. Made anew for each schedule."""

    def actors(self) -> list[tuple[str, Body]]:
        """The actors at the start, in the order in which they act by default."""
        ...

    def fingerprint(self) -> int:
        """A hash of all state outside of the actors."""
        ...

    def crashed(self, actor: str) -> None:
        """Note that an actor died."""
        ...

    def complete(self) -> None:
        """Let everything go on without trouble once all actors have ended, and check the end. Raises AssertionError."""
        ...


class Actor:
    """A thread of real code. Its calls of ports go through `step`."""

    def __init__(self, name: str, body: Body, turn: threading.Semaphore) -> None:
        self.name = name
        self.pending = "begins"
        self.waits = False
        self.done = False
        self.error: BaseException | None = None
        self.history = hash(name)
        self._dead = False
        self._turn = turn
        self._chosen = threading.Semaphore(0)
        self._thread = threading.Thread(target=self._run, args=(body,), name=name, daemon=True)
        self._thread.start()

    def step(self, label: str, call: Callable[[], Any], *, waits: bool = False) -> Any:
        """Make a call once the schedule chooses this actor. `waits`: others go first."""
        self._pause(label, waits)
        try:
            answer = call()
        except Exception as error:
            self.history = hash((self.history, label, str(error)))
            raise
        self.history = hash((self.history, label, repr(answer)))
        return answer

    def go(self) -> None:
        """Let the actor make its pending call and run up to its next one. Called by the explorer."""
        self._chosen.release()
        self._turn.acquire()

    def kill(self) -> None:
        """End the actor before its pending call. Called by the explorer."""
        self._dead = True
        while not self.done:
            self.go()
        self._thread.join()

    def _pause(self, label: str, waits: bool) -> None:
        if self._dead:
            raise Killed(label)
        self.pending, self.waits = label, waits
        self._turn.release()
        self._chosen.acquire()
        self.waits = False
        if self._dead:
            raise Killed(label)

    def _run(self, body: Body) -> None:
        self._chosen.acquire()
        try:
            if not self._dead:
                body(self)
        except Killed:
            pass
        except BaseException as error:
            self.error = error
        self.done = True
        self._turn.release()


@dataclass
class Explored:
    """What an exploration saw. `failure` is the first schedule that broke a property, as readable steps."""

    states: int = 0
    schedules: int = 0
    steps: int = 0
    failure: str | None = None
    trace: list[str] = field(default_factory=list)


class Stage:
    """One schedule in progress: the world and its actors."""

    def __init__(self, make_world: Callable[[Stage], World]) -> None:
        self._turn = threading.Semaphore(0)
        self._actors: dict[str, Actor] = {}
        self._crashed: set[str] = set()
        self.world = make_world(self)
        for name, body in self.world.actors():
            self.enter(name, body)
        self.current: str | None = None

    def enter(self, name: str, body: Body) -> None:
        """Add an actor; it begins when it is chosen."""
        self._actors[name] = Actor(name, body, self._turn)

    def ready(self) -> list[Actor]:
        return [actor for actor in self._actors.values() if not actor.done]

    def default(self) -> Actor | None:
        """The actor that goes on: the current one, else the first that doesn't wait, else the first."""
        ready = self.ready()
        acting = [actor for actor in ready if not actor.waits]
        return next((actor for actor in acting if actor.name == self.current), next(iter(acting or ready), None))

    def take(self, choice: Choice) -> str:
        """Do what was chosen; returns it in words. Raises what an actor raised."""
        actor = self._actors[choice.actor]
        words = (
            f"{actor.name}: {actor.pending}" if choice.what == GO else f"{actor.name} crashes before {actor.pending}"
        )
        if choice.what == CRASH:
            self._crashed.add(actor.name)
            actor.kill()
            self.world.crashed(actor.name)
        else:
            self.current = actor.name
            actor.go()
        if actor.error is not None:
            raise actor.error
        return words

    def fingerprint(self) -> int:
        actors = [(name, actor.history, actor.done) for name, actor in self._actors.items()]
        return hash((self.world.fingerprint(), self.current, tuple(sorted(self._crashed)), tuple(actors)))

    def close(self) -> None:
        for actor in self.ready():
            actor.kill()


def explore(make_world: Callable[[Stage], World], bounds: Bounds, *, most_schedules: int = 100_000) -> Explored:
    """Run every schedule within the bounds, up to `most_schedules`; stops at the first failure."""
    seen = Explored()
    reached: dict[int, list[Bounds]] = {}
    # In the order found, so that a failure has the fewest deviations.
    waiting = deque[tuple[tuple[Choice, ...], Bounds]]([((), bounds)])
    while waiting and seen.failure is None and seen.schedules < most_schedules:
        prefix, left = waiting.popleft()
        stage = Stage(make_world)
        seen.schedules += 1
        seen.trace = []
        try:
            for branch in _walk(stage, prefix, left, reached, seen):
                waiting.append(branch)
        except Exception as error:
            seen.failure = f"{type(error).__name__}: {error}"
        finally:
            stage.close()
    seen.states = len(reached)
    return seen


def _walk(
    stage: Stage, prefix: tuple[Choice, ...], left: Bounds, reached: dict[int, list[Bounds]], seen: Explored
) -> Iterator[tuple[tuple[Choice, ...], Bounds]]:
    """Follow `prefix`, then the default; yields the deviations from the default that are left to walk."""
    path = list(prefix)
    for choice in prefix:
        seen.trace.append(stage.take(choice))
        seen.steps += 1
    while (actor := stage.default()) is not None:
        assert len(path) < LONGEST, "the schedule never ends"
        state = stage.fingerprint()
        walked = reached.setdefault(state, [])
        if any(before.covers(left) for before in walked):
            return
        walked.append(left)
        free = actor.waits or actor.name != stage.current
        for other in stage.ready():
            options = [Choice(other.name, CRASH)] if other.pending != "begins" else []
            if other is not actor:
                options.append(Choice(other.name))
            for choice in options:
                after = left.after(choice, free and not other.waits)
                if after is not None:
                    yield (*path, choice), after
        chosen = Choice(actor.name)
        seen.trace.append(stage.take(chosen))
        seen.steps += 1
        path.append(chosen)
    stage.world.complete()

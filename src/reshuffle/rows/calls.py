"""Functions called on the workers that hold what they are about, without the scheduler: there and back takes two milliseconds,
where a task takes more than ten.

Rows are results of tasks, so that Dask makes them again where a worker dies. All else is the answer to a call, or is kept beside
the rows that a call made it of. Messages go along a tree, as do answers: the client calls a few workers, each of which calls a few
others in its turn, and sums what they answer on the way back. A call that a worker did not live to answer is repeated, once Dask
has made the rows again, and after whatever was kept beside them has been made again too.

A scan, for what depends on all that comes before, is two calls. On the way up every node of the tree keeps the sums of those below
it; on the way down it tells them what stands before each. An exchange is one: each asks all others for its pieces,
or on the same host for leave to read them.
"""

import asyncio
import time
import weakref
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from inspect import iscoroutinefunction
from itertools import accumulate, chain
from typing import Any, NamedTuple
from uuid import uuid4

from distributed import KilledWorker, WorkerPlugin, wait
from distributed.actor import ProxyRPC
from distributed.comm import get_address_host
from distributed.protocol import to_serialize

from reshuffle.rows.shared import borrow

_FEW = 16  # nodes that the client or a node calls
_LOSSES = 6  # of workers, in the same call
_PAUSE = 0.05  # seconds before a call is repeated, twice as long each time: the scheduler has to notice first
_LOOK = 0.5  # seconds after which a call that is not answered yet asks whether all workers are there
_SECONDS_TO_ANSWER = 5
_OPERATION = "reshuffle_call"

Answers = Callable[..., tuple[Any, Any]]  # for a list of them, and to be summed
_Make = tuple[str | None, Any, tuple[Any, ...]]  # what is kept: the token of its origin, a function, its arguments


@dataclass
class _Node:
    """What a call is about, at the worker that has it, and those that this one calls."""

    address: str
    key: Any  #: of a task
    own: tuple[Any, ...]  #: arguments
    made_of: tuple[Any, ...] = ()  #: arguments of the function that makes what is kept
    below: list["_Node"] = field(default_factory=list)


@dataclass
class _Message:
    function: Any  #: `Answers`, or a coroutine of this module, which is given the worker and its store besides
    given: tuple[Any, ...]  #: arguments for all
    node: _Node
    token: str | None = None  #: of what is kept beside the result; None asks for the result itself
    keep: bool = False  #: the sums of those below, for what comes down next
    before: Any = None  #: the sum of what stands before this node, of a scan on its way down
    make: _Make | None = None  #: what is kept, first


class Exchange(NamedTuple):
    """What results become of each other."""

    wanted: Callable[..., tuple[Sequence[Any], Any]]  #: (result, *own): what it wants of each result, and where that goes
    lent: Answers  #: (other result): all of it, as a `Loan` for processes of its host, or None where it has none; and None
    packed: Answers  #: (other result, what is wanted of it): what is sent to other hosts, and None
    joined: Callable[..., Any]  #: (result, pieces, where they go): what that becomes; of a piece see `_fetch`


class _Lost(OSError):
    """What was asked for is not there, or not any more."""


class _Listening(WorkerPlugin):  # type: ignore[misc]
    """Lets a worker answer calls."""

    name = _OPERATION

    def setup(self, worker: Any) -> None:
        async def answer(message: _Message) -> dict[str, Any]:
            try:
                return {"answer": to_serialize(await _answered(worker, message))}
            except Exception as error:
                return {"error": to_serialize(error)}

        worker.handlers[_OPERATION] = answer


# What is kept beside each result on this worker, by token. It goes with the result, or when the client lets go of it.
_kept: "weakref.WeakKeyDictionary[Any, dict[str, Any]]" = weakref.WeakKeyDictionary()

# What each result has borrowed of others for its exchanges, by their addresses and keys: to ask for it and to map it again would
# take a tenth of an exchange. A result that is made again is the same, so this is right even where a lender is gone.
_borrowed: "weakref.WeakKeyDictionary[Any, dict[tuple[str, Any], Any]]" = weakref.WeakKeyDictionary()


async def _answered(worker: Any, message: _Message) -> tuple[list[Any], Any]:
    """The answers of a node and of all below it, in their order, and the sum of their shares."""
    node = message.node
    if message.make is not None:
        token, function, given = message.make
        origin = _result(worker, replace(message, token=token))
        await _keep(worker, _kept[worker.data[node.key]], origin, message.token, function, *given, *node.made_of)
    held = _result(worker, message)
    store, arguments, before = _kept[worker.data[node.key]], (*message.given, *node.own), None
    if message.before is not None:
        arguments, before = (*arguments, message.before), list(accumulate(held.shares, initial=message.before))[1:]
    if iscoroutinefunction(message.function):
        own = message.function(worker, store, held, *arguments)
    else:
        own = worker.loop.run_in_executor(worker.executors["default"], message.function, held, *arguments)
    (answer, share), below = await asyncio.gather(own, _asked(worker.rpc, message, node.below, before))
    shares = [share, *(sum_ for _, sum_ in below)]
    if message.keep:
        held.shares = shares[:-1]
    return [answer, *chain.from_iterable(answers for answers, _ in below)], summed(shares)


def _result(worker: Any, message: _Message) -> Any:
    """What a message is about."""
    key, at = message.node.key, message.node.address
    if key not in worker.data:
        raise _Lost(f"{key} is not at {at}")
    result = worker.data[key]
    store = _kept.setdefault(result, {})
    if message.token is None:
        return result
    if message.token not in store:
        raise _Lost(f"{key} at {at} was made again since")
    return store[message.token]


async def _keep(worker: Any, store: Any, held: Any, token: Any, function: Callable[..., Any], *arguments: Any) -> tuple[None, None]:
    store[token] = await worker.loop.run_in_executor(worker.executors["default"], function, held, *arguments)
    return None, None


async def _fetch(
    worker: Any, store: Any, held: Any, token: str, exchange: "Exchange", sources: list[_Message], *arguments: Any
) -> tuple[None, None]:
    """The exchange of a result. Pieces are pairs: a result of this process, or a borrowed one of this host, and what is wanted
    of it, so that nothing is copied before it is joined; or what another host has packed, and None.
    """
    wanted, places = await worker.loop.run_in_executor(worker.executors["default"], exchange.wanted, held, *arguments)
    lenders = _lenders(worker.address, [source.node.address for source in sources])
    borrowed = _borrowed.setdefault(held, {})

    async def piece(source: _Message, some: Any) -> tuple[Any, Any]:
        at, key = source.node.address, source.node.key
        if at == worker.address:
            return _result(worker, source), some
        if at in lenders:
            if (at, key) not in borrowed:
                (loan,), _ = await _one(worker.rpc(at), replace(source, function=exchange.lent))
                with suppress(OSError):
                    borrowed[at, key] = loan and borrow(loan)
            if borrowed.get((at, key)) is not None:
                return borrowed[at, key], some
        (found,), _ = await _one(worker.rpc(at), replace(source, function=exchange.packed, given=(some,)))
        return found, None

    pieces = await asyncio.gather(*map(piece, sources, wanted))
    return await _keep(worker, store, held, token, exchange.joined, pieces, places)


def _lenders(own: str, addresses: list[str]) -> set[str]:
    """The other workers of a host, if half of all results lie there. Of fewer, copies for all to read take more memory than the
    messages that they spare.
    """
    hosts = [get_address_host(address) for address in addresses]
    near = {address for address, host in zip(addresses, hosts, strict=True) if host == get_address_host(own)}
    return near - {own} if 2 * sum(address in near for address in addresses) >= len(addresses) else set()


async def _dropped(worker: Any, store: Any, held: Any, token: str) -> tuple[None, None]:
    store.pop(token, None)
    return None, None


async def _asked(rpc: Callable[[str], Any], message: _Message, nodes: Sequence[_Node], before: Sequence[Any] | None) -> list[Any]:
    """What each of these nodes answers."""
    befores = [None] * len(nodes) if before is None else before
    return await asyncio.gather(
        *(_one(rpc(node.address), replace(message, node=node, before=one)) for node, one in zip(nodes, befores, strict=True))
    )


async def _one(worker: Any, message: _Message) -> Any:
    found = await getattr(worker, _OPERATION)(message=to_serialize(message))
    if found is None or "error" in found:
        raise _Lost(f"{message.node.address} does not know how to answer") if found is None else found["error"]
    return found["answer"]


def _tree(nodes: list[_Node]) -> list[_Node]:
    """A few nodes, with all others below them, such that going through a node before those below it keeps their order."""
    while len(nodes) > _FEW:
        groups = [nodes[k : k + _FEW] for k in range(0, len(nodes), _FEW)]
        for head, *others in groups:
            head.below += others
        nodes = [group[0] for group in groups]
    return nodes


def _nothing(held: Any) -> tuple[None, None]:
    return None, None


def summed(arrays: Iterable[Any]) -> Any:
    """None where there is nothing to sum."""
    first, *others = [array for array in arrays if array is not None] or [None]
    return sum(others, first)


class Held:
    """Results of tasks, one after the other, or what is kept beside them, and calls of functions with these."""

    def __init__(self, client: Any, futures: list[Any], origin: "Held | None" = None, make: Any = None) -> None:
        self.client, self.futures, self.origin, self._make = client, futures, origin, make
        self._addresses: list[str] | None = None
        self._made: list[str] | None = None  # the addresses at which it is kept
        self._recipe: tuple[Any, Any] | None = None  # how a call makes it, and the own arguments of each for that
        self.changes: list[tuple[Answers, tuple[Any, ...]]] = []
        self.token = None if origin is None else uuid4().hex
        if self.token is not None:
            weakref.finalize(self, _let_go, client, futures, self.token).atexit = False

    def __len__(self) -> int:
        return len(self.futures)

    @property
    def _root(self) -> "Held":
        return self if self.origin is None else self.origin._root

    def ask(self, function: Answers, *given: Any, each: Any = None, chosen: Any = None) -> tuple[list[Any], Any]:
        """Calls function(result, *given, *own) for all results, or for those whose numbers are chosen; `each` has the own arguments
        of each. The function answers with a pair: a list of the first of each comes back, and the sum of the second.
        """

        async def once(rpc: Callable[[str], Any], addresses: list[str]) -> tuple[list[Any], Any]:
            if chosen is not None:
                await self._ready(rpc, addresses)
            found = await self._called(rpc, addresses, function, given, each, chosen)
            return list(chain.from_iterable(answers for answers, _ in found)), summed(share for _, share in found)

        return self._repeated(once)  # type: ignore[no-any-return]

    def scan(self, up: Answers, each: Any, first: Callable[[Any], Any], down: Answers) -> list[Any]:
        """The answers of down(result, before), where `before` sums the shares that up(result, *own) answered with for all results
        before this one, and first(the sum of all).
        """

        async def twice(rpc: Callable[[str], Any], addresses: list[str]) -> list[Any]:
            shares = [share for _, share in await self._called(rpc, addresses, up, (), each, keep=True)]
            before = list(accumulate(shares[:-1], initial=first(summed(shares))))
            found = await self._called(rpc, addresses, down, (), before=before)
            return list(chain.from_iterable(answers for answers, _ in found))

        return self._repeated(twice)  # type: ignore[no-any-return]

    def keep(self, function: Callable[..., Any], *given: Any, each: Any) -> "Held":
        """What function(result, *given, *own) makes of each, kept beside it. It is made by the first call that asks for it."""
        kept = Held(self.client, self.futures, self)
        kept._recipe = (self.token, function, given), each
        return kept

    def change(self, function: Answers, *given: Any) -> tuple[list[Any], Any]:
        """Asks with a function that changes what is kept. Wherever that is made again, all changes are."""
        found = self.ask(function, *given)
        self.changes.append((function, given))
        return found

    def exchange(self, exchange: "Exchange", each: Any) -> "Held":
        """What each result becomes in an exchange with the others, kept beside it."""

        async def make(rpc: Callable[[str], Any], addresses: list[str], token: str) -> None:
            nodes = [_Node(address, future.key, ()) for address, future in zip(addresses, self.futures, strict=True)]
            sources = [_Message(None, (), node, self.token) for node in nodes]
            await self._called(rpc, addresses, _fetch, (token, exchange, sources), each)

        return Held(self.client, self.futures, self, make)

    async def _called(
        self,
        rpc: Callable[[str], Any],
        addresses: list[str],
        function: Any,
        given: tuple[Any, ...],
        each: Any = None,
        chosen: Any = None,
        keep: bool = False,
        before: Any = None,
    ) -> list[Any]:
        numbers = range(len(self)) if chosen is None else chosen
        owns = [()] * len(numbers) if each is None else each
        make, made_of = None, [()] * len(self)
        if self._recipe is not None and self._made is not addresses:
            make, made_of = self._recipe
        listed = zip(numbers, owns, strict=True)
        nodes = _tree([_Node(addresses[k], self.futures[k].key, tuple(own), tuple(made_of[k])) for k, own in listed])
        found = await _asked(rpc, _Message(function, given, nodes[0], self.token, keep, make=make), nodes, before)
        self._made = addresses
        return found

    def _repeated(self, work: Callable[..., Any]) -> Any:
        """Until no worker is lost on the way."""
        for loss in range(_LOSSES):
            try:
                return self.client.sync(self._watched, work, _connection(self.client), self._root._places())
            except OSError as error:
                self._root._addresses, lost = None, error
                time.sleep(_PAUSE * 2**loss)
        raise _killed(lost)

    async def _watched(self, work: Callable[..., Any], rpc: Callable[[str], Any], addresses: list[str]) -> Any:
        """Looks now and then whether the results are still where they were: to connect to a worker that is gone takes longer."""

        async def made_and_done() -> Any:
            if self._recipe is None or self.changes:
                await self._ready(rpc, addresses)
            elif self.origin is not None:
                await self.origin._ready(rpc, addresses)
            return await work(rpc, addresses)

        task = asyncio.ensure_future(made_and_done())
        while not (await asyncio.wait({task}, timeout=_LOOK))[0]:
            holders = await self.client.scheduler.who_has(keys=[future.key for future in self.futures])
            if any(at not in holders.get(future.key, ()) for future, at in zip(self.futures, addresses, strict=True)):
                task.cancel()
                raise _Lost("a worker is gone")
        return task.result()

    async def _ready(self, rpc: Callable[[str], Any], addresses: list[str]) -> None:
        """Makes what is to be kept, unless it is there. Every loss has new addresses, which are another list."""
        if self.origin is not None and self._made is not addresses:
            await self.origin._ready(rpc, addresses)
            if self._recipe is None:
                await self._make(rpc, addresses, self.token)
            elif not self.changes:
                await self._called(rpc, addresses, _nothing, ())
            for function, given in self.changes:
                await self._called(rpc, addresses, function, given)
            self._made = addresses

    def _places(self) -> list[str]:
        """The worker that each result is asked at."""
        while self._addresses is None:
            settled(self.client, self.futures)
            holders, load = self.client.who_has(self.futures), Counter[str]()
            addresses = []
            for future in self.futures:
                at = min(holders.get(future.key, ()), key=lambda address: load[address], default=None)
                if at is None:  # a worker died just now
                    break
                load[at] += 1
                addresses.append(at)
            else:
                self._addresses = addresses
        return self._addresses


def _let_go(client: Any, futures: list[Any], token: str) -> None:
    """Of what is kept under a token, on all workers; nobody waits for it, and a worker that is gone keeps nothing."""

    async def drop() -> None:
        holders, rpc = await client.scheduler.who_has(keys=[future.key for future in futures]), _connections[client]
        for key, addresses in holders.items():
            for address in addresses:
                await _one(rpc(address), _Message(_dropped, (token,), _Node(address, key, ())))

    async def quietly() -> None:
        with suppress(Exception):
            await drop()

    if client.status == "running" and client in _connections:
        client.loop.add_callback(quietly)


def settled(client: Any, futures: list[Any]) -> None:
    """Waits for tasks, and raises what one of them raised."""
    wait(futures)
    for future in futures:
        if future.status == "error":
            gathered(client, [future])


def gathered(client: Any, futures: list[Any]) -> Any:
    """Results of tasks."""
    try:
        return client.gather(futures)
    except KilledWorker as error:
        raise _killed(error) from None


def _killed(error: Exception) -> MemoryError:
    return MemoryError(
        f"workers of Dask were killed again and again in the same task, mostly a sign that they lack memory ({error}); "
        "use more workers, or give them more"
    )


_connections: "weakref.WeakKeyDictionary[Any, Callable[[str], Any]]" = weakref.WeakKeyDictionary()


def _connection(client: Any) -> Callable[[str], Any]:
    """How the client reaches workers: by itself or, where a network keeps it from that, by way of the scheduler."""
    if client not in _connections:
        client.register_plugin(_Listening())
        direct = client.sync(_reaches, client, list(client.scheduler_info(n_workers=-1)["workers"])[:1])
        scheduler = client.scheduler  # not the client, which would keep itself alive
        _connections[client] = client.rpc if direct else lambda address: ProxyRPC(scheduler, address)
    return _connections[client]


async def _reaches(client: Any, addresses: list[str]) -> bool:
    try:
        for address in addresses:
            await asyncio.wait_for(client.rpc(address).identity(), _SECONDS_TO_ANSWER)
    except OSError:
        return False
    return True

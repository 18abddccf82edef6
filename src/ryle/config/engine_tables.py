"""The tables of an observation file that say what engines do, where they run, and by which addresses they talk.

As in `ryle.config.tables`, only what one table can say by itself is checked here.
"""

from __future__ import annotations

import ipaddress
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from ryle.config.cores import CoreSets, Node
from ryle.config.endpoints import Endpoint, EndpointText, Senders
from ryle.config.own_address import address_in
from ryle.config.tables import Table
from ryle.config.units import Bytes, Duration, Seconds


class ReceiveTable(Table):
    """``[network.receive]``: how engines receive; ``[fengine]``, ``[xengine]`` and ``[catcher]`` may say otherwise.

    A text alone is `by`: ``receive = "packet_ring"``.
    """

    by: Literal["udp", "packet_ring", "dpdk"] = Field(
        "udp",
        description="sockets; a ring below the kernel's network stack (needs CAP_NET_RAW); or DPDK, past the kernel",
    )
    device: str = Field(
        "",
        description='name of the network interface, such as "eth1", for packet_ring; for dpdk a PCI address or a '
        "virtual device with its arguments",
    )
    threads: int = Field(1, ge=1, le=256, description="that receive, of one engine")
    buffer: Bytes | None = Field(
        None,
        ge=4096,
        description="of each socket, ring or DPDK queue; if absent network.receive_buffer, but 128 MiB of a ring",
    )
    copies: Literal[2, 1, 0, "host-table"] = Field(
        2,
        description="of a payload, by dpdk, on its way to an F-engine's GPU: 2, into a ring of the host's, and from "
        "there; 1, by a core into the GPU's memory; 0, the interface writes there; host-table: none, the GPU reads "
        "packets where they came to, page-locked memory of the host's",
        examples=["0"],
    )
    senders: Senders = Field(
        default_factory=list,
        description="who may send, others' packets are foreign; of X-engines and catcher those are the hosts of other "
        "engines; everybody if empty",
    )

    @model_validator(mode="before")
    @classmethod
    def _by_name(cls, value: Any) -> Any:
        return {"by": value} if isinstance(value, str) else value

    @property
    def in_place(self) -> bool:
        """Whether a GPU reads payloads where they came to, by a table of their addresses."""
        return self.copies in (0, "host-table")


class Receiving(ReceiveTable):
    """How one engine receives.

    Parameters
    ----------
    cores : list of int
        Of its receiving threads, in turn; anywhere if empty.
    """

    cores: list[int] = Field(default_factory=list)


_CORES: Any = Field(
    default_factory=list,
    description="that these engines run on, which take an entry each in turn; the first of it are receiving "
    "threads', one each; anywhere if empty",
    examples=['["0-7", "8-15"]'],
)
_NUMA: Any = Field(
    None,
    description='node of memory that theirs is from, and without cores also where they run; "auto": that of the GPU, '
    "or of the device that packets come from",
)
#: Of those that CUDA shows.
GpuNumber = Annotated[int, Field(ge=0, le=1023)]


class FengineTable(Table):
    """``[fengine]``: the channelizer, or what others' F-engines send."""

    packets: str | None = Field(
        None,
        description="format of others' F-engine packets: a shipped name or a TOML file beside this one; "
        "Ryle channelizes samples itself if absent",
        examples=['"paper_psa128"'],
    )
    channels: int = Field(ge=4, le=1 << 17, description="over the whole band, even", examples=["4096"])
    taps: int = Field(16, ge=1, le=32, description="of the polyphase filter bank")
    window: Literal["hann", "hamming", "blackman", "rect"] = Field("hann", description="of the prototype filter")
    w_cutoff: float = Field(1.0, gt=0, le=4, description="width of the prototype filter's pass band in channels")
    gain: float = Field(1.0, gt=0, description="of every input; at 1 the output power equals the input's")
    gains_file: str | None = Field(None, description=".npy, complex [input][channel], multiplied with gain")
    output_bits: Literal[4, 8] = Field(8, description="of each part of a value")
    dither: Literal["uniform", "none"] = Field("uniform", description="added before rounding")
    seed: int = Field(1, ge=0, lt=1 << 63, description="of the dither; same seed, same bits")
    sends: Literal["rows", "meerkat"] = Field(
        "rows", description="packets to the X-engines: rows as they multiply them, or heaps as MeerKAT's F-engines'"
    )
    spectra_per_heap: int = Field(64, ge=8, le=4096, description="spectra in an F-heap of MeerKAT's, a multiple of 8")
    max_delay: Seconds = Field(1e-6, ge=0, description="largest delay, either sign, that overlaps allow for")
    history: Seconds = Field(
        0.0,
        ge=0,
        le=3600,
        description="how long samples are kept after use, for triggers that reach back; takes memory",
        examples=['"0.5 s"'],
    )
    pace: float = Field(1.25, gt=1, le=100, description="rate at which spectra are sent, in units of real time")
    antennas_per_engine: int = Field(1, ge=1, description="antennas that one process channelizes")
    backend: Literal["cpu", "cuda"] = Field("cpu", description="what the arithmetic runs on")
    gpus: list[GpuNumber] = Field(
        default_factory=list,
        description="numbers of the GPUs that these engines take in turn, of those that CUDA shows; the first if empty",
        examples=["[0, 1]"],
    )
    threads: int = Field(
        1, ge=1, le=1024, description="of one process; if absent 1, or all cores where recordings are correlated"
    )
    batch: int | None = Field(
        None,
        ge=64,
        description="spectra made at a time; if absent some 256, or up to 1024 for each GPU and of recordings",
    )
    receive: ReceiveTable | None = Field(None, description="as network.receive, for F-engines")
    cores: CoreSets = _CORES
    numa: Node = _NUMA

    @field_validator("channels")
    @classmethod
    def _even(cls, value: int) -> int:
        if value % 2:
            raise ValueError(f"must be even: {value - 1} or {value + 1}")
        return value

    @field_validator("spectra_per_heap")
    @classmethod
    def _whole_bytes(cls, value: int) -> int:
        if value % 8:
            raise ValueError(f"must be a multiple of 8, such as {max(8, value // 8 * 8)} or {value // 8 * 8 + 8}")
        return value


class XengineTable(Table):
    """``[xengine]``: the correlator proper."""

    integration: Duration = Field(
        gt=0, description="rounded to a multiple of lcm(64, spectra_per_heap) spectra", examples=['"0.5 s"']
    )
    channels_per_substream: int | None = Field(None, ge=1, description="channels of one X-engine; all if absent")
    backend: Literal["cpu", "cuda"] = Field("cpu", description="what the arithmetic runs on")
    gpus: list[GpuNumber] = Field(
        default_factory=list,
        description="numbers of the GPUs that these engines take in turn, of those that CUDA shows; the first if empty",
        examples=["[0, 1]"],
    )
    threads: int = Field(
        1, ge=1, le=1024, description="of one process; if absent 1, or all cores where recordings are correlated"
    )
    sends: Literal["native", "meerkat"] = Field(
        "native",
        description="exact sums with counts, or int32 as MeerKAT's X-engines do, which the catcher does not read",
    )
    receive: ReceiveTable | None = Field(None, description="as network.receive, for X-engines")
    cores: CoreSets = _CORES
    numa: Node = _NUMA


class CatcherTable(Table):
    """``[catcher]``: what happens to visibilities on their way to the file."""

    integration: Duration | None = Field(
        None, gt=0, description="sum what X-engines integrate to this, a multiple of theirs; theirs if absent"
    )
    directories: list[str] = Field(
        default_factory=list,
        description="a catcher for each: it writes its share of the substreams there, and one file in output.directory "
        "lies over what they wrote; if empty one catcher writes to output.directory",
        examples=['["/disk1", "/disk2"]'],
    )
    packets: Literal["casper"] | None = Field(
        None, description="X-engines are others', which send CASPER's 0x4b52 packets, as PAPER's did"
    )
    packet_payload: int = Field(
        4096,
        ge=8,
        le=65000,
        multiple_of=8,
        description="bytes of visibilities in others' packets; the last of an integration may hold fewer",
    )
    scale: float = Field(256.0, gt=0, description="of others' visibilities; PAPER's X-engine takes samples times 16")
    stamp_samples: int = Field(
        256, ge=1, le=1 << 20, description="ADC samples that one count of others' timestamps stands for"
    )
    stamp_offset: int | None = Field(
        None,
        ge=0,
        description="spectra from an integration's start to its timestamp; all but the last 1024 if absent, as PAPER's",
    )
    receive: ReceiveTable | None = Field(None, description="as network.receive, for the catcher")
    cores: CoreSets = _CORES
    numa: Node = _NUMA


class FxTable(Table):
    """``[fx]``: F and X in one process, in place of F-engines, X-engines and catcher; it receives as F-engines do."""

    gpus: list[GpuNumber] = Field(
        default_factory=list,
        description="numbers of the GPUs that antennas, and then channels, are spread over, of those that CUDA shows; "
        "the first of them if empty",
        examples=["[0, 1]"],
    )
    backend: Literal["cpu", "cuda"] | None = Field(
        None, description="what the arithmetic of both halves runs on; as fengine.backend if absent"
    )
    cores: CoreSets = _CORES
    numa: Node = _NUMA


class NetworkTable(Table):
    """``[network]``: addresses. Each is the first of a run: unicast counts the port up, multicast the group."""

    digitizers: EndpointText = Field(
        Endpoint(host="127.0.0.1", port=17100), description="digitizers to F-engines, one of the run an antenna"
    )
    spectra: EndpointText = Field(
        Endpoint(host="127.0.0.1", port=17600), description="F-engines to X-engines, one of the run a substream"
    )
    x_engines: list[EndpointText] = Field(
        default_factory=list, description="instead of spectra: the address of each X-engine, one after the other"
    )
    visibilities: EndpointText = Field(
        Endpoint(host="127.0.0.1", port=17900), description="X-engines to the catcher, one of the run a catcher"
    )
    statistics: EndpointText | None = Field(
        None,
        description="F-engines to the catcher, by sockets: ADC histograms and such; if absent visibilities' "
        "address and the next free port",
        examples=['"127.0.0.1:17901"'],
    )
    interface: str = Field(
        "127.0.0.1",
        description="address of the interface that sends and receives multicast; or its network, such as "
        '"10.100.0.0/24", in which each host has an address of its own',
    )
    packet_size: Bytes = Field(8192, ge=256, le=65000, description="largest payload of a datagram")
    ttl: int = Field(4, ge=0, le=255, description="hops that a multicast packet lives")
    skew: Seconds = Field(
        0.1, ge=0, le=10, description="how far antennas, or F-engines, may be apart in time; engines keep so much open"
    )
    receive_buffer: Bytes = Field(64 << 20, ge=4096, description="socket buffer asked for")
    receive: ReceiveTable = Field(ReceiveTable(), description="how engines receive")

    @field_validator("interface")
    @classmethod
    def _address(cls, value: str) -> str:
        try:
            return str(ipaddress.ip_network(value) if "/" in value else ipaddress.ip_address(value))
        except ValueError:
            remedy = 'write the interface\'s own address, such as "127.0.0.1" or "10.0.0.5", or its network'
            raise ValueError(f'{remedy}, such as "10.0.0.0/24"') from None

    @property
    def own_address(self) -> str:
        """Address of this host on that interface.

        Raises
        ------
        ValueError
            If it has none in that network.
        """
        return address_in(self.interface) if "/" in self.interface else self.interface

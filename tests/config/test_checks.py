"""Each cross-table check finds its mistake, reads no table that it does not name, and says how to mend it."""

import numpy as np
import pytest

from ryle.channelize import ChannelizerConfig
from ryle.channelize.cuda_plan import make_plan
from ryle.config import ConfigError, Observation, changed, checks, example, load, parse
from ryle.wire.description import FORMATS

GOOD = """
[observation]
sync_time = "2026-03-20T20:00:00Z"
duration = "1 s"
[array]
location = { latitude = "0 deg", longitude = "0 deg", height = "0 m" }
antennas = [{ name = "A1", enu = ["0 m", "0 m", "0 m"] }, { name = "A2", enu = ["9 m", "0 m", "0 m"] }]
[band]
sample_rate = "8 MHz"
[digitizer]
heap_samples = 4096
[fengine]
channels = 256
spectra_per_heap = 64
[xengine]
integration = "1 s"
[network]
digitizers = "127.0.0.1:17100"
[simulate]
[[simulate.rfi]]
frequency = "2 MHz"
level = 1
antennas = ["A1"]
[vdif]
inputs = [{ antenna = "A1", polarization = "x", channel = 0, band = 0 }]
bands = [{ lo = "1 MHz", name = "a" }]
"""
INPUTS = [
    f'[[inputs]]\nstream = {s}\nantenna = "{a}"\npolarization = "{p}"\n'
    for s, a, p in ((0, "A1", "x"), (1, "A1", "y"), (2, "A2", "x"), (3, "A2", "y"))
]
MAPPED = GOOD + "".join(INPUTS)
PACKETS = MAPPED.replace("channels = 256", 'channels = 256\npackets = "paper_psa128"').replace(
    '"1 s"\n[net', '"1 s"\nchannels_per_substream = 64\n[net'
)
CATCHER = '[catcher]\npackets = "casper"\n'
RFI = MAPPED[MAPPED.index("[simulate]") : MAPPED.index("[vdif]")]
CASPER = MAPPED.replace(RFI, CATCHER)
FX = GOOD + '[fx]\nbackend = "cpu"\n'
ON_GPU = GOOD.replace(
    "heap = 64", 'heap = 64\nbackend = "cuda"\nreceive = { by = "dpdk", device = "net_null0", copies = "host-table" }'
)
OTHER_X = '[network]\nx_engines = ["10.0.0.1:8511", "10.0.0.2:8511"]\n'

MISTAKES = [  # check, file, (old, new), key, part of the remedy
    ("_cable_delays", GOOD, ('"0 m"] }', '"0 m"], cable_delay = ["1 ns"] }'), "array.antennas[0].cable_delay", "2"),
    ("_antenna_positions", GOOD, ('"9 m"', '"0 m"'), "array.antennas[1]", "A1"),
    ("_inputs_exist", MAPPED, ('antenna = "A2"\npol', 'antenna = "a2"\npol'), "inputs[2].antenna", "did you mean A2?"),
    ("_inputs_exist", MAPPED, ('polarization = "y"\n', 'polarization = "r"\n'), "inputs[1].polarization", "x, y"),
    ("_inputs_complete", GOOD + INPUTS[0], ("", ""), "inputs", "need 4"),
    ("_inputs_once", MAPPED, ("stream = 3", "stream = 1"), "inputs[3]", "stream 1"),
    ("_inputs_once", MAPPED, (INPUTS[3], INPUTS[0].replace("= 0", "= 3")), "inputs[3]", "A1 x"),
    ("_conjugate_complex", MAPPED + "conjugate = true", ("", ""), "inputs[3].conjugate", "digitizer.complex"),
    ("_packet_inputs", MAPPED, ("stream = 0", "stream = 0\ninput = 1"), "inputs[0].input", "set fengine.packets"),
    ("_packet_inputs", PACKETS, ("stream = 3", "stream = 0\ninput = 8"), "inputs[3].input", "0 to 7"),
    ("_packet_inputs", PACKETS, ("stream = 3", "stream = 0\ninput = 2"), "inputs", "A2 x and A2 y are both input 2"),
    (
        "_packet_channels",
        PACKETS,
        ("substream = 64", "substream = 32"),
        "xengine.channels_per_substream",
        "64 channels",
    ),
    ("_others_visibilities", CASPER, ("= 3", "= 4"), "inputs", "from 0 to 3"),
    ("_others_visibilities", CASPER + "conjugate = true", ("", ""), "inputs[3].conjugate", "cannot be mended"),
    ("_others_visibilities", GOOD + CATCHER, ("", ""), "simulate", "are not simulated"),
    ("_others_visibilities", PACKETS + CATCHER, ("", ""), "fengine.packets", "remove one of the two"),
    ("_catchers", GOOD, ("[net", '[catcher]\ndirectories = ["a", "b"]\n[net'), "catcher.directories", "give at most"),
    ("_catchers", FX, ("[net", '[catcher]\ndirectories = ["a"]\n[net'), "catcher.directories", "remove [fx]"),
    ("_catchers", CASPER, (CATCHER, CATCHER + 'directories = ["a"]\n'), "catcher.directories", "set output.directory"),
    ("_stream", GOOD, ("[net", '[output]\nstream = "239.1.1.1:7000"\n[net'), "output.stream", "connect by TCP"),
    (
        "_stream",
        GOOD,
        ("[net", '[output]\nstream = "[::]:65535"\n[catcher]\ndirectories = ["a", "b"]\n[net'),
        "output.stream",
        "start lower",
    ),
    ("_file_integration", GOOD, ("[net", '[catcher]\nintegration = "0.4 s"\n[net'), "catcher.integration", "0.999"),
    ("_zone_real", GOOD, ('"8 MHz"\n[dig', '"8 MHz"\nnyquist_zone = 2\n[dig'), "band.nyquist_zone", "must be 1"),
    ("_digitizer_heap", GOOD, ("= 4096", "= 4098"), "digitizer.heap_samples", "multiple of 32"),
    ("_digitizer_heap", GOOD, ("= 4096", "= 8192"), "digitizer.heap_samples", "at most 6528"),
    ("_gpu_channels", GOOD, ("channels = 256", 'channels = 192\nbackend = "cuda"'), "fengine.channels", "such as 256"),
    (
        "_gpu_channels",
        GOOD,
        ("channels = 256", 'channels = 32\nbackend = "cuda"'),
        "fengine.channels",
        "from 64 to 65536",
    ),
    ("_gpus_are_used", GOOD, ("channels = 256", "channels = 256\ngpus = [0, 1]"), "fengine.gpus", 'backend is "cpu"'),
    ("_substreams_divide", GOOD, ('"1 s"\n[net', '"1 s"\nchannels_per_substream = 100\n[net'), None, "is 128"),
    ("_substreams_divide", GOOD, ('"1 s"\n[net', '"1 s"\nchannels_per_substream = 257\n[net'), None, "is 256"),
    ("_f_packet", GOOD, ("heap = 64", 'heap = 4096\nsends = "meerkat"'), "fengine.spectra_per_heap", "at most 2048"),
    ("_integration_length", GOOD, ('integration = "1 s"', 'integration = "1 ms"'), "xengine.integration", "0.004096 s"),
    (
        "_integration_length",
        GOOD.replace("= 256", "= 16"),
        ('= "1 s"\n[net', '= "0.3 ms"\n[net'),
        None,
        "at least 1 ms",
    ),
    ("_gains_shape", GOOD, ("channels = 256", 'channels = 256\ngains_file = "none.npy"'), None, "numpy.save"),
    ("_addresses_apart", GOOD, ("17100", "17599"), "network.spectra", "network.digitizers"),
    ("_addresses_apart", GOOD, ("17100", "65535"), "network.digitizers", "past 65535"),
    ("_addresses_apart", GOOD, ("127.0.0.1:17100", "239.255.255.255:7148"), "network.digitizers", "multicast"),
    ("_addresses_apart", GOOD, ("127.0.0.1:17100", "[ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff]:7"), None, "multicast"),
    ("_addresses_apart", GOOD, ("[network]\n", OTHER_X), "network.x_engines", "1 X-engines need one each"),
    (
        "_addresses_apart",
        GOOD,
        ('"0 m"] }]', '"0 m"], digitizers = "127.0.0.1:17900" }]'),
        "network.visibilities",
        "array.antennas[1].digitizers",
    ),
    (
        "_addresses_apart",
        GOOD.replace("[simulate]", 'spectra = "239.1.1.6:7148"\n[simulate]', 1),
        ('"0 m"] }]', '"0 m"], digitizers = "239.1.1.0+7:7148" }]'),
        "network.spectra",
        "1 groups run into the 8",
    ),
    (
        "_own_addresses",
        GOOD,
        ('"0 m"] }]', '"0 m"], digitizers = ["239.1.1.0:1", "239.1.1.1:1", "239.1.1.2:1"] }]'),
        "array.antennas[1].digitizers",
        "2, one each",
    ),
    ("_own_addresses", PACKETS + 'digitizers = "239.1.1.0:1"', ("", ""), "inputs[3].digitizers", "remove it"),
    (
        "_one_receiver",
        GOOD,
        ('"0 m"] }]', '"0 m"], digitizers = "127.0.0.1:17100" }]'),
        "array.antennas",
        "both the F-engine of A1 and that of A2",
    ),
    ("_receiving", GOOD, ("[network]", '[network]\nreceive = "packet_ring"'), "network.receive.device", '"eth1"'),
    (
        "_receiving",
        GOOD,
        ("heap = 64", 'heap = 64\nreceive = { by = "dpdk" }'),
        "fengine.receive.device",
        "0000:41:00.0",
    ),
    ("_copies", GOOD, ("[network]", "[network]\nreceive = { copies = 0 }"), "network.receive.copies", "or set by"),
    ("_copies", ON_GPU.replace('by = "dpdk", ', ""), ("", ""), "fengine.receive.copies", "or set by"),
    ("_copies", ON_GPU, ('backend = "cuda"\n', ""), "fengine.receive.copies", 'set fengine.backend = "cuda"'),
    (
        "_copies",
        ON_GPU,
        ("[net", 'receive = { by = "dpdk", device = "net_null0", copies = 0 }\n[net'),
        "xengine.receive.copies",
        "in fengine.receive",
    ),
    ("_copies", ON_GPU, ("heap_samples = 4096", "heap_samples = 4064"), "fengine.receive.copies", "these have 5080"),
    (
        "_copies",
        ON_GPU.replace('"host-table"', "0") + '[fx]\nbackend = "cuda"\ngpus = [0, 1]\n',
        ("", ""),
        "fengine.receive.copies",
        "a single one",
    ),
    (
        "_copies",
        ON_GPU,
        ("heap_samples = 4096", 'heap_samples = 16000\nbits = 2\npackets = "vdif"'),
        "fengine.receive.copies",
        "decoded",
    ),
    (
        "_history",
        PACKETS,
        ('packets = "paper_psa128"', 'packets = "paper_psa128"\nhistory = "1 s"'),
        "fengine.history",
        "others' F-engines",
    ),
    (
        "_history",
        ON_GPU.replace('"host-table"', "0"),
        ("heap = 64", 'heap = 64\nhistory = "1 s"'),
        "fengine.history",
        'receive.copies = "host-table" or 2',
    ),
    ("_one_backend", FX, ('backend = "cpu"', "gpus = [0]"), "fx.gpus", 'set fx.backend = "cuda"'),
    ("_one_backend", FX, ('backend = "cpu"', 'backend = "cpu"\ngpus = [1]'), "fx.gpus", 'fx.backend is "cpu"'),
    (
        "_one_backend",
        FX.replace('backend = "cpu"', ""),
        ('"1 s"\n[net', '"1 s"\nbackend = "cuda"\n[net'),
        "xengine.backend",
        "set fx.backend",
    ),
    ("_gpus", FX, ('"cpu"', '"cuda"\ngpus = [0, 1, 2]'), "fx.gpus", "at most 2, such as [0, 1]"),
    (
        "_whole",
        FX,
        ("heap = 64", "heap = 64\nantennas_per_engine = 1"),
        "fengine.antennas_per_engine",
        "all 2 antennas",
    ),
    (
        "_whole",
        FX,
        ('"1 s"\n[net', '"1 s"\nchannels_per_substream = 64\n[net'),
        "xengine.channels_per_substream",
        "all 256 channels",
    ),
    ("_nobody_else", PACKETS + "[fx]", ("", ""), "fengine.packets", "begins with samples"),
    ("_nobody_else", CASPER + "[fx]", ("", ""), "catcher.packets", "begins with samples"),
    ("_nobody_else", FX, ("heap = 64", 'heap = 64\nsends = "meerkat"'), "fengine.sends", "sends no spectra"),
    ("_nobody_else", FX, ('"1 s"\n[net', '"1 s"\nsends = "meerkat"\n[net'), "xengine.sends", "writes them to a file"),
    ("_nobody_else", FX, ('"1 s"\n[net', '"1 s"\nreceive = "udp"\n[net'), "xengine.receive", "fengine.receive"),
    ("_nobody_else", FX, ("[net", '[catcher]\nreceive = "udp"\n[net'), "catcher.receive", "fengine.receive"),
    ("_nobody_else", FX, ("heap = 64", "heap = 64\ncores = [1]"), "fengine.cores", "whose place fx.cores says"),
    ("_nobody_else", FX, ('"1 s"\n[net', '"1 s"\nnuma = "auto"\n[net'), "xengine.numa", "fx.numa says"),
    ("_nobody_else", FX, ("[network]\n", OTHER_X), "network.x_engines", "sends no spectra"),
    ("_feed_angles", GOOD, ("location", 'feed_angles = ["90 deg"]\nlocation'), "array.feed_angles", "needed: 2"),
    ("_on_the_earth", GOOD, ('"9 m", "0 m"', '"9e7 m", "0 m"'), "array.antennas[1].enu", "A2 is 90 Mm away"),
    ("_on_the_earth", GOOD, ('height = "0 m"', 'height = "1050 km"'), "array.location.height", "100 km"),
    ("_on_the_earth", GOOD, ('enu = ["9 m"', 'itrf = ["9 m"'), "array.antennas[1].itrf", "lies 9 m from"),
    ("_on_the_earth", GOOD, (GOOD.splitlines()[5], 'location = { itrf = ["6378 m", "0 m", "0 m"] }'), None, "6.378 km"),
    (
        "_on_the_earth",
        GOOD,
        ('"0 m"] }]', '"0 m"], cable_delay = ["3 ns", "-3 s"] }]'),
        "array.antennas[1].cable_delay",
        "43 ms",
    ),
    ("_delay", GOOD, ("channels = 256", 'channels = 256\nmax_delay = "5 s"'), "fengine.max_delay", "at most 100 ms"),
    ("_frequencies", GOOD, ('"8 MHz"', '"1e30 GHz"'), "band.sample_rate", "at most 1 THz"),
    ("_frequencies", GOOD, ('"8 MHz"', '"8 MHz"\nlo = "1e9 GHz"'), "band.lo", "at most 10 THz"),
    ("_above_zero", GOOD, ('"8 MHz"', '"8 MHz"\nsideband = "lower"'), "band.lo", "down to -3.984375 MHz"),
    ("_duration", GOOD, ('duration = "1 s"', 'duration = "1e9 h"'), "observation.duration", "366 days"),
    ("_sums", GOOD, ('integration = "1 s"', 'integration = "1e9 h"'), "xengine.integration", "at most 86.4 ks: a day"),
    (
        "_sums",
        GOOD.replace("= 256", "= 4"),
        ('integration = "1 s"', 'integration = "20 h"'),
        "xengine.integration",
        "4294967295 spectra",
    ),
    (
        "_sums",
        GOOD,
        ("[network]", '[catcher]\nintegration = "25 h"\n[network]'),
        "catcher.integration",
        "at most 86.4 ks: a day",
    ),
    ("_rfi_in_band", GOOD, ('"2 MHz"', '"4.5 MHz"'), "simulate.rfi[0].frequency", "3.9921875 MHz"),
    ("_rfi_antennas", GOOD, ('["A1"]', '["A1", "A9"]'), "simulate.rfi[0].antennas[1]", "A1, A2"),
    ("_rfi_in_band", GOOD, ("level = 1", 'level = 1\nbandwidth = "4 MHz"'), "simulate.rfi[0].bandwidth", "reaches"),
    (
        "_defects_of_inputs",
        GOOD,
        ("[simulate]\n", '[simulate]\ndefects = [{ kind = "dead", input = ["A1", "A2 z"] }]\n'),
        "simulate.defects[0].input",
        "did you mean A2 y?",
    ),
    (
        "_defects_of_inputs",
        GOOD,
        ("[simulate]\n", '[simulate]\ndefects = [{ kind = "swapped", input = "A2 x" }]\n'),
        "simulate.defects[0].input",
        'write "A2"',
    ),
    (
        "_defects_once",
        GOOD,
        ("[simulate]\n", '[simulate]\ndefects = [{ kind = "dead", input = "A1" }, { kind = "dead" }]\n'),
        "simulate.defects[1]",
        "join",
    ),
    (
        "_defect_delays",
        GOOD,
        ("[simulate]\n", '[simulate]\ndefects = [{ kind = "delay", delay = "2 ms" }]\n'),
        "simulate.defects[0].delay",
        "-1 to 1 ms",
    ),
    (
        "_defects_of_digitizers",
        GOOD,
        ("[simulate]\n", '[simulate]\ndefects = [{ kind = "jump", samples = 4095 }]\n'),
        "simulate.defects[0].samples",
        "4096",
    ),
    (
        "_defects_of_packets",
        PACKETS,
        ("[simulate]\n", '[simulate]\ndefects = [{ kind = "loss", loss = 0.1 }]\n'),
        "simulate.defects[0].kind",
        "[simulate.faults]",
    ),
    (
        "_defects_replayed",
        GOOD,
        ("[simulate]\n", '[simulate]\nreplay = "1 s"\ndefects = [{ kind = "dead", start = "1 s" }]\n'),
        "simulate.defects[0]",
        "replay",
    ),
    ("_simulation_ends", GOOD, ('duration = "1 s"', ""), "observation.duration", "needs an end"),
    ("_recordings", GOOD, ('antenna = "A1"', 'antenna = "C"'), "vdif.inputs[0].antenna", "A1, A2"),
    ("_recordings", GOOD, ('polarization = "x"', 'polarization = "l"'), "vdif.inputs[0].polarization", "x, y"),
    ("_recorded_bands", GOOD, ("band = 0", "band = 1"), "vdif.inputs[0].band", "1 band"),
    ("_recorded_bands", GOOD, ('name = "a" }', 'name = "a" }, { lo = "2 MHz", name = "a" }'), None, "vdif.bands[0]"),
]


def test_gpu_channels_are_what_the_channelizer_takes():
    for channels in sorted({*(2**k for k in range(2, 18)), 6, 96, 192, 3000, 65534}):
        config = ChannelizerConfig(1, channels, taps=1)
        if channels in checks.GPU_CHANNELS:
            make_plan(config, 232448)
        else:
            with pytest.raises(ValueError, match=f"channels is {channels}"):
                make_plan(config, 232448)


def named(name):
    return next(c for c in checks.CHECKS if c.find.__name__ == name)


@pytest.mark.parametrize(("name", "text", "change", "key", "remedy"), MISTAKES)
def test_found(name, text, change, key, remedy):
    assert change[0] in text
    wrong = text.replace(*change, 1)
    if name == "_zone_real":
        wrong = wrong.replace("[digitizer]", "[digitizer]\ncomplex = true")
    with pytest.raises(ConfigError) as error:
        parse(wrong)
    found = [p for p in error.value.problems if (key is None or p.key == key) and remedy in p.remedy]
    assert len(found) == 1, str(error.value)


def test_each_check_is_tried():
    assert {name for name, *_ in MISTAKES} == {c.find.__name__ for c in checks.CHECKS}


@pytest.mark.parametrize("text", [GOOD, MAPPED, PACKETS, CASPER, FX, PACKETS + "conjugate = true"])
def test_good(text):
    parse(text)


@pytest.mark.parametrize("check", checks.CHECKS, ids=lambda c: c.find.__name__)
@pytest.mark.parametrize("text", [GOOD, MAPPED, PACKETS, CASPER, FX])
def test_reads_only_its_tables(check, text):
    whole = parse(text)
    part = Observation.model_construct()
    for name in Observation.model_fields:
        part.__dict__.pop(name, None)
    part.__dict__.update({name: getattr(whole, name) for name in check.tables})
    assert list(check.find(part)) == []  # an AttributeError names a table that it does not declare


def test_one_process_has_one_backend():
    """What [fx] says rules both halves, also over what they say; else it is as the F-engine's."""
    both = '"1 s"\nbackend = "cuda"\n[net'
    for text, backend, key in (
        (FX.replace('"1 s"\n[net', both), "cpu", "fx.backend"),
        (FX.replace('backend = "cpu"', 'backend = "cuda"\ngpus = [3]'), "cuda", "fx.backend"),
        (FX.replace('backend = "cpu"', "").replace("= 64", '= 64\nbackend = "cuda"'), "cuda", "fengine.backend"),
    ):
        o = parse(text)
        assert o.fengine.backend == o.xengine.backend == backend
        assert o.backend_key("f") == o.backend_key("x") == key
        assert o.engines == {"fx": 1} and o.f_engines == 0 and o.statistics is None
        assert o.receive("fx") == o.receive("f")
        assert changed(o, fengine={"gain": 2.0}, xengine={"integration": "0.5 s"}).engines == {"fx": 1}


def test_batches_grow_with_the_gpus_that_share_antennas():
    """Each makes as many samples at a time as one GPU would of its antennas."""
    one, two = (parse(FX.replace('backend = "cpu"', f'backend = "cuda"\ngpus = {gpus}')) for gpus in ([], [0, 1]))
    assert (one.fx_gpus, two.fx_gpus) == (1, 2) and two.f_batches == 2 * one.f_batches
    assert [two.gpu_of("f", i) for i in range(2)] == [[0], [1]]


def test_addresses_that_one_process_has_not_are_free():
    """Ports of digitizers may run over those that F- and X-engines would have."""
    assert parse(FX.replace("17100", "17599")).fx is not None


def test_cross_checks_run_beside_wrong_fields():
    text = MAPPED.replace("taps", "taps").replace("channels = 256", 'channels = 256\ntaps = "16"')
    text = text.replace('antenna = "A2"\npol', 'antenna = "Z"\npol', 1).replace("17100", "17600")
    with pytest.raises(ConfigError) as error:
        parse(text)
    keys = [p.key for p in error.value.problems]
    assert keys == ["fengine.taps", "inputs[2].antenna"]  # addresses need [fengine], which is wrong


@pytest.mark.parametrize(
    ("array", "remedy"),
    [
        (np.zeros((4, 255)), "(4, 256)"),
        (np.zeros((4, 256), "U3"), "needs numbers"),
        (np.where(np.arange(4 * 256).reshape(4, 256) == 515, np.nan, 1), "nan for input 2, channel 3"),
        (None, "cannot be read"),
        (b"", "cannot be read"),
        (b"PK\x03\x04rubbish", "cannot be read"),
    ],
)
def test_gains(tmp_path, array, remedy):
    if isinstance(array, bytes):
        (tmp_path / "g.npy").write_bytes(array)
    elif array is not None:
        np.save(tmp_path / "g.npy", array)
    (tmp_path / "o.toml").write_text(GOOD.replace("channels = 256", 'channels = 256\ngains_file = "g.npy"'))
    with pytest.raises(ConfigError) as error:
        load(tmp_path / "o.toml")
    assert [p.key for p in error.value.problems] == ["fengine.gains_file"]
    assert remedy in error.value.problems[0].remedy


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        ("paper_psa12", "did you mean paper_psa128?"),
        ("paper_psa256", "4+4 or 8+8 bits"),
        ("mwax", "packets that count spectra"),
        ("ata_v2", "channel = n_chans"),
        ("chime_ice", "time, element"),
        ("mine.toml", "mine.toml: header.bytes: "),
    ],
)
def test_formats_that_cannot_be_taken(tmp_path, name, remedy):
    """What is wrong with a format is said, and nothing else is then found wrong that follows from it."""
    shipped = (FORMATS / "hera_snap.toml").read_text()
    (tmp_path / "mine.toml").write_text(shipped.replace("bytes = 8", "bytes = -8", 1))
    (tmp_path / "o.toml").write_text(PACKETS.replace("paper_psa128", name))
    with pytest.raises(ConfigError) as error:
        load(tmp_path / "o.toml")
    assert [p.key for p in error.value.problems] == ["fengine.packets"] and remedy in str(error.value)


def test_a_format_beside_the_file(tmp_path):
    (tmp_path / "mine.toml").write_text(
        (FORMATS / "paper_psa128.toml").read_text().replace("channel = 64", "channel = 32")
    )
    (tmp_path / "o.toml").write_text(PACKETS.replace("paper_psa128", "mine.toml"))
    assert load(tmp_path / "o.toml").packet_channels == 32


def test_examples_have_no_mistake():
    for name in ("demo", "meerkat_extension", "paper128", "alma72", "vdif2"):
        assert checks.run(load(example(name))) == []

"""``ryle send``: what is asked for arrives in the sender, mistakes end with what to write instead."""

import json
import socket
import subprocess
import sys

import pytest
import typer
from typer.testing import CliRunner

from ryle.cli.arguments import numbers, pair, settings
from ryle.cli.send import send
from ryle.config.addresses import endpoints, senders

app = typer.Typer()
app.command()(send)


def run(*arguments):
    return CliRunner().invoke(app, [str(a) for a in arguments], env={"COLUMNS": "140"})


def test_numbers_of_a_run(tmp_path, ports):
    out, port = tmp_path / "sent.json", ports(2)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.setsockopt(socket.SOL_SOCKET, 33, 16 << 20)
        s.bind(("127.0.0.1", port))
        s.settimeout(60)
        result = run(
            *f"vdif --to 127.0.0.1:{port}+2 --from 127.0.0.8 --sources 2 --packets 20 --pps 4000 --burst 2 --payload ramp".split(),
            *"--start 64000000 --field station=7 --field epoch=0x2E --skew 0,2 --loss 0.2 --fault-seed 5 --plain".split(),
            *("--json", out),
        )
        assert result.exit_code == 0, result.output
        first, (address, _) = s.recvfrom(65536)
    assert address == "127.0.0.8" and len(first) == 8032
    assert int.from_bytes(first[:4], "little") == 1 and first[12:14] == b"\7\0"  # second 1, station 7
    found = json.loads(out.read_text())
    assert found["format"] == "vdif" and found["packet_bytes"] == 8032 and found["burst"] == 2
    assert found["packets"] == 80 - found["injected"]["lost"] and found["injected"]["lost"] > 0
    assert [(s["to"], s["fields"]["station"], s["fields"]["thread"], s["lag_ms"]) for s in found["streams"]] == [
        (f"127.0.0.1:{port + d}", 7 + k, d, 2.0 * k) for k in range(2) for d in range(2)
    ]
    assert found["payload"] == {"filling": "ramp", "seed": 1} and not found["segmentation"]
    assert found["asked_packets_per_s"] == 4000 and found["faults"]["seed"] == 5


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("counter_8192", "--to ADDRESS:PORT"),
        ("counter_8192 --to 10.0.0.1", "10.0.0.1:7148"),
        ("counter_819 --to 127.0.0.1:9", "counter_8192"),
        ("counter_8192 --to 127.0.0.1:9 --size 100", "packets have 8192 bytes"),
        ("counter_8192 --to 127.0.0.1:9 --field counter", "NAME=NUMBER"),
        ("counter_8192 --to 127.0.0.1:9 --jump 5", "SECONDS:PACKETS"),
        ("counter_8192 --to 127.0.0.1:9 --skew a", "0,40,100"),
        ("counter_8192 --to 127.0.0.1:9 --from 192.0.2.1", "ip addr"),
    ],
)
def test_mistakes(arguments, said):
    result = run(*arguments.split())
    assert result.exit_code == 1 and said in str(result.exception).replace("\n", " ")


def test_a_mistake_as_users_see_it():
    done = subprocess.run(
        [sys.executable, "-m", "ryle", "send", "counter_8192"], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 2 and "--to ADDRESS:PORT" in done.stderr and "Traceback" not in done.stderr


def test_addresses():
    assert [str(e) for e in endpoints("10.0.0.1:7148+2, [fd00::1]:9")] == [
        "10.0.0.1:7148",
        "10.0.0.1:7149",
        "[fd00::1]:9",
    ]
    assert [str(e) for e in endpoints("239.1.1.1:7148+2")] == ["239.1.1.1:7148", "239.1.1.2:7148"]
    assert [str(e) for e in endpoints("239.1.1.1+2:7148,[ff15::7]+1:9")] == [
        "239.1.1.1:7148", "239.1.1.2:7148", "239.1.1.3:7148", "[ff15::7]:9", "[ff15::8]:9",
    ]  # fmt: skip
    with pytest.raises(ValueError, match="past the multicast"):
        endpoints("239.255.255.255+1:7148")
    assert [str(e) for e in endpoints("[ff15::1%lo]:7+2")] == ["[ff15::1%lo]:7", "[ff15::2%lo]:7"]
    assert [str(e) for e in senders("10.0.0.5,10.0.0.6:5000+2,::1")] == [
        "10.0.0.5:0", "10.0.0.6:5000", "10.0.0.6:5001", "[::1]:0",
    ]  # fmt: skip
    for wrong in ("10.0.0.1:70000", "10.0.0.1:0", "host:5", "10.0.0.1:65535+2", "10.0.0.1:5+0", ""):
        with pytest.raises(ValueError, match="no address and port"):
            endpoints(wrong)


def test_small_arguments():
    assert numbers("0,40.5", "--skew") == [0, 40.5] and numbers("", "--skew") == []
    assert pair("2.5:-10", "--jump") == (2.5, -10)
    assert settings(["a=1", "b = 0x20"]) == {"a": 1, "b": 32}

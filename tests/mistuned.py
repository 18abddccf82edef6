"""What can be put wrong on the machine of `tuned`, and what is to be found then."""

from ryle.doctor import examine
from ryle.host_clock import ClockFacts
from tuned import CARD, CORES, GPU, NEEDS, card, configuration, gpu

CPU = "sys/devices/system/cpu"


def wrong(it, needs=NEEDS):
    return {(f.key, f.where): f for part in examine(it, needs).values() for f in part if f.wrong}


#: What is put wrong: files, or facts and needs; the finding's key, where it is, how bad, and a word of what mends it.
FILES = {
    "governor": (
        {f"{CPU}/cpu3/cpufreq/scaling_governor": "ondemand"},
        ("governor", "core 3", "poor", "cpufreq/scaling_governor"),
    ),
    "idle": (
        {f"{CPU}/cpu{n}/cpuidle/state2/disable": 0 for n in range(CORES)},
        ("idle", "all cores", "poor", "cpuidle/state2/disable"),
    ),
    "realtime": (
        {"proc/sys/kernel/sched_rt_runtime_us": "950000"},
        ("realtime", "", "poor", "sched_rt_runtime_us=999000"),
    ),
    "clocksource": (
        {"sys/devices/system/clocksource/clocksource0/current_clocksource": "hpet"},
        ("clocksource", "", "poor", "echo tsc"),
    ),
    "quota": ({"sys/fs/cgroup/system.slice/ryle.service/cpu.max": "250000 100000"},
              ("quota", "system.slice/ryle.service", "bad", "--cpuset-cpus")),
    "quota above": ({"sys/fs/cgroup/cpu.max": "250000 100000"}, ("quota", "/", "bad", "echo max > /sys/fs/cgroup/cpu.max")),
    "steal": ({"proc/stat": "cpu  1000 0 1000 90000 10 0 10 2000 0 0"}, ("steal", "", "poor", "dedicated")),
    "thp": (
        {"sys/kernel/mm/transparent_hugepage/enabled": "always madvise [never]"},
        ("thp", "", "poor", "echo madvise"),
    ),
    "hugepages": (
        {"sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages": "12"},
        ("hugepages", "", "bad", f"vm.nr_hugepages={1024 + 500}"),
    ),
    "numa-balancing": ({"proc/sys/kernel/numa_balancing": "1"}, ("numa-balancing", "", "poor", "numa_balancing=0")),
    "zone-reclaim": ({"proc/sys/vm/zone_reclaim_mode": "1"}, ("zone-reclaim", "", "poor", "zone_reclaim_mode=0")),
    "swap": (
        {"proc/swaps": "Filename Type Size Used Priority\n/dev/sda2 partition 8 0 -2"},
        ("swap", "/dev/sda2", "poor", "vm.swappiness=1"),
    ),
    "rmem": ({"proc/sys/net/core/rmem_max": "212992"}, ("rmem", "", "bad", f"rmem_max={64 << 20}")),
    "wmem": ({"proc/sys/net/core/wmem_max": "212992"}, ("wmem", "", "poor", f"wmem_max={8 << 20}")),
    "udp-mem": (
        {"proc/sys/net/ipv4/udp_mem": "10000 20000 30000"},
        ("udp-mem", "", "bad", f'net.ipv4.udp_mem="65536 98304 {4 * 2 * (64 << 20) // 4096}"'),
    ),
    "backlog": ({"proc/net/softnet_stat": "00100000 00000007 00000000 0"}, ("backlog", "", "poor", "netdev_max_backlog=16000")),
    "budget": ({"proc/net/softnet_stat": "00100000 00000000 00001000 0"}, ("budget", "", "poor", "netdev_budget=600")),
    "rp-filter": ({"proc/sys/net/ipv4/conf/all/rp_filter": "1", "proc/sys/net/ipv4/conf/eth2/rp_filter": "0"},
                  ("rp-filter", "eth2", "poor", "rp_filter=2")),
    "interrupts": (
        {"proc/irq/91/smp_affinity_list": "1", "proc/77/comm": "irqbalance"},
        ("interrupts", "eth2", "poor", "echo 2-3,8-11 > /proc/irq/91/smp_affinity_list"),
    ),
    "interrupts far": ({"proc/irq/90/smp_affinity_list": "12"}, ("interrupts", "eth2", "poor", "/proc/irq/90/")),
    "losses": (
        {"sys/class/net/eth2/statistics/rx_missed_errors": "4711"},
        ("losses", "eth2", "poor", "look whether the counters stand"),
    ),
    "damage": ({"sys/class/net/eth2/statistics/rx_crc_errors": "3"}, ("losses", "eth2", "poor", "transceiver")),
    "loopback": (
        {"sys/class/net/eth2/settings/force_local_lb_disable": "0"},
        ("loopback", "eth2", "poor", "echo 1 > /sys/class/net/eth2/settings/force_local_lb_disable"),
    ),
    "width": ({f"sys/bus/pci/devices/{GPU}/current_link_width": "8"}, ("pcie-width", "GPU 0", "bad", "slot of x16")),
    "speed": (
        {f"sys/bus/pci/devices/{CARD}/current_link_speed": "8.0 GT/s PCIe"},
        ("pcie-speed", "eth2", "bad", "newer generation"),
    ),
    "ordering": (
        {f"sys/bus/pci/devices/{CARD}/config": configuration(0x5820)},
        ("relaxed-ordering", "eth2", "poor", f"setpci -s {CARD} CAP_EXP+8.w=0010:0010"),
    ),
    "requests": (
        {f"sys/bus/pci/devices/{GPU}/config": configuration(0x0830)},
        ("read-request", "GPU 0", "poor", f"setpci -s {GPU} CAP_EXP+8.w=5000:7000"),
    ),
    "iommu": ({"sys/kernel/iommu_groups/7/type": "DMA-FQ"}, ("iommu", "eth2", "poor", "iommu=pt")),
    "bus errors": (
        {f"sys/bus/pci/devices/{GPU}/aer_dev_correctable": "RxErr 5\nTOTAL_ERR_COR 5"},
        ("pcie-errors", "GPU 0", "poor", "riser"),
    ),
    "window": (
        {f"sys/bus/pci/devices/{GPU}/resource": "0xd0000000 0xd0ffffff 0x4\n0xe0000000 0xefffffff 0x4"},
        ("bar1", "GPU 0", "bad", "resizable BAR"),
    ),
    "other node": ({f"sys/bus/pci/devices/{GPU}/numa_node": "1"}, ("numa", "", "poor", "slots of one processor")),
}  # fmt: skip
FACTS = {
    "mtu": ({"interfaces": [card(mtu=1500)]}, {}, ("mtu", "eth2", "bad", "ip link set dev eth2 mtu 9000")),
    "ring": ({"interfaces": [card(ring=512)]}, {}, ("ring", "eth2", "poor", "ethtool -G eth2 rx 8192")),
    "gro": ({"interfaces": [card(gro=False)]}, {}, ("gro", "eth2", "poor", "ethtool -K eth2 gro on")),
    "down": ({"interfaces": [card(up=False)]}, {}, ("link", "eth2", "bad", "ip link set dev eth2 up")),
    "slow link": ({"interfaces": [card(speed=100e9)]}, {}, ("link", "eth2", "bad", "other machines or cards")),
    "siblings": ({}, {"cores": (0, 1, 2, 9), "receiving": (1,)}, ("smt", "cores 1 and 9", "poor", "the sibling")),
    "cores away": ({}, {"cores": (0, 1, 12)}, ("numa-cores", "core 12", "poor", "cores 0-3, 8-11")),
    "memlock": ({"memlock": 8 << 20}, {}, ("memlock", "", "bad", "LimitMEMLOCK")),
    "open files": ({"open_files": 1024}, {"most_sockets": 900}, ("open-files", "", "bad", "ulimit -n 1156")),
    "persistence": ({"gpus": [gpu(persistence=False)]}, {}, ("persistence", "GPU 0", "poor", f"nvidia-smi -i {GPU} -pm 1")),
    "gpu clock": ({"gpus": [gpu(clock=1.2e9)]}, {}, ("gpu-clock", "GPU 0", "poor", "-rac")),
    "gpu power": ({"gpus": [gpu(power=500.0)]}, {}, ("gpu-power", "GPU 0", "poor", "-pl 700")),
    "gpu errors": ({"gpus": [gpu(uncorrected=2)]}, {}, ("gpu-errors", "GPU 0", "bad", "exchanged")),
    "gpu heat": ({"gpus": [gpu(slowed=("power", "heat"))]}, {}, ("gpu-slowed", "GPU 0", "bad", "air")),
    "exclusive": ({"gpus": [gpu(exclusive=True)]}, {"shared_gpus": True}, ("exclusive", "GPU 0", "bad", "-c DEFAULT")),
    "no gpu": ({"gpus": []}, {"window": 0}, ("gpu", "GPU 0", "bad", "no NVIDIA driver")),
    "another gpu": ({}, {"gpus": (0, 2)}, ("gpu", "GPU 2", "bad", "CUDA_VISIBLE_DEVICES")),
    "time": ({"clock": ClockFacts(False, 16.0)}, {}, ("time", "", "poor", "chrony")),
    "time far": ({"clock": ClockFacts(True, 0.3)}, {}, ("time", "", "poor", "chrony")),
    "interface": ({}, {"interface": "10.9.9.9", "devices": ("eth2",)}, ("interface", "10.9.9.9", "bad", "[network] interface")),
    "no device": ({}, {"dpdk": ("0000:99:00.0",)}, ("dpdk-device", "0000:99:00.0", "bad", "lspci")),
}  # fmt: skip

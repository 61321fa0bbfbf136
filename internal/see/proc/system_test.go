package proc

// Tests of the machine's own files.

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// covered fails for every row that a table of expectations does not know.
func covered[T any](t *testing.T, rows map[string][]byte, expected map[string]T) {
	t.Helper()
	for id := range rows {
		if _, ok := expected[id]; !ok {
			t.Errorf("row %s has no expectation here", id)
		}
	}
	for id := range expected {
		if _, ok := rows[id]; !ok {
			t.Errorf("there is no row %s", id)
		}
	}
}

func TestKernelStatRows(t *testing.T) {
	t.Parallel()
	rows := rowsOfKind(t, "stat")
	expected := map[string]struct {
		total   string
		cpus    int
		last    int // id of the last CPU
		forks   *uint64
		running *uint64
		boot    *int64
	}{
		"p070": {"{69718203 0 1882385 218038998 1804702 36288 25309 0 0 0 10}", 1, 0, nil, nil, nil},
		"p071": {"{849282590 7356 398488121 14888068462 187327979 0 136302036 0 0 0 10}", 3, 2, nil, nil, nil},
		"p073": {"{23644 6695 4764 134931750 22115 0 473 5892 0 0 10}", 4, 3, ptr(uint64(41562)), ptr(uint64(1)), ptr(int64(1505515383))},
		"p075": {"{466693 107 530793 10838055 41320 71 590 0 334857 0 9}", 8, 7, ptr(uint64(29070)), ptr(uint64(1)), ptr(int64(1403209334))},
		"p076": {"{2333 15 2649 608596 1517 292 286 474 0 0 10}", 4, 3, ptr(uint64(1945)), ptr(uint64(2)), ptr(int64(1486679189))},
		"p077": {"{84918 720 50767 114662595 332017 5575 9015 1 2 3 10}", 4, 3, ptr(uint64(237770)), ptr(uint64(2)), ptr(int64(1414357353))},
		"p078": {"{728198716 39636 158011089 37269636514 62997159 0 4781646 0 688783983 927 10}", 1, 0, nil, nil, nil},
		"p080": {"{997 0 1235 861802 327 267 138 0 0 0 10}", 6, 31, nil, nil, nil},
	}
	covered(t, rows, expected)
	for id, e := range expected {
		k, err := ParseKernelStat(rows[id])
		if err != nil {
			t.Errorf("%s: %v", id, err)
			continue
		}
		if fmt.Sprint(k.Total) != e.total || len(k.CPUs) != e.cpus || k.CPUs[len(k.CPUs)-1].ID != e.last ||
			!same(k.Forks, e.forks) || !same(k.Running, e.running) || !same(k.BootTime, e.boot) {
			t.Errorf("%s: %+v, forks %v, running %v, boot %v", id, k, shown(k.Forks), shown(k.Running), shown(k.BootTime))
		}
	}
}

func TestParseKernelStat(t *testing.T) {
	t.Parallel()
	k, err := ParseKernelStat([]byte("cpu 1 2 3 4\ncpu0 1 2 3 4\ncpux 1 2 3 4\ncpu1 1 2\nctxt 99999999999999999999\nprocs_blocked 7\ncpu2 1 2 3 4 5"))
	if err != nil {
		t.Fatal(err)
	}
	// The last line is cut: its 5 may be the start of a longer number.
	if k.Total != (CPUTimes{User: 1, Nice: 2, System: 3, Idle: 4, Columns: 4}) || len(k.CPUs) != 2 || k.CPUs[1].Times.Columns != 4 ||
		k.ContextSwitches != nil || !same(k.Blocked, ptr(uint64(7))) {
		t.Errorf("%+v", k)
	}
	for _, wrong := range []string{"", "cpu0 1 2 3 4\n", "cpu 1 2 3\n", "cpu a b c d\n"} {
		if k, err := ParseKernelStat([]byte(wrong)); !errors.Is(err, ErrMalformed) {
			t.Errorf("%q: %v %v", wrong, k, err)
		}
	}
}

const kB = 1024

func TestMemoryRows(t *testing.T) {
	t.Parallel()
	rows := rowsOfKind(t, "meminfo")
	expected := map[string]func(m *Memory) bool{
		"p001": func(m *Memory) bool {
			return m.SwapFree == nil && same(m.SwapUsed(), ptr(uint64(0))) && same(m.Total, ptr(uint64(20971520*kB))) &&
				same(m.Free, m.Available) && !m.AvailableEstimated && m.HugePagesTotal != nil
		},
		"p003": func(m *Memory) bool {
			return m.Slab == nil && *m.SReclaimable+*m.SUnreclaim == 803796*kB && *m.Shmem > *m.Cached && *m.Available == 173640*kB
		},
		"p004": func(m *Memory) bool {
			return *m.Total == 4194304*kB && *m.Available == 4760*kB && m.Shmem == nil && m.SwapTotal == nil && m.SwapUsed() == nil &&
				m.Slab == nil && m.HugePageSize == nil && !m.AvailableEstimated
		},
		"p005": func(m *Memory) bool {
			return m.AvailableEstimated && *m.Total == 61641404*kB && *m.Available == (25071456+2728+26667096-9504+1539312)*kB &&
				*m.SwapUsed() == (8388604-8386812)*kB && m.HugePagesTotal == nil && *m.HugePageSize == 2048*kB
		},
		"p009": func(m *Memory) bool {
			return *m.HugePagesTotal == 200 && *m.HugePagesFree == 181 && *m.HugePageSize == 2048*kB && *m.Available == 118425544*kB
		},
		"p010": func(m *Memory) bool { return *m.Total == 8141728*kB && *m.Slab == 298464*kB && *m.HugePagesTotal == 0 },
		"p011": func(m *Memory) bool {
			return *m.Total == 65871236*kB && *m.Cached == 15878036*kB && !m.AvailableEstimated
		},
	}
	covered(t, rows, expected)
	for id, holds := range expected {
		m, err := ParseMemory(rows[id])
		if err != nil {
			t.Errorf("%s: %v", id, err)
		} else if !holds(m) {
			t.Errorf("%s: %+v", id, m)
		}
	}
}

func TestParseMemory(t *testing.T) {
	t.Parallel()
	m, err := ParseMemory([]byte("MemTotal: 100 kB\nMemFree: 90 kB\nBuffers: 20 kB\nCached: 5 kB\nShmem: 50 kB\nSwapTotal: 5 kB\nSwapFree: 7 kB\nDirty: 3\nSlab: x kB\n"))
	if err != nil {
		t.Fatal(err)
	}
	// The estimate never exceeds the total, and cached less shared is not negative.
	if !m.AvailableEstimated || *m.Available != 100*kB || m.SwapUsed() != nil || m.Dirty != nil || m.Slab != nil {
		t.Errorf("%+v", m)
	}
	for _, wrong := range []string{"", "\n\n", "MemTotal 5 kB\n", "Other: 5 kB\n"} {
		if _, err := ParseMemory([]byte(wrong)); !errors.Is(err, ErrMalformed) {
			t.Errorf("%q: %v", wrong, err)
		}
	}
	if m, err := tree(t, "prometheus-node_exporter").Memory(); err != nil || !m.AvailableEstimated {
		t.Errorf("%+v %v", m, err)
	}
}

func TestARCRows(t *testing.T) {
	t.Parallel()
	rows := rowsOfKind(t, "spl/kstat/zfs/arcstats")
	expected := map[string]ARC{"p013": {153, 153, 153}}
	covered(t, rows, expected)
	for id, e := range expected {
		if a, err := ParseARC(rows[id]); err != nil || *a != e {
			t.Errorf("%s: %+v %v", id, a, err)
		}
	}
	if a, err := tree(t, "prometheus-node_exporter").ARC(); err != nil || *a != (ARC{Size: 1603939792, Minimum: 33554432, Maximum: 8367976448}) {
		t.Errorf("%+v %v", a, err)
	}
	if _, err := ParseARC([]byte("size 4 1\n")); !errors.Is(err, ErrMalformed) {
		t.Error(err)
	}
}

func TestPressureRows(t *testing.T) {
	t.Parallel()
	rows := rowsOfKind(t, "pressure")
	for _, row := range corpus(t, "proc_files.tsv") {
		if row["kind"] == "cgroup cpu.pressure" {
			rows[row["id"]] = []byte(row["content"])
		}
	}
	expected := map[string]*Pressure{
		"p014": {Some: &PressureLine{2.04, 0.75, 0.42, 157656722}},
		"p015": {Some: &PressureLine{70.24, 68.52, 69.91, 3559632828}, Full: &PressureLine{57.59, 58.06, 60.38, 3300487258}},
		"p016": {Some: &PressureLine{0, 0, 0, 424932863}, Full: &PressureLine{0, 0, 0, 387245317}},
		"p017": {Full: &PressureLine{0, 0, 0, 100648410}},
		"p020": nil,
		"p021": {Some: &PressureLine{0, 0, 0, 44618}, Full: &PressureLine{0, 0, 0, 44480}},
	}
	covered(t, rows, expected)
	for id, e := range expected {
		p, err := ParsePressure(rows[id])
		if (e == nil) != errors.Is(err, ErrMalformed) || e != nil && (!same(p.Some, e.Some) || !same(p.Full, e.Full)) {
			t.Errorf("%s: %+v %v", id, p, err)
		}
	}
	for _, wrong := range []string{"some avg10=1 avg60=1 avg300=1\n", "some avg10=NaN avg60=1 avg300=1 total=1\n", "some avg10=1e9 avg60=1 avg300=1 total=1\n"} {
		if p, err := ParsePressure([]byte(wrong)); !errors.Is(err, ErrMalformed) {
			t.Errorf("%q: %+v %v", wrong, p, err)
		}
	}
	f := tree(t, "prometheus-node_exporter")
	if p, err := f.Pressure("irq"); err != nil || p.Some != nil || p.Full == nil {
		t.Errorf("irq: %+v %v", p, err)
	}
	if _, err := f.Pressure("net"); f.ReasonOf(err) != NotRecorded {
		t.Error(err)
	}
}

func TestLoad(t *testing.T) {
	t.Parallel()
	if l, err := tree(t, "prometheus-procfs").Load(); err != nil || *l != (Load{0.02, 0.04, 0.05, 1, 497}) {
		t.Errorf("%+v %v", l, err)
	}
	for _, wrong := range []string{"", "1 2", "1 2 3", "1 2 3 4", "a 2 3 1/2 5", "1 2 3 /2 5"} {
		if l, err := ParseLoad([]byte(wrong)); !errors.Is(err, ErrMalformed) {
			t.Errorf("%q: %+v %v", wrong, l, err)
		}
	}
}

func TestDiskRows(t *testing.T) {
	t.Parallel()
	rows := rowsOfKind(t, "diskstats")
	expected := map[string]struct {
		disks, partitions int
		some              []Disk
	}{
		"p037": {-1, -1, []Disk{
			{Major: 8, Name: "sda", Reads: 14181, ReadSectors: 898418, ReadMS: 125977, Writes: 19819, WriteSectors: 582524, WriteMS: 2007972, BusyMS: 294789, WeightedMS: 2133949},
			{Major: 104, Minor: 1, Name: "cciss/c0d0p1", Partition: true, Reads: 34, ReadSectors: 896, ReadMS: 107, BusyMS: 107, WeightedMS: 107},
			{Major: 253, Minor: 4, Name: "dm-4", Reads: 15, ReadSectors: 120, ReadMS: 37, BusyMS: 37, WeightedMS: 37},
		}},
		"p039": {10, 2, []Disk{
			{Major: 252, Name: "zram0", Reads: 285, ReadSectors: 2280, Writes: 1354, WriteSectors: 10832, BusyMS: 4},
			{Major: 8, Minor: 2, Name: "sda2", Partition: true, Reads: 1902222, ReadSectors: 65763084, ReadMS: 784276, Writes: 2489172, WriteSectors: 290339819, WriteMS: 8594247, BusyMS: 1558933, WeightedMS: 7847693},
		}},
		"p040": {-1, -1, []Disk{
			{Major: 8, Minor: 33, Name: "sdc1", Partition: true, Reads: 231, ReadSectors: 34466, ReadMS: 4, Writes: 24, WriteSectors: 106, BusyMS: 64, WeightedMS: 64},
		}},
		"p042": {21, 12, []Disk{
			{Major: 8, Minor: 32, Name: "sdc"},
			{Major: 65, Name: "sdq", Reads: 50601, ReadSectors: 3198498, ReadMS: 624970, BusyMS: 32862, WeightedMS: 714408},
			{Major: 65, Minor: 32, Name: "sds", Reads: 555, ReadSectors: 9594, ReadMS: 890, Writes: 897, WriteSectors: 9096, WriteMS: 5002, BusyMS: 962, WeightedMS: 10002},
		}},
		"p043": {29, 6, []Disk{
			{Major: 9, Minor: 1, Name: "md1", Reads: 43674393, ReadSectors: 1796434600, Writes: 3610616456, WriteSectors: 119095117160},
			{Major: 259, Minor: 2, Name: "nvme0n1p2", Partition: true, Reads: 10219, ReadSectors: 654412, ReadMS: 1509, Writes: 15875250, WriteSectors: 742747624, WriteMS: 3119250, BusyMS: 24574672, WeightedMS: 387804},
			{Major: 179, Minor: 24, Name: "mmcblk1", Reads: 144, ReadSectors: 7784, ReadMS: 338, BusyMS: 260, WeightedMS: 338},
			{Major: 2, Name: "fd0"},
		}},
	}
	covered(t, rows, expected)
	for id, e := range expected {
		disks, err := ParseDisks(rows[id])
		if err != nil {
			t.Errorf("%s: %v", id, err)
			continue
		}
		lines, partitions := strings.Count(string(rows[id]), "\n"), 0
		for _, d := range disks {
			if d.Partition {
				partitions++
			}
		}
		if len(disks) != lines || e.disks >= 0 && (len(disks) != e.disks || partitions != e.partitions) {
			t.Errorf("%s: %d disks of %d lines, %d partitions", id, len(disks), lines, partitions)
		}
		for _, d := range e.some {
			if !slices.Contains(disks, d) {
				i := slices.IndexFunc(disks, func(x Disk) bool { return x.Name == d.Name })
				t.Errorf("%s: %+v\nexpected %+v", id, disks[max(i, 0)], d)
			}
		}
	}
}

func TestParseDisks(t *testing.T) {
	t.Parallel()
	disks, err := ParseDisks([]byte(" 8 0 sda 1 2 3 4 5 6 7 8 9 10 11\n 8 1 short 1 2 3\n 8 2 sdb x 2 3 4 5 6 7 8 9 10 11\n 8 3 xvda1 1 2 3 4 5 6 7 8 9 10 11\n 8 4 sda1 1 2 3 4 5 6 7 8 9 10 1"))
	if err != nil || len(disks) != 2 || disks[1].Name != "xvda1" || disks[1].Partition {
		t.Errorf("%+v %v", disks, err)
	}
	if disks, err := ParseDisks(nil); disks != nil || err != nil {
		t.Errorf("%v %v", disks, err)
	}
	if _, err := ParseDisks([]byte("8 0 sda 1\n")); !errors.Is(err, ErrMalformed) {
		t.Error(err)
	}
}

// sysfs knows better than names: a whole disk may be called xvda1, and a
// partition may stand without its disk.
func TestTellPartition(t *testing.T) {
	t.Parallel()
	f := written(t, map[string]string{
		"proc/diskstats":                " 8 0 sda 1 2 3 4 5 6 7 8 9 10 11\n 8 1 sda1 1 2 3 4 5 6 7 8 9 10 11\n 9 9 odd 1 2 3 4 5 6 7 8 9 10 11\n 104 0 cciss/c0d0 1 2 3 4 5 6 7 8 9 10 11\n",
		"sys/dev/block/8:1/size":        "1\n",
		"sys/dev/block/9:9/partition":   "1\n",
		"sys/block/cciss!c0d0/c0d0p1/x": "",
	})
	disks, err := f.Disks()
	if err != nil || len(disks) != 4 {
		t.Fatal(disks, err)
	}
	if disks[0].Partition || disks[1].Partition || !disks[2].Partition || disks[3].Partition {
		t.Errorf("%+v", disks)
	}
}

func TestInterfaceRows(t *testing.T) {
	t.Parallel()
	rows := rowsOfKind(t, "net/dev")
	expected := map[string]struct {
		names []string // nil: not all are listed
		count int
		some  []Interface
	}{
		"p044": {[]string{"lo", "eth0", "tun999999", "tun10001:1", "tun10001:2"}, 5, []Interface{
			{Name: "tun999999", TxDropped: 15, TxKnown: true},
			{Name: "eth0", RxBytes: 1000866899965, RxPackets: 764654426, TxBytes: 1267144066, TxPackets: 5373060, TxKnown: true},
			{Name: "tun10001:2", TxKnown: true},
		}},
		"p046": {[]string{"lo", "eth0"}, 2, []Interface{
			{Name: "eth0", RxBytes: 5019464820, RxPackets: 14784542, TxBytes: 8907551793, TxPackets: 12498214, TxKnown: true},
		}},
		"p049": {[]string{"lo", "eth0"}, 2, []Interface{{Name: "lo", TxKnown: true}}},
		"p050": {[]string{"tun0", "wlp3s0", "virbr0", "lo", "virbr0-nic", "virbr1-nic", "virbr1", "enp0s25", "docker0"}, 9, []Interface{
			{Name: "tun0", RxBytes: 110717658, RxPackets: 251484, TxBytes: 120529230, TxPackets: 290405, TxDropped: 46, TxKnown: true},
		}},
		"p051": {nil, -1, []Interface{
			{Name: "lo", RxBytes: 480, RxPackets: 8, TxBytes: 480, TxPackets: 8, TxKnown: true},
			{Name: "eth0", RxBytes: 14948502, RxPackets: 95077, TxKnown: true},
			{Name: "eth47", TxKnown: true},
		}},
		"p052": {[]string{"lo", "enp8s0", "br-211476fe73de", "docker0"}, 4, []Interface{
			{Name: "enp8s0", RxBytes: 482459368, RxPackets: 349468, TxBytes: 16133415, TxPackets: 198549, TxKnown: true},
		}},
	}
	covered(t, rows, expected)
	for id, e := range expected {
		interfaces, err := ParseInterfaces(rows[id])
		if err != nil {
			t.Errorf("%s: %v", id, err)
			continue
		}
		var names []string
		for _, i := range interfaces {
			names = append(names, i.Name)
		}
		lines := len(strings.Split(strings.TrimRight(string(rows[id]), "\n"), "\n")) - 2
		if len(names) != lines || e.names != nil && !slices.Equal(names, e.names) {
			t.Errorf("%s: %q of %d lines", id, names, lines)
		}
		for _, i := range e.some {
			if !slices.Contains(interfaces, i) {
				t.Errorf("%s: no %+v in %+v", id, i, interfaces)
			}
		}
	}
}

func TestParseInterfaces(t *testing.T) {
	t.Parallel()
	interfaces, err := ParseInterfaces([]byte("a | b\n eth0: 1 2 3 4 5 6 7 8\n: 1 2 3 4\nnone 1 2 3 4\nx: 1 2\n eth1: 1 2 3 4 5 6 7 8 9 10 11 12"))
	if err != nil || len(interfaces) != 2 || interfaces[0].TxKnown || interfaces[1].TxKnown || interfaces[1].RxDropped != 4 {
		t.Errorf("%+v %v", interfaces, err)
	}
	if _, err := ParseInterfaces(nil); !errors.Is(err, ErrMalformed) {
		t.Error(err)
	}
	if i, err := ParseInterfaces([]byte("a | b\na | b\n")); err != nil || len(i) != 0 {
		t.Error(i, err)
	}
}

func TestMountRows(t *testing.T) {
	t.Parallel()
	rows := rowsOfKind(t, "mountinfo")
	expected := map[string]struct {
		count int
		some  []Mount
	}{
		"p053": {1, []Mount{{289, 45, 0, 173, "/", "/home/user/.local/share/Steam/steamapps/common/Baldurs Gate 3", "rw,relatime", "overlay", "overlayfs",
			"rw,seclabel,lowerdir=/home/user/.local/share/Steam/steamapps/compatdata/1086940/pfx/drive_c/users/steamuser/AppData/Local/Larian Studios/current/override:/home/user/.local/share/Steam/steamapps/common/bg3base,upperdir=/tmp/bg3/upper,workdir=/tmp/bg3/work"}}},
		"p055": {1, []Mount{{31, 21, 0, 23, "/", "/DATA/foo_bla_bla", "rw,relatime", "cifs", "//foo/BLA BLA BLA/",
			`rw,sec=ntlm,cache=loose,unc=\\foo\BLA BLA BLA,username=my_login,domain=mydomain.com,uid=12345678,forceuid,gid=12345678,forcegid,addr=10.1.30.10,file_mode=0755,dir_mode=0755,nounix,rsize=61440,wsize=65536,actimeo=1`}}},
		"p058": {42, []Mount{
			{2927, 3107, 0, 329, "/bus", "/proc/bus", "ro,relatime", "proc", "proc", "rw"},
			{2666, 2652, 0, 422, "/", "/bitnami/postgresql", "rw,relatime", "zfs", "zfspv-pool/pvc-eac565b8-0041-470f-8af7-5ebfa622d31d", "rw,xattr,noacl,casesensitive"},
		}},
		"p061": {6, []Mount{{31, 30, 0, 27, "/", "/sys/fs/cgroup/unified", "rw,nosuid,nodev,noexec,relatime", "cgroup2", "none", "rw,seclabel,nsdelegate"}}},
		"p063": {1, []Mount{{38, 31, 0, 33, "/", "/sys/fs/cgroup/cpu,cpuacct,net_cls,net_prio,hugetlb,memory", "rw,nosuid,nodev,noexec,relatime", "cgroup", "cgroup", "rw,cpu,cpuacct,memory,net_cls,net_prio,hugetlb"}}},
		"p065": {4, []Mount{{961, 957, 0, 26, "/../..", "testdata/docker2/sys/fs/cgroup", "ro,nosuid,nodev,noexec,relatime", "cgroup2", "cgroup2", "rw,seclabel,nsdelegate,memory_recursiveprot"}}},
		"p067": {2, []Mount{
			{36, 15, 0, 30, "/", "/proc/sys/fs/binfmt_misc", "rw,relatime", "autofs", "systemd-1", "rw,fd=38,pgrp=1,timeout=300,minproto=5,maxproto=5,direct"},
			{121, 22, 0, 36, "/", "/run/user/1000/gvfs", "rw,nosuid,nodev,relatime", "fuse.gvfsd-fuse", "gvfsd-fuse", "rw,user_id=1000,group_id=1000"},
		}},
	}
	covered(t, rows, expected)
	for id, e := range expected {
		mounts, err := ParseMounts(rows[id])
		if err != nil || len(mounts) != e.count {
			t.Errorf("%s: %d mounts, %v", id, len(mounts), err)
		}
		for _, m := range e.some {
			if !slices.Contains(mounts, m) {
				t.Errorf("%s: no %+v in %+v", id, m, mounts)
			}
		}
	}
}

func TestParseMounts(t *testing.T) {
	t.Parallel()
	// Two blanks in a row, an empty source, a broken line, broken escapes.
	mounts, err := ParseMounts([]byte("1 1 0:5 /  /root rw shared:8 - rootfs rootfs rw\n2 1 0:6 / /a\\040b rw - tmpfs  rw,size=1\nrest of an option - a b\n3 1 0:7 /\\04 /\\999\\134 rw - x y"))
	expected := []Mount{
		{1, 1, 0, 5, "/", "/root", "rw", "rootfs", "rootfs", "rw"},
		{2, 1, 0, 6, "/", "/a b", "rw", "tmpfs", "", "rw,size=1"},
		{3, 1, 0, 7, `/\04`, `/\999\`, "rw", "x", "y", ""},
	}
	if err != nil || !slices.Equal(mounts, expected) {
		t.Errorf("%+v %v", mounts, err)
	}
	if _, err := ParseMounts([]byte("x y z\n")); !errors.Is(err, ErrMalformed) {
		t.Error(err)
	}
	if m, err := tree(t, "prometheus-procfs").Mounts(); err != nil || len(m) == 0 {
		t.Errorf("of self, without a process 1: %v %v", m, err)
	}
	m, err := tree(t, "prometheus-node_exporter").Mounts()
	if err != nil || !slices.ContainsFunc(m, func(m Mount) bool { return strings.Contains(m.Point, "[vsanDatastore]\tbafb9e5a") }) {
		t.Errorf("of process 1: %v %v", m, err)
	}
}

func TestUptime(t *testing.T) {
	t.Parallel()
	for content, expected := range map[string]time.Duration{
		"350735.47 234388.90\n": 350735*time.Second + 470*time.Millisecond,
		"0.01 0.00\n":           10 * time.Millisecond,
		"7\n":                   7 * time.Second,
	} {
		if got, err := ParseUptime([]byte(content)); err != nil || got != expected {
			t.Errorf("%q: %v %v", content, got, err)
		}
	}
	for _, wrong := range []string{"", ".", "-1.00", "1.x", "99999999999999999999.0", "9223372037.0", "1.1234567890"} {
		if got, err := ParseUptime([]byte(wrong)); !errors.Is(err, ErrMalformed) {
			t.Errorf("%q: %v %v", wrong, got, err)
		}
	}
}

func TestShortFacts(t *testing.T) {
	t.Parallel()
	f := written(t, map[string]string{
		"proc/sys/kernel/random/boot_id": "1f9e2f2c-1f4a-4d4e-9f0b-0a8d3f7d2f11\n",
		"proc/sys/kernel/hostname":       "box\n",
		"proc/sys/kernel/osrelease":      "6.1.0\n",
		"proc/sys/kernel/pid_max":        "4194304\n",
		"sys/devices/system/cpu/online":  "0-1,4-5,8-9,12-13\n",
		"etc/passwd":                     "root:x:0:0:root:/root:/bin/sh\ntoor:x:0:0::/:\nbroken\n:x:5:5\nx:y:z:\nann:x:1000:1000:Ann,,,:/home/ann:/bin/sh\n",
		"proc/1/mountinfo":               "1 1 0:5 / / rw - ext4 /dev/a rw\n2 1 0:6 / /proc rw - proc proc rw,hidepid=2,gid=4\n",
	})
	if id, err := f.BootID(); id != "1f9e2f2c-1f4a-4d4e-9f0b-0a8d3f7d2f11" || err != nil {
		t.Error(id, err)
	}
	if name, err := f.Hostname(); name != "box" || err != nil {
		t.Error(name, err)
	}
	if release, err := f.KernelRelease(); release != "6.1.0" || err != nil {
		t.Error(release, err)
	}
	if n, err := f.PIDMax(); n != 4194304 || err != nil {
		t.Error(n, err)
	}
	if n, err := f.OnlineCPUs(); n != 8 || err != nil {
		t.Error(n, err)
	}
	if users := f.Users(); len(users) != 2 || users[0] != "root" || users[1000] != "ann" {
		t.Error(users)
	}
	if mode, err := f.HidePID(); mode != "invisible" || err != nil {
		t.Error(mode, err)
	}
	if f.ClockTicks() != 100 || f.PageSize() != 4096 {
		t.Error(f.ClockTicks(), f.PageSize())
	}
	bare := written(t, map[string]string{"proc/stat": "cpu 1 2 3 4\ncpu0 1 2 3 4\ncpu5 1 2 3 4\n", "proc/sys/kernel/hostname": "\n"})
	if n, err := bare.OnlineCPUs(); n != 2 || err != nil {
		t.Error(n, err)
	}
	if users := bare.Users(); users == nil || len(users) != 0 {
		t.Error(users)
	}
	if _, err := bare.Hostname(); !errors.Is(err, ErrMalformed) {
		t.Error(err)
	}
	if _, err := bare.BootID(); bare.ReasonOf(err) != NotRecorded {
		t.Error(err)
	}
	if _, err := bare.HidePID(); bare.ReasonOf(err) != NotRecorded {
		t.Error(err)
	}
}

func TestHidePIDModes(t *testing.T) {
	t.Parallel()
	mount := func(point, super string) Mount { return Mount{Point: point, Type: "proc", SuperOptions: super} }
	for _, c := range []struct {
		mounts  []Mount
		foreign bool
		mode    string
	}{
		{[]Mount{mount("/proc", "rw")}, false, "off"},
		{[]Mount{mount("/proc", "rw,hidepid=1")}, false, "noaccess"},
		{[]Mount{mount("/proc", "rw,hidepid=ptraceable,subset=pid")}, false, "ptraceable"},
		{[]Mount{mount("/proc", "rw,hidepid=2"), mount("/proc", "rw,hidepid=0")}, false, "off"},
		{[]Mount{mount("/other/proc", "rw")}, false, ""},
		{[]Mount{mount("/proc", "rw,hidepid=3")}, false, ""},
		{[]Mount{mount("/proc", "rw,hidepid=1"), mount("/host/proc", "rw,hidepid=2")}, true, "invisible"},
	} {
		point := "/proc"
		if c.foreign {
			point = "/host/proc"
		}
		if mode, err := hidePID(c.mounts, point, c.foreign); mode != c.mode || (err == nil) != (c.mode != "") {
			t.Errorf("%+v: %q %v", c.mounts, mode, err)
		}
	}
}

func TestParseCPUList(t *testing.T) {
	t.Parallel()
	for list, expected := range map[string]int{"": 0, "0": 1, "0-3,8,10-11\n": 7} {
		if n, err := ParseCPUList([]byte(list)); n != expected || err != nil {
			t.Errorf("%q: %d %v", list, n, err)
		}
	}
	for _, wrong := range []string{"a", "3-1", "0-", ",", "0-99999999999", "0-65535,0-65535"} {
		if n, err := ParseCPUList([]byte(wrong)); !errors.Is(err, ErrMalformed) {
			t.Errorf("%q: %d %v", wrong, n, err)
		}
	}
}

// proc/stat of this tree is longer than the buffers that readers usually take.
func TestTrees(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"prometheus-procfs", "prometheus-node_exporter"} {
		f := tree(t, name)
		if k, err := f.KernelStat(); err != nil || len(k.CPUs) != 8 || k.BootTime == nil || k.Forks == nil {
			t.Errorf("%s: %+v %v", name, k, err)
		}
		if m, err := f.Memory(); err != nil || m.Total == nil {
			t.Errorf("%s: %+v %v", name, m, err)
		}
		if d, err := f.Disks(); err != nil || len(d) < 40 || d[0].Name != "ram0" {
			t.Errorf("%s: %+v %v", name, d, err)
		}
		if i, err := f.Interfaces(); name == "prometheus-procfs" && (err != nil || len(i) < 3) || err != nil && f.ReasonOf(err) != NotRecorded {
			t.Errorf("%s: %+v %v", name, i, err)
		}
		if p, err := f.Pressure("memory"); err != nil || p.Some == nil || p.Full == nil {
			t.Errorf("%s: %+v %v", name, p, err)
		}
	}
}

func FuzzParseSystemFiles(f *testing.F) {
	for _, row := range corpus(f, "proc_files.tsv") {
		f.Add([]byte(row["content"]))
	}
	f.Add([]byte("350735.47 234388.90\n"))
	f.Add([]byte("0.02 0.04 0.05 1/497 11947\n"))
	f.Add([]byte("0-3,8,10-11\n"))
	f.Add([]byte("root:x:0:0:root:/root:/bin/sh\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		check := func(what string, value bool, err error) {
			if value == (err != nil) || err != nil && !errors.Is(err, ErrMalformed) {
				t.Errorf("%s: value %v and error %v", what, value, err)
			}
		}
		k, err := ParseKernelStat(data)
		check("stat", k != nil, err)
		m, err := ParseMemory(data)
		check("meminfo", m != nil, err)
		if m != nil {
			if used := m.SwapUsed(); used != nil && *used > 0 && *used > *m.SwapTotal {
				t.Errorf("%d of %d bytes of swap are used", *used, *m.SwapTotal)
			}
			if m.AvailableEstimated && m.Total != nil && *m.Available > *m.Total {
				t.Error("more is available than there is")
			}
		}
		a, err := ParseARC(data)
		check("arcstats", a != nil, err)
		p, err := ParsePressure(data)
		check("pressure", p != nil, err)
		l, err := ParseLoad(data)
		check("loadavg", l != nil, err)
		for _, d := range must(ParseDisks(data)) {
			if d.Name == "" {
				t.Error("a disk without a name")
			}
		}
		for _, i := range must(ParseInterfaces(data)) {
			if i.Name == "" || !i.TxKnown && i.TxBytes != 0 {
				t.Errorf("%+v", i)
			}
		}
		for _, m := range must(ParseMounts(data)) {
			if m.Type == "" {
				t.Errorf("%+v", m)
			}
		}
		if up, err := ParseUptime(data); up < 0 || err != nil && up != 0 {
			t.Error(up, err)
		}
		if n, err := ParseCPUList(data); n < 0 || err != nil && n != 0 {
			t.Error(n, err)
		}
		ParseUsers(data)
		ParseAuxv(data, auxClockTicks)
	})
}

// must drops an error that the caller does not look at.
func must[T any](v T, _ error) T { return v }

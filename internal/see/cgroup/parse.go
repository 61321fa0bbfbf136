package cgroup

import (
	"bytes"
	"math"
	"strconv"
	"strings"
)

// This file holds the parsers of control group files. They take what is there
// and leave out what is not: a line that makes no sense gives an absence.

// eachPair calls visit for every "key value" line of a flat keyed file.
func eachPair(data []byte, visit func(key []byte, value uint64)) {
	for len(data) > 0 {
		line := data
		if i := bytes.IndexByte(data, '\n'); i >= 0 {
			line, data = data[:i], data[i+1:]
		} else {
			data = nil
		}
		key, value, ok := bytes.Cut(line, []byte(" "))
		if !ok {
			continue
		}
		if n, ok := number(value); ok {
			visit(key, n)
		}
	}
}

// number reads a decimal number with nothing but blanks around it.
func number(text []byte) (uint64, bool) {
	text = bytes.TrimSpace(text)
	if len(text) == 0 || len(text) > 20 {
		return 0, false
	}
	var n uint64
	for _, c := range text {
		if c < '0' || c > '9' {
			return 0, false
		}
		d := uint64(c - '0')
		if n > (math.MaxUint64-d)/10 {
			return 0, false
		}
		n = n*10 + d
	}
	return n, true
}

func single(data []byte) *uint64 {
	if n, ok := number(data); ok {
		return &n
	}
	return nil
}

// A cpuStat is cpu.stat of either version; v1's has only the throttling, in
// nanoseconds, which are turned into microseconds here.
type cpuStat struct {
	usage, user, system        *uint64
	periods, throttled, micros *uint64
}

func parseCPUStat(data []byte) (s cpuStat) {
	eachPair(data, func(key []byte, value uint64) {
		switch string(key) {
		case "usage_usec":
			s.usage = &value
		case "user_usec":
			s.user = &value
		case "system_usec":
			s.system = &value
		case "nr_periods":
			s.periods = &value
		case "nr_throttled":
			s.throttled = &value
		case "throttled_usec":
			s.micros = &value
		case "throttled_time":
			value /= 1000
			s.micros = &value
		}
	})
	return s
}

// microsPerTick: cpuacct.stat counts in USER_HZ, which is 100 everywhere.
const microsPerTick = 1_000_000 / 100

// parseCPUSplit reads cpuacct.stat: user and system time, in ticks, as
// microseconds.
func parseCPUSplit(data []byte) (user, system *uint64) {
	eachPair(data, func(key []byte, value uint64) {
		if value > math.MaxUint64/microsPerTick {
			return
		}
		value *= microsPerTick
		switch string(key) {
		case "user":
			user = &value
		case "system":
			system = &value
		}
	})
	return user, system
}

// A memoryStat is what we need of memory.stat, in bytes. v1's plain figures
// leave out the children, its total_ ones include them as v2's do.
type memoryStat struct {
	inactiveFile, anon, file, swap *uint64
	limit                          *uint64 // v1: the smallest limit of all ancestors
}

func parseMemoryStat(data []byte, v2 bool) (s memoryStat) {
	eachPair(data, func(key []byte, value uint64) {
		if v2 {
			switch string(key) {
			case "inactive_file":
				s.inactiveFile = &value
			case "anon":
				s.anon = &value
			case "file":
				s.file = &value
			}
			return
		}
		switch string(key) {
		case "total_inactive_file":
			s.inactiveFile = &value
		case "total_rss":
			s.anon = &value
		case "total_cache":
			s.file = &value
		case "total_swap":
			s.swap = &value
		case "hierarchical_memory_limit":
			s.limit = &value
		}
	})
	return s
}

// parseOOMKills reads the oom_kill line of memory.events or memory.oom_control.
func parseOOMKills(data []byte) (kills *uint64) {
	eachPair(data, func(key []byte, value uint64) {
		if string(key) == "oom_kill" {
			kills = &value
		}
	})
	return kills
}

// noLimit is where v1's page counters end: PAGE_COUNTER_MAX pages of 4 KiB to
// 64 KiB. A limit at or above it is none.
const noLimit = 0x7FFFFFFFFFFF0000

// parseLimit reads memory.max, memory.limit_in_bytes, pids.max: a number, or
// nil and true for no limit.
func parseLimit(data []byte) (limit *uint64, unlimited bool) {
	text := bytes.TrimSpace(data)
	if string(text) == "max" || string(text) == "-1" {
		return nil, true
	}
	n, ok := number(text)
	if !ok {
		return nil, false
	}
	if n >= noLimit {
		return nil, true
	}
	return &n, false
}

// parseQuota reads cpu.max ("50000 100000", "max 100000") as cores.
func parseQuota(data []byte) (cores *float64, unlimited bool) {
	quota, period, ok := bytes.Cut(bytes.TrimSpace(data), []byte(" "))
	if string(quota) == "max" {
		return nil, true
	}
	if !ok {
		period = []byte("100000") // the kernel's default
	}
	return quotaCores(quota, period)
}

// quotaCores divides a quota by its period, as v1 keeps them in two files;
// -1 is no quota.
func quotaCores(quota, period []byte) (cores *float64, unlimited bool) {
	if string(bytes.TrimSpace(quota)) == "-1" {
		return nil, true
	}
	q, ok := number(quota)
	p, ok2 := number(period)
	if !ok || !ok2 || p == 0 {
		return nil, false
	}
	n := float64(q) / float64(p)
	return &n, false
}

// parseIOStat sums io.stat over its devices. Lines may hold several devices
// and no counters at all. Stacked devices (dm on a disk) are counted as the
// kernel gives them, once each.
func parseIOStat(data []byte) (read, written *uint64) {
	for field := range bytes.FieldsSeq(data) {
		key, value, ok := bytes.Cut(field, []byte("="))
		if !ok {
			continue
		}
		n, ok := number(value)
		if !ok {
			continue
		}
		switch string(key) {
		case "rbytes":
			read = add(read, n)
		case "wbytes":
			written = add(written, n)
		}
	}
	return read, written
}

// parseServiceBytes sums v1's blkio.throttle.io_service_bytes ("8:0 Read 4096").
func parseServiceBytes(data []byte) (read, written *uint64) {
	for line := range bytes.Lines(data) {
		fields := bytes.Fields(line)
		if len(fields) == 2 && string(fields[0]) == "Total" && read == nil && written == nil {
			if n, ok := number(fields[1]); ok && n == 0 {
				read, written = new(uint64), new(uint64)
			}
			continue
		}
		if len(fields) != 3 {
			continue
		}
		n, ok := number(fields[2])
		if !ok {
			continue
		}
		switch string(fields[1]) {
		case "Read":
			read = add(read, n)
		case "Write":
			written = add(written, n)
		}
	}
	return read, written
}

func add(sum *uint64, n uint64) *uint64 {
	if sum == nil {
		return &n
	}
	if *sum > math.MaxUint64-n {
		*sum = math.MaxUint64
	} else {
		*sum += n
	}
	return sum
}

// maxCPU bounds the numbers of a cpuset: NR_CPUS of the largest kernels is
// 8192.
const maxCPU = 1 << 16

// ParseCPUList counts the CPUs of a list such as "0-3,8" (cpuset.cpus,
// sys/devices/system/cpu/online). The empty list is none. ok is false when it
// makes no sense.
func ParseCPUList(list string) (count int, ok bool) {
	list = strings.TrimSpace(list)
	if list == "" {
		return 0, true
	}
	next := 0 // the kernel writes ascending ranges that do not overlap
	for part := range strings.SplitSeq(list, ",") {
		from, to, ranged := strings.Cut(part, "-")
		first, err := strconv.Atoi(from)
		last := first
		if ranged && err == nil {
			last, err = strconv.Atoi(to)
		}
		if err != nil || first < next || last < first || last > maxCPU {
			return 0, false
		}
		count += last - first + 1
		next = last + 1
	}
	return count, true
}

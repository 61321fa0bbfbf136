package proc

import (
	"bytes"
	"strconv"
)

// KernelStat reads proc/stat.
func (f FS) KernelStat() (*KernelStat, error) {
	data, err := f.Read(FileStat)
	if err != nil {
		return nil, err
	}
	return ParseKernelStat(data)
}

// ParseKernelStat parses the content of proc/stat (proc_stat(5)). Lines that
// are missing or not numbers leave their figure nil; without the line of all
// CPUs the error wraps [ErrMalformed].
func ParseKernelStat(data []byte) (*KernelStat, error) {
	k := new(KernelStat)
	total := false
	for rest := data; len(rest) > 0; {
		var line []byte
		line, rest = nextLine(rest)
		key, values := nextWord(line)
		if number, ok := bytes.CutPrefix(key, []byte("cpu")); ok {
			whole := len(rest) > 0 || bytes.HasSuffix(data, newline)
			times, ok := parseCPUTimes(values, whole)
			if !ok {
				continue
			}
			if len(number) == 0 {
				k.Total, total = times, true
			} else if id, err := strconv.ParseUint(string(number), 10, 31); err == nil {
				k.CPUs = append(k.CPUs, CPU{ID: int(id), Times: times})
			}
			continue
		}
		k.set(string(key), values)
	}
	if !total {
		return nil, malformed("stat, no cpu line", data)
	}
	return k, nil
}

func (k *KernelStat) set(key string, values []byte) {
	value, _ := nextWord(values)
	switch key {
	case "ctxt":
		setUint(&k.ContextSwitches, value)
	case "btime":
		if v, err := strconv.ParseInt(string(value), 10, 64); err == nil {
			setOnce(&k.BootTime, v)
		}
	case "processes":
		setUint(&k.Forks, value)
	case "procs_running":
		setUint(&k.Running, value)
	case "procs_blocked":
		setUint(&k.Blocked, value)
	}
}

// parseCPUTimes reads the columns of a cpu line: 4 on the oldest kernels, 10
// on current ones. The last number of a line that was cut off is dropped.
func parseCPUTimes(values []byte, whole bool) (CPUTimes, bool) {
	var v [10]uint64
	n := parseUints(values, v[:])
	if !whole && n < len(v) {
		n--
	}
	if n < 4 {
		return CPUTimes{}, false
	}
	clear(v[n:])
	return CPUTimes{
		User: v[0], Nice: v[1], System: v[2], Idle: v[3], IOWait: v[4], IRQ: v[5],
		SoftIRQ: v[6], Steal: v[7], Guest: v[8], GuestNice: v[9], Columns: n,
	}, true
}

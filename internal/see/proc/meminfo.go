package proc

import (
	"bytes"
	"math"
)

// Memory reads proc/meminfo.
func (f FS) Memory() (*Memory, error) {
	data, err := f.Read(FileMemory)
	if err != nil {
		return nil, err
	}
	return ParseMemory(data)
}

// ParseMemory parses the content of proc/meminfo (proc_meminfo(5)). A key that
// is missing, or whose bytes exceed 64 bits, is nil; so is a Slab that is less
// than its two parts (lxcfs writes 0). Content without any known key gives an
// error that wraps [ErrMalformed].
func ParseMemory(data []byte) (*Memory, error) {
	m := new(Memory)
	known := false
	for rest := data; len(rest) > 0; {
		var line []byte
		line, rest = nextLine(rest)
		key, value, ok := bytes.Cut(line, colon)
		if ok && m.set(bytes.TrimSpace(key), bytes.TrimSpace(value)) {
			known = true
		}
	}
	if !known {
		return nil, malformed("meminfo", data)
	}
	if m.Slab != nil && m.SReclaimable != nil && m.SUnreclaim != nil && *m.Slab < *m.SReclaimable+*m.SUnreclaim {
		m.Slab = nil
	}
	m.estimateAvailable()
	return m, nil
}

func (m *Memory) set(key, value []byte) bool {
	into := m.field(string(key))
	if into == nil {
		return false
	}
	if into == &m.HugePagesTotal || into == &m.HugePagesFree {
		return setUint(into, value)
	}
	return setKilobytes(into, value)
}

func (m *Memory) field(key string) **uint64 {
	switch key {
	case "MemTotal":
		return &m.Total
	case "MemFree":
		return &m.Free
	case "MemAvailable":
		return &m.Available
	case "Buffers":
		return &m.Buffers
	case "Cached":
		return &m.Cached
	case "Shmem":
		return &m.Shmem
	case "Slab":
		return &m.Slab
	case "SReclaimable":
		return &m.SReclaimable
	case "SUnreclaim":
		return &m.SUnreclaim
	case "Active":
		return &m.Active
	case "Inactive":
		return &m.Inactive
	case "Active(file)":
		return &m.ActiveFile
	case "Inactive(file)":
		return &m.InactiveFile
	case "Dirty":
		return &m.Dirty
	case "Writeback":
		return &m.Writeback
	case "AnonPages":
		return &m.AnonPages
	case "SwapTotal":
		return &m.SwapTotal
	case "SwapFree":
		return &m.SwapFree
	case "SwapCached":
		return &m.SwapCached
	case "CommitLimit":
		return &m.CommitLimit
	case "Committed_AS":
		return &m.Committed
	case "HugePages_Total":
		return &m.HugePagesTotal
	case "HugePages_Free":
		return &m.HugePagesFree
	case "Hugepagesize":
		return &m.HugePageSize
	}
	return nil
}

// estimateAvailable does what free(1) did before Linux 3.14 gave MemAvailable:
// free memory and the page cache that is not shared memory, and the slabs that
// can be reclaimed.
func (m *Memory) estimateAvailable() {
	if m.Available != nil || m.Free == nil || m.Buffers == nil || m.Cached == nil {
		return
	}
	cached := *m.Cached
	if m.Shmem != nil {
		cached -= min(cached, *m.Shmem)
	}
	sum := saturatingSum(*m.Free, *m.Buffers, cached)
	if m.SReclaimable != nil {
		sum = saturatingSum(sum, *m.SReclaimable)
	}
	if m.Total != nil {
		sum = min(sum, *m.Total)
	}
	m.Available, m.AvailableEstimated = &sum, true
}

func saturatingSum(values ...uint64) uint64 {
	var sum uint64
	for _, v := range values {
		if v > math.MaxUint64-sum {
			return math.MaxUint64
		}
		sum += v
	}
	return sum
}

// parseKilobytes reads "N kB" as bytes.
func parseKilobytes(value []byte) (uint64, bool) {
	word, rest := nextWord(value)
	unit, _ := nextWord(rest)
	v, ok := parseUint(word)
	if !ok || string(unit) != "kB" || v > math.MaxUint64/1024 {
		return 0, false
	}
	return v * 1024, true
}

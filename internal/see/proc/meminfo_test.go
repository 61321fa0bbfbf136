package proc

import (
	"errors"
	"testing"
)

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

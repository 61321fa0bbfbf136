package tui

// This file says what the machine's memory is used for.

import (
	"topside/internal/see/model"
	"topside/internal/see/proc"
)

// A memory is the split of the RAM, in bytes: used + arc + cache + free is
// total. ok is false when the kernel does not tell.
type memory struct {
	ok                            bool
	total, used, arc, cache, free float64
	available                     float64
	shared, dirty, slab           *uint64
	swapKnown                     bool
	swapTotal, swapUsed           float64
}

// memoryOf splits by what could be given back: used is what is not available,
// without ZFS's cache, which the kernel counts as used though it shrinks.
func memoryOf(s *model.System) memory {
	var m memory
	k := s.Memory
	if k == nil {
		return m
	}
	m.shared, m.dirty, m.slab = k.Shmem, k.Dirty, k.Slab
	m.swap(k)
	if k.Total == nil || k.Available == nil || *k.Total == 0 {
		return m
	}
	m.ok = true
	m.total = float64(*k.Total)
	m.available = min(float64(*k.Available), m.total)
	m.used = m.total - m.available
	if s.ARC != nil {
		m.arc = min(float64(s.ARC.Size), m.used)
		m.used -= m.arc
	}
	if k.Free != nil {
		m.free = min(float64(*k.Free), m.total-m.used-m.arc)
	}
	m.cache = max(m.total-m.used-m.arc-m.free, 0)
	return m
}

func (m *memory) swap(k *proc.Memory) {
	used := k.SwapUsed()
	if k.SwapTotal == nil || used == nil {
		return
	}
	m.swapKnown, m.swapTotal, m.swapUsed = true, float64(*k.SwapTotal), float64(*used)
}

// share is v in percent of the RAM.
func (m *memory) share(v float64) model.Figure {
	if !m.ok {
		return model.Figure{}
	}
	return model.Known(v / m.total * 100)
}

// taken is the share that nobody else can have, ZFS's cache not counted.
func (m *memory) taken() model.Figure { return m.share(m.used) }

func (m *memory) swapShare() model.Figure {
	switch {
	case !m.swapKnown:
		return model.Figure{}
	case m.swapTotal == 0:
		return model.Known(0)
	}
	return model.Known(m.swapUsed / m.swapTotal * 100)
}

// stalled is the share of the last ten seconds in which some task waited.
func stalled(p *proc.Pressure) model.Figure {
	if p == nil || p.Some == nil {
		return model.Figure{}
	}
	return model.Known(p.Some.Avg10)
}

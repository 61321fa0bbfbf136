package tui

// This file remembers figures for the graphs.

import (
	"math"
	"strings"

	"topside/internal/see/model"
)

// A series is the last samples of one figure, the newest last. An unknown one
// is NaN.
type series struct {
	samples []float32
	most    int
}

func (s *series) add(f model.Figure) {
	v := float32(math.NaN())
	if f.Known {
		v = float32(f.Value)
	}
	if len(s.samples) >= 2*s.most {
		s.samples = s.samples[:copy(s.samples, s.samples[len(s.samples)-s.most:])]
	}
	s.samples = append(s.samples, v)
}

// last returns at most n samples.
func (s *series) last(n int) []float32 {
	return s.samples[max(len(s.samples)-n, 0):]
}

// peak is the largest of the last n samples, at least floor.
func (s *series) peak(n int, floor float64) float64 {
	top := floor
	for _, v := range s.last(n) {
		if f := float64(v); f > top {
			top = f
		}
	}
	return top
}

// The lengths of the series: what the widest screen shows, and what a column
// of the table shows, at two samples per cell.
const (
	longSeries  = 512
	shortSeries = 32
)

// A trace is the CPU of one process.
type trace struct {
	start  uint64
	seen   uint64
	recent [shortSeries]float32
}

// A history is all series of one view.
type history struct {
	ticks       uint64
	cpu         series
	cores       []series
	memory      series
	swap        series
	rx, tx      series // all interfaces but the loopback
	interfaces  map[string]*pair
	read, wrote series
	pressure    map[string]*series
	processes   map[int32]*trace
}

// A pair is both directions of an interface.
type pair struct {
	rx, tx series
	seen   uint64
}

func newHistory() *history {
	h := &history{interfaces: map[string]*pair{}, pressure: map[string]*series{}, processes: map[int32]*trace{}}
	for _, s := range []*series{&h.cpu, &h.memory, &h.swap, &h.rx, &h.tx, &h.read, &h.wrote} {
		s.most = longSeries
	}
	return h
}

// add takes one observation.
func (h *history) add(o *model.Observation) {
	h.ticks++
	s := &o.System
	h.cpu.add(s.Busy)
	for len(h.cores) < len(s.Cores) {
		h.cores = append(h.cores, series{most: longSeries})
	}
	for i := range s.Cores {
		h.cores[i].add(s.Cores[i].Busy)
	}
	m := memoryOf(s)
	h.memory.add(m.share(m.used))
	h.swap.add(m.swapShare())
	h.addInterfaces(s.Interfaces)
	read, wrote := diskTotals(s.Disks)
	h.read.add(read)
	h.wrote.add(wrote)
	for name, p := range s.Pressure {
		if h.pressure[name] == nil {
			h.pressure[name] = &series{most: longSeries}
		}
		h.pressure[name].add(stalled(p))
	}
	h.addProcesses(o.Processes)
}

func (h *history) addInterfaces(all []model.Interface) {
	var rx, tx model.Figure
	for i := range all {
		n := &all[i]
		p := h.interfaces[n.Name]
		if p == nil {
			p = &pair{rx: series{most: longSeries}, tx: series{most: longSeries}}
			h.interfaces[strings.Clone(n.Name)] = p
		}
		p.seen = h.ticks
		p.rx.add(n.RxBytes)
		p.tx.add(n.TxBytes)
		if n.Name != loopback {
			rx, tx = plus(rx, n.RxBytes), plus(tx, n.TxBytes)
		}
	}
	h.rx.add(rx)
	h.tx.add(tx)
	for name, p := range h.interfaces {
		if p.seen+longSeries < h.ticks {
			delete(h.interfaces, name)
		}
	}
}

func (h *history) addProcesses(all []model.Process) {
	slot := h.ticks % shortSeries
	for i := range all {
		p := &all[i]
		t := h.processes[p.PID]
		if t == nil || t.start != p.StartTicks {
			t = &trace{start: p.StartTicks}
			h.processes[p.PID] = t
		}
		t.seen = h.ticks
		t.recent[slot] = float32(p.CPU.Or(0))
	}
	if len(h.processes) > len(all) {
		for pid, t := range h.processes {
			if t.seen != h.ticks {
				delete(h.processes, pid)
			}
		}
	}
}

// of writes the samples of a process into out, the newest last.
func (h *history) of(p *model.Process, out []float32) []float32 {
	out = out[:0]
	t := h.processes[p.PID]
	if t == nil || t.start != p.StartTicks {
		return out
	}
	for i := uint64(1); i <= shortSeries; i++ {
		out = append(out, t.recent[(h.ticks+i)%shortSeries])
	}
	return out
}

func plus(a, b model.Figure) model.Figure {
	if !b.Known {
		return a
	}
	return model.Known(a.Value + b.Value)
}

// diskTotals adds up whole disks: partitions are parts of them.
func diskTotals(disks []model.Disk) (read, wrote model.Figure) {
	for i := range disks {
		if d := &disks[i]; !d.Partition && !derived(d.Name) {
			read, wrote = plus(read, d.ReadBytes), plus(wrote, d.WriteBytes)
		}
	}
	return read, wrote
}

// derived tells devices whose traffic is that of the disks below them.
func derived(name string) bool {
	for _, prefix := range []string{"loop", "dm-", "md", "zram", "ram", "sr", "nbd", "zd"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

const loopback = "lo"

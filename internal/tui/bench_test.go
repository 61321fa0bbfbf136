package tui

// This file measures what a frame costs.

import (
	"fmt"
	"testing"

	tea "charm.land/bubbletea/v2"

	"topside/internal/see/model"
	"topside/internal/see/sample"
	"topside/internal/tui/theme"
)

// crowd is the scene with so many processes more.
func crowd(b *testing.B, n, tick int) *Scene {
	b.Helper()
	o := observationAt(tick)
	for i := range n {
		f, ok := crowdFacts[i]
		if !ok {
			f = &sample.Facts{Comm: "worker", User: "www-data", UIDKnown: true, Args: []string{"/usr/bin/worker", fmt.Sprintf("--shard=%d", i), "--listen", "127.0.0.1:0"}}
			crowdFacts[i] = f
		}
		o.Processes = append(o.Processes, model.Process{
			Process: &sample.Process{PID: int32(10000 + i), PPID: int32(10000 + i/4 - 1), StartTicks: 1, State: 'S', Threads: 2, RSS: uint64(i) << 20, Facts: f},
			CPU:     model.Known(wave(1, tick, i)), Group: i % len(o.Groups),
		})
	}
	return sceneOf(b, o)
}

var crowdFacts = map[int]*sample.Facts{}

// One tick with 1,000 processes: take the sample, sort, draw, and make the text
// that the renderer compares with the last. At 1 Hz, 30 ms are 3 % of a core.
func BenchmarkTick(b *testing.B) {
	scenes := []*Scene{crowd(b, 1000, 1), crowd(b, 1000, 2)}
	for _, c := range []struct {
		name  string
		width int
		keys  string
	}{{"list", 120, ""}, {"tree", 120, "v"}, {"wide", 220, ""}} {
		b.Run(c.name, func(b *testing.B) {
			s := newStage(b, c.width, 50)
			s.depth = theme.Full
			s.play(1)
			if c.keys != "" {
				s.press(c.keys)
			}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				s.Update(sampled{scene: scenes[i%2]})
				s.View()
			}
		})
	}
}

// One key: nothing is sorted, one frame is drawn.
func BenchmarkKey(b *testing.B) {
	s := newStage(b, 120, 50)
	s.Update(sampled{scene: crowd(b, 1000, 1)})
	down := tea.KeyPressMsg{Code: tea.KeyDown}
	b.ReportAllocs()
	for b.Loop() {
		s.Update(down)
		s.View()
	}
}

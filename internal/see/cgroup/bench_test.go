package cgroup

import "testing"

// One group's figures from kept descriptors, beside opening each file anew and
// reading the limits too.
func BenchmarkGroup(b *testing.B) {
	h := discover(b, world(b, "v2-docker"))
	m := h.Place(lines(b, "0::"+scope+"\n"))
	b.Run("kept", func(b *testing.B) {
		r := h.NewReader(m)
		defer r.Close()
		b.ReportAllocs()
		for b.Loop() {
			r.Usage()
		}
	})
	b.Run("opened", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			h.Usage(m)
		}
	})
}

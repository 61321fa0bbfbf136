package cgroup

import (
	"sync"
	"time"

	"topside/internal/see/proc"
)

// constraintsAge is how long a Reader trusts the limits that it read: they
// change rarely, and each costs a walk up the tree.
const constraintsAge = 10 * time.Second

// A Reader reads one group again and again at a low cost: the files of its
// counters stay open, its limits are read anew every ten seconds, and a file
// that the kernel does not have is asked for no more often than that. It is
// safe for concurrent use. Close it when the group is gone.
type Reader struct {
	h *Hierarchies
	m Membership

	mu      sync.Mutex
	closed  bool
	kept    [files]*proc.KeptFile
	failed  [files]error
	limits  Constraints
	checked time.Time
	buf     *[]byte // borrowed for the time of one reading
}

// NewReader makes a Reader for a group. It opens nothing yet.
func (h *Hierarchies) NewReader(m Membership) *Reader { return &Reader{h: h, m: m} }

// Membership returns the directories that the Reader reads.
func (r *Reader) Membership() Membership { return r.m }

// Usage reads every figure of the group now.
func (r *Reader) Usage() Usage { return r.usageAt(time.Now()) }

// buffers are shared by all Readers: the longest file, memory.stat, has about
// 2 KiB, and hundreds of Readers hold none of their own.
var buffers = sync.Pool{New: func() any { b := make([]byte, 16<<10); return &b }}

func (r *Reader) usageAt(now time.Time) Usage {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.checked.IsZero() || now.Sub(r.checked) >= constraintsAge || now.Before(r.checked) {
		r.limits = r.h.constraints(&r.m)
		r.failed = [files]error{}
		r.checked = now
	}
	r.buf = buffers.Get().(*[]byte)
	defer func() { buffers.Put(r.buf); r.buf = nil }()
	reading := reading{h: r.h, m: &r.m, read: r.read}
	reading.counters()
	reading.u.Constraints = r.limits
	reading.constraints()
	return reading.u
}

// read reads a file by its descriptor, and keeps one where it may. The kept
// file opens itself anew when its group was removed and made again.
func (r *Reader) read(f file) ([]byte, error) {
	if r.failed[f] != nil {
		return nil, r.failed[f]
	}
	if r.kept[f] != nil || r.keep(f) {
		data, err := r.kept[f].ReadInto(*r.buf)
		if err == nil {
			*r.buf = roomier(*r.buf, data)
			return data, nil
		}
		r.drop(f)
	}
	data, err := r.h.readFile(&r.m, f)
	if err != nil && r.h.reasonOf(err, &r.m.dirs[fileNames[f].dir]) != proc.Vanished {
		r.failed[f] = err
	}
	return data, err
}

// roomier keeps the larger of a buffer and the one that replaced it.
func roomier(buf, data []byte) []byte {
	if cap(data) > cap(buf) {
		return data[:cap(data)]
	}
	return buf
}

// keep takes a file's place among those that stay open.
func (r *Reader) keep(f file) bool {
	path := r.m.path(f)
	if r.closed || path == "" {
		return false
	}
	if r.h.kept.Add(1) > r.h.maxKept {
		r.h.kept.Add(-1)
		return false
	}
	r.kept[f] = r.h.fs.Keep(path)
	return true
}

func (r *Reader) drop(f file) {
	if r.kept[f] == nil {
		return
	}
	r.kept[f].Close()
	r.kept[f] = nil
	r.h.kept.Add(-1)
}

// Close gives the descriptors back. A Reader that is read after Close opens its
// files each time.
func (r *Reader) Close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	for f := range files {
		r.drop(f)
	}
}

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
	kept    [files]keptFile
	failed  [files]error
	limits  Constraints
	checked time.Time
}

// NewReader makes a Reader for a group. It opens nothing yet.
func (h *Hierarchies) NewReader(m Membership) *Reader { return &Reader{h: h, m: m} }

// Membership returns the directories that the Reader reads.
func (r *Reader) Membership() Membership { return r.m }

// Usage reads every figure of the group now.
func (r *Reader) Usage() Usage { return r.usageAt(time.Now()) }

func (r *Reader) usageAt(now time.Time) Usage {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.checked.IsZero() || now.Sub(r.checked) >= constraintsAge || now.Before(r.checked) {
		r.limits = r.h.constraints(&r.m)
		r.failed = [files]error{}
		r.checked = now
	}
	reading := reading{h: r.h, m: &r.m, read: r.readKept}
	reading.counters()
	reading.u.Constraints = r.limits
	reading.constraints()
	return reading.u
}

// readKept reads a file by its descriptor, and opens one where it may.
func (r *Reader) readKept(f file) ([]byte, error) {
	if r.failed[f] != nil {
		return nil, r.failed[f]
	}
	if r.kept[f] != nil {
		data, err := r.kept[f].Read()
		if err == nil {
			return data, nil
		}
		r.drop(f) // the group was removed, and perhaps made again
	} else if !r.closed && r.keep(f) {
		data, err := r.kept[f].Read()
		if err == nil {
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

func (r *Reader) keep(f file) bool {
	path := r.m.path(f)
	if path == "" {
		return false
	}
	if r.h.kept.Add(1) > r.h.maxKept {
		r.h.kept.Add(-1)
		return false
	}
	kept, err := openKept(r.h.fs, path)
	if err != nil {
		r.h.kept.Add(-1)
		return false
	}
	r.kept[f] = kept
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

package proc

// This file asks how full the filesystems are. The question is put to each by
// statfs(2), which a dead network mount never answers; so each has its own
// goroutine, and nobody waits for one beyond a deadline.

import (
	"context"
	"path/filepath"
	"sync"
	"time"
)

// Usage is how full one filesystem is. A figure that is unknown is nil, and
// then Reason says why; inodes are nil without a reason on filesystems that
// make them as needed.
type Usage struct {
	Mount                  Mount
	Total, Free, Available *uint64 // bytes; Available is what users other than root may still write
	Inodes, InodesFree     *uint64
	Reason                 Reason
}

// capacity is the part of statfs's answer that is used.
type capacity struct {
	block                   uint64 // size of a block in bytes
	blocks, free, available uint64 // counts of blocks
	files, filesFree        uint64
}

const (
	// statfsPatience is how long one pass waits for its slowest filesystem.
	statfsPatience = 300 * time.Millisecond
	// statfsAtOnce bounds the calls that run, or hang, at the same time.
	statfsAtOnce = 8
)

// Filesystems asks for usage and remembers which mounts have not answered yet.
// A call that hangs in the kernel cannot be ended: its goroutine stays until
// the mount answers or is gone, and there are at most eight of them.
type Filesystems struct {
	fs       FS
	statfs   func(path string) (capacity, error)
	patience time.Duration

	turn  chan struct{} // one pass at a time
	slots chan struct{} // one per call in flight

	mu      sync.Mutex
	pending map[string]bool // mount points with a call in flight
	late    int             // how many of them outlived their pass
}

// NewFilesystems returns the asker of one FS.
func (f FS) NewFilesystems() *Filesystems {
	return newFilesystems(f, statfs)
}

func newFilesystems(f FS, ask func(string) (capacity, error)) *Filesystems {
	return &Filesystems{
		fs: f, statfs: ask, patience: statfsPatience,
		turn:    make(chan struct{}, 1),
		slots:   make(chan struct{}, statfsAtOnce),
		pending: make(map[string]bool),
	}
}

// answer is what one call found out.
type answer struct {
	index int
	capacity
	err error
}

// Usage returns the usage of each real filesystem among the mounts (see
// [RealFilesystems]), in their order, within a third of a second or until ctx
// ends. A mount that does not answer in time has the reason TimedOut, and is
// not asked again before it did. In a recorded tree the reason is NotRecorded.
func (p *Filesystems) Usage(ctx context.Context, mounts []Mount) []Usage {
	real := RealFilesystems(mounts)
	usages := make([]Usage, len(real))
	for i, m := range real {
		usages[i] = Usage{Mount: m, Reason: TimedOut}
		if !p.fs.live {
			usages[i].Reason = NotRecorded
		}
	}
	if !p.fs.live || len(real) == 0 {
		return usages
	}
	ctx, cancel := context.WithTimeout(ctx, p.patience)
	defer cancel()
	select {
	case p.turn <- struct{}{}:
		defer func() { <-p.turn }()
	case <-ctx.Done():
		return usages
	}
	p.pass(ctx, usages)
	return usages
}

// pass asks every mount that owes no answer, and collects until the deadline.
func (p *Filesystems) pass(ctx context.Context, usages []Usage) {
	// Room for every answer: a late one is dropped here, and blocks nobody.
	answers := make(chan answer, len(usages))
	asked := 0
	for i := range usages {
		started, ended := p.start(ctx, i, usages[i].Mount.Point, answers)
		if ended {
			break
		}
		if started {
			asked++
		}
	}
	for ; asked > 0; asked-- {
		select {
		case a := <-answers:
			p.fill(&usages[a.index], a)
		case <-ctx.Done():
			p.collect(usages, answers)
			p.mu.Lock()
			p.late = len(p.pending)
			p.mu.Unlock()
			return
		}
	}
}

// collect takes the answers that came in the same moment as the deadline.
func (p *Filesystems) collect(usages []Usage, answers <-chan answer) {
	for {
		select {
		case a := <-answers:
			p.fill(&usages[a.index], a)
		default:
			return
		}
	}
}

// start puts the question to one mount, unless it still owes an answer.
// ended is true when no more can be asked in this pass.
func (p *Filesystems) start(ctx context.Context, index int, point string, answers chan<- answer) (started, ended bool) {
	p.mu.Lock()
	owes, stuck := p.pending[point], p.late >= statfsAtOnce
	p.mu.Unlock()
	if owes {
		return false, false
	}
	if stuck {
		return false, true
	}
	select {
	case p.slots <- struct{}{}:
	case <-ctx.Done():
		return false, true
	}
	p.mu.Lock()
	p.pending[point] = true
	p.mu.Unlock()
	go func() {
		got, err := p.statfs(filepath.Join(p.fs.root, point))
		p.mu.Lock()
		delete(p.pending, point)
		p.late = min(p.late, len(p.pending))
		p.mu.Unlock()
		<-p.slots
		answers <- answer{index, got, err}
	}()
	return true, false
}

func (p *Filesystems) fill(u *Usage, a answer) {
	u.Reason = p.fs.ReasonOf(a.err)
	if a.err != nil {
		return
	}
	c := a.capacity
	if c.block == 0 || c.blocks > ^uint64(0)/c.block || c.free > c.blocks {
		u.Reason = Malformed
		return
	}
	total, free := c.blocks*c.block, c.free*c.block
	// Beyond the reserve the kernel's count goes below zero, and wraps.
	available := min(c.available, c.free) * c.block
	if int64(c.available) < 0 {
		available = 0
	}
	u.Total, u.Free, u.Available = &total, &free, &available
	if c.files > 0 && c.filesFree <= c.files {
		u.Inodes, u.InodesFree = &c.files, &c.filesFree
	}
}

// RealFilesystems picks the mounts that hold files of their own: not the
// kernel's interfaces, images that are always full, automount triggers, nor
// the layers of containers; of several mounts of one device the one of its
// root, else the shortest mount point; and of several mounts on one point the
// last, which covers the others.
func RealFilesystems(mounts []Mount) []Mount {
	top := make(map[string]int, len(mounts))
	for i, m := range mounts {
		top[m.Point] = i
	}
	type device struct{ major, minor uint32 }
	best := make(map[device]int)
	var order []device
	for i, m := range mounts {
		if top[m.Point] != i || !realType(m) {
			continue
		}
		d := device{m.Major, m.Minor}
		other, known := best[d]
		switch {
		case !known:
			order = append(order, d)
			best[d] = i
		case closer(m, mounts[other]):
			best[d] = i
		}
	}
	picked := make([]Mount, 0, len(order))
	for _, d := range order {
		picked = append(picked, mounts[best[d]])
	}
	return picked
}

// closer reports whether m shows more of its device than other does.
func closer(m, other Mount) bool {
	if (m.Root == "/") != (other.Root == "/") {
		return m.Root == "/"
	}
	return len(m.Point) < len(other.Point)
}

func realType(m Mount) bool {
	switch m.Type {
	case "proc", "sysfs", "cgroup", "cgroup2", "devpts", "devtmpfs", "mqueue", "debugfs", "tracefs",
		"securityfs", "selinuxfs", "smackfs", "pstore", "bpf", "configfs", "fusectl", "hugetlbfs",
		"binfmt_misc", "rpc_pipefs", "nfsd", "nsfs", "efivarfs", "resctrl", "cpuset", "sockfs", "pipefs",
		"ramfs", "rootfs", "autofs",
		"squashfs", "iso9660", "udf", "erofs", "cramfs",
		"fuse.gvfsd-fuse", "fuse.portal", "fuse.lxcfs", "fuse.snapfuse":
		return false
	case "overlay", "aufs":
		return m.Point == "/"
	}
	return true
}

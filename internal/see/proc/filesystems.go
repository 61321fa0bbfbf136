package proc

// This file asks how full the filesystems are. The question is put to each by
// statfs(2), which a dead network mount never answers; so each has its own
// goroutine, and nobody waits for one beyond a deadline.

import (
	"context"
	"path/filepath"
	"strings"
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

// Full is the share of the bytes that is taken, in percent, as df has it: what is
// kept for root counts as neither used nor free. It is false when unknown.
func (u *Usage) Full() (percent float64, ok bool) { return full(u.Total, u.Free, u.Available) }

// InodesFull is the same for the inodes.
func (u *Usage) InodesFull() (percent float64, ok bool) {
	return full(u.Inodes, u.InodesFree, u.InodesFree)
}

func full(total, free, available *uint64) (float64, bool) {
	if total == nil || free == nil || available == nil || *total == 0 || *free > *total {
		return 0, false
	}
	used, left := float64(*total-*free), float64(*available)
	if used+left == 0 {
		return 0, false
	}
	return used / (used + left) * 100, true
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
	// statfsAtOnce bounds the calls of one lane that run, or hang, at the same
	// time.
	statfsAtOnce = 8
)

// Filesystems asks for usage and remembers which mounts have not answered yet.
// A call that hangs in the kernel cannot be ended: its goroutine stays until
// the mount answers or is gone, and there are at most sixteen of them.
type Filesystems struct {
	fs       FS
	statfs   func(path string) (capacity, error)
	patience time.Duration

	turn chan struct{} // one pass at a time
	// Mounts that depend on another machine or process have a lane of their
	// own, so that dead ones do not keep local disks from being asked.
	local, remote lane
}

// A lane bounds the calls that are in flight.
type lane struct {
	slots chan struct{} // one per call

	mu      sync.Mutex
	pending map[string]bool // mount points with a call in flight
	late    int             // how many of them outlived their pass
}

func newLane() lane {
	return lane{slots: make(chan struct{}, statfsAtOnce), pending: make(map[string]bool)}
}

// NewFilesystems returns the asker of one FS.
func (f FS) NewFilesystems() *Filesystems {
	return newFilesystems(f, statfs)
}

func newFilesystems(f FS, ask func(string) (capacity, error)) *Filesystems {
	return &Filesystems{
		fs: f, statfs: ask, patience: statfsPatience,
		turn: make(chan struct{}, 1), local: newLane(), remote: newLane(),
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
	asked := p.ask(ctx, &p.local, usages, answers) + p.ask(ctx, &p.remote, usages, answers)
	for ; asked > 0; asked-- {
		select {
		case a := <-answers:
			p.fill(&usages[a.index], a)
		case <-ctx.Done():
			p.collect(usages, answers)
			p.local.outlive()
			p.remote.outlive()
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

// ask puts the question to the mounts of one lane, and returns to how many.
func (p *Filesystems) ask(ctx context.Context, l *lane, usages []Usage, answers chan<- answer) (asked int) {
	for i := range usages {
		m := usages[i].Mount
		if remoteType(m.Type) != (l == &p.remote) || !l.free(m.Point) {
			continue
		}
		if !l.enter(ctx, m.Point) {
			return asked
		}
		asked++
		go func() {
			got, err := p.statfs(filepath.Join(p.fs.root, m.Point))
			l.leave(m.Point)
			answers <- answer{i, got, err}
		}()
	}
	return asked
}

// free reports whether a mount owes no answer.
func (l *lane) free(point string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.pending[point]
}

// enter waits for a slot. It fails when ctx ends, and at once when all slots
// are held by calls that outlived an earlier pass.
func (l *lane) enter(ctx context.Context, point string) bool {
	l.mu.Lock()
	stuck := l.late >= statfsAtOnce
	l.mu.Unlock()
	if stuck {
		return false
	}
	select {
	case l.slots <- struct{}{}:
	case <-ctx.Done():
		return false
	}
	l.mu.Lock()
	l.pending[point] = true
	l.mu.Unlock()
	return true
}

func (l *lane) leave(point string) {
	l.mu.Lock()
	delete(l.pending, point)
	l.late = min(l.late, len(l.pending))
	l.mu.Unlock()
	<-l.slots
}

// outlive notes at the end of a pass which calls have not come back.
func (l *lane) outlive() {
	l.mu.Lock()
	l.late = len(l.pending)
	l.mu.Unlock()
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

// remoteType tells the filesystems whose answer comes from another machine or
// from a process.
func remoteType(kind string) bool {
	switch kind {
	case "nfs", "nfs4", "cifs", "smb3", "smbfs", "ncpfs", "9p", "afs", "ceph", "coda", "glusterfs", "gfs2",
		"lustre", "ocfs2", "gpfs", "beegfs", "orangefs", "virtiofs", "fuse", "fuseblk":
		return true
	}
	return strings.HasPrefix(kind, "fuse.")
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

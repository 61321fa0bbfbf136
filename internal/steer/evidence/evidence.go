// Package evidence reads what the rules of package alert ask for beyond a
// snapshot: descriptors, credentials, executable memory, environment, sockets,
// files and package ownership of the machine below one root.
//
// It sits beside alert, which declares the questions, and above proc.FS, which
// owns the root. It only reads. Everything of the machine as a whole (sockets)
// is read at most once in a pass, and only when somebody asks.
package evidence

import (
	"bytes"
	"errors"
	"io/fs"
	"math"
	"os"
	"strconv"
	"strings"
	"time"

	"topside/internal/see/proc"
	"topside/internal/steer/alert"
	"topside/internal/steer/packages"
)

// A Reader answers for one root. It is not safe for concurrent use.
type Reader struct {
	fs       proc.FS
	packages *packages.Database
	sockets  socketCache
	probe    probe
}

var _ alert.Evidence = (*Reader)(nil)

// New returns the reader of a root.
func New(fs proc.FS) *Reader { return &Reader{fs: fs, packages: packages.New(fs)} }

// Packages is the database of installed files.
func (r *Reader) Packages() *packages.Database { return r.packages }

// Renew forgets the sockets of the last pass.
func (r *Reader) Renew() { r.sockets = socketCache{} }

func ofPID(pid int32, file string) string {
	return "proc/" + strconv.Itoa(int(pid)) + "/" + file
}

// read reads a file of a process, of another thread where the first one has ended
// before the others and shows nothing any more.
func (r *Reader) read(pid int32, file string) ([]byte, error) {
	data, err := r.fs.Read(ofPID(pid, file))
	if err != nil || len(data) > 0 {
		return data, err
	}
	if folder := r.fs.Folder(pid); folder+"/"+file != ofPID(pid, file) {
		return r.fs.Read(folder + "/" + file)
	}
	return data, nil
}

// mostDescriptors bounds the open files that are read of one process.
const mostDescriptors = 4096

// Descriptors reads the links of proc/PID/fd. A descriptor that was closed
// meanwhile is left out.
func (r *Reader) Descriptors(pid int32) ([]alert.Descriptor, error) {
	folder := ofPID(pid, "fd")
	entries, err := r.fs.ReadDir(folder)
	if err == nil && len(entries) == 0 {
		folder = r.fs.Folder(pid) + "/fd"
		entries, err = r.fs.ReadDir(folder)
	}
	if err != nil {
		return nil, err
	}
	out := make([]alert.Descriptor, 0, min(len(entries), mostDescriptors))
	for _, e := range entries[:min(len(entries), mostDescriptors)] {
		number, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if target, err := r.fs.Readlink(folder + "/" + e.Name()); err == nil {
			out = append(out, alert.Descriptor{Number: number, Target: target})
		}
	}
	return out, nil
}

// DescriptorUse counts the open files and reads their soft limit, which is 0
// when it is unlimited or unknown.
func (r *Reader) DescriptorUse(pid int32) (open int, limit uint64, err error) {
	open, err = r.fs.DescriptorCount(pid)
	if err != nil {
		return 0, 0, err
	}
	const worthAsking = 100
	if open < worthAsking {
		return open, 0, nil
	}
	if limits, err := r.fs.Limits(pid); err == nil {
		if l, ok := limits["Max open files"]; ok && !l.SoftUnlimited {
			limit = l.Soft
		}
	}
	return open, limit, nil
}

// errPartial says that a status file lacks the lines that are asked for.
var errPartial = errors.New("the status of the process lacks its user ids")

// Credentials reads proc/PID/status.
func (r *Reader) Credentials(pid int32) (*alert.Credentials, error) {
	status, err := r.fs.Status(pid)
	if err != nil {
		return nil, err
	}
	if status.Uids == nil {
		return nil, errPartial
	}
	c := &alert.Credentials{RealUID: status.Uids[0], EffectiveUID: status.Uids[1], SavedUID: status.Uids[2]}
	if status.CapEff != nil {
		c.Capabilities, c.CapabilitiesKnown = *status.CapEff, true
	}
	if status.TracerPid != nil {
		c.Tracer = *status.TracerPid
	}
	return c, nil
}

// Environment reads proc/PID/environ: what the process was started with.
func (r *Reader) Environment(pid int32, names ...string) (map[string]string, error) {
	data, err := r.read(pid, "environ")
	if err != nil {
		return nil, err
	}
	return ParseEnvironment(data, names...), nil
}

// ParseEnvironment finds variables in the content of proc/PID/environ. Of two
// of one name the first counts, as for getenv.
func ParseEnvironment(data []byte, names ...string) map[string]string {
	found := map[string]string{}
	for pair := range bytes.SplitSeq(data, []byte{0}) {
		name, value, ok := bytes.Cut(pair, []byte{'='})
		if !ok {
			continue
		}
		for _, wanted := range names {
			if _, taken := found[wanted]; string(name) == wanted && !taken {
				found[wanted] = string(value)
			}
		}
	}
	return found
}

// Terminal reports whether proc/PID/stat names a controlling terminal.
func (r *Reader) Terminal(pid int32) (bool, error) {
	stat, err := r.fs.Stat(pid)
	if err != nil {
		return false, err
	}
	return stat.TTY != 0, nil
}

// Packaged asks the package databases.
func (r *Reader) Packaged(path string) alert.Ownership {
	owned, err := r.packages.Owns(path)
	switch {
	case err != nil:
		return alert.NoDatabase
	case owned:
		return alert.Owned
	}
	return alert.NotOwned
}

// File looks at a file through the process's own root, so that one in a
// container is that container's; without the right to, at the machine's file
// of that path.
func (r *Reader) File(pid int32, path string) (*alert.File, error) {
	info, err := os.Stat(r.fs.Path(ofPID(pid, "root") + path))
	if errors.Is(err, fs.ErrNotExist) {
		info, err = os.Stat(r.fs.Path(r.fs.Folder(pid) + "/root" + path))
	}
	if errors.Is(err, fs.ErrPermission) || !r.fs.Live() {
		info, err = os.Stat(r.fs.Path(path))
	}
	if err != nil {
		return nil, err
	}
	return fileOf(info), nil
}

func unixMode(m fs.FileMode) uint32 {
	mode := uint32(m.Perm())
	if m&fs.ModeSetuid != 0 {
		mode |= 0o4000
	}
	if m&fs.ModeSetgid != 0 {
		mode |= 0o2000
	}
	return mode
}

// Preload reads etc/ld.so.preload; a machine without one preloads nothing.
func (r *Reader) Preload() ([]string, error) {
	data, err := r.fs.Read("etc/ld.so.preload")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return ParsePreload(data), nil
}

// ParsePreload parses etc/ld.so.preload (ld.so(8)): paths parted by blanks or
// colons, and comments.
func ParsePreload(data []byte) []string {
	var out []string
	for line := range strings.Lines(string(data)) {
		line, _, _ = strings.Cut(line, "#")
		out = append(out, strings.FieldsFunc(line, func(c rune) bool { return c == ' ' || c == '\t' || c == ':' || c == '\n' || c == '\r' })...)
	}
	return out
}

// A probe goes round the space of process ids.
type probe struct {
	next    int32
	highest int32
	asked   time.Time // when the mount of proc was looked at
	all     bool      // it hides nobody from us
}

// probed is how many ids are tried in one pass.
const probed = 256

// ErrHidden says that proc hides other users' processes from us by itself.
var ErrHidden = errors.New("proc is mounted with hidepid: unlisted processes are ordinary here")

// Unlisted tries the next ids that are not listed. An id counts only if it
// leads its threads and a new list does not show it either.
func (r *Reader) Unlisted(listed func(int32) bool) ([]int32, error) {
	if !r.fs.Live() {
		return nil, proc.ErrNotRecorded
	}
	if !r.seesAll() {
		return nil, ErrHidden
	}
	r.probe.highest = max(r.probe.highest, r.lastPID())
	var answering []int32
	for range min(probed, r.probe.highest) {
		r.probe.next++
		if r.probe.next > r.probe.highest {
			r.probe.next = 1
		}
		if pid := r.probe.next; !listed(pid) && r.fs.Exists("proc/"+strconv.Itoa(int(pid))) && r.leads(pid) {
			answering = append(answering, pid)
		}
	}
	if len(answering) == 0 {
		return nil, nil
	}
	// What answered is tried again in the next pass, which must confirm it.
	r.probe.next = answering[0] - 1
	return r.notIn(answering)
}

// seesAll reports whether no process is hidden from us by how proc is mounted. The
// table of mounts is long on some machines, and is read once a minute.
func (r *Reader) seesAll() bool {
	if now := time.Now(); now.Sub(r.probe.asked) >= time.Minute {
		mode, err := r.fs.HidePID()
		r.probe.asked, r.probe.all = now, err == nil && (mode == "off" || os.Geteuid() == 0)
	}
	return r.probe.all
}

// lastPID is the newest process id: the last word of proc/loadavg.
func (r *Reader) lastPID() int32 {
	data, err := r.fs.Read("proc/loadavg")
	if err != nil {
		return 0
	}
	words := bytes.Fields(data)
	if len(words) == 0 {
		return 0
	}
	pid, err := strconv.ParseInt(string(words[len(words)-1]), 10, 32)
	if err != nil || pid < 0 || pid > math.MaxInt32 {
		return 0
	}
	return int32(pid)
}

// leads reports whether an id is a process, not one of its other threads.
func (r *Reader) leads(pid int32) bool {
	data, err := r.fs.Read(ofPID(pid, "status"))
	if err != nil {
		return false
	}
	want := []byte("\nTgid:\t" + strconv.Itoa(int(pid)) + "\n")
	return bytes.Contains(data, want)
}

func (r *Reader) notIn(pids []int32) ([]int32, error) {
	entries, err := r.fs.ReadDir("proc")
	if err != nil {
		return nil, err
	}
	shown := make(map[string]bool, len(entries))
	for _, e := range entries {
		shown[e.Name()] = true
	}
	var out []int32
	for _, pid := range pids {
		if name := strconv.Itoa(int(pid)); !shown[name] && r.fs.Exists("proc/"+name) {
			out = append(out, pid)
		}
	}
	return out, nil
}

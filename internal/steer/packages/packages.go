// Package packages tells whether a package manager installed a file, by
// reading the databases of dpkg, rpm, apk and pacman below a root. It runs no
// package manager.
//
// A file system holds some hundred thousand packaged files. The database keeps
// a hash of each path of an executable or library, not the path: a few bytes
// each, and one binary search for a question.
package packages

import (
	"errors"
	"hash/fnv"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"topside/internal/see/proc"
)

// ErrNone says that no database that can be read was found.
var ErrNone = errors.New("no package database that topside can read")

// A Database knows the files of installed packages. It is safe for concurrent
// use, and reads the databases again when they changed.
type Database struct {
	fs proc.FS

	mu       sync.Mutex
	stamps   []stamp
	checked  time.Time
	sums     []uint64 // sorted
	sources  []string
	revision int
}

// A stamp tells whether a file was changed.
type stamp struct {
	modified time.Time
	size     int64
}

// checkEvery is how long an answer is good without looking whether packages
// were installed.
const checkEvery = 10 * time.Second

// New returns the database of a root. Nothing is read before the first question.
func New(fs proc.FS) *Database { return &Database{fs: fs} }

// A source is one kind of database.
type source struct {
	name   string
	stamps []string // files that change with every installation
	read   func(proc.FS, func(path string)) error
}

var sources = []source{
	{"dpkg", []string{"var/lib/dpkg/status", "var/lib/dpkg/diversions"}, readDpkg},
	{"rpm", rpmFiles, readRPM},
	{"apk", []string{"lib/apk/db/installed"}, readApk},
	{"pacman", []string{"var/lib/pacman/local"}, readPacman},
}

// Owns reports whether a package installed the file at that absolute path. The
// error is [ErrNone] when there is nothing to ask. Paths below /usr and their
// counterparts in the root are the same file on merged systems, and count as
// the same here.
func (d *Database) Owns(path string) (bool, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.refresh()
	if len(d.sums) == 0 {
		return false, ErrNone
	}
	_, found := slices.BinarySearch(d.sums, sum(path))
	return found, nil
}

// Sources names the databases that were read.
func (d *Database) Sources() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.refresh()
	return slices.Clone(d.sources)
}

// Revision counts how often the databases were read: answers given under
// another revision may be wrong now.
func (d *Database) Revision() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.refresh()
	return d.revision
}

// refresh reads the databases again if they changed. The caller holds the lock.
func (d *Database) refresh() {
	if !d.checked.IsZero() && time.Since(d.checked) < checkEvery {
		return
	}
	first := d.checked.IsZero()
	d.checked = time.Now()
	stamps := d.look()
	if !first && slices.Equal(stamps, d.stamps) {
		return
	}
	d.stamps = stamps
	d.revision++
	d.read()
}

func (d *Database) look() []stamp {
	var out []stamp
	for _, s := range sources {
		for _, name := range s.stamps {
			var now stamp
			if info, err := os.Stat(d.fs.Path(name)); err == nil {
				now = stamp{info.ModTime(), info.Size()}
			}
			out = append(out, now)
		}
	}
	return out
}

func (d *Database) read() {
	d.sums, d.sources = d.sums[:0], nil
	for _, s := range sources {
		before := len(d.sums)
		// A database that cannot be read is as good as none: its files count
		// as nobody's only if another one was read.
		_ = s.read(d.fs, func(path string) {
			if worthKeeping(path) {
				d.sums = append(d.sums, sum(path))
			}
		})
		if len(d.sums) > before {
			d.sources = append(d.sources, s.name)
		}
	}
	slices.Sort(d.sums)
	d.sums = slices.Clip(slices.Compact(d.sums))
}

// worthKeeping leaves out what is never run: documentation, translations,
// headers.
func worthKeeping(path string) bool {
	rest := strings.TrimPrefix(path, "/usr")
	if strings.HasPrefix(rest, "/share/") {
		for _, folder := range []string{"/share/doc/", "/share/man/", "/share/locale/", "/share/icons/", "/share/help/", "/share/fonts/", "/share/info/", "/share/zoneinfo/"} {
			if strings.HasPrefix(rest, folder) {
				return false
			}
		}
	}
	return !strings.HasPrefix(rest, "/include/")
}

// sum hashes a path without its /usr.
func sum(path string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(strings.TrimPrefix(path, "/usr")))
	return h.Sum64()
}

package alert

// This file declares what rules may ask for beyond a snapshot.

import (
	"net/netip"
	"time"
)

// Evidence answers what a snapshot does not hold. Implementations read the
// live machine (package evidence) or a recorded scene. An error means that it
// is not known, which convicts nobody.
type Evidence interface {
	// Descriptors lists the open files of a process.
	Descriptors(pid int32) ([]Descriptor, error)
	// DescriptorUse is how many descriptors are open and how many may be.
	DescriptorUse(pid int32) (open int, limit uint64, err error)
	Credentials(pid int32) (*Credentials, error)
	// Mappings lists the executable mappings of a process.
	Mappings(pid int32) ([]Mapping, error)
	// Environment looks up variables in the environment that the process was
	// started with; those that are not set are missing.
	Environment(pid int32, names ...string) (map[string]string, error)
	// Terminal reports whether the process has a controlling terminal.
	Terminal(pid int32) (bool, error)
	// Socket finds an internet socket of the process's network namespace by
	// its inode; ok is false for other kinds of sockets.
	Socket(pid int32, inode uint64) (s Socket, ok bool)
	// Listening lists the listening sockets of the machine's own namespace.
	Listening() ([]Socket, error)
	// Packaged tells whether a package owns a file of the machine.
	Packaged(path string) Ownership
	// File looks at a file as the process sees it.
	File(pid int32, path string) (*File, error)
	// Preload lists the libraries of etc/ld.so.preload.
	Preload() ([]string, error)
	// Unlisted probes part of the space of process ids and returns the
	// processes that answer, though they are in no list: listed tells which
	// ids are known.
	Unlisted(listed func(int32) bool) ([]int32, error)
	// Renew forgets what was read for the last pass.
	Renew()
}

// Ownership is what package databases say of a file.
type Ownership int

// The answers. NoDatabase means that nothing can be concluded.
const (
	NoDatabase Ownership = iota
	Owned
	NotOwned
)

// A Descriptor is one open file: its number and what proc/PID/fd says of it
// ("socket:[123]", "pipe:[45]", "/dev/null", "/memfd:x (deleted)").
type Descriptor struct {
	Number int    `json:"n"`
	Target string `json:"to"`
}

// Credentials are whose rights a process has.
type Credentials struct {
	RealUID, EffectiveUID, SavedUID uint32
	Capabilities                    uint64 // effective
	CapabilitiesKnown               bool
	Tracer                          int32 // 0 when nobody traces it
}

// A Mapping is one executable mapping.
type Mapping struct {
	Start    uint64 `json:"start,omitempty"`
	End      uint64 `json:"end,omitempty"`
	Writable bool   `json:"w,omitempty"`
	Path     string `json:"path,omitempty"` // "" for anonymous memory
	Deleted  bool   `json:"deleted,omitempty"`
	// ELF is true when the memory begins with the mark of an ELF file, where
	// that could be read.
	ELF bool `json:"elf,omitempty"`
}

// A Socket is one internet socket.
type Socket struct {
	Inode         uint64
	UDP           bool
	Listening     bool
	Established   bool
	Local, Remote netip.AddrPort
	UID           uint32
}

// A File is what the file system says of an executable.
type File struct {
	Mode    uint32 // permission bits with setuid (0o4000) and setgid (0o2000)
	UID     uint32
	Changed time.Time // ctime
}

// Setuid reports whether running the file gives its owner's rights.
func (f *File) Setuid() bool { return f.Mode&0o4000 != 0 }

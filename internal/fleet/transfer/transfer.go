// Package transfer moves files and folders between two machines over a connection
// of fleet, and holds the blob tools of the topup contract.
//
// A file travels in pieces on a stream of its own, beside the calls. The receiver
// writes it into a partial file beside its destination and renames that when the
// BLAKE3 hash of the whole is right, so that a destination is either as it was or
// complete. After a broken connection the transfer goes on where it stopped: what
// the partial file holds is compared by hash first. Nothing is overwritten unless
// asked for; permission bits are kept, others (setuid) are not; only regular files,
// folders and symbolic links that stay inside their tree are taken. Memory is
// bounded by a window for each stream. Files:
//
//	transfer.go  the operations on the wire, errors
//	client.go    push and pull of one file, from the front end
//	tree.go      folders
//	server.go    the daemon's side
//	sink.go      the writing of one file
//	source.go    the reading of one file, the listing of a folder
//	journal.go   partial files that wait to be resumed
//	path.go      paths: defaults, "~"
//	blob.go      _send_blob and _recv_blob
//	digest.go    the hash of a file
//	name.go      paths on the wire, which may be any bytes
package transfer

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"syscall"

	"topside/internal/fleet/frame"
)

// The operations. A stream's number comes from the front end.
const (
	opWrite   = "file.write"   // writeArgs → writeOK; data follows
	opCommit  = "file.commit"  // commitArgs → commitOK, behind the data
	opAbort   = "file.abort"   // abortArgs, note: the front end gives up
	opRead    = "file.read"    // readArgs → readOK; data follows, then opEnd
	opWalk    = "file.walk"    // walkArgs → walkOK; entries as JSON lines, then opEnd
	opEnd     = "file.end"     // endArgs, note behind the data
	opFailed  = "file.failed"  // endArgs, note: the daemon cannot go on writing
	opWindow  = "file.window"  // windowArgs, note: that many bytes were taken
	opStat    = "file.stat"    // pathArgs → statOK
	opMkdir   = "file.mkdir"   // makeArgs → nothing
	opSymlink = "file.symlink" // makeArgs → nothing
	opStage   = "file.stage"   // stageArgs → stageOK
	opSettle  = "file.settle"  // settleArgs → nothing
)

type writeArgs struct {
	Stream    uint32   `json:"stream"`
	Root      pathname `json:"root,omitempty"` // folder that Path is relative to and stays in
	Path      pathname `json:"path"`
	Size      int64    `json:"size"`
	Mode      uint32   `json:"mode"` // permission bits
	Overwrite bool     `json:"overwrite,omitempty"`
	Fresh     bool     `json:"fresh,omitempty"` // do not resume
}

type writeOK struct {
	Path   pathname `json:"path"`
	Offset int64    `json:"offset"`           // bytes that are there already
	Prefix string   `json:"prefix,omitempty"` // their hash, hexadecimal
}

type commitArgs struct {
	Stream uint32 `json:"stream"`
	BLAKE3 string `json:"blake3"`
}

type commitOK struct {
	Path  pathname `json:"path"`
	Bytes int64    `json:"bytes"`
}

type abortArgs struct {
	Stream uint32 `json:"stream"`
}

type readArgs struct {
	Stream uint32   `json:"stream"`
	Root   pathname `json:"root,omitempty"`
	Path   pathname `json:"path"`
	Offset int64    `json:"offset"`
	Size   int64    `json:"size"` // as it was when asked for: of a file that has grown, so much is read
}

type readOK struct {
	Path pathname `json:"path"`
	Size int64    `json:"size"`
	Mode uint32   `json:"mode"`
}

type walkArgs struct {
	Stream uint32   `json:"stream"`
	Path   pathname `json:"path"`
}

type walkOK struct {
	Path pathname `json:"path"`
	Mode uint32   `json:"mode"`
}

type endArgs struct {
	Stream uint32         `json:"stream"`
	BLAKE3 string         `json:"blake3,omitempty"`
	Failed *frame.Failure `json:"failed,omitempty"`
}

type windowArgs struct {
	Stream uint32 `json:"stream"`
	Bytes  int64  `json:"bytes"`
}

type pathArgs struct {
	Path pathname `json:"path"`
}

type statOK struct {
	Path pathname `json:"path"` // absolute
	Kind string   `json:"kind"` // kindFile, kindFolder, kindNone
	Size int64    `json:"size"`
	Mode uint32   `json:"mode"`
}

type makeArgs struct {
	Root   pathname `json:"root"`
	Path   pathname `json:"path"`
	Mode   uint32   `json:"mode,omitempty"`
	Target pathname `json:"target,omitempty"`
	Final  bool     `json:"final,omitempty"` // exactly these permissions
}

type stageArgs struct {
	Path      pathname `json:"path"`
	Overwrite bool     `json:"overwrite,omitempty"`
}

type stageOK struct {
	Path pathname `json:"path"` // where the folder will be
	Root pathname `json:"root"` // where its files go until then
}

type settleArgs struct {
	Path pathname `json:"path"`
	Root pathname `json:"root"`
	Mode uint32   `json:"mode"`
	Drop bool     `json:"drop,omitempty"` // remove the stage instead
}

// Kinds of what a path names, and of the entries of a folder.
const (
	kindFile    = "file"
	kindFolder  = "folder"
	kindSymlink = "symlink"
	kindNone    = "none"
	kindOther   = "other"
	kindUnread  = "unread" // it could not be looked at
)

// Kinds of failures, in [frame.Failure].
const (
	Exists    = "exists"    // the destination is there, and overwriting was not asked for
	Missing   = "missing"   // no such file
	NotFile   = "not-file"  // a device, a FIFO, a socket, or a folder where a file belongs
	NotFolder = "not-dir"   // a file where a folder belongs
	Denied    = "denied"    // no permission
	Full      = "full"      // no space, or over a quota
	Changed   = "changed"   // the hash is not right: the file changed, or was damaged
	Invalid   = "invalid"   // a path that cannot be
	Outside   = "outside"   // a path that leaves its folder
	Busy      = "busy"      // another transfer writes there
	Cancelled = "cancelled" // given up
	Failed    = "failed"    // something else
)

func fail(kind, format string, args ...any) *frame.Failure {
	return &frame.Failure{Kind: kind, Text: fmt.Sprintf(format, args...)}
}

// failure makes a typed one of an error of the file system.
func failure(path string, err error) error {
	var f *frame.Failure
	if err == nil || errors.As(err, &f) {
		return err
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fail(Missing, "no such file: %s", path)
	case errors.Is(err, fs.ErrPermission):
		return fail(Denied, "permission denied: %s", path)
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, errQuota):
		return fail(Full, "no space left for %s; nothing was kept", path)
	case errors.Is(err, fs.ErrExist):
		return fail(Exists, "%s exists; pass overwrite to replace it", path)
	}
	return fail(Failed, "%s: %v", path, systemText(err))
}

// systemText is the system's own words for an error, without the path.
func systemText(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}

// sourceError is a failure of the file that is read. In a folder it costs that file,
// while a failure of the side that writes ends the transfer.
type sourceError struct{ error }

func (e sourceError) Unwrap() error { return e.error }

// localError is a failure about a path of this machine.
type localError struct{ error }

func (e localError) Unwrap() error { return e.error }

// IsLocal reports whether a failure is known to be about a path of this machine.
func IsLocal(err error) bool {
	var l localError
	return errors.As(err, &l)
}

// ofSource marks an error as the source's; nil stays nil.
func ofSource(err error) error {
	if err == nil {
		return nil
	}
	return sourceError{err}
}

// ofFarSource marks what a host says of a file that it could not read.
func ofFarSource(err error) error {
	var f *frame.Failure
	if errors.As(err, &f) && slices.Contains([]string{Missing, NotFile, Denied, Changed, Failed}, f.Kind) {
		return ofSource(err)
	}
	return err
}

// IsKind reports whether err is a failure of that kind.
func IsKind(err error, kind string) bool {
	var f *frame.Failure
	return errors.As(err, &f) && f.Kind == kind
}

package session

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
)

// SpillCap bounds one spill file, in bytes (contract section 2).
const SpillCap = 10 << 20

// SpillMost bounds all spill files of one server, in bytes: the oldest go when there are more.
const SpillMost = 1 << 30

// Spill is the folder of this process for texts that are too long to be reported whole. Each server has its own
// folder inside the configured one, so that a second server, or a restart, removes nothing that is in use. A nil
// Spill keeps nothing.
type Spill struct {
	mu   sync.Mutex
	root string
	dir  string
	lock *os.File
	next int
	most int64

	kept  []spilled // oldest first
	total int64     // bytes of kept
}

// spilled is one file of this server.
type spilled struct {
	path string
	size int64
	open bool // it is being written
}

// NewSpill uses root/PID-XXXX, created when first needed. It removes folders of servers that have ended.
func NewSpill(root string) *Spill {
	if root == "" {
		return nil
	}
	s := &Spill{root: root, most: SpillMost}
	s.clean()
	return s
}

var (
	spillDir  = regexp.MustCompile(`^\d+-\d+$`)
	spillFile = regexp.MustCompile(`^\d{2,}-[a-z_]+\.txt$`)
)

// clean removes the folders whose owner does not hold its lock any more, and in them only files that a spill writes.
func (s *Spill) clean() {
	entries, err := os.ReadDir(s.root)
	if err != nil {
		return
	}
	for _, e := range entries {
		if !e.IsDir() || !spillDir.MatchString(e.Name()) {
			continue
		}
		dir := filepath.Join(s.root, e.Name())
		lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR, 0)
		if err != nil {
			continue
		}
		if tryLock(lock) == nil {
			files, _ := os.ReadDir(dir)
			for _, f := range files {
				if f.Type().IsRegular() && spillFile.MatchString(f.Name()) {
					os.Remove(filepath.Join(dir, f.Name()))
				}
			}
			os.Remove(filepath.Join(dir, "lock"))
			os.Remove(dir)
		}
		lock.Close()
	}
}

// open makes the folder. The caller holds the lock.
func (s *Spill) open() error {
	if s.dir != "" {
		return nil
	}
	if err := os.MkdirAll(s.root, 0o700); err != nil {
		return err
	}
	dir, err := os.MkdirTemp(s.root, fmt.Sprintf("%d-", os.Getpid()))
	if err != nil {
		return err
	}
	lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err == nil {
		err = tryLock(lock)
	}
	if err != nil {
		os.RemoveAll(dir)
		return err
	}
	s.dir, s.lock = dir, lock
	return nil
}

// write stores the first SpillCap bytes of a text of total bytes as NN-field.txt. It returns the path, and how many
// files it has removed to make room, because of the bound on all or because the disk is full.
func (s *Spill) write(field string, r io.ReaderAt, total int64) (path string, removed int, err error) {
	if s == nil {
		return "", 0, errors.New("spilling is off")
	}
	size := min(total, SpillCap)
	s.mu.Lock()
	if err := s.open(); err != nil {
		s.mu.Unlock()
		return "", 0, err
	}
	path = filepath.Join(s.dir, fmt.Sprintf("%02d-%s.txt", s.next, field))
	s.next++
	for s.total+size > s.most && s.removeOldest() {
		removed++
	}
	s.kept = append(s.kept, spilled{path, size, true})
	s.total += size
	s.mu.Unlock()
	for {
		if err = s.fill(path, r, total); err == nil || !errors.Is(err, syscall.ENOSPC) {
			break
		}
		s.mu.Lock()
		room := s.removeOldest()
		s.mu.Unlock()
		if !room {
			break
		}
		removed++
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.kept, func(k spilled) bool { return k.path == path })
	if err != nil {
		s.kept = slices.Delete(s.kept, i, i+1)
		s.total -= size
		return "", removed, err
	}
	s.kept[i].open = false
	return path, removed, nil
}

// removeOldest removes one file and tells whether there was one. The caller holds the lock.
func (s *Spill) removeOldest() bool {
	i := slices.IndexFunc(s.kept, func(k spilled) bool { return !k.open })
	if i < 0 {
		return false
	}
	os.Remove(s.kept[i].path)
	s.total -= s.kept[i].size
	s.kept = slices.Delete(s.kept, i, i+1)
	return true
}

// fill writes the file, wholly or not at all.
func (s *Spill) fill(path string, r io.ReaderAt, total int64) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, io.NewSectionReader(r, 0, min(total, SpillCap)))
	if err == nil && total > SpillCap {
		_, err = fmt.Fprintf(f, "\n…[+%d bytes dropped]\n", total-SpillCap)
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		os.Remove(path)
	}
	return err
}

// Close gives the folder up; an empty one is removed, files that were reported stay until the next start.
func (s *Spill) Close() error {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lock == nil {
		return nil
	}
	if s.next == 0 {
		os.Remove(filepath.Join(s.dir, "lock"))
		os.Remove(s.dir)
	}
	err := s.lock.Close()
	s.lock, s.dir = nil, ""
	return err
}

// text bounds a string that is held in memory.
func (s *Session) text(field, whole string) *Text {
	t := &Text{Total: int64(len(whole))}
	head := boundary([]byte(whole), s.o.Inline)
	t.Head = valid([]byte(whole[:head]))
	t.Cut = t.Total - int64(head)
	if t.Cut > 0 {
		t.Tail = tail(whole[head:])
		s.spilled(t, field, strings.NewReader(whole))
	}
	return t
}

func (s *Session) spilled(t *Text, field string, r io.ReaderAt) {
	if s.o.Spill == nil {
		t.Dropped = t.Cut
		return
	}
	path, removed, err := s.o.Spill.write(field, r, t.Total)
	if removed > 0 {
		s.note("", fmt.Sprintf("%d older long outputs of this server were deleted to make room", removed))
	}
	if err != nil {
		s.note("spill", "long output could not be kept: "+err.Error())
		t.Dropped = t.Cut
		return
	}
	t.Path = path
	t.Dropped = max(0, t.Total-SpillCap)
}

// tailBytes is how much of the end of a cut text is shown.
const tailBytes = 1024

func tail(s string) string {
	if len(s) > tailBytes {
		s = s[len(s)-tailBytes:]
		for len(s) > 0 && s[0]&0xC0 == 0x80 {
			s = s[1:]
		}
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}

package transfer

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"topside/internal/fleet/frame"
)

// parallel is how many files of a folder are on their way at a time: small files
// are held up by the time of the way, not by its width.
const parallel = 8

// tree is what a folder's transfer has to do.
type tree struct {
	folders, files, links []entry
	skipped               []Skipped
	bytes                 int64
	failed                int // of skipped
}

func (t *tree) add(e entry) {
	switch {
	case e.Why != "" || e.Kind == kindOther:
		unread := e.Kind == kindUnread
		t.skipped = append(t.skipped, Skipped{string(e.Path), e.Why, unread})
		if unread {
			t.failed++
		}
	case e.Kind == kindFolder:
		t.folders = append(t.folders, e)
	case e.Kind == kindSymlink:
		t.links = append(t.links, e)
	case e.Kind == kindFile:
		t.files = append(t.files, e)
		t.bytes += e.Size
	}
}

// result is what came, without the files that were left out.
func (t *tree) result(path string, out *leftOut) Result {
	return Result{
		Path: path, Bytes: t.bytes - out.bytes, Files: len(t.files) - len(out.files), Folders: len(t.folders), Links: len(t.links),
		Skipped: append(out.files, t.skipped...), Failed: t.failed + len(out.files),
	}
}

// leftOut is the files of a folder that could not be read when their turn came.
type leftOut struct {
	mu    sync.Mutex
	files []Skipped
	bytes int64
}

// take takes a failure of the source for itself, and returns any other.
func (l *leftOut) take(e entry, err error) error {
	var s sourceError
	if !errors.As(err, &s) {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.files = append(l.files, Skipped{string(e.Path), err.Error(), true})
	l.bytes += e.Size
	return nil
}

// finals are the folders whose owner may not write to them, the deepest first.
func (t *tree) finals() []entry {
	var out []entry
	for _, e := range slices.Backward(t.folders) {
		if e.Mode&0o700 != 0o700 {
			out = append(out, e)
		}
	}
	return out
}

// shared is a meter for several files at a time.
type shared struct {
	mu sync.Mutex
	m  meter
}

// one is a meter of one of the files: it passes on what is new.
func (s *shared) one() *meter {
	var passed int64
	m := &meter{total: -1}
	m.call = func(done, _ int64) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.m.add(done - passed)
		passed = done
	}
	return m
}

// each runs do for every entry, several at a time, until one fails.
func each(ctx context.Context, entries []entry, do func(context.Context, entry) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	work := make(chan entry)
	var group sync.WaitGroup
	for range min(parallel, len(entries)) {
		group.Go(func() {
			for e := range work {
				if err := do(ctx, e); err != nil {
					cancel(err)
				}
			}
		})
	}
feeding:
	for _, e := range entries {
		select {
		case work <- e:
		case <-ctx.Done():
			break feeding
		}
	}
	close(work)
	group.Wait()
	return context.Cause(ctx)
}

func pushFolder(ctx context.Context, p Peer, local, remote string, o Options) (Result, error) {
	var t tree
	if err := walk(ctx, local, func(e entry) error { t.add(e); return nil }); err != nil {
		return Result{}, err
	}
	info, err := os.Stat(local)
	if err != nil {
		return Result{}, failure(local, err)
	}
	root, err := os.OpenRoot(local)
	if err != nil {
		return Result{}, failure(local, err)
	}
	defer root.Close()
	ask := func(op string, args, ok any) error {
		return retrying(ctx, p, o.Attempts, func() int64 { return 0 }, func(ctx context.Context, s Session) error {
			return s.Ask(ctx, op, args, ok)
		})
	}
	var stage stageOK
	if err := ask(opStage, stageArgs{Path: pathname(remote), Overwrite: o.Overwrite}, &stage); err != nil {
		return Result{}, err
	}
	fresh := stage.Root != stage.Path
	var sent atomic.Int64
	out := &leftOut{}
	err = func() error {
		for _, e := range t.folders {
			if err := ask(opMkdir, makeArgs{Root: stage.Root, Path: e.Path, Mode: e.Mode}, nil); err != nil {
				return err
			}
		}
		all := &shared{m: meter{call: o.Progress, total: t.bytes}}
		if err := each(ctx, t.files, func(ctx context.Context, e entry) error {
			a := writeArgs{Root: stage.Root, Path: e.Path, Overwrite: o.Overwrite || fresh}
			r, err := pushFile(ctx, p, root, filepath.FromSlash(string(e.Path)), filepath.Join(local, string(e.Path)), a, o, all.one())
			sent.Add(r.Sent)
			return out.take(e, err)
		}); err != nil {
			return err
		}
		for _, e := range t.links {
			if err := ask(opSymlink, makeArgs{Root: stage.Root, Path: e.Path, Target: e.Target}, nil); err != nil {
				return err
			}
		}
		for _, e := range t.finals() {
			if err := ask(opMkdir, makeArgs{Root: stage.Root, Path: e.Path, Mode: e.Mode, Final: true}, nil); err != nil {
				return err
			}
		}
		return nil
	}()
	settle := settleArgs{Path: stage.Path, Root: stage.Root, Mode: uint32(info.Mode().Perm())}
	if err != nil {
		var f *frame.Failure
		if fresh && errors.As(err, &f) {
			settle.Drop = true
			_ = ask(opSettle, settle, nil) // the journal has it
		}
		return Result{}, err
	}
	if err := ask(opSettle, settle, nil); err != nil {
		return Result{}, err
	}
	r := t.result(string(stage.Path), out)
	r.Sent = sent.Load()
	return r, nil
}

func pullFolder(ctx context.Context, p Peer, remote, local string, o Options) (Result, error) {
	var t tree
	var top walkOK
	err := retrying(ctx, p, o.Attempts, func() int64 { return 0 }, func(ctx context.Context, s Session) error {
		t = tree{}
		var err error
		top, err = list(ctx, s, remote, &t)
		return err
	})
	if err != nil {
		return Result{}, err
	}
	j := newJournal(o.State)
	stage, err := openStage(stageArgs{Path: pathname(local), Overwrite: o.Overwrite}, j)
	if err != nil {
		return Result{}, err
	}
	fresh := stage.Root != stage.Path
	var sent atomic.Int64
	out := &leftOut{}
	err = func() error {
		for _, e := range t.folders {
			if err := makeFolder(makeArgs{Root: stage.Root, Path: e.Path, Mode: e.Mode}); err != nil {
				return err
			}
		}
		all := &shared{m: meter{call: o.Progress, total: t.bytes}}
		if err := each(ctx, t.files, func(ctx context.Context, e entry) error {
			r, err := pullFile(ctx, p, readArgs{Root: top.Path, Path: e.Path}, o, all.one(), filepath.Join(local, filepath.FromSlash(string(e.Path))),
				func(a writeArgs) (*sink, error) {
					a.Overwrite = o.Overwrite || fresh
					return openSinkBelow(string(stage.Root), string(e.Path), a, j)
				})
			sent.Add(r.Sent)
			return out.take(e, err)
		}); err != nil {
			return err
		}
		for _, e := range t.links {
			if err := makeSymlink(makeArgs{Root: stage.Root, Path: e.Path, Target: e.Target}); err != nil {
				return err
			}
		}
		for _, e := range t.finals() {
			if err := makeFolder(makeArgs{Root: stage.Root, Path: e.Path, Mode: e.Mode, Final: true}); err != nil {
				return err
			}
		}
		return nil
	}()
	settle := settleArgs{Path: stage.Path, Root: stage.Root, Mode: top.Mode}
	if err != nil {
		var f *frame.Failure
		if fresh && errors.As(err, &f) {
			settle.Drop = true
			_ = settleStage(settle, j) // the journal has it
		}
		return Result{}, err
	}
	if err := settleStage(settle, j); err != nil {
		return Result{}, err
	}
	r := t.result(string(stage.Path), out)
	r.Sent = sent.Load()
	return r, nil
}

// maxListing bounds the listing of a folder, in bytes.
const maxListing = 256 << 20

// list asks for what is in a folder. Every path is checked: a host must not choose
// where its files go.
func list(ctx context.Context, s Session, remote string, t *tree) (top walkOK, err error) {
	st := s.OpenStream()
	defer s.CloseStream(st)
	if err := s.Ask(ctx, opWalk, walkArgs{Stream: st.ID, Path: pathname(remote)}, &top); err != nil {
		return top, err
	}
	defer func() {
		if err != nil {
			giveUp(s, st.ID)
		}
	}()
	seen := map[string]bool{}
	total := 0
	for {
		var i frame.Item
		select {
		case i = <-st.In:
		case <-ctx.Done():
			return top, ctx.Err()
		}
		if i.Note == nil {
			n := len(i.Data)
			err := t.read(i.Data, seen)
			i.Release()
			if err != nil {
				return top, err
			}
			if total += n; total > maxListing || len(seen) > maxEntries {
				return top, fail(Invalid, "%s holds too many entries", remote)
			}
			if err := s.Tell(ctx, opWindow, windowArgs{Stream: st.ID, Bytes: int64(n)}); err != nil {
				return top, err
			}
			continue
		}
		if i.Note.Op != opEnd {
			continue
		}
		var e endArgs
		if err := json.Unmarshal(i.Note.Args, &e); err != nil {
			return top, fail(Failed, "the host ended the listing in a way that cannot be read")
		}
		if e.Failed != nil {
			return top, e.Failed
		}
		return top, nil
	}
}

// read takes lines of a listing.
func (t *tree) read(lines []byte, seen map[string]bool) error {
	for line := range bytes.SplitSeq(bytes.TrimSuffix(lines, []byte("\n")), []byte("\n")) {
		var e entry
		if err := json.Unmarshal(line, &e); err != nil {
			return fail(Failed, "the host sent a listing that cannot be read: %q", shorten(string(line)))
		}
		p := string(e.Path)
		if _, err := cleanRelative(p); err != nil || path.Clean(p) != p || strings.Contains(p, "\\") && filepath.Separator == '\\' {
			return fail(Outside, "the host sent a path that leaves the folder: %q", shorten(p))
		}
		if seen[p] || e.Size < 0 {
			return fail(Failed, "the host sent an entry that cannot be: %q", shorten(p))
		}
		seen[p] = true
		t.add(e)
	}
	return nil
}

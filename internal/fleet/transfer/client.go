package transfer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"topside/internal/fleet/frame"
)

// Session is one connection to a daemon, as far as transfers need it.
type Session interface {
	// Ask makes an operation and reads its answer into ok; a refusal is a *frame.Failure.
	Ask(ctx context.Context, op string, args, ok any) error
	// AskInOrder does it behind the data sent before.
	AskInOrder(ctx context.Context, op string, args, ok any) error
	// Tell sends a note.
	Tell(ctx context.Context, op string, args any) error
	// SendChunk sends the first n bytes of a chunk as a piece of a stream, and takes the
	// chunk whatever the outcome.
	SendChunk(ctx context.Context, stream uint32, c *frame.Chunk, n int) error
	// OpenStream makes a stream; CloseStream ends it.
	OpenStream() *frame.Stream
	CloseStream(*frame.Stream)
	// Done is closed when the connection has ended; Err then says why.
	Done() <-chan struct{}
	Err() error
}

// Peer is a host that can be connected to again.
type Peer interface {
	// Session returns the connection, which it makes if there is none.
	Session(ctx context.Context) (Session, error)
}

// Options of a push or a pull.
type Options struct {
	// Overwrite replaces what is there; otherwise an existing destination is refused.
	Overwrite bool
	// Progress, if not nil, is called with the bytes that are across and those there
	// are in all, from one goroutine at a time, a few times a second at most.
	Progress func(done, total int64)
	// State is a folder of this machine for the journal of partial files.
	State string
	// Attempts is how often a transfer goes on after a broken connection without a
	// byte of progress: 5 if zero.
	Attempts int
}

// Result of a push or a pull.
type Result struct {
	Path    string // where it is now, absolute
	Bytes   int64
	BLAKE3  string // of a file, hexadecimal
	Files   int    // of a folder
	Folders int
	Links   int
	Skipped []Skipped // what a folder holds beside them
	Failed  int       // how many of Skipped should have been taken, and could not be read
	Resumed bool      // some of a file was there already
	Sent    int64     // bytes that travelled; those of files that are there and the same do not
}

// Skipped is an entry of a folder that was not taken: of a kind that is not
// transferred, or Failed, one that could not be read.
type Skipped struct {
	Path, Why string
	Failed    bool
}

const (
	defaultAttempts = 5
	progressEvery   = 100 * time.Millisecond
	retryPause      = 200 * time.Millisecond
	maxRetryPause   = 5 * time.Second
)

// BrokenError is a transfer that gave up because the connection broke. What had
// come is kept for some minutes: the same transfer again goes on from there.
type BrokenError struct {
	Path        string
	Done, Total int64
	Err         error
}

func (e *BrokenError) Error() string {
	return fmt.Sprintf("the transfer of %s stopped at %d of %d bytes: %v; the same transfer again goes on from there", e.Path, e.Done, e.Total, e.Err)
}

// Unwrap returns the reason.
func (e *BrokenError) Unwrap() error { return e.Err }

// meter calls Progress at a bearable rate.
type meter struct {
	call        func(done, total int64)
	last        time.Time
	done, total int64
}

func (m *meter) add(n int64) {
	m.done += n
	if m.call == nil {
		return
	}
	if now := time.Now(); now.Sub(m.last) >= progressEvery || m.done == m.total {
		m.last = now
		m.call(m.done, m.total)
	}
}

// flush calls Progress with where it ended.
func (m *meter) flush() {
	if m.call != nil {
		m.call(m.done, m.total)
	}
}

// retrying runs attempt until it succeeds, fails for a reason that is not the
// connection's, or makes no progress for too long. at tells how far it is.
func retrying(ctx context.Context, p Peer, attempts int, at func() int64, attempt func(context.Context, Session) error) error {
	if attempts <= 0 {
		attempts = defaultAttempts
	}
	pause := retryPause
	for failures := 0; ; {
		before := at()
		s, err := p.Session(ctx)
		if err == nil {
			err = attemptOn(ctx, s, attempt)
		}
		var refused *frame.Failure
		if err == nil || errors.As(err, &refused) || ctx.Err() != nil {
			return err
		}
		if s != nil {
			select {
			case <-s.Done():
			default:
				return err // not the connection: this machine's files, say
			}
		}
		if at() > before {
			failures, pause = 0, retryPause
		}
		if failures++; failures >= attempts {
			return err
		}
		t := time.NewTimer(pause)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return ctx.Err()
		}
		pause = min(2*pause, maxRetryPause)
	}
}

// attemptOn runs attempt with a context that ends with the connection.
func attemptOn(ctx context.Context, s Session, attempt func(context.Context, Session) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		select {
		case <-s.Done():
			cancel(s.Err())
		case <-ctx.Done():
		}
	}()
	err := attempt(ctx, s)
	if err != nil && ctx.Err() != nil && errors.Is(err, context.Canceled) {
		err = context.Cause(ctx)
	}
	cancel(nil)
	<-ended
	return err
}

// DefaultRemote is where a file goes that is pushed without a destination: the
// transfer folder of the far side, expanded there.
const DefaultRemote = "~/.topside/xfer"

// Push copies a file, or a folder with all that is in it, to a host. An empty remote
// is DefaultRemote with the name of local; a remote that ends in a slash, or names a
// folder there when local is a file, gets that name as well. Errors are
// *frame.Failure (see the kinds), *BrokenError, or the context's.
func Push(ctx context.Context, p Peer, local, remote string, o Options) (Result, error) {
	abs, err := Expand(local)
	if err != nil {
		return Result{}, localError{err}
	}
	info, err := os.Stat(abs)
	if err != nil {
		return Result{}, localError{failure(abs, err)}
	}
	if remote == "" {
		remote = path.Join(DefaultRemote, filepath.Base(abs))
	} else if strings.HasSuffix(remote, "/") {
		remote = path.Join(remote, filepath.Base(abs))
	}
	if info.IsDir() {
		return pushFolder(ctx, p, abs, remote, o)
	}
	remote, err = intoFolder(ctx, p, remote, filepath.Base(abs), o)
	if err != nil {
		return Result{}, err
	}
	m := &meter{call: o.Progress}
	return pushFile(ctx, p, nil, abs, abs, writeArgs{Path: pathname(remote), Overwrite: o.Overwrite}, o, m)
}

// intoFolder adds base to a path that names a folder on the host.
func intoFolder(ctx context.Context, p Peer, remote, base string, o Options) (string, error) {
	var st statOK
	err := retrying(ctx, p, o.Attempts, func() int64 { return 0 }, func(ctx context.Context, s Session) error {
		return s.Ask(ctx, opStat, pathArgs{Path: pathname(remote)}, &st)
	})
	if err == nil && st.Kind == kindFolder {
		remote = path.Join(remote, base)
	}
	return remote, err
}

// pushFile sends one file, below root if that is not nil, as often as it takes.
func pushFile(ctx context.Context, p Peer, root *os.Root, name, shown string, a writeArgs, o Options, m *meter) (Result, error) {
	src, err := openSource(root, name, shown)
	if err != nil {
		return Result{}, ofSource(localError{err})
	}
	defer src.f.Close()
	a.Size, a.Mode = src.size, uint32(src.mode)
	if m.total == 0 {
		m.total = src.size
	}
	r := Result{Bytes: src.size}
	base := m.done // of files before this one
	err = retrying(ctx, p, o.Attempts, func() int64 { return m.done }, func(ctx context.Context, s Session) error {
		m.done = base
		return pushOnce(ctx, s, src, a, m, &r)
	})
	if err != nil {
		return r, broken(err, shown, m.done-base, src.size)
	}
	m.flush()
	return r, nil
}

// broken makes a *BrokenError of what the connection is to blame for.
func broken(err error, shown string, done, total int64) error {
	var f *frame.Failure
	if errors.As(err, &f) || errors.Is(err, context.Canceled) {
		return err
	}
	return &BrokenError{Path: shown, Done: done, Total: total, Err: err}
}

func pushOnce(ctx context.Context, s Session, src *source, a writeArgs, m *meter, r *Result) (err error) {
	if err := src.rewind(); err != nil {
		return err
	}
	st := s.OpenStream()
	defer func() { s.CloseStream(st) }()
	open := func() (ok writeOK, err error) {
		a.Stream = st.ID
		err = s.Ask(ctx, opWrite, a, &ok)
		return ok, err
	}
	ok, err := open()
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			giveUp(s, st.ID)
		}
	}()
	if ok.Offset < 0 || ok.Offset > src.size {
		return fail(Failed, "the host says that it has %d bytes of %d", ok.Offset, src.size)
	}
	if ok.Offset > 0 {
		have, err := src.skip(ok.Offset)
		if err != nil {
			return err
		}
		if have == ok.Prefix {
			r.Resumed = true
		} else {
			// Another file was here, or this one has changed: from the beginning.
			giveUp(s, st.ID)
			s.CloseStream(st)
			st = s.OpenStream()
			a.Fresh = true
			if ok, err = open(); err != nil {
				return err
			}
			if err := src.rewind(); err != nil {
				return err
			}
			if ok.Offset != 0 {
				return fail(Failed, "the host does not begin anew")
			}
		}
	}
	m.add(ok.Offset)
	r.Sent = src.size - ok.Offset
	credit := int64(frame.Window)
	hear := func(i frame.Item) error {
		defer i.Release()
		if i.Note == nil {
			return nil
		}
		switch i.Note.Op {
		case opWindow:
			var w windowArgs
			if err := json.Unmarshal(i.Note.Args, &w); err != nil || w.Bytes < 0 {
				return fail(Failed, "the host sent a bad window")
			}
			credit = min(credit+w.Bytes, frame.Window)
		case opFailed:
			return farFailure(i.Note.Args)
		}
		return nil
	}
	wait := func(n int64) error {
		for {
			select {
			case i := <-st.In:
				if err := hear(i); err != nil {
					return err
				}
				continue
			default:
			}
			if credit >= n {
				credit -= n
				return nil
			}
			select {
			case i := <-st.In:
				if err := hear(i); err != nil {
					return err
				}
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
	err = src.send(ok.Offset, func(c *frame.Chunk, n int) error {
		if err := wait(int64(n)); err != nil {
			c.Release()
			return err
		}
		if err := s.SendChunk(ctx, st.ID, c, n); err != nil {
			return err
		}
		m.add(int64(n))
		return nil
	})
	if err != nil {
		return err
	}
	r.BLAKE3 = src.digest()
	var done commitOK
	if err := s.AskInOrder(ctx, opCommit, commitArgs{Stream: st.ID, BLAKE3: r.BLAKE3}, &done); err != nil {
		// The failure may have been told of before the question came.
		for {
			select {
			case i := <-st.In:
				if herr := hear(i); herr != nil {
					return herr
				}
				continue
			default:
			}
			return err
		}
	}
	r.Path = string(done.Path)
	return nil
}

func farFailure(args json.RawMessage) error {
	var e endArgs
	if err := json.Unmarshal(args, &e); err != nil || e.Failed == nil {
		return fail(Failed, "the host could not go on, and did not say why")
	}
	return e.Failed
}

// giveUp tells the host that a transfer is over. It does not wait.
func giveUp(s Session, stream uint32) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = s.Tell(ctx, opAbort, abortArgs{Stream: stream}) // a broken connection keeps the partial file
}

// Pull copies a file or a folder from a host. An empty local is dir with the name of
// remote; a local that is a folder, or ends in a slash, gets that name as well.
func Pull(ctx context.Context, p Peer, remote, local, dir string, o Options) (Result, error) {
	base := path.Base(filepath.ToSlash(remote))
	if local == "" {
		local = filepath.Join(dir, base)
	} else if strings.HasSuffix(local, "/") {
		local = filepath.Join(local, base)
	}
	abs, err := Expand(local)
	if err != nil {
		return Result{}, localError{err}
	}
	var st statOK
	err = retrying(ctx, p, o.Attempts, func() int64 { return 0 }, func(ctx context.Context, s Session) error {
		return s.Ask(ctx, opStat, pathArgs{Path: pathname(remote)}, &st)
	})
	switch {
	case err != nil:
		return Result{}, err
	case st.Kind == kindNone:
		return Result{}, fail(Missing, "no such file: %s", remote)
	case st.Kind == kindFolder:
		return pullFolder(ctx, p, remote, abs, o)
	}
	if info, err := os.Stat(abs); err == nil && info.IsDir() {
		abs = filepath.Join(abs, base)
	}
	m := &meter{call: o.Progress}
	j := newJournal(o.State)
	return pullFile(ctx, p, readArgs{Path: pathname(remote)}, o, m, abs, func(a writeArgs) (*sink, error) {
		a.Overwrite = o.Overwrite
		return openSink(nil, filepath.Dir(abs), filepath.Base(abs), a, j)
	})
}

// pullFile takes one file into the sink that open makes, as often as it takes.
func pullFile(ctx context.Context, p Peer, a readArgs, o Options, m *meter, shown string, open func(writeArgs) (*sink, error)) (Result, error) {
	r := Result{Path: shown, Bytes: -1}
	base, fresh := m.done, false
	run := func() error {
		return retrying(ctx, p, o.Attempts, func() int64 { return m.done }, func(ctx context.Context, s Session) error {
			m.done = base
			return pullOnce(ctx, s, a, fresh, m, &r, open)
		})
	}
	err := run()
	if IsKind(err, Changed) && r.Resumed {
		// What was kept from an earlier attempt is of another file.
		fresh, r.Resumed = true, false
		err = run()
	}
	if err != nil {
		return r, broken(err, shown, m.done-base, max(r.Bytes, 0))
	}
	m.flush()
	return r, nil
}

// pullOnce takes a file, or what is left of it, over one connection. r.Bytes is its
// size when an earlier one began, negative if there was none: a file that grows is
// taken as far as it went then, so that what came before counts.
func pullOnce(ctx context.Context, s Session, a readArgs, fresh bool, m *meter, r *Result, open func(writeArgs) (*sink, error)) (err error) {
	// The size names the partial file, so it is asked for first.
	st := s.OpenStream()
	defer func() { s.CloseStream(st) }()
	size, mode, err := askSize(ctx, s, a)
	if err != nil {
		return ofFarSource(err)
	}
	if r.Bytes >= 0 && r.Bytes < size {
		size = r.Bytes
	}
	k, err := open(writeArgs{Size: size, Mode: mode, Fresh: fresh})
	if err != nil {
		return err
	}
	settled := false
	defer func() {
		if settled {
			return
		}
		var f *frame.Failure
		cancelled := errors.Is(context.Cause(ctx), context.Canceled)
		k.drop(!errors.As(err, &f) && !cancelled)
	}()
	a.Stream, a.Offset, a.Size = st.ID, k.offset, size
	if k.offset > 0 {
		r.Resumed = true
	}
	r.Bytes = size
	if m.total == 0 {
		m.total = size
	}
	var ok readOK
	if err := s.Ask(ctx, opRead, a, &ok); err != nil {
		return ofFarSource(err)
	}
	if ok.Size != size {
		giveUp(s, st.ID)
		return ofSource(fail(Changed, "%s changed while it was read", a.Path))
	}
	m.add(k.offset)
	r.Sent = size - k.offset
	var taken int64
	for {
		var i frame.Item
		select {
		case i = <-st.In:
		case <-ctx.Done():
			giveUp(s, st.ID)
			return ctx.Err()
		}
		if i.Note == nil {
			n := int64(len(i.Data))
			err := k.write(i.Data)
			i.Release()
			if err != nil {
				giveUp(s, st.ID)
				return err
			}
			m.add(n)
			if taken += n; taken >= grantEvery {
				if err := s.Tell(ctx, opWindow, windowArgs{Stream: st.ID, Bytes: taken}); err != nil {
					return err
				}
				taken = 0
			}
			continue
		}
		if i.Note.Op != opEnd {
			continue
		}
		var e endArgs
		if err := json.Unmarshal(i.Note.Args, &e); err != nil {
			return fail(Failed, "the host ended the transfer in a way that cannot be read")
		}
		if e.Failed != nil {
			return ofFarSource(e.Failed)
		}
		settled = true
		r.BLAKE3 = e.BLAKE3
		return k.commit(e.BLAKE3)
	}
}

func askSize(ctx context.Context, s Session, a readArgs) (size int64, mode uint32, err error) {
	p := a.Path
	if a.Root != "" {
		p = pathname(path.Join(filepath.ToSlash(string(a.Root)), string(a.Path)))
	}
	var st statOK
	if err := s.Ask(ctx, opStat, pathArgs{Path: p}, &st); err != nil {
		return 0, 0, err
	}
	switch st.Kind {
	case kindFile:
		return st.Size, st.Mode, nil
	case kindNone:
		return 0, 0, fail(Missing, "no such file: %s", p)
	}
	return 0, 0, fail(NotFile, "not a regular file: %s", p)
}

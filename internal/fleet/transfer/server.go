package transfer

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"topside/internal/fleet/frame"
)

const (
	// maxStreams bounds the transfers at a time on a connection: with the window they
	// bound its memory.
	maxStreams = 32
	// maxTasks bounds the small operations at a time.
	maxTasks = 64
	// grantEvery is how many bytes are taken between two notes that say so.
	grantEvery = frame.Window / 8
)

// ServerOptions of a Server.
type ServerOptions struct {
	Out    *frame.Writer // of the connection
	State  string        // folder of the journal of partial files, "" for none
	Keep   time.Duration
	Logger *slog.Logger
}

// Server is the daemon's side of the transfers on one connection. Control and Data
// are called by the reader of the connection and do not block.
type Server struct {
	o       ServerOptions
	ctx     context.Context
	cancel  context.CancelFunc
	work    sync.WaitGroup
	tasks   atomic.Int32
	journal *journal

	mu      sync.Mutex
	streams map[uint32]*serverStream
	closed  bool
}

// serverStream is a stream with what its receiver has granted.
type serverStream struct {
	*frame.Stream
	cancel context.CancelFunc
	ctx    context.Context
	credit int64 // of a stream that sends; used by its goroutine only
}

// NewServer makes the server of one connection.
func NewServer(o ServerOptions) *Server {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Server{o: o, journal: newJournal(o.State), streams: map[uint32]*serverStream{}}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s
}

// Close ends what runs, keeps the partial files, and waits.
func (s *Server) Close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.cancel()
	s.work.Wait()
}

// Data takes the piece that r has just read. An error ends the connection.
func (s *Server) Data(stream uint32, r *frame.Reader) error {
	s.mu.Lock()
	st := s.streams[stream]
	s.mu.Unlock()
	if st == nil {
		return nil // of a transfer that has failed on this side
	}
	return st.PutData(r)
}

// Control takes a control message, and reports whether it was one of this package.
func (s *Server) Control(n frame.Note) bool {
	switch n.Op {
	case opWrite:
		start(s, n, func(a writeArgs) uint32 { return a.Stream }, s.receive)
	case opRead:
		start(s, n, func(a readArgs) uint32 { return a.Stream }, s.sendFile)
	case opWalk:
		start(s, n, func(a walkArgs) uint32 { return a.Stream }, s.sendList)
	case opCommit, opWindow:
		s.toStream(n)
	case opAbort:
		s.toStream(n)
	case opStat:
		task(s, n, stat)
	case opMkdir:
		task(s, n, mkdir)
	case opSymlink:
		task(s, n, symlink)
	case opStage:
		task(s, n, s.stage)
	case opSettle:
		task(s, n, s.settle)
	default:
		return false
	}
	return true
}

// toStream hands a note to the goroutine of its stream.
func (s *Server) toStream(n frame.Note) {
	s.mu.Lock()
	st := s.streams[n.OfStream()]
	s.mu.Unlock()
	if st == nil {
		s.answer(s.ctx, n.ID, nil, fail(Failed, "the transfer has ended on the host"))
		return
	}
	if st.PutNote(n) != nil {
		st.cancel() // a flood of notes
	}
}

// start begins an operation that owns a stream.
func start[A any](s *Server, n frame.Note, id func(A) uint32, run func(*serverStream, frame.Note, A)) {
	var a A
	if err := json.Unmarshal(n.Args, &a); err != nil {
		s.answer(s.ctx, n.ID, nil, fail(Invalid, "%s: %v", n.Op, err))
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
	case id(a) == 0 || s.streams[id(a)] != nil:
		s.answerLater(n.ID, fail(Invalid, "stream %d is in use", id(a)))
	case len(s.streams) >= maxStreams:
		s.answerLater(n.ID, fail(Busy, "more than %d transfers at a time on one connection", maxStreams))
	default:
		st := &serverStream{Stream: frame.NewStream(id(a)), credit: frame.Window}
		st.ctx, st.cancel = context.WithCancel(s.ctx)
		s.streams[st.ID] = st
		s.work.Go(func() {
			run(st, n, a)
			st.cancel()
			s.mu.Lock()
			delete(s.streams, st.ID)
			s.mu.Unlock()
			st.Drain()
		})
	}
}

// task runs a small operation.
func task[A, R any](s *Server, n frame.Note, run func(A) (R, error)) {
	var a A
	if err := json.Unmarshal(n.Args, &a); err != nil {
		s.answer(s.ctx, n.ID, nil, fail(Invalid, "%s: %v", n.Op, err))
		return
	}
	if s.tasks.Add(1) > maxTasks {
		s.tasks.Add(-1)
		s.answerLater(n.ID, fail(Busy, "too many operations at a time on one connection"))
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		s.tasks.Add(-1)
		return
	}
	s.work.Go(func() {
		defer s.tasks.Add(-1)
		r, err := run(a)
		s.answer(s.ctx, n.ID, r, err)
	})
}

// answerLater answers without holding up the reader of the connection.
func (s *Server) answerLater(id uint64, err error) {
	s.work.Go(func() { s.answer(s.ctx, id, nil, err) })
}

func (s *Server) answer(ctx context.Context, id uint64, ok any, err error) {
	if id == 0 {
		return
	}
	if err != nil {
		ok = nil
	}
	b, err := frame.Answer(id, ok, err).Encode()
	if err == nil {
		_ = s.o.Out.Send(ctx, frame.Control, b) // a failure ends the connection by itself
	}
}

// note sends a note; inOrder puts it behind the data.
func (s *Server) note(ctx context.Context, op string, args any, inOrder bool) error {
	n, err := frame.Request(0, op, args)
	if err != nil {
		return err
	}
	b, err := n.Encode()
	if err != nil {
		return err
	}
	if inOrder {
		return s.o.Out.SendInOrder(ctx, frame.Control, b)
	}
	return s.o.Out.Send(ctx, frame.Control, b)
}

// receive writes a file that the front end pushes.
func (s *Server) receive(st *serverStream, n frame.Note, a writeArgs) {
	k, err := s.openSink(a)
	if err != nil {
		s.answer(st.ctx, n.ID, nil, err)
		return
	}
	ok := writeOK{Path: pathname(k.path), Offset: k.offset}
	if k.offset > 0 {
		ok.Prefix = k.prefix()
	}
	s.answer(st.ctx, n.ID, ok, nil)
	var taken int64
	for {
		var i frame.Item
		select {
		case i = <-st.In:
		case <-st.ctx.Done():
			k.drop(true)
			return
		}
		switch {
		case i.Note == nil:
			err := k.write(i.Data)
			taken += int64(len(i.Data))
			i.Release()
			if err != nil {
				k.drop(false)
				_ = s.note(st.ctx, opFailed, endArgs{Stream: st.ID, Failed: frame.AsFailure(err)}, false)
				s.refuseRest(st)
				return
			}
			if taken >= grantEvery {
				if s.note(st.ctx, opWindow, windowArgs{Stream: st.ID, Bytes: taken}, false) != nil {
					k.drop(true)
					return
				}
				taken = 0
			}
		case i.Note.Op == opCommit:
			var c commitArgs
			err := json.Unmarshal(i.Note.Args, &c)
			if err == nil {
				err = k.commit(c.BLAKE3)
			} else {
				k.drop(false)
			}
			s.answer(st.ctx, i.Note.ID, commitOK{Path: pathname(k.path), Bytes: k.size}, err)
			return
		case i.Note.Op == opAbort:
			k.drop(false)
			return
		}
	}
}

// refuseRest drops what the front end had sent before it heard of the failure.
func (s *Server) refuseRest(st *serverStream) {
	t := time.NewTimer(2 * time.Second)
	defer t.Stop()
	for {
		select {
		case i := <-st.In:
			i.Release()
			if i.Note != nil && (i.Note.Op == opAbort || i.Note.Op == opCommit) {
				return
			}
		case <-st.ctx.Done():
			return
		case <-t.C:
			return
		}
	}
}

func (s *Server) openSink(a writeArgs) (*sink, error) {
	if a.Root == "" {
		p, err := Expand(string(a.Path))
		if err != nil {
			return nil, err
		}
		return openSink(nil, filepath.Dir(p), filepath.Base(p), a, s.journal)
	}
	return openSinkBelow(string(a.Root), string(a.Path), a, s.journal)
}

// openSinkBelow opens a sink inside a folder that no link leads out of.
func openSinkBelow(dir, rel string, a writeArgs, j *journal) (*sink, error) {
	local, err := cleanRelative(rel)
	if err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, failure(dir, err)
	}
	defer root.Close()
	parent, err := openBelow(root, filepath.Dir(local))
	if err != nil {
		return nil, failure(filepath.Join(dir, local), err)
	}
	defer parent.Close()
	return openSink(parent, filepath.Join(dir, filepath.Dir(local)), filepath.Base(local), a, j)
}

// openBelow opens a folder below root component by component, and follows no link.
func openBelow(root *os.Root, local string) (*os.Root, error) {
	at, err := root.OpenRoot(".")
	if err != nil || local == "." {
		return at, err
	}
	for _, c := range splitPath(local) {
		info, err := at.Lstat(c)
		if err == nil && info.Mode()&os.ModeSymlink != 0 {
			err = fail(Outside, "a symbolic link stands where a folder belongs: %s", c)
		}
		var next *os.Root
		if err == nil {
			next, err = at.OpenRoot(c)
		}
		at.Close()
		if err != nil {
			return nil, err
		}
		at = next
	}
	return at, nil
}

func splitPath(local string) []string {
	var out []string
	for _, c := range bytes.Split([]byte(filepath.ToSlash(local)), []byte("/")) {
		if len(c) > 0 && string(c) != "." {
			out = append(out, string(c))
		}
	}
	return out
}

// put sends a piece when the front end has room for it.
func (s *Server) put(st *serverStream, c *frame.Chunk, n int) error {
	for st.credit < int64(n) {
		select {
		case i := <-st.In:
			if err := st.hear(i); err != nil {
				c.Release()
				return err
			}
		case <-st.ctx.Done():
			c.Release()
			return st.ctx.Err()
		}
	}
	st.credit -= int64(n)
	return s.o.Out.SendChunk(st.ctx, st.ID, c, n)
}

// hear takes a note of the receiver.
func (st *serverStream) hear(i frame.Item) error {
	defer i.Release()
	if i.Note == nil {
		return fail(Invalid, "data on a stream that is read")
	}
	if i.Note.Op == opAbort {
		return fail(Cancelled, "given up by the front end")
	}
	var w windowArgs
	if err := json.Unmarshal(i.Note.Args, &w); err != nil || w.Bytes < 0 || w.Bytes > frame.Window {
		return fail(Invalid, "bad window")
	}
	st.credit = min(st.credit+w.Bytes, frame.Window)
	return nil
}

// sendFile sends a file that the front end pulls.
func (s *Server) sendFile(st *serverStream, n frame.Note, a readArgs) {
	src, err := s.openSource(a)
	if err != nil {
		s.answer(st.ctx, n.ID, nil, err)
		return
	}
	defer src.f.Close()
	src.size = min(src.size, a.Size)
	stop := context.AfterFunc(st.ctx, func() { src.f.Close() })
	defer stop()
	s.answer(st.ctx, n.ID, readOK{Path: pathname(src.path), Size: src.size, Mode: uint32(src.mode)}, nil)
	end := endArgs{Stream: st.ID}
	err = func() error {
		if a.Offset < 0 || a.Offset > src.size {
			return fail(Changed, "%s has %d bytes, which is less than what was received before", src.path, src.size)
		}
		if _, err := src.skip(a.Offset); err != nil {
			return err
		}
		return src.send(a.Offset, func(c *frame.Chunk, n int) error { return s.put(st, c, n) })
	}()
	if st.ctx.Err() != nil || IsKind(err, Cancelled) {
		return
	}
	if err != nil {
		end.Failed = frame.AsFailure(err)
	} else {
		end.BLAKE3 = src.digest()
	}
	_ = s.note(st.ctx, opEnd, end, true)
}

func (s *Server) openSource(a readArgs) (*source, error) {
	if a.Root == "" {
		p, err := Expand(string(a.Path))
		if err != nil {
			return nil, err
		}
		return openSource(nil, p, p)
	}
	local, err := cleanRelative(string(a.Path))
	if err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(string(a.Root))
	if err != nil {
		return nil, failure(string(a.Root), err)
	}
	defer root.Close()
	return openSource(root, local, filepath.Join(string(a.Root), local))
}

// sendList lists a folder.
func (s *Server) sendList(st *serverStream, n frame.Note, a walkArgs) {
	dir, err := Expand(string(a.Path))
	if err != nil {
		s.answer(st.ctx, n.ID, nil, err)
		return
	}
	info, err := os.Stat(dir)
	if err == nil && !info.IsDir() {
		err = fail(NotFolder, "not a folder: %s", dir)
	}
	if err != nil {
		s.answer(st.ctx, n.ID, nil, failure(dir, err))
		return
	}
	s.answer(st.ctx, n.ID, walkOK{Path: pathname(dir), Mode: uint32(info.Mode().Perm())}, nil)
	buf := frame.NewChunk()
	used := 0
	defer func() { buf.Release() }()
	flush := func() error {
		full := buf
		buf = frame.NewChunk()
		defer func() { used = 0 }()
		return s.put(st, full, used)
	}
	err = walk(st.ctx, dir, func(e entry) error {
		line, err := e.encode()
		if err != nil {
			return err
		}
		if used+len(line) > frame.MaxChunk {
			if err := flush(); err != nil {
				return err
			}
		}
		used += copy(buf.Room()[used:], line)
		return nil
	})
	if err == nil && used > 0 {
		err = flush()
	}
	if st.ctx.Err() != nil {
		return
	}
	end := endArgs{Stream: st.ID}
	if err != nil {
		end.Failed = frame.AsFailure(err)
	}
	_ = s.note(st.ctx, opEnd, end, true)
}

func stat(a pathArgs) (statOK, error) {
	p, err := Expand(string(a.Path))
	if err != nil {
		return statOK{}, err
	}
	info, err := os.Stat(p)
	ok := statOK{Path: pathname(p), Kind: kindNone}
	switch {
	case errors.Is(err, os.ErrNotExist):
		return ok, nil
	case err != nil:
		return ok, failure(p, err)
	case info.IsDir():
		ok.Kind = kindFolder
	case info.Mode().IsRegular():
		ok.Kind = kindFile
	default:
		ok.Kind = kindOther
	}
	ok.Size, ok.Mode = info.Size(), uint32(info.Mode().Perm())
	return ok, nil
}

type nothing struct{}

// mkdir makes a folder below another; one that is there is fine. Its owner may
// always write to it until settle gives it its own bits.
func mkdir(a makeArgs) (nothing, error) { return nothing{}, makeFolder(a) }

func makeFolder(a makeArgs) error {
	return below(a, func(parent *os.Root, base, path string) error {
		err := parent.Mkdir(base, 0o700)
		if errors.Is(err, os.ErrExist) {
			info, statErr := parent.Lstat(base)
			if statErr != nil || !info.IsDir() {
				return fail(NotFolder, "%s exists and is not a folder", path)
			}
			err = nil
		}
		switch mode := os.FileMode(a.Mode) & os.ModePerm; {
		case err != nil:
		case a.Final:
			err = parent.Chmod(base, mode)
		default:
			err = parent.Chmod(base, mode|0o700)
		}
		return failure(path, err)
	})
}

func symlink(a makeArgs) (nothing, error) { return nothing{}, makeSymlink(a) }

func makeSymlink(a makeArgs) error {
	target := string(a.Target)
	if !staysInside(string(a.Path), target) {
		return fail(Outside, "a symbolic link that leads out of the folder: %s", shorten(target))
	}
	return below(a, func(parent *os.Root, base, path string) error {
		err := parent.Symlink(target, base)
		if errors.Is(err, os.ErrExist) {
			if info, statErr := parent.Lstat(base); statErr == nil && info.Mode()&os.ModeSymlink != 0 {
				if err = parent.Remove(base); err == nil {
					err = parent.Symlink(target, base)
				}
			}
		}
		return failure(path, err)
	})
}

// below opens the folder in which a.Path is, and gives it to do.
func below(a makeArgs, do func(parent *os.Root, base, path string) error) error {
	local, err := cleanRelative(string(a.Path))
	if err != nil {
		return err
	}
	root, err := os.OpenRoot(string(a.Root))
	if err != nil {
		return failure(string(a.Root), err)
	}
	defer root.Close()
	path := filepath.Join(string(a.Root), local)
	parent, err := openBelow(root, filepath.Dir(local))
	if err != nil {
		return failure(path, err)
	}
	defer parent.Close()
	return do(parent, filepath.Base(local), path)
}

func (s *Server) stage(a stageArgs) (stageOK, error) { return openStage(a, s.journal) }

// openStage says where the files of a folder go: into a stage beside it, which is
// renamed at the end, or, where the folder is there and may be written to, into it.
func openStage(a stageArgs, j *journal) (stageOK, error) {
	p, err := Expand(string(a.Path))
	if err != nil {
		return stageOK{}, err
	}
	info, err := os.Lstat(p)
	switch {
	case err == nil && !a.Overwrite:
		return stageOK{}, fail(Exists, "%s exists; pass overwrite to write into it", p)
	case err == nil && !info.IsDir():
		return stageOK{}, fail(NotFolder, "%s exists and is %s", p, describe(info.Mode()))
	case err == nil:
		return stageOK{Path: pathname(p), Root: pathname(p)}, nil
	case !errors.Is(err, os.ErrNotExist):
		return stageOK{}, failure(p, err)
	}
	stage := filepath.Join(filepath.Dir(p), partName(filepath.Base(p), -1))
	if err := os.MkdirAll(stage, 0o700); err != nil {
		return stageOK{}, failure(p, err)
	}
	if info, err := os.Lstat(stage); err != nil || !info.IsDir() {
		return stageOK{}, fail(NotFolder, "%s is not a folder", stage)
	}
	j.add(stage)
	return stageOK{Path: pathname(p), Root: pathname(stage)}, nil
}

func (s *Server) settle(a settleArgs) (nothing, error) { return nothing{}, settleStage(a, s.journal) }

// settleStage puts a folder in its place, or drops it.
func settleStage(a settleArgs, j *journal) error {
	p, err := Expand(string(a.Path))
	if err != nil {
		return err
	}
	stage := string(a.Root)
	if stage == p {
		return nil
	}
	if stage != filepath.Join(filepath.Dir(p), partName(filepath.Base(p), -1)) {
		return fail(Invalid, "not the stage of %s: %s", p, stage)
	}
	if a.Drop {
		j.remove(stage)
		return failure(p, os.RemoveAll(stage))
	}
	if err := os.Chmod(stage, os.FileMode(a.Mode)&os.ModePerm); err != nil {
		return failure(p, err)
	}
	if _, err := os.Lstat(p); err == nil {
		return fail(Exists, "%s has appeared in the meantime; what came is in %s", p, stage)
	}
	if err := os.Rename(stage, p); err != nil {
		return failure(p, fmt.Errorf("rename %s: %w", stage, err))
	}
	j.remove(stage)
	return nil
}

//go:build unix

package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"
)

// Child is a running engine. Calls are made one at a time (package session queues them); Interrupt, Pid, Close
// and the captures may be used at any time.
type Child struct {
	Language Language
	Out, Err *Capture // descriptors 1 and 2

	limits Limits
	back   Back
	kin    *kin

	request, reply, wake, rewind *os.File
	in                           frames
	ending                       []int // processes that a reset has killed
	buf                          []byte

	mu     sync.Mutex
	pid    int  // of the process that answers
	keeper int  // of the process that would take over, 0 if none
	origin int  // of the one that has evaluated nothing, 0 if none
	due    bool // an origin was asked for and not reported yet
	// pristine is set until something is evaluated: an idle session costs one process, and
	// the origin is forked before the first evaluation.
	pristine bool
	seq      uint64
	exited   map[int]syscall.WaitStatus
	groups   []int  // process groups of the session, the first process's and those of promoted keepers
	elders   []*kin // processes that earlier children of the session have left to this one
	current  *stopper
	closed   bool
	dead     bool
}

// startTries is how often a process that ended before it was ready is started again.
const startTries = 2

// Start runs the language's program and waits until it is ready. The child ends with Close, or with the server.
func Start(ctx context.Context, lang Language, o Options) (*Child, error) {
	c, err := start(ctx, lang, o)
	var early *Death
	for tries := 0; tries < startTries && errors.As(err, &early); tries++ {
		// A cached program that was cut short, or built against a runtime that has gone; one that was killed
		// says nothing about the cache.
		if early.Signal != syscall.SIGKILL.String() {
			if err := lang.Rebuild(ctx); err != nil {
				return nil, err
			}
		}
		early = nil
		c, err = start(ctx, lang, o)
	}
	if err != nil {
		return nil, fmt.Errorf("start of a session (%s): %w", lang.Name(), err)
	}
	return c, nil
}

func start(ctx context.Context, lang Language, o Options) (*Child, error) {
	cmd, err := lang.Command(ctx)
	if err != nil {
		return nil, err
	}
	ownProcesses()
	c := &Child{Language: lang, limits: o.Limits.withDefaults(), back: o.Back, exited: map[int]syscall.WaitStatus{}}
	if err := c.spawn(cmd, o); err != nil {
		c.Close()
		return nil, err
	}
	ready := o.Ready
	if ready == 0 {
		ready = 10 * time.Second
	}
	caller := ctx
	ctx, cancel := context.WithTimeout(caller, ready)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { c.killGroup() })
	defer stop()
	for {
		d, err := c.receive()
		if err != nil {
			said := string(c.Err.Text(0, min(c.Err.Size(), 2000)))
			c.Close()
			if caller.Err() != nil {
				return nil, context.Cause(caller)
			}
			if ctx.Err() != nil {
				return nil, fmt.Errorf("not ready after %v: %w", ready, ctx.Err())
			}
			if errors.Is(err, ErrClosed) || isDeath(err) {
				return nil, fmt.Errorf("%w before it was ready: %s", err, said)
			}
			return nil, err
		}
		if d.Text("op") == "ready" {
			c.kin.cell.holds() // nothing is evaluated outside of it
			c.pristine = lang.Capabilities().Keeper
			return c, nil
		}
	}
}

func isDeath(err error) bool {
	var d *Death
	return errors.As(err, &d)
}

// spawn makes the files and pipes and the process between them.
func (c *Child) spawn(cmd Command, o Options) (err error) {
	if c.Out, err = newCapture("stdout"); err != nil {
		return err
	}
	if c.Err, err = newCapture("stderr"); err != nil {
		return err
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		return err
	}
	defer null.Close()
	pipe := func(keepWriter bool) (theirs, ours *os.File, err error) {
		r, w, err := os.Pipe()
		if keepWriter {
			return r, w, err
		}
		return w, r, err
	}
	var requestR, replyW, wakeR, rewindR *os.File
	closeTheirs := func() {
		for _, f := range []*os.File{requestR, replyW, wakeR, rewindR} {
			if f != nil {
				f.Close()
			}
		}
	}
	defer closeTheirs()
	if requestR, c.request, err = pipe(true); err != nil {
		return err
	}
	if replyW, c.reply, err = pipe(false); err != nil {
		return err
	}
	if wakeR, c.wake, err = pipe(true); err != nil {
		return err
	}
	if rewindR, c.rewind, err = pipe(true); err != nil {
		return err
	}
	environ := o.Env
	if environ == nil {
		environ = os.Environ()
	}
	out, err := descriptor(c.Out.file)
	if err != nil {
		return err
	}
	errFd, err := descriptor(c.Err.file)
	if err != nil {
		return err
	}
	c.kin = newKin(c.limits.Processes)
	files := []uintptr{null.Fd(), out, errFd, requestR.Fd(), replyW.Fd(), wakeR.Fd(), rewindR.Fd()}
	pid, err := theReaper.launch(func() (int, error) {
		pid, err := syscall.ForkExec(cmd.Path, append([]string{filepath.Base(cmd.Path)}, cmd.Args...), &syscall.ProcAttr{
			Dir:   o.Dir,
			Env:   CleanEnv(environ, append(cmd.Env[:len(cmd.Env):len(cmd.Env)], c.kin.variable())),
			Files: files,
			Sys:   &syscall.SysProcAttr{Setsid: true},
		})
		if err == nil {
			c.mu.Lock()
			c.pid, c.groups = pid, []int{pid}
			c.mu.Unlock()
		}
		return pid, err
	}, c.onExit)
	if err != nil {
		if c.kin.cell != nil {
			c.kin.cell.close()
		}
		c.kin = nil
		return &os.PathError{Op: "run", Path: cmd.Path, Err: err}
	}
	limit(pid, c.limits)
	theGuardian.add(group(pid))
	if cell := c.kin.cell; cell != nil {
		theGuardian.add(cell.dir)
		cell.admit(pid)
	}
	return nil
}

// descriptor returns the file's descriptor without making the file blocking, as Fd would.
func descriptor(f *os.File) (fd uintptr, err error) {
	raw, err := f.SyscallConn()
	if err != nil {
		return 0, err
	}
	return fd, raw.Control(func(n uintptr) { fd = n })
}

// onExit is told of every dead process of the session's groups. The death of the one that answers wakes the reader.
func (c *Child) onExit(pid int, status syscall.WaitStatus) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if pid == c.pid || pid == c.keeper {
		c.exited[pid] = status
	}
	if pid == c.pid && !c.closed {
		c.reply.SetReadDeadline(time.Unix(1, 0))
	}
}

// Pid is the process that answers.
func (c *Child) Pid() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.pid
}

// Alive tells whether the process that answers is running, as far as is known.
func (c *Child) Alive() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, gone := c.exited[c.pid]
	return !gone && !c.dead && !c.closed
}

// Interrupt stops the running call with the cause Cancelled and tells whether one was running.
func (c *Child) Interrupt() bool {
	c.mu.Lock()
	s := c.current
	c.mu.Unlock()
	if s == nil {
		return false
	}
	s.begin(Cancelled)
	return true
}

// Nudge asks the child to write out what it holds in buffers, while a call runs. It does so with a signal, which would
// end a system call of the session's code with EINTR: a child that is in one is left alone, and keeps what it holds.
func (c *Child) Nudge() {
	if !interruptible(c.Pid()) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.current != nil && !c.closed && !c.dead {
		if _, gone := c.exited[c.pid]; !gone {
			syscall.Kill(c.pid, syscall.SIGURG)
		}
	}
}

func (c *Child) signal(r rung) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || c.dead {
		return
	}
	if _, gone := c.exited[c.pid]; gone {
		return
	}
	switch r {
	case interrupt:
		syscall.Kill(c.pid, syscall.SIGINT)
	case interruptGroup:
		syscall.Kill(-c.group(), syscall.SIGINT)
	case killGroup:
		syscall.Kill(-c.group(), syscall.SIGKILL)
		syscall.Kill(c.pid, syscall.SIGKILL)
	}
}

// group is the process group of the process that answers. The caller holds the lock.
func (c *Child) group() int { return c.groups[len(c.groups)-1] }

func (c *Child) killGroup() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed {
		syscall.Kill(-c.group(), syscall.SIGKILL)
	}
}

// watchEvery is how often a long call is looked at: its output and its processes.
const watchEvery = 20 * time.Millisecond

// call sends one request and returns its reply. The limit and the end of ctx stop it by the ladder; the reply of
// a stopped call is still waited for, so that the next call finds the child idle.
func (c *Child) call(ctx context.Context, request Dict, limit time.Duration, call *Call) (Dict, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return c.run(ctx, limit, call, func() (Dict, error) {
		c.send(request)
		return c.await(ctx, request.Int("seq"))
	})
}

// run makes an exchange that can be stopped.
func (c *Child) run(ctx context.Context, limit time.Duration, call *Call, exchange func() (Dict, error)) (Dict, error) {
	s := &stopper{signal: c.signal}
	c.mu.Lock()
	if c.closed || c.dead {
		c.mu.Unlock()
		return nil, ErrClosed
	}
	c.current = s
	c.mu.Unlock()
	s.mu.Lock()
	if limit > 0 {
		s.timers = append(s.timers, time.AfterFunc(limit, func() { s.begin(TimedOut) }))
	}
	c.watch(s, call)
	s.mu.Unlock()
	unwatch := context.AfterFunc(ctx, func() { s.begin(Cancelled) })
	d, err := exchange()
	unwatch()
	call.Cause, call.Forced = s.end()
	c.mu.Lock()
	c.current = nil
	c.mu.Unlock()
	var death *Death
	if errors.As(err, &death) {
		death.Cause = call.Cause
		c.takeOver(death)
	}
	return d, err
}

// watch looks at a long call again and again; the first look is late enough that a short call has none.
func (c *Child) watch(s *stopper, call *Call) {
	base := processCount() // before it can have started any
	var look func()
	look = func() {
		if call.Watch != nil {
			call.Watch()
		}
		if n := processCount(); c.limits.Processes > 0 && n > base+int(c.limits.Processes) && c.processes() > int(c.limits.Processes) {
			if s.cause == None {
				s.cause = Flooded
			}
			s.signal(killGroup)
			c.strike()
		}
		s.after(watchEvery, look)
	}
	s.after(watchEvery, look)
}

// spoils tells whether a request is the first that changes the process.
func (c *Child) spoils(request Dict) bool {
	switch request.Text("op") {
	case "eval", "batch", "load":
	default:
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	first := c.pristine
	if first {
		c.pristine, c.due = false, true
	}
	return first
}

// send writes a request. Whether it was read is known from the reply.
func (c *Child) send(request Dict) {
	c.awaitEnd()
	c.buf = c.buf[:0]
	if c.spoils(request) {
		c.buf = AppendFrame(c.buf, Dict{{"op", "origin"}})
	}
	c.buf = AppendFrame(c.buf, request)
	if _, err := c.request.Write(c.buf); err != nil && !c.gone() {
		// Nobody reads any more, but no death was seen: the descriptors were closed by the session's code.
		c.killGroup()
	}
	if cap(c.buf) > 1<<20 {
		c.buf = nil
	}
}

// await reads the reply to a request, to the evaluation seq where it was one.
func (c *Child) await(ctx context.Context, seq int64) (Dict, error) {
	for {
		d, err := c.receive()
		if err != nil {
			return nil, err
		}
		switch d.Text("op") {
		case "keeper", "origin", "ready":
		case "back":
			if err := c.answer(ctx, d); err != nil {
				return nil, err
			}
		case "eval":
			// Only the answer to this request counts.
			if d.Int("seq") == seq {
				return d, nil
			}
		default:
			return d, nil
		}
	}
}

// answer serves the back-channel in the middle of an evaluation.
func (c *Child) answer(ctx context.Context, d Dict) error {
	r := Dict{{"op", "back"}, {"id", d.Int("id")}}
	fail := func(text string) { r = append(r, Pair{"failure", text}) }
	switch {
	case c.back == nil:
		fail("no back-channel")
	case d.Text("what") == "read":
		if data, err := c.back.ReadBack(ctx, d.Text("path")); err != nil {
			fail("Topup.read_back: " + err.Error())
		} else {
			r = append(r, Pair{"data", string(data)})
		}
	default:
		if err := c.back.WriteBack(ctx, d.Text("path"), []byte(d.Text("data"))); err != nil {
			fail("Topup.write_back: " + err.Error())
		}
	}
	_, err := c.request.Write(AppendFrame(nil, r))
	return err
}

func (c *Child) gone() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, gone := c.exited[c.pid]
	return gone
}

// receive returns the next message. A *Death means that the process ended and that nothing it wrote is left.
func (c *Child) receive() (Dict, error) {
	for {
		d, ok, err := c.in.next()
		if err != nil {
			// The session's code wrote to the reply descriptor; what follows cannot be told apart any more.
			c.killGroup()
			return nil, c.death()
		}
		if ok {
			c.heed(d)
			return d, nil
		}
		n, err := c.reply.Read(c.in.room())
		c.in.fill(n)
		switch {
		case n > 0:
		case errors.Is(err, os.ErrDeadlineExceeded):
			if c.drain() == 0 {
				return nil, c.death()
			}
		case errors.Is(err, io.EOF):
			return nil, c.death()
		case err != nil:
			return nil, ErrClosed
		}
	}
}

// drain takes what a dead process had written, without waiting, and returns the number of bytes.
func (c *Child) drain() int {
	c.reply.SetReadDeadline(time.Time{})
	raw, err := c.reply.SyscallConn()
	if err != nil {
		return 0
	}
	total := 0
	raw.Read(func(fd uintptr) bool {
		n, _ := syscall.Read(int(fd), c.in.room())
		if n > 0 {
			c.in.fill(n)
			total += n
		}
		return true
	})
	if total > 0 {
		// There may be more; the next read must come back here.
		c.reply.SetReadDeadline(time.Unix(1, 0))
	}
	return total
}

// death describes the end of the process that answered. When it closed its end without dying, it is killed.
func (c *Child) death() error {
	for i := 0; ; i++ {
		c.mu.Lock()
		status, known := c.exited[c.pid]
		closed := c.closed
		pid := c.pid
		c.mu.Unlock()
		switch {
		case closed:
			return ErrClosed
		case known:
			return deathOf(status)
		case i == 0:
			syscall.Kill(pid, syscall.SIGKILL)
		case i > 100:
			return &Death{}
		}
		theReaper.sweep()
		time.Sleep(time.Duration(i) * time.Millisecond / 4)
	}
}

func deathOf(status syscall.WaitStatus) *Death {
	d := &Death{}
	if status == lostStatus {
		return d
	}
	if status.Signaled() {
		d.Signal = status.Signal().String()
	} else {
		code := status.ExitStatus()
		d.ExitCode = &code
	}
	return d
}

// recoverWithin bounds the wait for a keeper to wake.
const recoverWithin = 2 * time.Second

// takeOver wakes the keeper of a dead engine. Without one, or when it does not answer, the child is dead for good.
func (c *Child) takeOver(d *Death) {
	c.settle()
	c.mu.Lock()
	keeper, seq := c.keeper, c.seq
	c.keeper = 0
	if keeper == 0 || c.closed || syscall.Kill(keeper, 0) != nil {
		c.dead = true
		c.mu.Unlock()
		return
	}
	c.pid = keeper
	c.groups = append(c.groups, keeper)
	c.mu.Unlock()
	theGuardian.add(group(keeper))
	theReaper.start(keeper, c.onExit)
	if c.kin.cell.holds() {
		c.kin.cell.readmit(keeper)
	}
	if c.awaken(c.wake, keeper) {
		d.Recovered, d.Seq = true, seq
	}
}

// awaken calls the process that waits at the pipe by its number, and reads until it says that it goes on as the engine.
// When it does not, the child is dead. Another process may wait there too, a keeper whose engine was killed before it
// could tell of it: that one reports itself and ends, and the call is made again.
func (c *Child) awaken(pipe *os.File, pid int) bool {
	c.in = frames{}
	call := fmt.Appendf(nil, "%08d", pid)
	if _, err := pipe.Write(call); err == nil {
		timer := time.AfterFunc(recoverWithin, c.killGroup)
		defer timer.Stop()
		for {
			m, err := c.receive()
			if err != nil {
				break
			}
			switch m.Text("op") {
			case "stray":
				pipe.Write(call)
			case "recovered":
				if int(m.Int("pid")) == pid {
					c.forgetEmptyGroups()
					return true
				}
			}
		}
	}
	c.mu.Lock()
	c.dead = true
	c.mu.Unlock()
	return false
}

// settle reads what the dead process had written: the last word about its keeper is in it.
func (c *Child) settle() {
	for {
		n := c.drain()
		for {
			d, ok, err := c.in.next()
			if err != nil || !ok {
				break
			}
			c.heed(d)
		}
		if n == 0 {
			return
		}
	}
}

// heed notes which processes would take over. An engine that was ended may have had a last word.
func (c *Child) heed(d Dict) {
	if int(d.Int("engine")) != c.Pid() {
		return
	}
	switch d.Text("op") {
	case "keeper":
		c.mu.Lock()
		c.keeper, c.seq = int(d.Int("pid")), uint64(d.Int("seq"))
		c.mu.Unlock()
	case "origin":
		c.mu.Lock()
		c.origin, c.due = int(d.Int("pid")), false
		c.mu.Unlock()
	}
}

// forgetEmptyGroups releases the groups of earlier processes that have no process any more. One that has is kept:
// a program that an earlier evaluation started in the background lives until the session ends.
func (c *Child) forgetEmptyGroups() {
	var empty []int
	c.mu.Lock()
	last := c.groups[len(c.groups)-1]
	c.groups = slices.DeleteFunc(c.groups, func(g int) bool {
		if g == last || syscall.Kill(-g, 0) == nil {
			return false
		}
		empty = append(empty, g)
		return true
	})
	c.mu.Unlock()
	// Outside the lock: the reaper calls onExit.
	for _, g := range empty {
		theReaper.release(g)
		theGuardian.remove(group(g))
	}
}

// processes counts the processes of the session, wherever they went.
func (c *Child) processes() int {
	c.mu.Lock()
	groups := slices.Clone(c.groups)
	c.mu.Unlock()
	members, _ := c.kin.members(groups)
	return len(members)
}

// strike kills the processes of the session but for those that wait: the keeper has its state.
func (c *Child) strike() {
	c.mu.Lock()
	groups, waiting := slices.Clone(c.groups), c.waiting()
	c.mu.Unlock()
	c.kin.strike(groups, waiting...)
}

// waiting are the processes that would take over; each leads a group that nobody watches yet. The caller holds the lock.
func (c *Child) waiting() []int {
	return slices.DeleteFunc([]int{c.keeper, c.origin}, func(pid int) bool { return pid == 0 })
}

// Close kills every process of the session, those that left its groups included, and releases its files. It is safe to
// call twice.
func (c *Child) Close() error {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return nil
	}
	c.closed = true
	groups, waiting, elders := c.groups, c.waiting(), c.elders
	for _, g := range groups {
		syscall.Kill(-g, syscall.SIGKILL)
	}
	for _, pid := range waiting {
		syscall.Kill(-pid, syscall.SIGKILL)
	}
	groups = append(groups[:len(groups):len(groups)], waiting...)
	c.mu.Unlock()
	c.closeFiles()
	if c.kin != nil {
		c.kin.end(groups)
	}
	for _, k := range elders {
		k.end(nil)
	}
	c.dismiss(groups, waiting)
	return nil
}

// Retire ends the child as Close does, but for the programs that the session's code has started: they go on, and end
// with the successor.
func (c *Child) Retire(successor *Child) {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return
	}
	c.closed = true
	groups, waiting := c.groups, c.waiting()
	for _, pid := range append(waiting[:len(waiting):len(waiting)], c.pid) {
		if _, gone := c.exited[pid]; pid > 0 && !gone {
			syscall.Kill(pid, syscall.SIGKILL)
		}
	}
	heirs := append(c.elders, c.kin)
	c.mu.Unlock()
	c.closeFiles()
	groups = append(groups[:len(groups):len(groups)], waiting...)
	c.dismiss(groups, waiting)
	heirs = slices.DeleteFunc(heirs, func(k *kin) bool {
		if members, _ := k.members(nil); len(members) > 0 {
			return false
		}
		k.end(nil)
		return true
	})
	successor.mu.Lock()
	closed := successor.closed
	successor.elders = append(successor.elders, heirs...)
	successor.mu.Unlock()
	for _, k := range heirs {
		if closed {
			k.end(nil)
		}
	}
}

func (c *Child) closeFiles() {
	for _, f := range []*os.File{c.request, c.reply, c.wake, c.rewind} {
		if f != nil {
			f.Close()
		}
	}
	if c.Out != nil {
		c.Out.Close()
	}
	if c.Err != nil {
		c.Err.Close()
	}
}

// dismiss gives up the groups of an ended child.
func (c *Child) dismiss(groups, waiting []int) {
	for _, g := range groups {
		if slices.Contains(waiting, g) {
			theReaper.start(g, nil)
		}
		theGuardian.remove(group(g))
	}
	// The kernel ends killed processes at once; a short wait leaves no zombie behind the call.
	for i := 0; i < 50 && anyAlive(append(waiting[:len(waiting):len(waiting)], c.pid)...); i++ {
		theReaper.sweep()
		time.Sleep(time.Duration(min(i, 4)) * time.Millisecond / 4)
	}
	for _, g := range groups {
		theReaper.release(g)
	}
}

func anyAlive(pids ...int) bool {
	for _, pid := range pids {
		if pid > 0 && syscall.Kill(pid, 0) == nil {
			return true
		}
	}
	return false
}

// Check looks whether the process died between calls. Then it wakes the keeper and returns how the process ended;
// otherwise it returns nil.
func (c *Child) Check() *Death {
	c.mu.Lock()
	status, gone := c.exited[c.pid]
	dead, closed := c.dead, c.closed
	c.mu.Unlock()
	switch {
	case closed || dead:
		return &Death{}
	case !gone:
		return nil
	}
	d := deathOf(status)
	c.takeOver(d)
	return d
}

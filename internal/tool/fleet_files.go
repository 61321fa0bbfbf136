package tool

// This file moves files and folders between this machine and a host. A transfer
// outlives the call that began it: the same call again follows it.

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"topside/internal/fleet/host"
	"topside/internal/fleet/transfer"
	"topside/internal/see/plaintext"
	"topside/internal/steer/audit"
	"topside/internal/steer/policy"
)

// A move is one transfer.
type move struct {
	key         string
	done, total atomic.Int64
	ended       chan struct{}
	cancel      context.CancelFunc
	waiting     int // calls that wait for it; of Hosts.mu
	finished    time.Time

	result transfer.Result // once ended
	err    error
}

// A moved is the answer of push_file and pull_file.
type moved struct {
	State   string         `json:"state"` // done, running
	Host    string         `json:"host"`
	Path    string         `json:"path,omitempty"` // where it is now
	Bytes   int64          `json:"bytes"`          // across
	Total   int64          `json:"total_bytes,omitempty"`
	BLAKE3  string         `json:"blake3,omitempty"`
	Files   int            `json:"files,omitempty"`
	Folders int            `json:"folders,omitempty"`
	Links   int            `json:"links,omitempty"`
	Skipped []movedSkipped `json:"skipped,omitempty"`
	More    int            `json:"skipped_left_out,omitempty"`
	Resumed bool           `json:"resumed,omitempty"`
	// Unchanged says that everything was there already, and nothing travelled.
	Unchanged bool `json:"unchanged,omitempty"`
}

type movedSkipped struct {
	Path string `json:"path"`
	Why  string `json:"why"`
}

const (
	// defaultMoveWait is how long a call waits for a transfer, in seconds.
	defaultMoveWait = 45
	// mostSkipped bounds the entries that an answer lists.
	mostSkipped = 50
	// mostMoves bounds the transfers that go on or wait to be collected, and keepMove
	// how long they wait.
	mostMoves = 64
	keepMove  = 10 * time.Minute
	// telling is how often a client that wants to know hears of a transfer.
	telling = 500 * time.Millisecond
)

func (h *Hosts) push(ctx context.Context, call Call) (Result, error) {
	local, there := call.Text("local_path"), call.Text("remote_path")
	return h.move(ctx, call, false, func(ctx context.Context, name string, o transfer.Options) (transfer.Result, error) {
		return h.fleet.Push(ctx, name, local, there, o)
	})
}

func (h *Hosts) pull(ctx context.Context, call Call) (Result, error) {
	there, local := call.Text("remote_path"), call.Text("local_path")
	return h.move(ctx, call, true, func(ctx context.Context, name string, o transfer.Options) (transfer.Result, error) {
		return h.fleet.Pull(ctx, name, there, local, transfer.DefaultRemote, o)
	})
}

// move begins a transfer, or follows the one that the same call began.
func (h *Hosts) move(ctx context.Context, call Call, reads bool, do func(context.Context, string, transfer.Options) (transfer.Result, error)) (Result, error) {
	tool, name := call.tool.Name, call.Text(hostArgument)
	wait := float64(defaultMoveWait)
	if given, ok := call.Number("wait"); ok {
		if given < 0 || given > longestWait {
			return Result{}, call.Fault("wait", "must be from 0 to %d seconds; the transfer goes on", longestWait)
		}
		wait = given
	}
	_ = h.fleet.Refresh() // one that cannot be read leaves what is known
	entry := audit.Entry{
		Tool: tool, Host: name, Client: call.Client, Verdict: string(policy.Allow),
		Local: call.Text("local_path"), Remote: call.Text("remote_path"),
	}
	if err := h.permitFile(tool, name, reads); err != nil {
		return Result{}, h.farError(tool, name, h.refused(entry, err))
	}
	o := transfer.Options{Overwrite: call.Flag("overwrite")}
	key := strings.Join([]string{tool, name, call.Text("local_path"), call.Text("remote_path"), fmt.Sprint(o.Overwrite)}, "\x00")
	m, err := h.begin(key, func(ctx context.Context, m *move) (transfer.Result, error) {
		o.Progress = func(done, total int64) { m.done.Store(done); m.total.Store(total) }
		return writtenDown(h.judge, entry, func() (transfer.Result, error) { return do(ctx, name, o) }, moveOutcome)
	})
	if err != nil {
		return Result{}, err
	}
	return h.follow(ctx, call, m, time.Duration(wait*float64(time.Second)))
}

// refused writes down a transfer that a host's entry or the policy does not let pass.
func (h *Hosts) refused(entry audit.Entry, err error) error {
	var denied *host.PolicyError
	if h.judge == nil || !errors.As(err, &denied) {
		return err
	}
	entry.Stage, entry.Verdict, entry.Reason = "decided", string(policy.Deny), line(denied.Why)
	if werr := h.judge.Write(entry); werr != nil {
		return errors.Join(err, werr)
	}
	return err
}

// moveOutcome is what the audit log says of a transfer.
func moveOutcome(r transfer.Result, err error) (outcome, reason string) {
	switch {
	case err != nil:
		return "failed", line(err.Error())
	case r.Failed > 0:
		return "incomplete", fmt.Sprintf("%d entries could not be read", r.Failed)
	}
	return "done", ""
}

// begin returns the transfer with that key; it begins if there is none.
func (h *Hosts) begin(key string, do func(context.Context, *move) (transfer.Result, error)) (*move, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return nil, errStopping
	}
	if m := h.moves[key]; m != nil {
		m.waiting++
		return m, nil
	}
	for old, m := range h.moves {
		if !m.finished.IsZero() && (time.Since(m.finished) > keepMove || len(h.moves) >= mostMoves) {
			delete(h.moves, old)
		}
	}
	if len(h.moves) >= mostMoves {
		return nil, &FleetError{"busy", fmt.Sprintf("%d transfers are under way", len(h.moves)), "wait for one of them"}
	}
	ctx, cancel := context.WithCancel(h.ctx)
	m := &move{key: key, ended: make(chan struct{}), cancel: cancel, waiting: 1}
	h.moves[key] = m
	h.work.Go(func() {
		defer cancel()
		m.result, m.err = do(ctx, m)
		h.mu.Lock()
		m.finished = time.Now()
		h.mu.Unlock()
		close(m.ended)
	})
	return m, nil
}

// follow waits for a transfer. A call that is cancelled stops it, unless another one
// follows it too.
func (h *Hosts) follow(ctx context.Context, call Call, m *move, wait time.Duration) (Result, error) {
	limit := time.NewTimer(wait)
	defer limit.Stop()
	tick := time.NewTicker(telling)
	defer tick.Stop()
	told := int64(-1)
	for {
		select {
		case <-m.ended:
			h.leave(m, true)
			return h.movedResult(call, m)
		case <-ctx.Done():
			if h.leave(m, false) {
				m.cancel()
				<-m.ended
				h.leave(m, true)
			}
			return Result{}, ctx.Err()
		case <-limit.C:
			h.leave(m, false)
			answer := moved{State: "running", Host: call.Text(hostArgument), Bytes: m.done.Load(), Total: m.total.Load()}
			return Result{Structured: answer, Text: fmt.Sprintf("running: %s; the same call again follows it\n", progressOf(answer.Bytes, answer.Total))}, nil
		case <-tick.C:
			done, total := m.done.Load(), m.total.Load()
			if call.Advance != nil && done > told {
				told = done
				call.Advance(float64(done), float64(total), progressOf(done, total))
			}
		}
	}
}

// leave is the end of a call's wait. collected forgets the transfer; else it tells
// whether nobody waits for it any more.
func (h *Hosts) leave(m *move, collected bool) (alone bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if collected {
		if h.moves[m.key] == m {
			delete(h.moves, m.key)
		}
		return true
	}
	m.waiting--
	return m.waiting == 0
}

func progressOf(done, total int64) string {
	d, t := uint64(max(done, 0)), uint64(max(total, 0))
	if total <= 0 {
		return sizeOf(&d)
	}
	return sizeOf(&d) + " of " + sizeOf(&t)
}

func (h *Hosts) movedResult(call Call, m *move) (Result, error) {
	name := call.Text(hostArgument)
	if m.err != nil {
		if errors.Is(m.err, context.Canceled) {
			return Result{}, &FleetError{"cancelled", "the transfer was stopped", "the same call again begins it anew"}
		}
		return Result{}, h.farError(call.tool.Name, name, m.err)
	}
	r := &m.result
	if r.Failed > 0 {
		return Result{}, leftOutOf(r)
	}
	answer := moved{
		State: "done", Host: name, Path: filepath.ToSlash(r.Path), Bytes: r.Bytes, BLAKE3: r.BLAKE3, Files: r.Files, Folders: r.Folders, Links: r.Links,
		Resumed: r.Resumed && r.Sent > 0, Unchanged: r.Resumed && r.Sent == 0,
	}
	for i, s := range r.Skipped {
		if i == mostSkipped {
			answer.More = len(r.Skipped) - i
			break
		}
		path, _ := plaintext.Bounded(s.Path, 300)
		answer.Skipped = append(answer.Skipped, movedSkipped{path, line(s.Why)})
	}
	return Result{Structured: answer, Text: answer.text()}, nil
}

func (m *moved) text() string {
	var b strings.Builder
	bytes := uint64(max(m.Bytes, 0))
	fmt.Fprintf(&b, "done: %s, %s (%d bytes)", plaintext.Line(m.Path), sizeOf(&bytes), m.Bytes)
	if m.Files+m.Folders+m.Links > 0 {
		fmt.Fprintf(&b, ", %d files, %d folders, %d links", m.Files, m.Folders, m.Links)
	}
	if m.BLAKE3 != "" {
		b.WriteString(", blake3 " + plaintext.Line(m.BLAKE3))
	}
	if m.Resumed {
		b.WriteString(", resumed")
	}
	if m.Unchanged {
		b.WriteString(", unchanged: it was there already")
	}
	b.WriteByte('\n')
	for _, s := range m.Skipped {
		fmt.Fprintf(&b, "skipped %s: %s\n", s.Path, s.Why)
	}
	if m.More > 0 {
		fmt.Fprintf(&b, "and %d more skipped\n", m.More)
	}
	return b.String()
}

// mostFailed bounds the files that are named where some could not be read.
const mostFailed = 10

// leftOutOf tells of a folder of which some could not be read. It is a failure, since an
// answer that says done is not read further.
func leftOutOf(r *transfer.Result) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%d of the folder's entries could not be read and were left out; %d files are at %s. Left out: ", r.Failed, r.Files, filepath.ToSlash(r.Path))
	named := 0
	for _, s := range r.Skipped {
		if !s.Failed {
			continue
		}
		if named == mostFailed {
			fmt.Fprintf(&b, "; and %d more", r.Failed-named)
			break
		}
		if named > 0 {
			b.WriteString("; ")
		}
		path, _ := plaintext.Bounded(s.Path, 300)
		b.WriteString(path + ": " + line(s.Why))
		named++
	}
	return &FleetError{"incomplete", b.String(), "overwrite=true copies again what is missing or differs; what is there already does not travel"}
}

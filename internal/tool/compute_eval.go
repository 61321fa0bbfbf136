package tool

// This file handles the calls that work in a session: each is a run.

import (
	"context"
	"fmt"
	"strings"
	"time"

	"topside/internal/compute/session"
)

// timeoutOf is the limit of an evaluation; zero is none.
func timeoutOf(call Call) (time.Duration, error) {
	seconds, given := call.Number("timeout")
	switch {
	case !given:
		return 0, nil
	case seconds <= 0:
		return 0, call.Fault("timeout", "must be more than 0 seconds; leave it out for no limit")
	case seconds > 1e8:
		return 0, call.Fault("timeout", "must be at most 100000000 seconds; leave it out for no limit")
	}
	return max(time.Duration(seconds*float64(time.Second)), time.Millisecond), nil
}

func (c *Computer) eval(ctx context.Context, call Call) (Result, error) {
	limit, err := timeoutOf(call)
	if err != nil {
		return Result{}, err
	}
	name, engineName := nameOf(call), call.Text("engine")
	if engineName != "" {
		if err := c.checkEngine(call, engineName); err != nil {
			return Result{}, err
		}
		if !call.Has("session") && engineName != c.engines[0].Name {
			name = c.sessionOf(engineName)
		}
	}
	source := call.Text("source")
	r := c.begin("eval", name, source, func(ctx context.Context, r *run) (answer, error) {
		return c.one(ctx, r, engineName, func(s *session.Session) (session.Result, error) {
			return s.Eval(ctx, session.Request{Source: source, Timeout: limit, Progress: r.progress})
		})
	})
	return c.collect(ctx, call, r)
}

// progress marks the run begun: it is called while the session works for it.
func (r *run) progress(int64, int64) { r.begun.Store(true) }

func (c *Computer) checkEngine(call Call, name string) error {
	for _, e := range c.engines {
		if e.Name == name {
			return nil
		}
	}
	names := make([]string, len(c.engines))
	for i, e := range c.engines {
		names[i] = e.Name
	}
	return call.Fault("engine", "must be one of %s; got %s", strings.Join(names, ", "), excerpt(encode(name)))
}

// one is a run with one evaluation. What came back of an earlier server is told
// with it.
func (c *Computer) one(ctx context.Context, r *run, engineName string, do func(*session.Session) (session.Result, error)) (answer, error) {
	s, err := c.in(ctx, r, engineName)
	if err != nil {
		return nil, err
	}
	resumed := s.TakeResumed()
	note := c.takeDisplaced(s)
	result, err := do(s)
	if err != nil {
		return nil, err
	}
	if result.Recovery == nil {
		result.Recovery = resumed
	} else if resumed != nil {
		result.Notes = append(result.Notes, resumed.Describe())
	}
	if note != "" {
		result.Notes = append(result.Notes, note)
	}
	return oneResult{s, result}, nil
}

func (c *Computer) poll(ctx context.Context, call Call) (Result, error) {
	id, name := call.Text("run"), nameOf(call)
	r := c.find(id, name)
	if r == nil && id != "" {
		return Result{}, &ComputeError{"unknown_run", fmt.Sprintf("run %s is not known: it belongs to an earlier server or is long over", excerpt([]byte(id))),
			"list_sessions shows the runs; the session itself has kept what the run defined"}
	}
	if r == nil || id == "" && r.over() && r.collected() {
		return c.between(ctx, call, name)
	}
	return c.collect(ctx, call, r)
}

// between answers a poll of a session that runs nothing: what was printed since
// the last reply. Evaluating nothing brings it.
func (c *Computer) between(ctx context.Context, call Call, name string) (Result, error) {
	if c.live(name) == nil {
		if _, known := c.registered(name); name != "" && !known {
			return Result{}, c.unknown(name)
		}
		at := standingOf(name, nil)
		return Result{Structured: at, Text: "nothing runs there\n" + at.line() + "\n"}, nil
	}
	r := c.begin("poll", name, "", func(ctx context.Context, r *run) (answer, error) {
		return c.one(ctx, r, "", func(s *session.Session) (session.Result, error) {
			return s.Eval(ctx, session.Request{Progress: r.progress})
		})
	})
	return c.collect(ctx, call, r)
}

func (c *Computer) evalBatch(ctx context.Context, call Call) (Result, error) {
	limit, err := timeoutOf(call)
	if err != nil {
		return Result{}, err
	}
	sources := call.Texts("sources")
	if len(sources) == 0 {
		return Result{}, call.Fault("sources", "must be non-empty")
	}
	r := c.begin("eval_batch", nameOf(call), sources[0], func(ctx context.Context, r *run) (answer, error) {
		s, err := c.in(ctx, r, "")
		if err != nil {
			return nil, err
		}
		resumed := s.TakeResumed()
		results, err := s.EvalBatch(ctx, sources, limit)
		if err != nil && len(results) == 0 {
			return nil, err
		}
		if err != nil {
			last := &results[len(results)-1]
			last.Notes = append(last.Notes, "the batch ended here: "+err.Error())
		}
		if results[0].Recovery == nil {
			results[0].Recovery = resumed
		}
		unrun := len(sources) - len(results)
		return batchResult{s, results, unrun > 0, unrun}, nil
	})
	return c.collect(ctx, call, r)
}

func (c *Computer) load(ctx context.Context, call Call) (Result, error) {
	path := call.Text("path")
	r := c.begin("load", nameOf(call), path, func(ctx context.Context, r *run) (answer, error) {
		return c.one(ctx, r, "", func(s *session.Session) (session.Result, error) { return s.Load(ctx, path) })
	})
	return c.collect(ctx, call, r)
}

// labelOf checks the label of a checkpoint.
func labelOf(call Call) (string, error) {
	label := call.Text("label")
	if err := session.CheckLabel(label); err != nil {
		return "", call.Fault("label", "is refused: %v", err)
	}
	return label, nil
}

func (c *Computer) restore(ctx context.Context, call Call) (Result, error) {
	label, err := labelOf(call)
	if err != nil {
		return Result{}, err
	}
	r := c.begin("restore", nameOf(call), label, func(ctx context.Context, r *run) (answer, error) {
		s, err := c.in(ctx, r, "")
		if err != nil {
			return nil, err
		}
		s.TakeResumed() // it is replaced
		result, err := s.Restore(ctx, label)
		if err != nil {
			return nil, err
		}
		return oneResult{s, result}, nil
	})
	return c.collect(ctx, call, r)
}

func (c *Computer) compile(ctx context.Context, call Call) (Result, error) {
	entry, out, libraries := call.Text("entry"), call.Text("out"), call.Texts("libraries")
	r := c.begin(buildTool, nameOf(call), entry, func(ctx context.Context, r *run) (answer, error) {
		s, err := c.in(ctx, r, "")
		if err != nil {
			return nil, err
		}
		result, err := s.Promote(ctx, entry, out, libraries)
		if err != nil {
			return nil, err
		}
		return buildResult{s, result}, nil
	})
	return c.collect(ctx, call, r)
}

// cancelPatience is how long a cancellation is watched for its effect: the
// ladder of the engine takes a second at most, a replay after it a little more.
const cancelPatience = 3 * time.Second

func (c *Computer) cancelRun(ctx context.Context, call Call) (Result, error) {
	id, name := call.Text("run"), nameOf(call)
	var stopped []*run
	if id != "" {
		r := c.find(id, name)
		if r == nil {
			return Result{}, &ComputeError{"unknown_run", fmt.Sprintf("run %s is not known", excerpt([]byte(id))), "list_sessions shows the runs"}
		}
		name = r.name
		if !r.over() {
			r.cancel()
			stopped = append(stopped, r)
		}
	} else {
		if _, known := c.registered(name); name != "" && !known {
			return Result{}, c.unknown(name)
		}
		stopped = c.stopSession(name)
	}
	wait := time.NewTimer(cancelPatience)
	defer wait.Stop()
	reply := cancelReply{OK: true, Cancelled: len(stopped) > 0}
	for _, r := range stopped {
		select {
		case <-r.done:
		case <-wait.C:
			reply.Note = "it has not ended yet; the process is being killed"
		case <-ctx.Done():
			return Result{}, ctx.Err()
		}
		reply.Runs = append(reply.Runs, r.id)
	}
	reply.standing = standingOf(name, c.live(name))
	text := "nothing was running\n"
	if reply.Cancelled {
		text = "cancelled; poll shows what was printed\n"
	}
	return Result{Structured: reply, Text: text + reply.line() + "\n"}, nil
}

// stopSession stops what a session does now: its evaluation, or its start.
func (c *Computer) stopSession(name string) []*run {
	var stopped []*run
	for _, r := range c.openRuns(name, false) {
		switch c.state(r) {
		case "running":
			r.cancel()
			return []*run{r}
		case "opening":
			stopped = append(stopped, r)
			r.cancel()
		}
	}
	c.mu.Lock()
	o := c.opening[name]
	c.mu.Unlock()
	if o != nil {
		o.cancel()
	} else if s := c.live(name); s != nil && len(stopped) == 0 {
		s.Cancel() // what no run knows of, a query
	}
	return stopped
}

type cancelReply struct {
	OK        bool `json:"ok"`
	Cancelled bool `json:"cancelled"`
	standing
	Runs []string `json:"runs,omitempty"`
	Note string   `json:"note,omitempty"`
}

// InOrder reports whether calls of that tool on one session begin in the order
// in which they arrive: all that work in the session.
func InOrder(name string) bool {
	switch name {
	case "eval", "eval_batch", "env", "lookup", "reset", "load", "checkpoint", "restore", "compile_to_binary":
		return true
	}
	return false
}

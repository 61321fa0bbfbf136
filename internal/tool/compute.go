package tool

// This file declares the compute toolset of the united surface, and holds the
// Computer that answers it: the pool of sessions of this server, and what goes
// on after a reply. compute_session.go finds and opens sessions, compute_run.go
// keeps the work that outlives a call, compute_eval.go and compute_manage.go
// handle the calls, compute_reply.go writes what they answer.

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"topside/internal/compute/engine"
	"topside/internal/compute/engine/javascript"
	"topside/internal/compute/engine/ocaml"
	"topside/internal/compute/pool"
	"topside/internal/compute/session"
	"topside/internal/see/plaintext"
)

// ComputeOptions say where sessions are kept and in which language they are.
type ComputeOptions struct {
	// Folder holds logs, checkpoints, long outputs and the registry of
	// sessions. "" keeps everything in memory: nothing survives the server.
	Folder string
	// Engine is the default one, "" for OCaml where it is installed and else
	// JavaScript.
	Engine string
	// Self is the command that becomes the JavaScript engine's child; nil means
	// this executable.
	Self []string
}

// An EngineStatus says whether an engine can run here, and if not, why.
type EngineStatus struct {
	Name, Version string
	Missing       string // "" when it is available
}

// A Computer holds the sessions of one server, for all of its clients. It is
// safe for concurrent use. Close it when done.
type Computer struct {
	folder  string
	engines []EngineStatus // the default one first
	pool    *pool.Pool

	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	work   sync.WaitGroup

	mu       sync.Mutex
	closed   bool
	local    *session.Session
	opening  map[string]*opening
	resumed  map[*session.Session]*session.Recovery // to be told with the next reply
	runs     []*run
	lastRun  int
	runStamp string
}

// NewComputer makes a Computer; no session runs yet. The error is about the
// engine that was asked for.
func NewComputer(ctx context.Context, o ComputeOptions) (*Computer, error) {
	js := &javascript.Language{Self: o.Self}
	ml := &ocaml.Language{}
	languages := []engine.Language{ml, js}
	engines := []EngineStatus{{Name: ml.Name()}, {Name: js.Name()}}
	if info, err := ml.Glance(ctx); err == nil {
		engines[0].Version = info.Version
	} else {
		engines[0].Missing = err.Error()
	}
	if info, err := js.Probe(ctx); err == nil {
		engines[1].Version = info.Version
	} else {
		engines[1].Missing = err.Error()
	}
	first := 0
	switch {
	case o.Engine == "" && engines[0].Missing != "":
		first = 1
	case o.Engine == "":
	default:
		for first = range engines {
			if engines[first].Name == o.Engine {
				break
			}
		}
		if engines[first].Name != o.Engine {
			return nil, fmt.Errorf("there is no engine %q; the engines are %s and %s", o.Engine, engines[0].Name, engines[1].Name)
		}
	}
	if first == 1 {
		languages[0], languages[1] = languages[1], languages[0]
		engines[0], engines[1] = engines[1], engines[0]
	}
	if engines[0].Missing != "" {
		return nil, errors.New(engines[0].Missing)
	}
	c := &Computer{
		folder: o.Folder, engines: engines,
		opening: map[string]*opening{}, resumed: map[*session.Session]*session.Recovery{},
		runStamp: stamp(time.Now()),
	}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	options := pool.Options{Languages: languages, Inline: inlineText, Resume: true}
	if o.Folder != "" {
		options.LogPath = filepath.Join(o.Folder, "local.ml")
		options.CheckpointDir = filepath.Join(o.Folder, "checkpoints")
		options.SpillDir = c.spillFolder()
		options.RegistryPath = filepath.Join(o.Folder, "sessions.json")
	}
	c.pool = pool.New(options)
	return c, nil
}

// inlineText is the longest text that a reply holds whole, in bytes.
const inlineText = 4096

func (c *Computer) spillFolder() string { return filepath.Join(c.folder, "output") }

// Close ends every session and every run.
func (c *Computer) Close() error {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.cancel()
	err := c.pool.Close()
	c.work.Wait()
	return err
}

// Engines lists the engines, the default one first.
func (c *Computer) Engines() []EngineStatus { return c.engines }

// Instructions is what a client should know of the sessions of this server.
func (c *Computer) Instructions() string {
	var b strings.Builder
	fmt.Fprintf(&b, `Persistent sessions evaluate code on this machine: eval keeps names between calls (env, lookup), checkpoint and restore save and bring back a state, compile_to_binary makes an OCaml session a program. Engines: %s.
eval answers within wait seconds; state running means that it goes on: poll collects it, cancel stops it. The generation grows when a session's process was replaced, and recovery says what came back. Leave session out for the default one, local.`, c.engineWords())
	listed := c.pool.List()
	if len(listed) > 0 {
		b.WriteString("\nKnown sessions:")
	}
	for i, l := range listed {
		if i == listedSessions {
			fmt.Fprintf(&b, "\n- and %d more: list_sessions", len(listed)-i)
			break
		}
		name, _ := plaintext.Bounded(l.Name, 60)
		state := "stopped; its log is evaluated again at its next call"
		if l.Live {
			state = string(l.Status.State)
		}
		fmt.Fprintf(&b, "\n- %s [%s] [%s]", name, c.engineOf(l.Entry), state)
	}
	return b.String()
}

// listedSessions bounds the sessions that the instructions name.
const listedSessions = 20

func (c *Computer) engineOf(e pool.Entry) string {
	if e.Engine == "" {
		return c.engines[0].Name
	}
	return e.Engine
}

// engineWords says which engines there are: "ocaml 4.13.1 (default), javascript".
func (c *Computer) engineWords() string {
	if c == nil {
		return "ocaml where it is installed (the default then), javascript everywhere"
	}
	var words []string
	for i, e := range c.engines {
		w := e.Name
		switch {
		case e.Missing != "":
			w += " (not installed)"
		case e.Name == "ocaml":
			w += " " + e.Version
		}
		if i == 0 {
			w += " (default)"
		}
		words = append(words, w)
	}
	return strings.Join(words, ", ")
}

// The longest session name, label and path, in characters.
const (
	sessionLength = 60
	labelLength   = 100
	pathLength    = 4096
)

// Bounds of wait, in seconds. Clients give up after about a minute.
const (
	defaultWait = 25
	longestWait = 50
)

// ComputeTools declares the compute toolset. The computer may be nil where the
// tools are only described.
func ComputeTools(c *Computer) []*Tool {
	name := Property{Name: "session", Type: String, MaxLength: sessionLength}
	named := name
	named.Required, named.MinLength = true, 1
	wait := Property{Name: "wait", Type: Number, Minimum: Bound(0), Maximum: Bound(longestWait)}
	told := wait
	told.Description = fmt.Sprintf("Seconds until the reply (default %d); what runs then goes on.", defaultWait)
	timeout := Property{Name: "timeout", Type: Number, Minimum: Bound(0), Description: "Seconds after which it is stopped; no limit by default."}
	label := Property{Name: "label", Type: String, MaxLength: labelLength, Required: true}
	path := Property{Name: "path", Type: String, MaxLength: pathLength, Required: true}
	prewarm := Property{Name: "prewarm", Type: String, MaxLength: pathLength, Description: "Source file run at each start."}
	siblings := Property{Name: "pool", Type: Integer, Minimum: Bound(1), Maximum: Bound(64)}
	engineName := Property{Name: "engine", Type: String, MaxLength: 30}

	writes := Annotations{Destructive: true, OpenWorld: true}
	reads := Annotations{ReadOnly: true}
	keeps := Annotations{OpenWorld: true}
	tools := []*Tool{
		{
			Name:        "eval",
			Description: "Evaluate source in a persistent session; names stay. Engines: " + c.engineWords() + ". A session that crashed, exited or was killed comes back as it was before that evaluation.",
			Input: []Property{
				{Name: "source", Type: String, Required: true}, name, timeout, told,
				{Name: "engine", Type: String, MaxLength: 30, Description: "Other than the default; without session it has a session of its own name."},
			},
			Annotations: writes, Output: evaluatedSchema(), Handler: c.eval,
		},
		{
			Name:        "poll",
			Description: "Collect a run that was still running, or what a session printed between calls.",
			Input:       []Property{{Name: "run", Type: String, MaxLength: 40, Description: "Default: the session's latest."}, name, wait},
			Annotations: reads, Output: evaluatedSchema(), Handler: c.poll,
		},
		{
			Name:        "eval_batch",
			Description: "Evaluate sources in order; stop at the first error.",
			Input:       []Property{{Name: "sources", Type: Array, Required: true, MaxItems: mostSources}, name, timeout, wait},
			Annotations: writes, Output: replyOf(list("results"), typed("stopped_on_error", Boolean)), Handler: c.evalBatch,
		},
		{
			Name:        "env",
			Description: "The session's names with types and previews.",
			Input:       []Property{{Name: "filter", Type: String, MaxLength: filterLength}, {Name: "all", Type: Boolean, Description: "Library names too."}, name},
			Annotations: keeps, Output: replyOf(list("bindings"), typed("left_out", Integer)), Handler: c.env,
		},
		{
			Name:        "lookup",
			Description: "One name, also qualified (M.x).",
			Input:       []Property{{Name: "name", Type: String, Required: true, MaxLength: filterLength}, name},
			Annotations: keeps, Output: replyOf(typed("found", Boolean), typed("binding", Object)), Handler: c.lookup,
		},
		{
			Name:        "reset",
			Description: "Empty a session; its log is put aside. Prefer restore.",
			Input:       []Property{name},
			Annotations: writes, Output: replyOf(), Handler: c.reset,
		},
		{
			Name:        "cancel",
			Description: "Stop at once what a session runs, or one run.",
			Input:       []Property{name, {Name: "run", Type: String, MaxLength: 40}},
			Annotations: writes, Output: replyOf(typed("cancelled", Boolean)), Handler: c.cancelRun,
		},
		{
			Name:        "load",
			Description: "Load a compiled archive (.cma, .cmo; JavaScript: .js).",
			Input:       []Property{path, name, wait},
			Annotations: writes, Output: replyOf(), Handler: c.load,
		},
		{
			Name:        "checkpoint",
			Description: "Save the session's source history under a label.",
			Input:       []Property{label, name},
			Annotations: keeps, Output: replyOf(typed("path", String)), Handler: c.checkpoint,
		},
		{
			Name:        "restore",
			Description: "Replace the session's state by a checkpoint, of any session.",
			Input:       []Property{label, name, wait},
			Annotations: writes, Output: replyOf(), Handler: c.restore,
		},
		{
			Name:        "compile_to_binary",
			Description: "Build a native program of an OCaml session that calls entry (unit -> _).",
			Input: []Property{
				{Name: "entry", Type: String, Required: true, MaxLength: labelLength},
				{Name: "out", Type: String, Required: true, MaxLength: pathLength, Description: "Absolute folder, empty or of an earlier build."},
				{Name: "libraries", Type: Array, MaxItems: 64}, name, wait,
			},
			Annotations: writes, Output: replyOf(typed("ok", Boolean), typed("build_log", String)), Handler: c.compile,
		},
		{
			Name:        "start_local_session",
			Description: "Start a named session, with the state it had before the server's restart.",
			Input:       []Property{named, prewarm, siblings, engineName, wait},
			Annotations: keeps, Output: replyOf(), Handler: c.start,
		},
		{
			Name:        "restart_local_session",
			Description: "Start a session anew, without its state.",
			Input:       []Property{named, wait},
			Annotations: writes, Output: replyOf(), Handler: c.restart,
		},
		{
			Name:        "update_local_session",
			Description: "Change what the next restart uses.",
			Input:       []Property{named, prewarm, siblings},
			Annotations: keeps, Output: replyOf(), Handler: c.update,
		},
		{
			Name:        "list_sessions",
			Description: "Sessions, runs, engines, checkpoints.",
			Annotations: reads, Output: &Schema{Type: Object}, Handler: c.list,
		},
		{
			Name:        "read_output",
			Description: "Read a range of a long output, by the path that a reply gave.",
			Input: []Property{
				path, {Name: "offset", Type: Integer, Description: "In bytes; negative from the end."},
				{Name: "limit", Type: Integer, Minimum: Bound(1), Maximum: Bound(longestRead), Default: 8000},
			},
			Annotations: reads, Output: &Schema{Type: Object, Properties: []Field{typed("text", String), typed("next_offset", Integer)}}, Handler: c.readOutput,
		},
	}
	for _, t := range tools {
		t.Toolset = Compute
		if c == nil {
			t.Handler = notServed
		}
	}
	return tools
}

// mostSources bounds a batch.
const mostSources = 200

func notServed(context.Context, Call) (Result, error) {
	return Result{}, &ComputeError{"unavailable", "this server has no sessions", "start it with the compute toolset"}
}

// replyOf is the schema of a reply about a session.
func replyOf(fields ...Field) *Schema {
	return &Schema{Type: Object, Properties: append([]Field{typed("session", String), typed("state", String), typed("generation", Integer)}, fields...)}
}

func evaluatedSchema() *Schema {
	return replyOf(typed("run", String), Field{Name: "value_repr"}, Field{Name: "type"}, typed("stdout", String), typed("stderr", String),
		list("output"), list("warnings"), Field{Name: "error"}, typed("recovery", Object))
}

// A ComputeError is a call that could not be answered. Its Code is one word for
// programs, Hint says what to call next.
type ComputeError struct{ Code, Message, Hint string }

func (e *ComputeError) Error() string { return e.Message }

// explained turns the errors of the compute packages into a *ComputeError. The
// arguments name what the call was about.
func explained(err error, name string) error {
	var (
		known       *ComputeError
		argument    *ArgumentError
		usage       *session.UsageError
		unavailable *engine.Unavailable
		connect     *pool.ConnectError
	)
	switch {
	case err == nil:
		return nil
	case errors.As(err, &known):
		return known
	case errors.As(err, &argument):
		return err
	case errors.As(err, &unavailable):
		return &ComputeError{"engine_unavailable", unavailable.Language + " is not available: " + unavailable.Reason, unavailable.Install + "; or use engine javascript, which is always there"}
	case errors.As(err, &usage):
		return usageError(usage.Text)
	case errors.As(err, &connect):
		return &ComputeError{"session_failed", err.Error(), "correct it with update_local_session or another prewarm file, then start_local_session"}
	case errors.Is(err, session.ErrClosed):
		return &ComputeError{"session_closed", fmt.Sprintf("session %s was closed while the call waited", shown(name)), "call again: it is started when it is needed"}
	case errors.Is(err, context.Canceled):
		return &ComputeError{"cancelled", "the call was cancelled before it began", ""}
	}
	return &ComputeError{"session_failed", err.Error(), "reset starts the session anew; list_sessions shows its state"}
}

func usageError(text string) error {
	switch {
	case strings.HasPrefix(text, "no such checkpoint"):
		return &ComputeError{"unknown_checkpoint", text, "list_sessions names the checkpoints"}
	case strings.HasPrefix(text, "session not registered"):
		return &ComputeError{"unknown_session", text, "list_sessions names the sessions"}
	case strings.Contains(text, "TOPUP_"):
		return &ComputeError{"not_kept", "this server keeps nothing on disk: it has no folder for its state", "start it with HOME set or with --state FOLDER"}
	}
	return &ComputeError{"invalid_call", text, ""}
}

// shown is a session's name in a message.
func shown(name string) string {
	if name == "" {
		return localName
	}
	line, _ := plaintext.Bounded(name, sessionLength)
	return line
}

// localName is what the default session is called.
const localName = "local"

// StateFolder is where sessions of this user are kept unless something else is
// asked for: topside/compute in the folder that the system has for state. It is
// "" when the user has no home.
func StateFolder() string {
	if state := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(state) {
		return filepath.Join(state, "topside", "compute")
	}
	home, err := os.UserHomeDir()
	if err != nil || !filepath.IsAbs(home) {
		return ""
	}
	return filepath.Join(home, ".local", "state", "topside", "compute")
}

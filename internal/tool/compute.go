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
	"slices"
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
	Note          string // what is less than its name says, "" for nothing
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

	mu        sync.Mutex
	closed    bool
	local     *session.Session
	opening   map[string]*opening
	displaced map[*session.Session]bool // of whose log this was told
	runs      []*run
	lastRun   int
	runStamp  string
}

// NewComputer makes a Computer; no session runs yet. The error is about the
// engine that was asked for.
func NewComputer(ctx context.Context, o ComputeOptions) (*Computer, error) {
	js := &javascript.Language{Self: o.Self}
	bytecode, native := &ocaml.Language{}, &ocaml.Language{Native: true}
	languages := []engine.Language{bytecode, native, js}
	looks := []func(context.Context) (engine.Info, error){bytecode.Glance, native.Glance, js.Probe}
	engines := make([]EngineStatus, len(languages))
	names := make([]string, len(languages))
	for i, l := range languages {
		names[i] = l.Name()
		engines[i].Name = l.Name()
		info, err := looks[i](ctx)
		engines[i].Version, engines[i].Note = info.Version, info.Note
		if err != nil {
			engines[i].Missing = err.Error()
		}
	}
	first := slices.Index(names, o.Engine)
	switch {
	case o.Engine == "" && engines[0].Missing == "":
		first = 0
	case o.Engine == "":
		first = slices.Index(names, js.Name())
	case first < 0:
		return nil, fmt.Errorf("there is no engine %q; the engines are %s", o.Engine, strings.Join(names, ", "))
	case engines[first].Missing != "":
		return nil, errors.New(engines[first].Missing)
	}
	chosen, status := languages[first], engines[first]
	languages = slices.Insert(slices.Delete(languages, first, first+1), 0, chosen)
	engines = slices.Insert(slices.Delete(engines, first, first+1), 0, status)
	c := &Computer{
		folder: o.Folder, engines: engines,
		opening: map[string]*opening{}, displaced: map[*session.Session]bool{},
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

// InUse counts the sessions that evaluate now or did since a time.
func (c *Computer) InUse(since time.Time) int { return c.pool.InUse(since) }

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
		case i > 0 && (e.Missing != "" || e.Note != ""):
			continue
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

// The longest session name, in characters.
const sessionLength = 60

// Bounds of wait, in seconds. Clients give up after about a minute.
const (
	defaultWait = 25
	longestWait = 50
)

// ComputeTools declares the compute toolset. The computer may be nil where the
// tools are only described. Descriptions are short, and limits that a handler
// explains better are not in the schemas: every client pays for them.
func ComputeTools(c *Computer) []*Tool {
	name := Property{Name: "session", Type: String}
	named := Property{Name: "session", Type: String, Required: true}
	wait := Property{Name: "wait", Type: Number}
	told := Property{Name: "wait", Type: Number, Description: fmt.Sprintf("Seconds until the reply (default %d, at most %d); the run goes on.", defaultWait, longestWait)}
	timeout := Property{Name: "timeout", Type: Number}
	label := Property{Name: "label", Type: String, Required: true}
	path := Property{Name: "path", Type: String, Required: true}
	prewarm := Property{Name: "prewarm", Type: String}
	siblings := Property{Name: "pool", Type: Integer}
	engineName := Property{Name: "engine", Type: String}
	runID := Property{Name: "run", Type: String}

	writes := Annotations{Destructive: true, OpenWorld: true}
	reads := Annotations{ReadOnly: true}
	tools := []*Tool{
		{
			Name:        "eval",
			Description: "Evaluate source in a persistent session on this machine; names stay. Engines: " + c.engineWords() + ". A session that crashed, exited or was stopped has the state from before that evaluation.",
			Input: []Property{
				{Name: "source", Type: String, Required: true}, name,
				{Name: "timeout", Type: Number, Description: "Seconds until it is stopped (default none)."}, told,
				{Name: "engine", Type: String, Description: "Not the default one; its own session unless one is named."},
			},
			Annotations: writes, Handler: c.eval,
			Output: replyOf(typed("run", String), Field{Name: "value_repr"}, Field{Name: "type"}, typed("stdout", String), typed("stderr", String),
				list("output"), list("warnings"), Field{Name: "error"}, typed("recovery", Object)),
		},
		{
			Name:        "poll",
			Description: "Collect a run that went on after its reply (default: the session's latest), or what was printed between calls.",
			Input:       []Property{runID, name, wait},
			Annotations: reads, Output: replyOf(), Handler: c.poll,
		},
		{
			Name:        "eval_batch",
			Description: "Evaluate sources in order, up to the first error.",
			Input:       []Property{{Name: "sources", Type: Array, Required: true, MaxItems: mostSources}, name, timeout, wait},
			Annotations: writes, Output: replyOf(list("results")), Handler: c.evalBatch,
		},
		{
			Name:        "env",
			Description: "Names with types and previews.",
			Input:       []Property{{Name: "filter", Type: String}, {Name: "all", Type: Boolean}, name},
			Annotations: writes, Output: replyOf(list("bindings"), typed("left_out", Integer)), Handler: c.env,
		},
		{
			Name:        "lookup",
			Description: "One name, qualified too.",
			Input:       []Property{{Name: "name", Type: String, Required: true}, name},
			Annotations: writes, Output: replyOf(typed("found", Boolean), typed("binding", Object)), Handler: c.lookup,
		},
		{
			Name:        "reset",
			Description: "Empty a session; restore previous undoes it.",
			Input:       []Property{name},
			Annotations: writes, Output: replyOf(), Handler: c.reset,
		},
		{
			Name:        "cancel",
			Description: "Stop at once what a session runs, or one run.",
			Input:       []Property{runID, name},
			Annotations: writes, Output: replyOf(typed("cancelled", Boolean)), Handler: c.cancelRun,
		},
		{
			Name:        "load",
			Description: "Load an archive: .cma, .cmo; in JavaScript .js.",
			Input:       []Property{path, name, wait},
			Annotations: writes, Output: replyOf(), Handler: c.load,
		},
		{
			Name:        "checkpoint",
			Description: "Save the session's history as source, under a label.",
			Input:       []Property{label, name},
			Annotations: writes, Output: replyOf(typed("path", String)), Handler: c.checkpoint,
		},
		{
			Name:        "restore",
			Description: "Replace the session's state by a checkpoint, also another session's; previous is its own before the last reset.",
			Input:       []Property{label, name, wait},
			Annotations: writes, Output: replyOf(), Handler: c.restore,
		},
		{
			Name:        buildTool,
			Description: "Build a native program of an OCaml session that calls entry: unit -> _.",
			Input: []Property{
				{Name: "entry", Type: String, Required: true},
				{Name: "out", Type: String, Required: true, Description: "Absolute folder."},
				{Name: "libraries", Type: Array, MaxItems: 64}, name, wait,
			},
			Annotations: writes, Output: replyOf(typed("ok", Boolean), typed("build_log", String)), Handler: c.compile,
		},
		{
			Name:        "start_local_session",
			Description: "Start a named session, with its earlier state if it had one. prewarm: source file run at each start.",
			Input:       []Property{named, prewarm, siblings, engineName, wait},
			Annotations: writes, Output: replyOf(), Handler: c.start,
		},
		{
			Name:        "restart_local_session",
			Description: "Start a session anew, without its state.",
			Input:       []Property{named, wait},
			Annotations: writes, Output: replyOf(), Handler: c.restart,
		},
		{
			Name:        "update_local_session",
			Description: "Change what the next start uses.",
			Input:       []Property{named, prewarm, siblings},
			Annotations: writes, Output: replyOf(), Handler: c.update,
		},
		{
			Name:        "list_sessions",
			Description: "Sessions, runs, engines, checkpoints.",
			Annotations: reads, Output: &Schema{Type: Object, Properties: []Field{list("sessions")}}, Handler: c.list,
		},
		{
			Name:        "read_output",
			Description: "Read a long output at the path that a reply gave; offset in bytes, negative from the end.",
			Input:       []Property{path, {Name: "offset", Type: Integer}, {Name: "limit", Type: Integer}},
			Annotations: reads, Output: &Schema{Type: Object, Properties: []Field{typed("text", String), typed("next_offset", Integer)}}, Handler: c.readOutput,
		},
	}
	for _, t := range tools {
		t.Toolset = Compute
		if c == nil {
			t.Handler = notServed
		} else {
			t.Handler = bounded(t.Handler)
		}
	}
	return tools
}

// lengths bounds the arguments that name something, in characters.
var lengths = []struct {
	argument string
	most     int
}{{"session", sessionLength}, {"label", 100}, {"path", 4096}, {"prewarm", 4096}, {"out", 4096}, {"entry", 200}, {"filter", filterLength}, {"name", filterLength}}

// bounded checks the lengths before a handler sees them.
func bounded(h Handler) Handler {
	return func(ctx context.Context, call Call) (Result, error) {
		for _, l := range lengths {
			if n := length(call.Text(l.argument)); n > l.most {
				return Result{}, call.Fault(l.argument, "must be a string of at most %d characters; got %d", l.most, n)
			}
		}
		return h(ctx, call)
	}
}

// mostSources bounds a batch.
const mostSources = 200

func notServed(context.Context, Call) (Result, error) {
	return Result{}, &ComputeError{"unavailable", "this server has no sessions", "start it with the compute toolset"}
}

// replyOf is the schema of a reply about a session.
func replyOf(fields ...Field) *Schema {
	return &Schema{Type: Object, Properties: append([]Field{typed("state", String), typed("generation", Integer)}, fields...)}
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
		registry    *pool.RegistryError
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
	case errors.As(err, &registry):
		return &ComputeError{"not_kept", registry.Error(), "it holds until this server ends; free space, or name another folder with --state"}
	case errors.Is(err, session.ErrClosed):
		return &ComputeError{"session_closed", fmt.Sprintf("session %s was closed while the call waited", shown(name)), "call again: it is started when it is needed"}
	case errors.Is(err, context.Canceled):
		return &ComputeError{"cancelled", "the call was cancelled before it began", ""}
	}
	return &ComputeError{"session_failed", err.Error(), "call again; list_sessions shows the session's state, and reset starts it anew, without its names"}
}

func usageError(text string) error {
	switch {
	case strings.HasPrefix(text, "no such checkpoint"):
		return &ComputeError{"unknown_checkpoint", text, "list_sessions names the checkpoints"}
	case strings.HasPrefix(text, "session not running"):
		return &ComputeError{"session_failed", text, "start_local_session starts it"}
	case strings.HasPrefix(text, "session not registered"):
		return &ComputeError{"unknown_session", text, "list_sessions names the sessions"}
	case strings.HasPrefix(text, "checkpoint: "), strings.HasPrefix(text, "restore: "):
		return &ComputeError{"not_kept", text, "list_sessions shows the folder; the server's --state names another"}
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

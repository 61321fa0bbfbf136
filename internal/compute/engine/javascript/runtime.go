package javascript

import (
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"runtime"
	"runtime/metrics"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/dop251/goja"
	"github.com/dop251/goja/parser"

	"topside/internal/compute/engine"
)

//go:embed inspect.js
var inspectSource string

//go:embed bounds.js
var boundsSource string

// mostCharacters is the length of the longest string that is made at once, V8's.
const mostCharacters = 1<<29 - 24

// evalName is the file name of source that has none.
const evalName = "<eval>"

// Main is the child process. It returns when the requests end.
func Main(args []string) int {
	requests, replies := os.NewFile(3, "requests"), os.NewFile(4, "replies")
	if requests == nil || replies == nil {
		fmt.Fprintln(os.Stderr, "this command is the inside of a session; start sessions with the server")
		return 2
	}
	syscall.CloseOnExec(3)
	syscall.CloseOnExec(4)
	syscall.CloseOnExec(5)
	signal.Ignore(syscall.SIGPIPE)
	c := &child{requests: requests, replies: replies, frames: make(chan engine.Dict), declared: map[string]*engine.Location{}}
	if err := c.setup(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	c.send(engine.Dict{{Key: "op", Value: "ready"}, {Key: "pid", Value: int64(os.Getpid())}, {Key: "version", Value: gojaVersion()}})
	go c.read()
	go c.interrupts()
	return c.loop()
}

// child is the state of the process. All but the marked fields belong to the goroutine of loop.
type child struct {
	requests, replies *os.File
	frames            chan engine.Dict

	vm       *goja.Runtime
	inspect  goja.Callable
	typeName goja.Callable
	await    goja.Callable // calls a function from a promise's job
	timers   []*timer
	nextID   int64
	declared map[string]*engine.Location
	initial  map[string]bool
	rejected map[*goja.Promise]bool
	back     bool
	backID   int64

	// broken is set when no promise will be settled any more. The process ends without a reply; another evaluates the
	// log again.
	broken bool

	running atomic.Bool // read by interrupts and by the memory watch
}

// errMemory interrupts an evaluation that uses more than the child may.
var errMemory = errors.New("out of memory")

func (c *child) setup() error {
	c.vm = goja.New()
	c.vm.SetMaxCallStackSize(5000)
	c.vm.SetFieldNameMapper(goja.UncapFieldNameMapper())
	c.vm.SetParserOptions(parser.WithDisableSourceMaps)
	c.rejected = map[*goja.Promise]bool{}
	c.vm.SetPromiseRejectionTracker(func(p *goja.Promise, op goja.PromiseRejectionOperation) {
		if op == goja.PromiseRejectionReject {
			c.rejected[p] = true
		} else {
			delete(c.rejected, p)
		}
	})
	v, err := c.vm.RunScript("inspect.js", inspectSource)
	if err != nil {
		return err
	}
	makeInspect, _ := goja.AssertFunction(v)
	state := func(v goja.Value) goja.Value {
		o, ok := v.(*goja.Object)
		if !ok {
			return goja.Undefined()
		}
		p, ok := o.Export().(*goja.Promise)
		if !ok {
			return goja.Undefined()
		}
		names := map[goja.PromiseState]string{goja.PromiseStatePending: "pending", goja.PromiseStateFulfilled: "fulfilled", goja.PromiseStateRejected: "rejected"}
		result := p.Result()
		if result == nil {
			result = goja.Undefined()
		}
		return c.vm.NewArray(names[p.State()], result)
	}
	guards, err := c.bound()
	if err != nil {
		return err
	}
	proxy := func(v goja.Value) bool {
		o, ok := v.(*goja.Object)
		if !ok || slices.ContainsFunc(guards, func(g *goja.Object) bool { return o.SameAs(g) }) {
			return false
		}
		_, ok = o.Export().(goja.Proxy)
		return ok
	}
	// Export of a plain object walks it; asking its class first keeps that to promises and proxies.
	r, err := makeInspect(goja.Undefined(), c.vm.ToValue(func(call goja.FunctionCall) goja.Value {
		if o, ok := call.Argument(0).(*goja.Object); ok && o.ExportType() == promiseType {
			return state(o)
		}
		return goja.Undefined()
	}), c.vm.ToValue(func(call goja.FunctionCall) goja.Value {
		if o, ok := call.Argument(0).(*goja.Object); ok && o.ExportType() == proxyType {
			return c.vm.ToValue(proxy(o))
		}
		return c.vm.ToValue(false)
	}))
	if err != nil {
		return err
	}
	if v, err = c.vm.RunScript("inspect.js", "(f) => { (async () => { await undefined; f() })() }"); err != nil {
		return err
	}
	c.await, _ = goja.AssertFunction(v)
	o := r.(*goja.Object)
	c.inspect, _ = goja.AssertFunction(o.Get("inspect"))
	c.typeName, _ = goja.AssertFunction(o.Get("typeName"))
	c.globals()
	c.initial = map[string]bool{}
	for _, k := range c.vm.GlobalObject().GetOwnPropertyNames() {
		c.initial[k] = true
	}
	return nil
}

// bound keeps single allocations below what the process may hold, and returns what
// stands for the constructors now.
func (c *child) bound() ([]*goja.Object, error) {
	v, err := c.vm.RunScript("bounds.js", boundsSource)
	if err != nil {
		return nil, err
	}
	bound, _ := goja.AssertFunction(v)
	if v, err = bound(goja.Undefined(), c.vm.ToValue(memoryLimit()), c.vm.ToValue(mostCharacters)); err != nil {
		return nil, err
	}
	var guards []*goja.Object
	c.vm.ForOf(v, func(guard goja.Value) bool {
		guards = append(guards, guard.(*goja.Object))
		return true
	})
	return guards, nil
}

// read hands requests over. Their end is the end of the server or of the session: nothing is worth finishing.
func (c *child) read() {
	for {
		d, err := engine.ReadFrame(c.requests)
		if err != nil {
			if !errors.Is(err, io.EOF) {
				fmt.Fprintln(os.Stderr, err)
			}
			os.Exit(0)
		}
		c.frames <- d
	}
}

func (c *child) interrupts() {
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGINT)
	for range signals {
		if c.running.Load() {
			c.vm.Interrupt("interrupted")
		}
	}
}

// heapVariable, in the child's environment, sets the limit of the heap in bytes.
const heapVariable = "TOPSIDE_JAVASCRIPT_HEAP"

// watchMemory interrupts the evaluation when the heap outgrows its limit, until done is closed.
func (c *child) watchMemory(done chan struct{}) {
	limit := memoryLimit()
	if n, err := strconv.ParseInt(os.Getenv(heapVariable), 10, 64); err == nil && n > 0 {
		limit = n
	}
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-done:
			return
		case <-tick.C:
			if metrics.Read(sample); int64(sample[0].Value.Uint64()) > limit {
				c.vm.Interrupt(errMemory)
			}
		}
	}
}

func (c *child) send(d engine.Dict) {
	if _, err := c.replies.Write(engine.AppendFrame(nil, d)); err != nil {
		os.Exit(1)
	}
}

// loop serves requests and, between them, timers, until the runtime is broken.
func (c *child) loop() int {
	for {
		var due <-chan time.Time
		var t *time.Timer
		if next := c.nextTimer(); next != nil {
			t = time.NewTimer(time.Until(next.at))
			due = t.C
		}
		select {
		case d := <-c.frames:
			if t != nil {
				t.Stop()
			}
			r := c.serve(d)
			if c.broken {
				return 1
			}
			if r != nil {
				c.send(r)
			}
		case <-due:
			c.guarded(func() error { c.runTimers(); return nil })
		}
		if c.broken {
			return 1
		}
	}
}

func (c *child) serve(d engine.Dict) engine.Dict {
	switch op := d.Text("op"); op {
	case "eval":
		c.back = d.Int("back") == 1
		name := d.Text("name")
		if name == "" {
			name = evalName
		}
		return c.eval(d.Int("seq"), name, d.Text("source"))
	case "load":
		b, err := os.ReadFile(d.Text("path"))
		if err != nil {
			return reply(d.Int("seq"), failure{phase: "runtime", message: err.Error()})
		}
		return c.eval(d.Int("seq"), d.Text("path"), string(b))
	case "env":
		return c.env(d)
	case "lookup":
		return c.lookup(d.Text("name"))
	case "back":
		return nil
	default:
		return engine.Dict{{Key: "op", Value: op}, {Key: "error", Value: "unknown operation"}}
	}
}

// failure is an error of the evaluated code.
type failure struct {
	phase, message string
	where          *engine.Location
	related        []string
	frames         []engine.Location
	broke          bool
}

func reply(seq int64, f failure) engine.Dict {
	return engine.Dict{{Key: "op", Value: "eval"}, {Key: "seq", Value: seq}, {Key: "error", Value: f.value()}}
}

func (f failure) value() engine.Value {
	related := engine.List{}
	for _, r := range f.related {
		related = append(related, r)
	}
	broke := int64(0)
	if f.broke {
		broke = 1
	}
	var trace strings.Builder
	for _, l := range f.frames {
		fmt.Fprintf(&trace, "Called from file %q, line %d, characters %d-%d\n", l.File, l.Line, l.ColStart, l.ColEnd)
	}
	return engine.Dict{
		{Key: "phase", Value: f.phase}, {Key: "message", Value: f.message}, {Key: "loc", Value: locationValue(f.where)},
		{Key: "related", Value: related}, {Key: "broke", Value: broke}, {Key: "backtrace", Value: trace.String()},
	}
}

func locationValue(l *engine.Location) engine.Value {
	if l == nil {
		return nil
	}
	return engine.Dict{
		{Key: "file", Value: l.File}, {Key: "line", Value: int64(l.Line)}, {Key: "col", Value: int64(l.ColStart)},
		{Key: "line_end", Value: int64(l.LineEnd)}, {Key: "col_end", Value: int64(l.ColEnd)},
	}
}

// guarded runs evaluated code: interrupts reach it only here.
func (c *child) guarded(f func() error) error {
	c.vm.ClearInterrupt()
	c.running.Store(true)
	done := make(chan struct{})
	watch := time.AfterFunc(20*time.Millisecond, func() { c.watchMemory(done) })
	err := c.try(f)
	c.running.Store(false)
	close(done)
	watch.Stop()
	c.vm.ClearInterrupt()
	interrupted := errors.As(err, new(*goja.InterruptedError))
	if interrupted {
		runtime.GC()
	}
	if interrupted || errors.As(err, new(*goja.StackOverflowError)) {
		c.broken = c.broken || !c.settles()
	}
	return err
}

// try runs f, in which values may throw when they are asked for something: their getters and methods are evaluated code.
func (c *child) try(f func() error) (err error) {
	defer func() {
		switch x := recover().(type) {
		case nil:
		case *goja.InterruptedError:
			err = x
		case *goja.StackOverflowError:
			err = x
		default:
			panic(x)
		}
	}()
	if exception := c.vm.Try(func() { err = f() }); exception != nil {
		return exception
	}
	return err
}

// settles tells whether the runtime still works for promises. When it is interrupted in one of their jobs it never does
// again.
func (c *child) settles() bool {
	settled := false
	c.await(goja.Undefined(), c.vm.ToValue(func(goja.FunctionCall) goja.Value {
		settled = true
		return goja.Undefined()
	}))
	return settled
}

// told is a text that values of the session give of themselves, or another where they throw.
func (c *child) told(otherwise string, f func() string) string {
	run := c.guarded
	if c.running.Load() {
		run = c.try
	}
	run(func() error { otherwise = f(); return nil })
	return otherwise
}

func (c *child) eval(seq int64, name, source string) engine.Dict {
	units, err := split(name, source)
	if err != nil {
		f := syntaxFailure(name, source, err)
		return reply(seq, f)
	}
	var value goja.Value
	var valueText, typeText engine.Value
	phrases := engine.List{}
	var failed engine.Value
	var current *unit
	err = c.guarded(func() error {
		defer c.reportRejections()
		for i := range units {
			current = &units[i]
			v, err := c.run(name, current)
			if err != nil {
				return err
			}
			for _, d := range current.declares {
				c.declared[d.name] = place(name, source, d.at, d.at+len(d.name))
			}
			if v != nil {
				value = v
			}
			phrases = append(phrases, engine.Dict{
				{Key: "start", Value: int64(current.start)}, {Key: "stop", Value: int64(current.stop)},
				{Key: "kind", Value: current.kind}, {Key: "arg", Value: ""},
			})
		}
		return nil
	})
	if err != nil {
		f := c.failureOf(err, name, source, current)
		if failed = f.value(); c.broken && !f.broke {
			fmt.Fprintln(os.Stderr, f.message+", in the job of a promise: the process works for none any more, and ends")
		}
	}
	if value != nil {
		if err := c.guarded(func() error {
			v, err := c.inspect(goja.Undefined(), value)
			if err != nil {
				return err
			}
			t, err := c.typeName(goja.Undefined(), value)
			if err != nil {
				return err
			}
			valueText, typeText = v.String(), t.String()
			return nil
		}); err != nil && failed == nil {
			failed = c.failureOf(err, name, source, current).value()
		}
	}
	return engine.Dict{
		{Key: "op", Value: "eval"}, {Key: "seq", Value: seq}, {Key: "value", Value: valueText}, {Key: "type", Value: typeText},
		{Key: "error", Value: failed}, {Key: "phrases", Value: phrases},
	}
}

// run executes one unit and returns its value: the completion value of a statement, the last name of a declaration.
func (c *child) run(name string, u *unit) (goja.Value, error) {
	program, err := goja.Compile(name, u.text, false)
	if err != nil {
		return nil, err
	}
	if u.async {
		for _, d := range u.declares {
			if c.vm.GlobalObject().Get(d.name) == nil {
				c.vm.GlobalObject().Set(d.name, goja.Undefined())
			}
		}
	}
	v, err := c.vm.RunProgram(program)
	if err != nil {
		return nil, err
	}
	if u.async {
		p, ok := v.Export().(*goja.Promise)
		if !ok {
			return nil, errors.New("an async function returned no promise")
		}
		if v, err = c.settle(p); err != nil {
			return nil, err
		}
	}
	if u.completes {
		return v, nil
	}
	if n := len(u.declares); n > 0 {
		return c.vm.GlobalObject().Get(u.declares[n-1].name), nil
	}
	return nil, nil
}

// rejection is a promise that the evaluated source waited for and that failed.
type rejection struct{ value goja.Value }

func (r *rejection) Error() string { return "rejected" }

// settle runs timers until the promise is settled.
func (c *child) settle(p *goja.Promise) (goja.Value, error) {
	for p.State() == goja.PromiseStatePending {
		next := c.nextTimer()
		if next == nil {
			return nil, errors.New("the awaited promise can never be settled: no timer is running")
		}
		if d := time.Until(next.at); d > 0 {
			time.Sleep(min(d, 5*time.Millisecond))
		}
		// A pending interrupt makes the runtime refuse to run anything.
		if _, err := c.vm.RunString("undefined"); err != nil {
			return nil, err
		}
		if err := c.runTimers(); err != nil {
			return nil, err
		}
	}
	delete(c.rejected, p)
	if p.State() == goja.PromiseStateRejected {
		return nil, &rejection{p.Result()}
	}
	return p.Result(), nil
}

func (c *child) reportRejections() {
	for p := range c.rejected {
		fmt.Fprintln(os.Stderr, "Uncaught (in promise) "+c.show(p.Result()))
		delete(c.rejected, p)
	}
}

func (c *child) show(v goja.Value) string {
	if v == nil {
		return "undefined"
	}
	return c.told("a value that cannot be shown", func() string {
		s, err := c.inspect(goja.Undefined(), v)
		if err != nil {
			return v.String()
		}
		return s.String()
	})
}

func syntaxFailure(name, source string, err error) failure {
	f := failure{phase: "typecheck", message: err.Error()}
	var list parser.ErrorList
	if errors.As(err, &list) && len(list) > 0 {
		f.message = "SyntaxError: " + list[0].Message
		at := offsetOf(source, list[0].Position.Line, list[0].Position.Column)
		f.where = place(name, source, at, min(at+1, len(source)))
		for _, e := range list[1:min(len(list), 4)] {
			f.related = append(f.related, e.Error())
		}
	}
	return f
}

// failureOf describes an error of the runtime; frames of units are places of the source.
func (c *child) failureOf(err error, name, source string, u *unit) failure {
	var interrupted *goja.InterruptedError
	var overflow *goja.StackOverflowError
	var exception *goja.Exception
	var rejected *rejection
	var syntax *goja.CompilerSyntaxError
	f := failure{phase: "runtime"}
	switch {
	default:
		f.message = err.Error()
	case errors.As(err, &interrupted):
		if interrupted.Value() == errMemory {
			f.message = "RangeError: out of memory"
		} else {
			f.message, f.broke = "interrupted", true
		}
	case errors.As(err, &syntax):
		f.phase, f.message = "typecheck", "SyntaxError: "+syntax.Message
		if syntax.File != nil && u != nil {
			p := syntax.File.Position(syntax.Offset)
			at := u.original(offsetOf(u.text, p.Line, p.Column))
			f.where = place(name, source, at, min(at+1, len(source)))
		}
	case errors.As(err, &overflow):
		f.message = "RangeError: Maximum call stack size exceeded"
	case errors.As(err, &exception):
		f.message, f.related = c.describe(exception.Value())
		for _, frame := range exception.Stack() {
			p := frame.Position()
			c.passed(&f, name, source, u, frame.SrcName(), p.Line, p.Column)
		}
	case errors.As(err, &rejected):
		f.message, f.related = c.describe(rejected.value)
		for _, m := range stackFrame.FindAllStringSubmatch(c.stackOf(rejected.value), -1) {
			line, _ := strconv.Atoi(m[2])
			column, _ := strconv.Atoi(m[3])
			c.passed(&f, name, source, u, m[1], line, column)
		}
	}
	if f.where == nil && u != nil && !f.broke {
		f.where = place(name, source, u.start, u.stop)
	}
	return f
}

// passed adds a frame to the failure; the first in the unit is its place.
func (c *child) passed(f *failure, name, source string, u *unit, file string, line, column int) {
	if file == "inspect.js" || file == "bounds.js" || line == 0 || len(f.frames) >= 40 {
		return
	}
	l := engine.Location{File: file, Line: line, ColStart: max(column-1, 0), LineEnd: line, ColEnd: max(column-1, 0)}
	if u != nil && file == name && c.inUnit(u, line, column) {
		at := u.original(offsetOf(u.text, line, column))
		l = *place(name, source, at, at)
		if f.where == nil {
			f.where = place(name, source, at, at)
		}
	}
	f.frames = append(f.frames, l)
}

// stackFrame is a line of an Error's stack: "at f (<eval>:1:20(3))" or "at <eval>:1:16(4)".
var stackFrame = regexp.MustCompile(`(?m)^\s*at (?:.* \()?([^()\n]+):(\d+):(\d+)\(\d+\)\)?$`)

// stackOf is where an Error was made; the reason of a rejection comes without the frames of a throw.
func (c *child) stackOf(v goja.Value) string {
	o, ok := v.(*goja.Object)
	if !ok || o.ClassName() != "Error" {
		return ""
	}
	return c.told("", func() string {
		if stack := o.Get("stack"); stack != nil {
			return stack.String()
		}
		return ""
	})
}

// inUnit tells whether a position can be one of the unit's text; functions of earlier evaluations have the same file
// name and may be longer.
func (c *child) inUnit(u *unit, line, column int) bool {
	lines := strings.Split(u.text, "\n")
	return line <= len(lines) && column <= len(lines[line-1])+1
}

// describe is the text of a thrown value and of its causes.
func (c *child) describe(v goja.Value) (string, []string) {
	o, ok := v.(*goja.Object)
	if !ok || o.ClassName() != "Error" {
		return "Uncaught " + c.show(v), nil
	}
	var related []string
	text := c.told("an error that cannot be shown", o.String)
	c.told("", func() string {
		for cause, n := o.Get("cause"), 0; cause != nil && n < 5; n++ {
			related = append(related, "caused by "+cause.String())
			co, ok := cause.(*goja.Object)
			if !ok {
				break
			}
			cause = co.Get("cause")
		}
		return ""
	})
	return text, related
}

// env lists the names the session declared, or all global ones.
func (c *child) env(d engine.Dict) engine.Dict {
	all, filter := d.Int("all") == 1, d.Text("filter")
	var files []string
	for _, v := range d.List("files") {
		if s, ok := v.(string); ok {
			files = append(files, s)
		}
	}
	bindings := engine.List{}
	global := c.vm.GlobalObject()
	err := c.guarded(func() error {
		for _, name := range global.GetOwnPropertyNames() {
			l, own := c.declared[name]
			switch {
			case filter != "" && !strings.Contains(name, filter):
			case !all && c.initial[name] && !own:
			case !all && own && !slices.Contains(files, l.File):
			default:
				var v goja.Value
				err := c.try(func() error { v = global.Get(name); return nil })
				if errors.As(err, new(*goja.Exception)) {
					bindings = append(bindings, engine.Dict{
						{Key: "name", Value: name}, {Key: "kind", Value: "value"}, {Key: "type", Value: "getter"},
						{Key: "loc", Value: locationValue(l)}, {Key: "preview", Value: "[Getter that throws]"},
					})
					continue
				}
				if err != nil {
					return err
				}
				b, err := c.binding(name, v, l)
				if err != nil {
					return err
				}
				bindings = append(bindings, b)
			}
		}
		return nil
	})
	r := engine.Dict{{Key: "op", Value: "env"}, {Key: "bindings", Value: bindings}}
	if err != nil {
		r = append(r, engine.Pair{Key: "error", Value: c.failureOf(err, evalName, "", nil).value()})
	}
	return r
}

func (c *child) binding(name string, v goja.Value, l *engine.Location) (engine.Dict, error) {
	if v == nil {
		v = goja.Undefined()
	}
	t, err := c.typeName(goja.Undefined(), v)
	if err != nil {
		return nil, err
	}
	s, err := c.inspect(goja.Undefined(), v, c.vm.ToValue(true))
	if err != nil {
		return nil, err
	}
	preview := s.String()
	if len(preview) > 200 {
		preview = strings.ToValidUTF8(preview[:200], "") + "…"
	}
	return engine.Dict{
		{Key: "name", Value: name}, {Key: "kind", Value: "value"}, {Key: "type", Value: t.String()},
		{Key: "loc", Value: locationValue(l)}, {Key: "preview", Value: preview},
	}, nil
}

// lookup finds a name or a path of names, such as state.items[0].
func (c *child) lookup(name string) engine.Dict {
	var b engine.Value
	if isPath(name) {
		c.guarded(func() error {
			v, err := c.vm.RunScript(evalName, "("+name+")")
			if err != nil {
				return nil
			}
			d, err := c.binding(name, v, c.declared[name])
			if err == nil {
				b = d
			}
			return nil
		})
	}
	return engine.Dict{{Key: "op", Value: "lookup"}, {Key: "binding", Value: b}}
}

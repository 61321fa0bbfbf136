package javascript

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"topside/internal/compute/engine"
)

// TestMain makes the test binary its own child, as the product's binary is.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == Argument {
		os.Exit(Main(os.Args[2:]))
	}
	goleak.VerifyTestMain(m)
}

type world struct {
	*testing.T
	*engine.Child
	n uint64
}

func open(t *testing.T, o engine.Options) *world {
	t.Helper()
	c, err := engine.Start(context.Background(), &Language{}, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return &world{T: t, Child: c}
}

func (w *world) eval(source string) (engine.Reply, string) {
	w.Helper()
	w.n++
	from := w.Out.Size()
	var call engine.Call
	r, err := w.Eval(context.Background(), w.n, source, "", false, 40*time.Second, &call)
	if err != nil {
		w.Fatalf("%q: %v", source, err)
	}
	return r, string(w.Out.Text(from, w.Out.Size()))
}

// TestValues: completion values with type, in one session, so that names are declared again.
func TestValues(t *testing.T) {
	w := open(t, engine.Options{})
	for _, c := range []struct{ source, value, typ string }{
		{"1+1", "2", "number"},
		{"let x = 42", "42", "number"},
		{"let x = 'again'; const y = 1", "1", "number"},
		{"const y = 2; const z = y + 1;", "3", "number"},
		{"let x;", "undefined", "undefined"},
		{"x", "undefined", "undefined"},
		{"class P { constructor(a) { this.a = a } }", "[class P]", "class"},
		{"class P { constructor(a) { this.a = a; this.b = 0 } }\nnew P(1)", "P { a: 1, b: 0 }", "P"},
		{"class Q extends P {}; Q", "[class Q extends P]", "class"},
		{"function f(n) { return n < 2 ? n : f(n-1) + f(n-2) }", "[Function: f]", "function"},
		{"g(3); function g(a) { return a * 2 }", "6", "number"},
		{"f(20)", "6765", "number"},
		{"let {a, b: [c, ...d], ...rest} = {a: 1, b: [2, 3, 4], e: 5}; [a, c, d, rest]", "[ 1, 2, [ 3, 4 ], { e: 5 } ]", "Array"},
		{"'it\\'s'", `'it\'s'`, "string"},
		{"`a\nb`", `'a\nb'`, "string"},
		{"10n ** 20n", "100000000000000000000n", "bigint"},
		{"-0", "-0", "number"},
		{"null", "null", "null"},
		{"undefined", "undefined", "undefined"},
		{"Symbol('s')", "Symbol(s)", "symbol"},
		{"new Map([['k', {v: 1}]])", "Map(1) { 'k' => { v: 1 } }", "Map"},
		{"new Set([1, 'a'])", "Set(2) { 1, 'a' }", "Set"},
		{"new Uint8Array([1, 2])", "Uint8Array(2) [ 1, 2 ]", "Uint8Array"},
		{"/a+/gi", "/a+/gi", "RegExp"},
		{"new Date(0)", "1970-01-01T00:00:00.000Z", "Date"},
		{"({get g() { return 1 }, [Symbol.iterator]: 1, 'a b': 2})", "{ g: [Getter], 'a b': 2, [Symbol(Symbol.iterator)]: 1 }", "Object"},
		{"const loop = {}; loop.self = loop; loop", "{ self: [Circular] }", "Object"},
		{"[1,,3]", "[ 1, <1 empty item>, 3 ]", "Array"},
		{"Promise.resolve(5)", "Promise { 5 }", "Promise"},
		{"new Promise(() => {})", "Promise { <pending> }", "Promise"},
		{"await Promise.resolve(7)", "7", "number"},
		{"const r = await new Promise(ok => setTimeout(() => ok('late'), 5)); r + '!'", "'late!'", "string"},
		{"r", "'late'", "string"},
		{"let {p, q} = await Promise.resolve({p: 1, q: 2}), s; class AW { m() { return p + q } }; function fw() { return new AW().m() }\nawait fw()", "3", "number"},
		{"fw() + q", "5", "number"},
		{"async function h() { return 1 }; h", "[AsyncFunction: h]", "function"},
		{"if (true) { 8 }", "8", "number"},
		{"", "", ""},
		{"// a comment", "", ""},
		{"'use strict'; let st = 1; st + 1", "2", "number"},
		{"x = 3\ny", "2", "number"},
		{"[...'héllo'].length", "5", "number"},
		{"Array.prototype.join = () => 'broken'; [1]", "[ 1 ]", "Array"},
	} {
		r, _ := w.eval(c.source)
		if r.Failure != nil {
			t.Errorf("%q: %+v", c.source, r.Failure)
			continue
		}
		if got := text(r.Value); got != c.value {
			t.Errorf("%q: value %s, want %s", c.source, got, c.value)
		}
		if got := text(r.Type); got != c.typ {
			t.Errorf("%q: type %s, want %s", c.source, got, c.typ)
		}
	}
}

func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

func TestErrors(t *testing.T) {
	w := open(t, engine.Options{})
	w.eval("function thrower() {\n  throw new TypeError('inner', {cause: new Error('root')})\n}")
	for _, c := range []struct {
		source, phase, message string
		line, col              int
	}{
		{"1 +", "typecheck", "SyntaxError: Unexpected end of input", 1, 3},
		{"let a = 1;\nlet b = ;", "typecheck", "SyntaxError: Unexpected token ;", 2, 8},
		{"nosuch + 1", "runtime", "ReferenceError: nosuch is not defined", 1, 0},
		{"let q = 1;\n  null.x", "runtime", "TypeError: Cannot read property 'x' of undefined", 2, 7},
		{"throw 5", "runtime", "Uncaught 5", 1, 0},
		{"throw {a: 1}", "runtime", "Uncaught { a: 1 }", 1, 0},
		{"class Z { m() { nosuch() } }\nnew Z().m()", "runtime", "ReferenceError: nosuch is not defined", 0, 0},
		{"class Y { static m() { return nosuch } }; Y.m()", "runtime", "ReferenceError: nosuch is not defined", 0, 0},
		{"thrower()", "runtime", "TypeError: inner", 0, 0},
		{"await Promise.reject(new Error('no'))", "runtime", "Error: no", 1, 21},
		{"async function rejects() {\n  await 1; throw new RangeError('deep')\n}\nawait rejects()", "runtime", "RangeError: deep", 2, 17},
		{"await new Promise(() => {})", "runtime", "the awaited promise can never be settled", 0, 0},
		{"(function r() { r() })()", "runtime", "RangeError: Maximum call stack size exceeded", 0, 0},
	} {
		r, _ := w.eval(c.source)
		f := r.Failure
		if f == nil || f.Phase != c.phase || !strings.HasPrefix(f.Message, c.message) {
			t.Errorf("%q: %+v", c.source, f)
			continue
		}
		if c.line != 0 && (f.Location == nil || f.Location.Line != c.line || f.Location.ColStart != c.col) {
			t.Errorf("%q: at %+v, want %d:%d", c.source, f.Location, c.line, c.col)
		}
	}
	r, _ := w.eval("thrower()")
	if len(r.Failure.Related) != 1 || r.Failure.Related[0] != "caused by Error: root" {
		t.Errorf("%+v", r.Failure)
	}
	if r, _ := w.eval("let before = 1; nosuch; let after = 2"); len(r.Phrases) != 1 || r.Failure == nil {
		t.Errorf("%+v", r)
	}
	if r, _ := w.eval("before"); text(r.Value) != "1" {
		t.Errorf("%+v", r)
	}
}

func TestOutput(t *testing.T) {
	w := open(t, engine.Options{})
	for source, want := range map[string]string{
		"console.log('a', 1, {b: 2}, [3])":                          "a 1 { b: 2 } [ 3 ]\n",
		"console.log('%s is %d%% %j', 'x', 5, {})":                  "x is 5% {}\n",
		"console.group('g'); console.log('in'); console.groupEnd()": "g\n  in\n",
		"console.log(new Error('e').message)":                       "e\n",
		"print('p')":                                                "p\n",
	} {
		if _, out := w.eval(source); out != want {
			t.Errorf("%s: %q, want %q", source, out, want)
		}
	}
	from := w.Err.Size()
	w.eval("console.error('bad'); Promise.reject(new Error('lost'))")
	if got := string(w.Err.Text(from, w.Err.Size())); got != "bad\nUncaught (in promise) [Error: lost]\n" && !strings.HasPrefix(got, "bad\nUncaught (in promise) Error: lost") {
		t.Errorf("stderr %q", got)
	}
	w.eval("setTimeout(() => console.log('later'), 20)")
	mark := w.Out.Size()
	for i := 0; i < 200 && w.Out.Size() == mark; i++ {
		time.Sleep(5 * time.Millisecond)
	}
	if got := string(w.Out.Text(mark, w.Out.Size())); got != "later\n" {
		t.Errorf("between calls: %q", got)
	}
}

func TestInterrupt(t *testing.T) {
	w := open(t, engine.Options{})
	w.eval("let kept = 1")
	for _, source := range []string{"while (true) {}", "while (true) { try { while (true) {} } catch (e) {} finally {} }", "await new Promise(() => setInterval(() => {}, 1))"} {
		var call engine.Call
		begin := time.Now()
		r, err := w.Eval(context.Background(), 1, source, "", false, 100*time.Millisecond, &call)
		if err != nil || r.Failure == nil || !r.Failure.Broke || call.Cause != engine.TimedOut || time.Since(begin) > 2*time.Second {
			t.Errorf("%s: %+v %v %v", source, r.Failure, err, call)
		}
	}
	if r, _ := w.eval("kept"); text(r.Value) != "1" {
		t.Errorf("%+v", r)
	}
}

// TestAwait: what begins with a parenthesis, a bracket or a sign is waited for too, at the top level only.
func TestAwait(t *testing.T) {
	w := open(t, engine.Options{})
	for _, c := range []struct{ source, want string }{
		{"await (Promise.resolve(3))", "3"},
		{"await (async () => { return 5 })()", "5"},
		{"await [1]", "[ 1 ]"},
		{"await -1", "-1"},
		{"await `a`", "'a'"},
		{"await\n(1)", "1"},
		{"let w = await (async () => 4)(); w", "4"},
		{"async function f() { return 1 }; await (f())", "1"},
		{"async function g() { return await (f()) }; typeof g()", "'object'"},
		{"'await (1)'", "'await (1)'"},
	} {
		if r, _ := w.eval(c.source); text(r.Value) != c.want {
			t.Errorf("%s: %s, want %s (%+v)", c.source, text(r.Value), c.want, r.Failure)
		}
	}
}

// TestInterruptedJob: a runtime that was interrupted in the job of a promise would run no other any more; its process
// ends instead.
func TestInterruptedJob(t *testing.T) {
	for _, source := range []string{"await 1; while (true) {}", "(async () => { for (;;) await 1 })()", "await 1; (function r() { r() })()"} {
		w := open(t, engine.Options{})
		var call engine.Call
		_, err := w.Eval(context.Background(), 1, source, "", false, 300*time.Millisecond, &call)
		var death *engine.Death
		if !errors.As(err, &death) {
			if r, _ := w.eval("await 2"); err != nil || text(r.Value) != "2" {
				t.Errorf("after %s: %+v %v", source, r, err)
			}
		}
	}
	// What an evaluation leaves whole goes on.
	w := open(t, engine.Options{})
	for _, source := range []string{"while (true) {}", "(function r() { r() })()"} {
		var call engine.Call
		w.Eval(context.Background(), 1, source, "", false, 100*time.Millisecond, &call)
		if r, _ := w.eval("await 3"); text(r.Value) != "3" {
			t.Errorf("%+v", r)
		}
	}
}

// TestThrowers: values that throw when they are looked at do not end the process.
func TestThrowers(t *testing.T) {
	w := open(t, engine.Options{})
	w.eval("let kept = 1")
	for _, source := range []string{
		"class E extends Error { toString() { throw 5 } }; throw new E('a')",
		"throw {toString() { throw 1 }, [Symbol.toPrimitive]() { throw 2 }}",
		"let e = new Error('m'); Object.defineProperty(e, 'cause', {get() { throw 3 }}); throw e",
		"throw new Error('x', {cause: {toString() { throw 1 }}})",
		"let s = new Error('s'); Object.defineProperty(s, 'stack', {get() { throw 3 }}); await Promise.reject(s)",
		"throw new Proxy(new Error('p'), {get() { throw 1 }})",
		"throw Object.create(null)",
		"Promise.reject(new E('z')); throw 1",
		"Error.prototype.toString = () => { throw 1 }; throw new Error('zz')",
	} {
		if r, _ := w.eval(source); r.Failure == nil || r.Failure.Phase != "runtime" || r.Failure.Location == nil {
			t.Errorf("%s: %+v", source, r.Failure)
		}
	}
	w.eval("setTimeout(() => { throw new E('late') }, 1); Promise.prototype.then = null; queueMicrotask(() => 1); await new Promise(r => setTimeout(r, 20))")
	w.eval("Object.defineProperty(globalThis, 'bad', {get() { throw new Error('x') }, enumerable: true, configurable: true})")
	bs, err := w.Bindings(context.Background(), engine.EnvQuery{Files: []string{"<eval>"}})
	if err != nil || len(bs) < 3 {
		t.Errorf("%+v %v", bs, err)
	}
	if r, _ := w.eval("kept"); text(r.Value) != "1" {
		t.Errorf("%+v", r)
	}
}

func TestEnv(t *testing.T) {
	w := open(t, engine.Options{})
	w.eval("let alpha = 1;\nconst beta = [1, 2]; class C {}; function fn() {}; implicit = 3")
	bs, err := w.Bindings(context.Background(), engine.EnvQuery{Files: []string{"<eval>"}})
	if err != nil || len(bs) != 5 {
		t.Fatalf("%+v %v", bs, err)
	}
	for _, b := range bs {
		if b.Name == "beta" && (*b.Location != engine.Location{File: "<eval>", Line: 2, ColStart: 6, LineEnd: 2, ColEnd: 10} || *b.Preview != "[ 1, 2 ]" || b.Type != "Array") {
			t.Errorf("%+v %+v", b, b.Location)
		}
	}
	if bs, _ := w.Bindings(context.Background(), engine.EnvQuery{All: true}); len(bs) < 50 {
		t.Errorf("%d", len(bs))
	}
	for name, want := range map[string]string{"alpha": "1", "beta[1]": "2", "Math.PI": "3.141592653589793", "nosuch": "", "print('x')": "", "beta.nosuch": "undefined", "1 +": ""} {
		b, err := w.Lookup(context.Background(), name)
		if err != nil || (b == nil) != (want == "") || b != nil && *b.Preview != want {
			t.Errorf("%s: %+v %v", name, b, err)
		}
	}
}

// TestMemory: an evaluation that fills the memory ends, by the watch on the heap or, where that comes too late, by the
// limit of the process.
func TestMemory(t *testing.T) {
	c, err := engine.Start(context.Background(), &Language{Env: []string{heapVariable + "=67108864"}}, engine.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	w := &world{T: t, Child: c}
	var call engine.Call
	r, err := w.Eval(context.Background(), 1, "const l = []; while (true) l.push([1, 2, 3, {a: 1}])", "", false, 60*time.Second, &call)
	var death *engine.Death
	if errors.As(err, &death) && death.ExitCode != nil && *death.ExitCode == 2 {
		return
	}
	if err != nil || r.Failure == nil || r.Failure.Message != "RangeError: out of memory" {
		t.Fatalf("%+v %v", r.Failure, err)
	}
	if r, _ := w.eval("1"); text(r.Value) != "1" {
		t.Errorf("%+v", r)
	}
}

// FuzzSplit: whatever the source, rewriting it neither panics nor moves a place out of it.
func FuzzSplit(f *testing.F) {
	for _, s := range []string{"let x = 1, y; class A {}", "let {a, b: [c]} = await z;\nawait c", "function f() {}\n;;f()", "const a = 1 // c", "await 1;let q", "'use strict'; class B{}", "let é = 'ü'; await é"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, source string) {
		units, err := split("<eval>", source)
		if err != nil {
			return
		}
		for _, u := range units {
			if u.start < 0 || u.stop > len(source) || u.start > u.stop {
				t.Fatalf("%q: unit %d-%d", source, u.start, u.stop)
			}
			for i := range u.text {
				if o := u.original(i); o < u.start || o > u.stop {
					t.Fatalf("%q: %d maps to %d", source, i, o)
				}
			}
		}
	})
}

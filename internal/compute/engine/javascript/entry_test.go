package javascript

import (
	"strings"
	"testing"

	"topside/internal/compute/engine"
)

// TestEntries: the log holds declarations that a later one may repeat.
func TestEntries(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ source, want string }{
		{"let x = 1", "var x = 1;\n"},
		{"const {a, b} = {a: 1, b: 2};", "var {a, b} = {a: 1, b: 2};\n"},
		{"let x", "var x = undefined;\n"},
		{"let é, x2", "var é = undefined, x2 = undefined;\n"},
		{"class P { m() { let x = 1; return x } }", "var P = class P { m() { let x = 1; return x } };\n"},
		{"// doubles\nfunction f(n) { return 2 * n }", "// doubles\nvar f = function (n) { return 2 * n };\n"},
		{"async function f() { await 1 }", "var f = async function () { await 1 };\n"},
		{"function* g() { yield 1 }", "var g = function* () { yield 1 };\n"},
		{"x = 3", "var x = 3;\n"},
		{"o.p = 3", "o.p = 3;\n"},
		{"for (let i = 0; i < 3; i++) {}", "for (let i = 0; i < 3; i++) {};\n"},
		{"const r = await f(); function f() { return 1 }", "var f = function () { return 1 };\nvar r = await f();\n"},
		{"1 +", "1 +;\n"},
		{"", ""},
	} {
		if got := (&Language{}).Entry(c.source, "", ""); got != c.want {
			t.Errorf("%q: %q, want %q", c.source, got, c.want)
		}
	}
}

// TestLogIsAProgram: what a session logged runs as one source, and means the same.
func TestLogIsAProgram(t *testing.T) {
	t.Parallel()
	w := open(t, engine.Options{})
	var log strings.Builder
	for _, source := range []string{
		"let x = 1", "let x = x + 1; const y = x", "const y = 10", "function f() { return 1 }", "let one = f()",
		"function f() { return 2 }", "let two = f()", "class P { v() { return 1 } }; let p = new P()", "class P { v() { return 2 } }",
		"const late = await Promise.resolve(5); function h() { return late }", "loose = 7", "let gone = 1", "let gone",
	} {
		w.n++
		r, _ := w.eval(source)
		if r.Failure != nil {
			t.Fatalf("%s: %+v", source, r.Failure)
		}
		for _, p := range r.Phrases {
			log.WriteString((&Language{}).Entry(source[p.Start:p.Stop], p.Kind, p.Arg))
		}
	}
	for _, word := range []string{"let ", "const ", "\nclass ", "\nfunction "} {
		if strings.Contains(log.String(), word) {
			t.Errorf("%q in the log:\n%s", word, log.String())
		}
	}
	fresh := open(t, engine.Options{})
	if r, _ := fresh.eval(log.String()); r.Failure != nil {
		t.Fatalf("%+v\n%s", r.Failure, log.String())
	}
	const sum = "[x, y, one, two, p.v(), new P().v(), late, h(), loose, gone, f.name].join()"
	before, _ := w.eval(sum)
	after, _ := fresh.eval(sum)
	if text(before.Value) != text(after.Value) || text(before.Value) != "'2,10,1,2,1,2,5,5,7,,f'" {
		t.Errorf("%s and %s\n%s", text(before.Value), text(after.Value), log.String())
	}
}

package policy

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

const example = `
# the first rule that matches decides

deny    unit=postgresql*.service        because "ask the database team"
deny    user=root signal=KILL,SIGSTOP
confirm signal=KILL
confirm container=*prod*
allow   user=deploy name="worker *"  # at night
default deny
`

func TestDecide(t *testing.T) {
	t.Parallel()
	p, err := Parse(example)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		request Request
		want    Verdict
		line    int
	}{
		{Request{Unit: "postgresql@15-main.service", Signal: "TERM"}, Deny, 4},
		{Request{User: "root", UID: "0", Signal: "STOP"}, Deny, 5},
		{Request{User: "root", Signal: "TERM"}, Deny, 9},
		{Request{User: "alice", Signal: "KILL"}, Confirm, 6},
		{Request{User: "alice", Container: "web-prod-1", Signal: "TERM"}, Confirm, 7},
		{Request{User: "deploy", Name: "worker 3", Signal: "TERM"}, Allow, 8},
		{Request{User: "deploy", Name: "worker", Signal: "TERM"}, Deny, 9},
	} {
		got := p.Decide(c.request)
		if got.Verdict != c.want || got.Line != c.line {
			t.Errorf("%+v: %s by line %d, want %s by line %d", c.request, got.Verdict, got.Line, c.want, c.line)
		}
	}
	if d := p.Decide(Request{Unit: "postgresql.service"}); d.Reason != "ask the database team" {
		t.Errorf("the reason is %q", d.Reason)
	}
	if d := Default().Decide(Request{}); d.Verdict != Allow {
		t.Errorf("without a policy: %v", d)
	}
}

func TestErrorsNameTheLine(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]struct {
		line int
		says string
	}{
		"deny\nforbid user=x":               {2, "not a verdict"},
		"deny user":                         {1, "not key=pattern"},
		"\n\ndeny usr=x":                    {3, "no key"},
		"deny user=":                        {1, "no pattern"},
		"deny user=a user=b":                {1, "twice"},
		"deny user=a,,b":                    {1, "empty pattern"},
		"deny name=\"x":                     {1, "not closed"},
		"allow\ndeny name=sl\x00eep":        {2, "control character"},
		"default":                           {1, "one verdict"},
		"default deny\ndefault allow":       {2, "already"},
		"default perhaps":                   {1, "not a verdict"},
		"allow because \"x\" user=y user=z": {1, "not key=pattern"},
	} {
		_, err := Parse(text)
		var syntax *SyntaxError
		if !errors.As(err, &syntax) || syntax.Line != want.line || !strings.Contains(syntax.Text, want.says) {
			t.Errorf("%q: %v, want line %d with %q", text, err, want.line, want.says)
		}
	}
}

func TestGlob(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		pattern, text string
		want          bool
	}{
		{"*", "", true}, {"*", "a/b", true}, {"a*c", "abbc", true}, {"a*c", "ab", false}, {"a?c", "abc", true}, {"a?c", "ac", false},
		{"", "", true}, {"", "a", false}, {"*a*a*a*a*b", strings.Repeat("a", 200), false}, {"**x", "yx", true}, {"[a]", "[a]", true},
	} {
		if got := Glob(c.pattern, c.text); got != c.want {
			t.Errorf("Glob(%q, %q) = %v", c.pattern, c.text, got)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringMatching(`[a-c/]{0,8}`).Draw(t, "text")
		cut := rapid.IntRange(0, len(text)).Draw(t, "cut")
		if !Glob(text[:cut]+"*", text) || !Glob("*"+text[cut:], text) || !Glob(text, text) {
			t.Fatalf("%q does not match its own parts", text)
		}
	})
}

func TestFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "policy")
	f := NewFile(func() Source { return Source{Path: path} })
	decide := func() Verdict {
		p, _ := f.Current()
		return p.Decide(Request{Signal: "TERM"}).Verdict
	}
	if _, err := f.Current(); err != nil || decide() != Allow {
		t.Errorf("a missing policy: %v", err)
	}
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("deny signal=TERM")
	if decide() != Deny {
		t.Error("a new policy is not read")
	}
	write("deny signal=TERM oops")
	if _, err := f.Current(); err == nil || decide() != Deny {
		t.Errorf("a policy that is wrong does not deny: %v", err)
	}
	write("allow signal=TERM # mended")
	if _, err := f.Current(); err != nil || decide() != Allow {
		t.Errorf("a mended policy: %v", err)
	}
	// What everybody may write forbids nothing that somebody wants.
	if err := os.Chmod(path, 0o606); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Current(); runtime.GOOS != "windows" && (err == nil || decide() != Deny || !strings.Contains(err.Error(), "chmod o-w")) {
		t.Errorf("a policy that everybody may write to: %v", err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Current(); err != nil || decide() != Allow {
		t.Errorf("the policy is the owner's again: %v", err)
	}
	// What changes within the clock's tick and has the same length is another file.
	stamp, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(t.TempDir(), "other")
	if err := os.WriteFile(other, []byte("deny  signal=TERM # mended"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Chtimes(other, stamp.ModTime(), stamp.ModTime()), os.Rename(other, path)); err != nil {
		t.Fatal(err)
	}
	if decide() != Deny {
		t.Error("a policy that another file replaced is not read")
	}
	// A link that leads nowhere is not a policy that nobody wrote, be it met first
	// or after the policy was missing.
	if err := os.Remove(path); err != nil || decide() != Allow {
		t.Errorf("a policy that was removed: %v", err)
	}
	for _, target := range []string{"/nowhere/policy", path} {
		if err := os.Symlink(target, path); err != nil {
			t.Fatal(err)
		}
		if _, err := f.Current(); err == nil || decide() != Deny {
			t.Errorf("a link to %s allows: %v", target, err)
		}
		if err := os.Remove(path); err != nil || decide() != Allow {
			t.Error(err)
		}
	}
	path = t.TempDir()
	if _, err := f.Current(); err == nil || decide() != Deny {
		t.Error("a folder is a policy")
	}
}

func TestConfirmations(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var c Confirmations
		b := Binding{Tool: "process_kill", PID: 7, StartTicks: 1, Signal: "KILL"}
		issue := func() string {
			token, err := c.Issue(b)
			if err != nil {
				t.Fatal(err)
			}
			return token
		}
		token := issue()
		if err := c.Redeem(token, b); err != nil {
			t.Errorf("the first use: %v", err)
		}
		if err := c.Redeem(token, b); !errors.Is(err, ErrNoConfirmation) {
			t.Errorf("the second use: %v", err)
		}
		for _, change := range []func(*Binding){
			func(b *Binding) { b.PID = 8 }, func(b *Binding) { b.StartTicks = 2 }, func(b *Binding) { b.Signal = "TERM" },
			func(b *Binding) { b.Tool = "x" }, func(b *Binding) { b.Host = "h" }, func(b *Binding) { b.Escalate = true }, func(b *Binding) { b.BootID = "z" },
		} {
			token, other := issue(), b
			change(&other)
			if err := c.Redeem(token, other); !errors.Is(err, ErrOtherAction) {
				t.Errorf("for %+v: %v", other, err)
			}
			if err := c.Redeem(token, b); !errors.Is(err, ErrNoConfirmation) {
				t.Errorf("after a wrong use: %v", err)
			}
		}
		late := issue()
		time.Sleep(Lifetime)
		if err := c.Redeem(late, b); !errors.Is(err, ErrNoConfirmation) {
			t.Errorf("after its lifetime: %v", err)
		}
		revoked := issue()
		c.Revoke(revoked)
		if err := c.Redeem(revoked, b); err == nil {
			t.Error("a revoked one counts")
		}
		for range 3 * mostPending {
			issue()
		}
		if len(c.pending) > mostPending {
			t.Errorf("%d are pending", len(c.pending))
		}
	})
}

func FuzzParse(f *testing.F) {
	f.Add(example)
	f.Add("deny name=\"a b\" # c\ndefault allow")
	f.Add("allow because=x")
	f.Fuzz(func(t *testing.T, text string) {
		p, err := Parse(text)
		if err != nil {
			var syntax *SyntaxError
			if !errors.As(err, &syntax) || syntax.Line < 1 || syntax.Line > 1+strings.Count(text, "\n") {
				t.Errorf("%q: %v", text, err)
			}
			return
		}
		if v := p.Decide(Request{Signal: "KILL"}).Verdict; v != Allow && v != Deny && v != Confirm {
			t.Errorf("%q decides %q", text, v)
		}
	})
}

// A pattern that nothing can match would be a rule that never applies.
func TestPatternsThatMatchNothingAreRefused(t *testing.T) {
	t.Parallel()
	for _, line := range []string{"deny signal=FOO", "deny signal=9", "deny signal=TREM", "deny signal=TERM,BOGUS", "deny tool=proces_kill"} {
		if _, err := Parse(line + "\n"); err == nil {
			t.Errorf("%q is accepted", line)
		}
	}
	for _, line := range []string{"deny signal=sigterm,KILL", "deny signal=USR*", "deny tool=process_*", "deny name=["} {
		if _, err := Parse(line + "\n"); err != nil {
			t.Errorf("%q: %v", line, err)
		}
	}
}

// A policy that somebody named and that cannot be found denies everything, as one
// does of which nobody can tell where it is.
func TestANamedPolicyThatIsMissingDeniesEverything(t *testing.T) {
	t.Parallel()
	for why, source := range map[string]Source{
		"missing": {Path: filepath.Join(t.TempDir(), "policy"), Named: true},
		"unknown": {Unknown: "the configuration cannot be read"},
	} {
		p, err := NewFile(func() Source { return source }).Current()
		if err == nil || p.Decide(Request{Tool: "process_kill", Signal: "TERM"}).Verdict != Deny {
			t.Errorf("%s: %v", why, err)
		}
	}
	if p, err := NewFile(func() Source { return Source{Path: filepath.Join(t.TempDir(), "policy")} }).Current(); err != nil || p.Decide(Request{}).Verdict != Allow {
		t.Errorf("one that nobody wrote: %v", err)
	}
}

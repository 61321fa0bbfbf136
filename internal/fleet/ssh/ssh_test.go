package ssh

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

func TestAHostIsNeverAnOption(t *testing.T) {
	t.Parallel()
	args, err := Client{Config: "/c"}.Args("web", []string{"-L", "a:b"}, "run it")
	if err != nil {
		t.Fatal(err)
	}
	at := slices.Index(args, "--")
	if at < 0 || !slices.Equal(args[at:], []string{"--", "web", "run it"}) {
		t.Errorf("args %q", args)
	}
	for _, want := range []string{"BatchMode=yes", "ConnectTimeout=10", "ServerAliveInterval=15", "ServerAliveCountMax=3"} {
		if !slices.Contains(args, want) {
			t.Errorf("no %s in %q", want, args)
		}
	}
	for _, bad := range []string{"", "-oProxyCommand=x", "a b", "a\n", "$(x)"} {
		if _, err := (Client{}).Args(bad, nil, ""); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
}

func TestCauses(t *testing.T) {
	t.Parallel()
	tests := []struct {
		stderr string
		status int
		want   Cause
	}{
		{"No ED25519 host key is known for h and you have requested strict checking.\nHost key verification failed.", 255, UnknownHostKey},
		{"@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @\nHost key verification failed.", 255, ChangedHostKey},
		{"me@h: Permission denied (publickey).", 255, Denied},
		{"ssh: connect to host h port 22: No route to host", 255, NoRoute},
		{"ssh: connect to host h port 22: Network is unreachable", 255, NoRoute},
		{"ssh: Could not resolve hostname h: Name or service not known", 255, NameUnknown},
		{"ssh: connect to host h port 22: Connection refused", 255, Refused},
		{"ssh: connect to host h port 22: Connection timed out", 255, TimedOut},
		{"Connection timed out during banner exchange", 255, TimedOut},
		{"Timeout, server h not responding.", 255, Lost},
		{"client_loop: send disconnect: Broken pipe", 255, Lost},
		{"topside: command not found", 127, CommandNotFound},
		{"bash: line 1: topup: command not found", 127, CommandNotFound},
		{"fish: Unknown command: topside", 127, CommandNotFound},
		{"", 127, CommandNotFound},
		{"/c: line 1: Bad configuration option: nonsense", 255, BadConfig},
		{"unix_listener: cannot bind to path\nCould not request local forwarding.\ncannot listen to", 255, ForwardRefused},
		{"", 255, Lost},
		{"Can't open user config file /nosuch: No such file or directory", 255, BadConfig},
		{"topside: unknown command \"fleet-relay\" for \"topside\"", 2, TooOld},
		{"topside: disk full", 1, Ended},
		{"", 0, Ended},
	}
	for _, tt := range tests {
		if got := classify(tt.stderr, tt.status); got != tt.want {
			t.Errorf("%q: %q", tt.stderr, got)
		}
		e := &Error{Host: "h", Cause: tt.want, Text: tt.stderr}
		if tt.want != Ended && e.Next() == "" || tt.stderr == "" && e.Next() == "" {
			t.Errorf("%q: nothing says what to do: %v", tt.stderr, e)
		}
		if strings.Contains(e.Error(), "\n") {
			t.Errorf("lines in %q", e.Error())
		}
	}
}

func TestQuotedWordsStayWords(t *testing.T) {
	t.Parallel()
	for _, s := range []string{"", "plain", "/a/b-c.d", "it's", "a b", "$(touch x)", "`x`", `"`, "a\\b", "--x", "é"} {
		out, err := exec.Command("sh", "-c", "printf %s "+Quote(s)).Output()
		if err != nil || string(out) != s {
			t.Errorf("%q became %q, %v", s, out, err)
		}
	}
}

func TestTheTailIsBounded(t *testing.T) {
	t.Parallel()
	var tl tail
	for range 1000 {
		if _, err := tl.Write([]byte(strings.Repeat("x", 999) + "\n")); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := tl.Write([]byte("last words")); err != nil {
		t.Fatal(err)
	}
	s := tl.String()
	if len(s) > maxStderr+100 || !strings.HasSuffix(s, "last words") || !strings.HasPrefix(s, "xxx") {
		t.Errorf("%d bytes", len(s))
	}
}

// TestAChangedKeyInFewWords checks that ssh's page-long alarm becomes what it found
// and how to go on, with ssh's own command.
func TestAChangedKeyInFewWords(t *testing.T) {
	t.Parallel()
	e := explain("db1", nil, `@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@
@    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @
@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@
IT IS POSSIBLE THAT SOMEONE IS DOING SOMETHING NASTY!
Someone could be eavesdropping on you right now (man-in-the-middle attack)!
It is also possible that a host key has just been changed.
The fingerprint for the ED25519 key sent by the remote host is
SHA256:zQKG.
Please contact your system administrator.
Add correct host key in /home/u/.ssh/known_hosts to get rid of this message.
Offending ED25519 key in /home/u/.ssh/known_hosts:2
  remove with:
  ssh-keygen -f "/home/u/.ssh/known_hosts" -R "[127.0.0.1]:2302"
Host key for [127.0.0.1]:2302 has changed and you have requested strict checking.
Host key verification failed.
`)
	if e.Cause != ChangedHostKey {
		t.Fatal(e.Cause)
	}
	text := e.Error()
	for _, has := range []string{"SHA256:zQKG", "known_hosts:2", "then `ssh-keygen -f \"/home/u/.ssh/known_hosts\" -R \"[127.0.0.1]:2302\"` and"} {
		if !strings.Contains(text, has) {
			t.Errorf("%q is not in %s", has, text)
		}
	}
	if strings.Contains(text, "@@") || strings.Contains(text, "NASTY") || len(text) > 700 {
		t.Error(text)
	}
}

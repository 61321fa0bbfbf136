package policy

import (
	"strings"
	"testing"
)

func TestDecideElsewhere(t *testing.T) {
	t.Parallel()
	p, err := Parse(`deny tool=eval,eval_batch host=prod-* because "no code there"
deny user=root
confirm signal=KILL
confirm tool=config_set host=*
allow tool=process_kill host=lab
deny host=vault
deny name=sshd host=lab
default deny
`)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		tool, host, signal string
		want               Verdict
		line               int
	}{
		{"eval", "prod-1", "", Deny, 1},
		{"eval", "lab", "", Allow, 0},
		{"get_system_summary", "prod-1", "", Allow, 0},
		{"get_system_summary", "vault", "", Deny, 6},
		{"process_kill", "lab", "KILL", Confirm, 3},
		{"process_kill", "lab", "TERM", Allow, 5},
		{"process_kill", "web", "TERM", Deny, 8},
		{"config_set", "web", "", Confirm, 4},
		{"push_file", "web", "", Allow, 0},
	} {
		if d := p.DecideElsewhere(c.tool, c.host, c.signal); d.Verdict != c.want || d.Line != c.line {
			t.Errorf("%s on %s: %+v", c.tool, c.host, d)
		}
	}
	broken, err := NewFile(func() Source { return Source{Path: t.TempDir() + "/none", Named: true} }).Current()
	if err == nil || broken.DecideElsewhere("get_system_summary", "a", "").Verdict != Deny {
		t.Error("a policy that nobody can read lets calls out")
	}
}

func TestToolsElsewhereNeedAHost(t *testing.T) {
	t.Parallel()
	for line, says := range map[string]string{
		"deny tool=eval":           "say which, with host=",
		"deny tool=evil host=*":    "matches nothing",
		"deny host=a tool=eval,x":  "matches nothing",
		"deny host=a tool=eval":    "",
		"deny tool=eval* host=a":   "",
		"deny tool=*":              "",
		"deny tool=process_kill":   "",
		"deny tool=eval because x": "say which",
	} {
		_, err := Parse(line)
		if says == "" && err != nil || says != "" && (err == nil || !strings.Contains(err.Error(), says)) {
			t.Errorf("%s: %v", line, err)
		}
	}
}

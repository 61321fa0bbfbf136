package resource

import (
	"strings"
	"testing"

	"topside/internal/see/model"
	"topside/internal/see/sample"
)

// A process chooses its title, and a secret in it is neither shown nor found.
func TestNamesHideSecrets(t *testing.T) {
	t.Parallel()
	for title, want := range map[string]string{
		"postgres: u db token=titletok1": "postgres: u db token=[redacted]",
		"https://titleuser:titlepw@h/":   "titleuser:[redacted]@h",
		"redis --requirepass hunter2":    "redis",
		"tok\u200ben=hunter2":            "token=[redacted]",
		"/opt/bin/ghp_abcdef0123456789":  "[redacted]",
		"/usr/lib/cc1plus":               "cc1plus",
		"nginx: worker process":          "nginx: worker process",
		"-bash":                          "-bash",
	} {
		p := model.Process{Group: -1}
		p.Process = &sample.Process{PID: 7, Facts: &sample.Facts{Comm: "comm", Args: []string{title}}}
		o := &model.Observation{Processes: []model.Process{p}}
		c := build(t, o, Flavour{})
		if got := c.All()[0].Name; got != want {
			t.Errorf("%q is called %q, want %q", title, got, want)
		}
		for _, hidden := range []string{"titletok1", "titlepw", "hunter2"} {
			if _, n := c.Query(Query{NameContains: hidden, Limit: 9}); n != 0 {
				t.Errorf("%q is found by %q", title, hidden)
			}
		}
		if open := build(t, o, Flavour{ShowSecrets: true}).All()[0].Name; strings.Contains(open, "[redacted]") {
			t.Errorf("%q is called %q although secrets are shown", title, open)
		}
	}
}

package alert

// This file keeps docs/alerts.md: what is said of each rule comes from its
// declaration, and its figures from the corpus.

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the generated part of docs/alerts.md")

const (
	docsPath  = "../../../docs/alerts.md"
	docsBegin = "<!-- generated from the rules and the corpus: go test ./internal/steer/alert -run Docs -update -->\n"
	docsEnd   = "<!-- end of the generated part -->\n"
)

func TestDocsAreFresh(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile(docsPath)
	if err != nil {
		t.Fatal(err)
	}
	// A checkout on Windows may have its own line ends.
	data = bytes.ReplaceAll(data, []byte("\r\n"), []byte("\n"))
	before, rest, ok := strings.Cut(string(data), docsBegin)
	_, after, ok2 := strings.Cut(rest, docsEnd)
	if !ok || !ok2 {
		t.Fatalf("%s lacks the marks of its generated part", docsPath)
	}
	fresh := before + docsBegin + generated(t) + docsEnd + after
	if fresh == string(data) {
		return
	}
	if !*update {
		t.Fatalf("%s is stale: run go test ./internal/steer/alert -run Docs -update", docsPath)
	}
	if err := os.WriteFile(docsPath, []byte(fresh), 0o644); err != nil {
		t.Fatal(err)
	}
}

func generated(t *testing.T) string {
	scores := map[string]*score{}
	counts := map[string]int{}
	processes := 0
	for _, s := range loadScenes(t) {
		judgeScene(s, s.replay(), scores, func(string, ...any) {})
		counts[s.Kind+" "+s.Source]++
		processes += len(s.Processes)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "\nThe corpus holds %d processes in %d benign scenes (%d recorded from running programs, %d composed) and %d hostile ones (%d recorded, %d composed).\n\n",
		processes, counts["benign recorded"]+counts["benign composed"], counts["benign recorded"], counts["benign composed"],
		counts["hostile recorded"]+counts["hostile composed"], counts["hostile recorded"], counts["hostile composed"])
	b.WriteString("| rule | severities | found | missed | false alarms | precision | recall |\n|---|---|---:|---:|---:|---:|---:|\n")
	for _, r := range Rules() {
		s := scores[r.Name]
		if s == nil {
			s = new(score)
		}
		fmt.Fprintf(&b, "| `%s` | %s | %d | %d | %d | %.2f | %.2f |\n", r.Name, severities(r), s.hits, s.misses, s.falseAlarms, s.precision(), s.recall())
	}
	for _, r := range Rules() {
		origin := ""
		if r.New {
			origin = " (not in the original)"
		}
		fmt.Fprintf(&b, "\n### `%s`%s\n\n%s\n\n- **Evidence.** %s\n- **Silent.** %s\n- **Limits.** %s\n", r.Name, origin, r.Asks, r.Evidence, r.Silent, r.Limits)
	}
	b.WriteByte('\n')
	return b.String()
}

func severities(r Rule) string {
	var words []string
	for _, s := range r.Severities {
		words = append(words, string(s))
	}
	return strings.Join(words, ", ")
}

// Every rule says what a security engineer asks of it, and the corpus has
// something that it must find.
func TestRulesAreComplete(t *testing.T) {
	t.Parallel()
	wanted := map[string]map[Severity]bool{}
	for _, s := range loadScenes(t) {
		for _, e := range s.Expect {
			if wanted[e.Rule] == nil {
				wanted[e.Rule] = map[Severity]bool{}
			}
			wanted[e.Rule][e.Severity] = true
		}
	}
	names := map[string]bool{}
	for _, r := range Rules() {
		if r.Asks == "" || r.Evidence == "" || r.Silent == "" || r.Limits == "" || len(r.Severities) == 0 {
			t.Errorf("%s does not say all of itself", r.Name)
		}
		if names[r.Name] {
			t.Errorf("two rules are called %s", r.Name)
		}
		names[r.Name] = true
		for _, s := range r.Severities {
			if s != Info && !wanted[r.Name][s] {
				t.Errorf("the corpus has nothing that %s must call %s", r.Name, s)
			}
		}
	}
}

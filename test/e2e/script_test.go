//go:build linux

package e2e

// The txtar scripts: a world, calls, and what they must give. Their commands,
// beside those of testscript:
//
//	processes DIR FILE     makes proc/ entries of a table, one process a line:
//	                       pid ppid comm state user+system threads rss uid cgroup args…
//	                       ("-" for no cgroup; quoted as in Go where needed)
//	observe DIR [FLAG…]    takes a snapshot of the recorded machine
//	row NAME KEY=VALUE…    the resource of that name (or pid=N) has these figures;
//	                       a dotted key reaches inside, "parent" is the parents'
//	                       names, VALUE "-" is absent, ~RE matches
//	! row NAME             there is no such resource
//	figure KEY=VALUE…      the machine's own figures
//	absent KEY…            figures that are absent with a reason
//	converse SURFACE DIR FILE   calls tools, one "TOOL {arguments}" a line, and
//	                       prints the results to stdout, with ids replaced by
//	                       what the next calls can name: S1, R1, …
//
// go test ./test/e2e -run Script -update writes the replies anew.

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"topside/test/bed"
)

var update = flag.Bool("update", false, "write the expected replies of the scripts anew")

func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir:           "testdata/script",
		UpdateScripts: *update,
		Setup: func(e *testscript.Env) error {
			e.Setenv("PATH", filepath.Dir(bed.Binary())+string(os.PathListSeparator)+e.Getenv("PATH"))
			e.Setenv("TREES", bed.Project(t, "testdata", "trees"))
			e.Values[observedKey{}] = &observed{}
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"processes": processes, "observe": observe, "row": rowIs, "figure": figureIs, "absent": absentIs, "converse": converse,
		},
	})
}

type observedKey struct{}

// observed is the latest snapshot of a script.
type observed struct {
	System    map[string]any
	Snapshot  map[string]any
	Resources []map[string]any
}

func quit(ts *testscript.TestScript, neg bool, args []string, least int) {
	if neg || len(args) < least {
		ts.Fatalf("wrong use of a command")
	}
}

func processes(ts *testscript.TestScript, neg bool, args []string) {
	quit(ts, neg, args, 2)
	var all []bed.Process
	for line := range strings.Lines(ts.ReadFile(args[1])) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		words := wordsOf(ts, line)
		if len(words) < 9 {
			ts.Fatalf("a process needs nine columns: %s", line)
		}
		p := bed.Process{PID: number(ts, words[0]), PPID: number(ts, words[1]), Comm: words[2], State: words[3], User: number(ts, words[4]),
			Threads: number(ts, words[5]), RSS: number(ts, words[6]), UID: number(ts, words[7]), Args: words[9:], Start: 100 + len(all)}
		if words[8] != "-" {
			p.Cgroup = strings.ReplaceAll(words[8], ";", "\n") + "\n"
		}
		all = append(all, p)
	}
	ts.Check(bed.WriteMachine(ts.MkAbs(args[0]), all))
}

// wordsOf cuts a line at blanks; a word may be quoted as in Go.
func wordsOf(ts *testscript.TestScript, line string) []string {
	var words []string
	for line = strings.TrimLeft(line, " \t"); line != ""; line = strings.TrimLeft(line, " \t") {
		if line[0] == '"' {
			quoted, err := strconv.QuotedPrefix(line)
			ts.Check(err)
			word, err := strconv.Unquote(quoted)
			ts.Check(err)
			words, line = append(words, word), line[len(quoted):]
			continue
		}
		end := strings.IndexAny(line, " \t")
		if end < 0 {
			end = len(line)
		}
		words, line = append(words, line[:end]), line[end:]
	}
	return words
}

func number(ts *testscript.TestScript, s string) int {
	n, err := strconv.Atoi(s)
	ts.Check(err)
	return n
}

func observe(ts *testscript.TestScript, neg bool, args []string) {
	quit(ts, neg, args, 1)
	out, err := exec.Command(bed.Binary(), append([]string{"snapshot", "--json", "--root", ts.MkAbs(args[0])}, args[1:]...)...).Output()
	if exit, ok := err.(*exec.ExitError); ok {
		ts.Fatalf("%v: %s", err, exit.Stderr)
	}
	ts.Check(err)
	o := ts.Value(observedKey{}).(*observed)
	*o = observed{}
	ts.Check(json.Unmarshal(out, o))
}

func rowIs(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) == 0 {
		ts.Fatalf("row: no name")
	}
	o := ts.Value(observedKey{}).(*observed)
	names := map[string]string{}
	var found []map[string]any
	for _, r := range o.Resources {
		names[r["resource_id"].(string)] = r["name"].(string)
		pid, byPID := strings.CutPrefix(args[0], "pid=")
		if r["name"] == args[0] || byPID && show(reach(r, "process.pid")) == pid {
			found = append(found, r)
		}
	}
	if neg {
		if len(found) > 0 {
			ts.Fatalf("there is a %s", args[0])
		}
		return
	}
	if len(found) != 1 {
		ts.Fatalf("%d resources are %s", len(found), args[0])
	}
	r := found[0]
	var parents []string
	for _, id := range r["parent_ids"].([]any) {
		parents = append(parents, names[id.(string)])
	}
	slices.Sort(parents)
	r["parent"] = strings.Join(parents, ",")
	if len(parents) == 0 {
		r["parent"] = nil
	}
	expect(ts, args[0], r, args[1:])
}

func figureIs(ts *testscript.TestScript, neg bool, args []string) {
	quit(ts, neg, args, 1)
	o := ts.Value(observedKey{}).(*observed)
	all := map[string]any{"snapshot": o.Snapshot}
	for k, v := range o.System {
		all[k] = v
	}
	expect(ts, "the machine", all, args)
}

func absentIs(ts *testscript.TestScript, neg bool, args []string) {
	quit(ts, neg, args, 1)
	o := ts.Value(observedKey{}).(*observed)
	for _, name := range args {
		if reason := show(reach(o.System, "absent."+name)); reason == "-" {
			ts.Fatalf("%s is not named as absent: %v", name, o.System["absent"])
		}
	}
}

func expect(ts *testscript.TestScript, what string, in map[string]any, wants []string) {
	failed := false
	for _, w := range wants {
		key, want, ok := strings.Cut(w, "=")
		if !ok {
			ts.Fatalf("%q is no KEY=VALUE", w)
		}
		got := show(reach(in, key))
		if pattern, ok := strings.CutPrefix(want, "~"); ok {
			matched, err := regexp.MatchString(pattern, got)
			ts.Check(err)
			if !matched {
				ts.Logf("%s: %s is %s, want a match of %s", what, key, got, pattern)
				failed = true
			}
		} else if got != want {
			ts.Logf("%s: %s is %s, want %s", what, key, got, want)
			failed = true
		}
	}
	if failed {
		all, _ := json.MarshalIndent(in, "", "  ")
		ts.Fatalf("%s", all)
	}
}

func reach(in any, key string) any {
	for part := range strings.SplitSeq(key, ".") {
		switch v := in.(type) {
		case map[string]any:
			in = v[part]
		case []any:
			n, err := strconv.Atoi(part)
			if err != nil || n >= len(v) {
				return nil
			}
			in = v[n]
		default:
			return nil
		}
	}
	return in
}

// show writes a figure as scripts do.
func show(v any) string {
	switch v := v.(type) {
	case nil:
		return "-"
	case string:
		return v
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	}
	b, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// converse speaks with a server over a recorded machine and prints the replies
// so that they are the same each time.
func converse(ts *testscript.TestScript, neg bool, args []string) {
	quit(ts, neg, args, 3)
	command := []string{"mcp"}
	if args[0] == "wsltop" {
		command = []string{"wsltop", "mcp"}
	}
	c := exec.Command(bed.Binary(), append(append(command, "--root", ts.MkAbs(args[1])), args[3:]...)...)
	in, err := c.StdinPipe()
	ts.Check(err)
	out, err := c.StdoutPipe()
	ts.Check(err)
	ts.Check(c.Start())
	defer func() {
		_ = in.Close()
		_ = c.Wait()
	}()
	lines := bufio.NewReaderSize(out, 1<<20)
	n := normaliser{known: map[string]string{}}
	for request := range strings.Lines(ts.ReadFile(args[2])) {
		request = strings.TrimSpace(request)
		if request == "" || strings.HasPrefix(request, "#") {
			continue
		}
		tool, arguments, _ := strings.Cut(request, " ")
		if arguments == "" {
			arguments = "{}"
		}
		fmt.Fprintf(ts.Stdout(), "> %s\n", request)
		fmt.Fprintf(in, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":%q,"arguments":%s}}`+"\n", tool, n.original(arguments))
		line, err := lines.ReadBytes('\n')
		ts.Check(err)
		var reply bed.Reply
		ts.Check(json.Unmarshal(line, &reply))
		if reply.Error != nil {
			fmt.Fprintf(ts.Stdout(), "error %d: %s\n\n", reply.Error.Code, reply.Error.Message)
			continue
		}
		var result bed.ToolResult
		ts.Check(json.Unmarshal(reply.Result, &result))
		var structured any
		ts.Check(json.Unmarshal(result.Structured, &structured))
		pretty, err := json.MarshalIndent(n.normal(structured, ""), "", "  ")
		ts.Check(err)
		fmt.Fprintf(ts.Stdout(), "%s\n", pretty)
		if !strings.HasPrefix(result.Text(), "{") {
			fmt.Fprintf(ts.Stdout(), "%s\n", strings.TrimRight(n.text(result.Text()), "\n"))
		}
		fmt.Fprintln(ts.Stdout())
	}
}

// A normaliser replaces what differs from run to run: ids get short names in
// the order of their appearance, moments become 0.
type normaliser struct {
	known map[string]string // by the id
}

func (n normaliser) name(letter, id string) string {
	if name, ok := n.known[id]; ok {
		return name
	}
	count := 1
	for _, name := range n.known {
		if strings.HasPrefix(name, letter) {
			count++
		}
	}
	n.known[id] = letter + strconv.Itoa(count)
	return n.known[id]
}

var placeholder = regexp.MustCompile(`"[SR]\d+"`)

func (n normaliser) original(arguments string) string {
	return placeholder.ReplaceAllStringFunc(arguments, func(name string) string {
		for id, known := range n.known {
			if `"`+known+`"` == name {
				return strconv.Quote(id)
			}
		}
		return name
	})
}

func (n normaliser) normal(v any, key string) any {
	switch v := v.(type) {
	case map[string]any:
		keys := make([]string, 0, len(v))
		for k := range v {
			keys = append(keys, k)
		}
		slices.Sort(keys)
		for _, k := range keys {
			v[k] = n.normal(v[k], k)
		}
	case []any:
		for i := range v {
			v[i] = n.normal(v[i], key)
		}
	case string:
		switch key {
		case "snapshot_id":
			return n.name("S", v)
		case "resource_id", "parent_ids":
			return n.name("R", v)
		case "started_at":
			return "0"
		}
	case float64:
		if key == "captured_at_unix_ms" || key == "sample_window_ms" {
			return 0
		}
	}
	return v
}

var moment = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ`)

func (n normaliser) text(s string) string {
	for id, name := range n.known {
		s = strings.ReplaceAll(s, id, name)
	}
	return moment.ReplaceAllString(s, "0")
}

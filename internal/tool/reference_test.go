package tool

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
)

var update = flag.Bool("update", false, "write the reference and the schema snapshots anew")

const referenceHead = `# Tools

This page is generated from the declarations in ` + "`internal/tool`" + ` (` + "`go generate ./internal/tool`" + `).

Arguments of the united surface are read leniently: "30" and 30.0 are the integer 30, "true" is true, '["a"]' and "a"
are an array where one is wanted, enumerated words may be in any case, signals with or without SIG, and null is an argument that was not given.
What is ambiguous is refused, with the reason and what would be accepted. The ` + "`wsltop`" + ` contract takes nothing but
the exact types.

Every reply has two blocks: structured content, and a text that is enough without it (in the ` + "`wsltop`" + ` contract the
same JSON). Wrong arguments are JSON-RPC errors (-32602). What fails in the work itself is a result with
` + "`isError: true`" + ` and ` + "`{\"error\": {\"code\", \"message\", \"hint\"}}`" + `: ` + "`snapshot_unavailable`, `unknown_resource`, `collection_failed`,\n`ambiguous_resource`, `invalid_hierarchy`" + `. Those of sessions are in
[compute.md](compute.md), those of alerts and process actions in [steer.md](steer.md).

Output schemas require, at each level, what is always there. An error is structured content too, so that its code can be
read wherever only that block is shown: the schemas declare ` + "`error`" + ` beside ` + "`snapshot`" + ` and ` + "`data`" + `, and a reply has the one
or the others.

## On other hosts

Where a host is known (` + "`topside hosts`" + `, [fleet.md](fleet.md)) every tool of ` + "`see`, `steer` and `compute`" + ` has one or two arguments more, which
are not in the tables below:

- ` + "`host`" + ` runs the tool there; empty or ` + "`local`" + ` is this machine. The answer is the other host's own, as it came. Snapshots, resource_ids,
  sessions, runs and paths belong to their host: pass the same ` + "`host`" + ` again. A call takes 40 seconds at most, one that computes 57.
- ` + "`hosts`" + ` (the read-only tools, ` + "`process_alerts`" + ` as far as it reads, ` + "`eval`" + ` and ` + "`cancel`" + `) is a list of names, ` + "`tag:NAME`" + `, or ` + "`*`" + ` for this machine and all
  known ones. They work at the same time, each for 15 seconds at most, or 7 more than its ` + "`wait`" + ` where a tool waits. The answer is
  ` + "`{answered, failed, hosts: [{host, status, took_ms, result | error}]}`" + `. Together they have at most about 40,000 characters: of
  longer ones ` + "`text`" + ` is the beginning, and ` + "`left_out`" + ` the length of what is not there.
- ` + "`list_resources`" + ` on many hosts is one list, sorted and limited over all (by the share of their own machine, for CPU): each row of ` + "`data`" + ` names
  its ` + "`host`" + `, and ` + "`hosts`" + ` has the ` + "`snapshot_id`" + ` and the number of ` + "`matched`" + ` of each.
- A ` + "`status`" + ` is ` + "`ok`" + `; ` + "`error`" + `, the tool's own; ` + "`unreachable`" + `, nothing was started; ` + "`broken`" + `, the connection broke on the way; ` + "`timeout`" + `;
  ` + "`denied`" + ` by the host's entry, by either policy, or for want of a person's word; ` + "`unknown_host`" + `; ` + "`incompatible`" + `, one side must be upgraded.
  The same words are the codes of errors with ` + "`host`" + `.
- After ` + "`broken`" + ` the message says whether the work goes on. Where it does, the same call with the same arguments collects its reply, and
  ` + "`poll`" + ` a run of ` + "`eval`" + `; every other call connects again by itself.

## What observations mean

- ` + "`snapshot`" + ` is the same in all replies from one snapshot: ` + "`snapshot_id`, `captured_at_unix_ms`, `sample_window_ms`" + ` (over
  which rates were taken), ` + "`warnings`, `resource_id_scope`, `cpu_scope`" + `.
- ` + "`cpu_percent`" + ` is of the whole machine: 100 is all CPUs busy. ` + "`cores_used`" + ` is the same in CPUs.
- ` + "`memory_bytes`" + ` is the resident set of a process, and of a container or unit what its cgroup uses without inactive page
  cache. The raw figure is among the details.
- ` + "`unaccounted_cpu_percent`" + ` is busy time that no listed process explains: processes that ended inside the window, and the
  kernel's own work.
- A figure that could not be observed is left out and named with the reason in ` + "`absent` or `not_measured`" + `. The ` + "`wsltop`" + `
  contract has nulls and omissions of its own instead.
- Lists say how many resources ` + "`matched`" + `, were ` + "`returned`" + `, and were ` + "`left_out`" + ` behind them; with ` + "`offset`" + ` set to
  ` + "`next_offset`" + ` the next call goes on there. A list of at most 30 has at most 12,000 characters: where long names and
  arguments do not fit, they are cut shorter. A longer list ends at 36,000, and ` + "`cut`" + ` says so. Where nothing matched,
  ` + "`hint`" + ` says what to try.
- ` + "`usage.args`" + ` is the arguments behind the program (the first argument), in lists and in ` + "`inspect_resource`" + ` alike; there
  ` + "`details.program`" + ` is that first argument. In the ` + "`wsltop`" + ` contract ` + "`args`" + ` is the whole command line.
- What is cut ends in … and is marked: ` + "`args_cut`, `name_cut`" + `, and in the ` + "`wsltop`" + ` contract ` + "`args_truncated`" + `. The first 128 KiB
  of a command line are read. ` + "`match`" + ` searches all of them as they may be shown, however short the reply cuts them.
- ` + "`details.unlimited`" + ` names the limits that are known to be none. A limit that is missing there too is unknown.
- Passwords, tokens and credentials in arguments and labels are ` + "`[redacted]`" + ` unless the server was started with
  ` + "`--show-secrets`" + `. Escape sequences and invisible characters are stripped from all text that comes from outside.

# The united surface: ` + "`topside mcp`" + `
`

const xtopHead = `
# The xtop contract: ` + "`topside xtop mcp`" + `

Its arguments are read strictly and silently: one of another type than declared, or unknown, counts as absent. Results
are one text block of JSON without structured content. Failures are JSON-RPC errors: -32601 for an unknown tool or method,
-32602 for a missing argument, -32000 for the rest. On the united surface, ` + "`--toolsets xtop`" + ` offers the tools of the
toolset ` + "`xtop`" + ` above beside those of ` + "`steer`" + `.
`

// TestReferenceIsFresh compares docs/tools.md with what the declarations give.
func TestReferenceIsFresh(t *testing.T) {
	var b bytes.Buffer
	b.WriteString(referenceHead)
	if err := Markdown(&b, slices.Concat(SeeTools(nil, false), SteerTools(SteerOptions{}), ComputeTools(nil), FleetTools(nil), NewXtop(nil, nil).SupersededTools())); err != nil {
		t.Fatal(err)
	}
	b.WriteString("\n# The wsltop contract: `topside wsltop mcp`\n")
	if err := Markdown(&b, WsltopTools(nil, WsltopOptions{})); err != nil {
		t.Fatal(err)
	}
	b.WriteString(xtopHead)
	if err := Markdown(&b, NewXtop(nil, nil).Tools()); err != nil {
		t.Fatal(err)
	}
	golden(t, filepath.Join("..", "..", "docs", "tools.md"), b.Bytes())
}

func golden(t *testing.T, path string, got []byte) {
	t.Helper()
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s is out of date; run go generate ./internal/tool\n got %d bytes, file has %d", path, len(got), len(want))
	}
}

// placedTools are the tools as they are where a host is known.
func placedTools() []*Tool {
	return new(Hosts).On(slices.Concat(SeeTools(nil, false), SteerTools(SteerOptions{}), ComputeTools(nil)))
}

// TestSchemasAreFlat checks what the strictest clients ask of schemas: one
// type for each property, items of every array, no references, short names.
func TestSchemasAreFlat(t *testing.T) {
	t.Parallel()
	for _, tools := range [][]*Tool{SeeTools(nil, false), SteerTools(SteerOptions{}), FleetTools(nil), placedTools(), WsltopTools(nil, WsltopOptions{}), NewXtop(nil, nil).SupersededTools()} {
		for _, tool := range tools {
			if tool.Toolset == Compute {
				continue // a value may be of any type
			}
			if len(tool.Name) > 30 {
				t.Errorf("%s: the name is longer than 30 characters", tool.Name)
			}
			for _, raw := range []json.RawMessage{tool.InputSchema(), tool.OutputSchema()} {
				if raw == nil {
					continue
				}
				var s jsonschema.Schema
				if err := json.Unmarshal(raw, &s); err != nil {
					t.Fatalf("%s: %v in %s", tool.Name, err, raw)
				}
				if _, err := s.Resolve(nil); err != nil {
					t.Errorf("%s: %v", tool.Name, err)
				}
				flat(t, tool.Name, &s)
			}
		}
	}
}

func flat(t *testing.T, at string, s *jsonschema.Schema) {
	t.Helper()
	if len(s.Types) > 0 || s.Ref != "" || s.Type == "" || s.Type == "array" && s.Items == nil {
		t.Errorf("%s: types %v, ref %q, type %q, items %v", at, s.Types, s.Ref, s.Type, s.Items)
	}
	for name, p := range s.Properties {
		flat(t, at+"."+name, p)
	}
	if s.Items != nil {
		flat(t, at+"[]", s.Items)
	}
}

// TestDeclarationsAreWhole checks each declaration against itself.
func TestDeclarationsAreWhole(t *testing.T) {
	t.Parallel()
	for _, tools := range [][]*Tool{SeeTools(nil, false), SteerTools(SteerOptions{}), SteerTools(SteerOptions{ReadOnly: true}), FleetTools(nil), placedTools(), WsltopTools(nil, WsltopOptions{}), NewXtop(nil, nil).Tools()} {
		seen := map[string]bool{}
		for _, tool := range tools {
			if seen[tool.Name] || tool.Description == "" || tool.Handler == nil || tool.Toolset == "" {
				t.Errorf("%s: declared twice, or without description, handler or toolset", tool.Name)
			}
			seen[tool.Name] = true
			for _, pair := range append(append([][2]string{}, tool.Exclusive...), tool.Needs...) {
				for _, name := range pair {
					if _, ok := tool.property(name); !ok {
						t.Errorf("%s: a rule names %q, which is no argument", tool.Name, name)
					}
				}
			}
			for _, p := range tool.Input {
				if p.Default != nil && !p.admits(p.defaultValue()) {
					t.Errorf("%s.%s: its own default is not admitted", tool.Name, p.Name)
				}
			}
		}
	}
}

// TestSchemasProve: what lacks a field that is always there does not conform, an
// answer and an error do.
func TestSchemasProve(t *testing.T) {
	t.Parallel()
	const row = `{"resource_id":"a","parent_ids":[],"usage":{"environment":"linux","kind":"process","id":"1","name":"init"}`
	const snapshot = `{"snapshot":{"snapshot_id":"s","warnings":[]},"data":`
	failure := `{"error":{"code":"c","message":"m"}}`
	good := map[string]string{
		"list_resources": snapshot + `[` + row + `}],"matched":1}`, "list_children": snapshot + `[]}`, "inspect_resource": snapshot + row + `,"details":{}}}`,
		"get_system_summary": snapshot + `{"host_logical_cpu_count":1,"environments":{"linux":{},"docker":{},"podman":{},"containerd":{},"kubernetes":{},"lxc":{}},` +
			`"counts":{"processes":1,"containers":0,"units":0},"busiest_by_cpu":[],"busiest_by_memory":[],"not_measured":[]}}`,
	}
	for _, tool := range SeeTools(nil, false) {
		var s jsonschema.Schema
		if err := json.Unmarshal(tool.OutputSchema(), &s); err != nil {
			t.Fatal(err)
		}
		resolved, err := s.Resolve(nil)
		if err != nil {
			t.Fatal(err)
		}
		for text, conforms := range map[string]bool{
			good[tool.Name]: true, failure: true, `{}`: false, `{"error":{}}`: false, `{"snapshot":{}}`: false, snapshot + `1}`: false,
			snapshot + `[{}]}`: false, snapshot + `{}}`: false, `{"data":[{"resource_id":1}]}`: false,
		} {
			var v any
			if err := json.Unmarshal([]byte(text), &v); err != nil {
				t.Fatalf("%v in %s", err, text)
			}
			if err := resolved.Validate(v); (err == nil) != conforms {
				t.Errorf("%s: %s: %v, should conform: %v", tool.Name, text, err, conforms)
			}
		}
	}
}

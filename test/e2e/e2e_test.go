//go:build linux

// Package e2e tests the binary from outside: the wire as a client meets it,
// the contracts tool by tool, and the figures against other readings of the
// same machine.
package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"topside/test/bed"
)

func TestMain(m *testing.M) { bed.Main(m) }

// A surface is one way to start the server.
type surface struct {
	name string
	args []string
}

// surfaces are both, the united one with what it sees, with a short interval and
// without the engines of the machine that the tests run on.
var surfaces = []surface{
	{"united", []string{"mcp", "--toolsets", "see", "--interval-ms", "500", "--no-engines"}},
	{"wsltop", []string{"wsltop", "mcp", "--interval-ms", "500", "--wsl-only", "--no-docker", "--no-wslc"}},
}

// onBoth runs a test on both surfaces, in parallel.
func onBoth(t *testing.T, test func(t *testing.T, args []string)) {
	t.Parallel()
	for _, s := range surfaces {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			test(t, s.args)
		})
	}
}

// A snapshot is the metadata of every answer.
type snapshot struct {
	ID         string   `json:"snapshot_id"`
	CapturedAt *int64   `json:"captured_at_unix_ms"`
	WindowMS   int64    `json:"sample_window_ms"`
	Warnings   []string `json:"warnings"`
	Scope      string   `json:"resource_id_scope"`
	CPUScope   string   `json:"cpu_scope"`
}

func (s snapshot) end() time.Time { return time.UnixMilli(*s.CapturedAt) }
func (s snapshot) begin() time.Time {
	return s.end().Add(-time.Duration(s.WindowMS) * time.Millisecond)
}

// A row is what is common to the rows of both surfaces.
type row struct {
	ID      string   `json:"resource_id"`
	Parents []string `json:"parent_ids"`
	Cores   *float64 `json:"cores_used"`
	Usage   usage    `json:"usage"`
}

type usage struct {
	Environment string   `json:"environment"`
	Source      *string  `json:"source"`
	Kind        string   `json:"kind"`
	ID          string   `json:"id"`
	PID         *int     `json:"pid"`
	PPID        *int     `json:"ppid"`
	Name        string   `json:"name"`
	Args        *string  `json:"args"`
	CPU         *float64 `json:"cpu_percent"`
	CPUSeconds  *float64 `json:"cpu_time_seconds"`
	Memory      *float64 `json:"memory_bytes"`
}

type listing struct {
	Snapshot snapshot `json:"snapshot"`
	Data     []row    `json:"data"`
}

// toolError is the code and the message of a tool's own failure, "" without.
func toolError(t *testing.T, reply bed.Reply) (code, message string) {
	t.Helper()
	r := bed.ResultOf(t, reply)
	if !r.Failed() {
		return "", ""
	}
	var e struct {
		Error struct{ Code, Message string }
	}
	if err := json.Unmarshal(r.Structured, &e); err != nil {
		t.Fatalf("a failed call without a structured error: %s", reply.Line)
	}
	return e.Error.Code, e.Error.Message
}

// statusKB reads a figure in kB of /proc/PID/status.
func statusKB(t *testing.T, pid int, name string) int {
	t.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(data) {
		if rest, ok := strings.CutPrefix(string(line), name+":"); ok {
			kb, err := strconv.Atoi(strings.TrimSuffix(strings.TrimSpace(rest), " kB"))
			if err != nil {
				t.Fatal(err)
			}
			return kb
		}
	}
	t.Fatalf("no %s in the status of %d", name, pid)
	return 0
}

// bounded fails the test when a server's peak memory exceeded a bound in MiB.
func bounded(t *testing.T, s *bed.Server, mib int) {
	t.Helper()
	if peak := statusKB(t, s.PID(), "VmHWM") >> 10; peak > mib {
		t.Errorf("the server used up to %d MiB, more than %d", peak, mib)
	}
}

// answersStill fails the test when the server does not answer any more.
func answersStill(t *testing.T, s *bed.Server) {
	t.Helper()
	if reply := s.Do("ping", nil); reply.Error != nil {
		t.Errorf("ping: %v", reply.Error)
	}
}

// endsWell closes the input: the server must end with status 0 in a second.
func endsWell(t *testing.T, s *bed.Server) {
	t.Helper()
	status, took := s.Close(5 * time.Second)
	if status != 0 || took > time.Second+slack {
		t.Errorf("at the end of input the server ended with status %d after %v; want 0 within a second", status, took)
	}
}

// slack is what a busy machine adds to a bound in seconds.
const slack = 500 * time.Millisecond

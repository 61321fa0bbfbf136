//go:build linux

package e2e

// What is seen without rights: as another user, behind hidepid, and of an
// unreadable proc.

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"topside/test/bed"
)

// nobody is a user without rights, and the group of the same number.
const nobody = 65534

// asNobody makes a command run without rights. Who runs the tests as an
// ordinary user has none anyway.
func asNobody(c *exec.Cmd) *exec.Cmd {
	if os.Getuid() == 0 {
		c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	}
	c.Dir = "/"
	return c
}

// A wholeReport is what snapshot --json prints.
type wholeReport struct {
	Snapshot  struct{ Warnings []string }
	Resources []struct {
		Name    string
		Process *struct {
			PID       int
			Comm      string
			UID       *int
			ReadBytes *uint64 `json:"read_bytes_total"`
			Absent    map[string]string
		}
	}
}

func reportOf(t *testing.T, r bed.Run) wholeReport {
	t.Helper()
	if r.Status != 0 {
		t.Fatalf("status %d: %s", r.Status, r.Stderr)
	}
	var seen wholeReport
	if err := json.Unmarshal([]byte(r.Stdout), &seen); err != nil {
		t.Fatalf("%v: %.300s", err, r.Stdout)
	}
	return seen
}

// Other users' processes are seen, and what of them is not has its reason.
func TestWithoutRights(t *testing.T) {
	t.Parallel()
	player := bed.Play(t, bed.Burner, "20")
	r := bed.RunCommand(t, asNobody(exec.Command(bed.Binary(), "snapshot", "--json", "--interval-ms", "500")))
	seen := reportOf(t, r)
	found := false
	for _, resource := range seen.Resources {
		p := resource.Process
		if p == nil || p.PID != player.PID() {
			continue
		}
		found = true
		if p.UID == nil || *p.UID != os.Getuid() || p.Comm == "" {
			t.Errorf("the player: %+v", p)
		}
		if os.Getuid() == 0 && (p.ReadBytes != nil || p.Absent["io"] == "" || p.Absent["executable"] == "") {
			t.Errorf("what may not be read of the player is not absent with a reason: %+v", p)
		}
	}
	if !found {
		t.Error("another user's process is not seen")
	}
	for _, args := range [][]string{{"doctor"}, {"call", "get_system_summary"}, {"snapshot"}, {"wsltop", "--json", "--interval-ms", "100"}} {
		if r := bed.RunCommand(t, asNobody(exec.Command(bed.Binary(), args...))); r.Status != 0 || r.Stdout == "" {
			t.Errorf("%v without rights: status %d, stderr %s", args, r.Status, r.Stderr)
		}
	}
}

// hidepid hides other users' processes: it is said once, rather than showing a
// machine with three processes.
func TestHidepid(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"1", "2"} {
		// A mount and pid namespace of its own, with proc mounted that way, and
		// the binary in it without rights.
		args := []string{"--mount", "--pid", "--fork", "--kill-child"}
		drop := "exec"
		if os.Getuid() == 0 {
			drop = fmt.Sprintf("exec setpriv --reuid %d --regid %d --clear-groups --inh-caps=-all --bounding-set=-all", nobody, nobody)
		} else {
			args = append(args, "--map-root-user")
			drop = "exec setpriv --bounding-set=-all --inh-caps=-all --no-new-privs"
		}
		script := fmt.Sprintf(`mount -t proc -o hidepid=%s proc /proc || exit 9; cd /; sleep 77 & %s "$0" "$@"`, mode, drop)
		command := append(args, "/bin/sh", "-c", script, bed.Binary(), "snapshot", "--json", "--interval-ms", "100", "--no-engines")
		r := bed.RunCommand(t, exec.Command("unshare", command...))
		if r.Status == 9 || strings.Contains(r.Stderr, "unshare") {
			t.Fatalf("proc cannot be mounted with hidepid here: %s", r.Stderr)
		}
		seen := reportOf(t, r)
		names := []string{}
		for _, resource := range seen.Resources {
			names = append(names, resource.Name)
		}
		if !slices.Contains(names, "topside") {
			t.Errorf("hidepid=%s: its own process is missing: %v", mode, names)
		}
		if os.Getuid() != 0 {
			continue // the user's own processes are not hidden from the user
		}
		warned := 0
		for _, warning := range seen.Snapshot.Warnings {
			if strings.Contains(warning, "hidepid") {
				warned++
			}
		}
		if warned != 1 {
			t.Errorf("hidepid=%s is said %d times: %q", mode, warned, seen.Snapshot.Warnings)
		}
		if mode == "2" && slices.Contains(names, "sleep") {
			t.Errorf("hidepid=2 hides nothing: %v", names)
		}
	}
}

// An unreadable proc gives a snapshot with a warning, in which what is unknown
// is not zero.
func TestUnreadableProc(t *testing.T) {
	t.Parallel()
	root := filepath.Join(t.TempDir(), "m")
	if err := bed.WriteMachine(root, []bed.Process{{PID: 10, PPID: 1, Comm: "x", RSS: 10}}); err != nil {
		t.Fatal(err)
	}
	for dir := root; dir != "/" && dir != os.TempDir(); dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	proc := filepath.Join(root, "proc")
	if err := os.Chmod(proc, 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Chmod(proc, 0o755) })
	calls := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"get_system_summary","arguments":{}}}` + "\n" +
		`{"jsonrpc":"2.0","id":2,"method":"ping"}` + "\n"
	c := asNobody(exec.Command(bed.Binary(), "mcp", "--root", root))
	c.Stdin = strings.NewReader(calls)
	r := bed.RunCommand(t, c)
	replies := map[string]bed.Reply{}
	for line := range strings.Lines(r.Stdout) {
		var reply bed.Reply
		if err := json.Unmarshal([]byte(line), &reply); err != nil {
			t.Fatal(err)
		}
		replies[string(reply.ID)] = reply
	}
	if r.Status != 0 || len(replies) != 2 {
		t.Fatalf("status %d, %s%s", r.Status, r.Stdout, r.Stderr)
	}
	var answer struct {
		Snapshot snapshot
		Data     struct {
			Environments map[string]struct {
				Reason string
				CPU    *float64 `json:"cpu_percent"`
				Memory *uint64  `json:"memory_bytes"`
			}
		}
	}
	if err := json.Unmarshal(bed.ResultOf(t, replies["1"]).Structured, &answer); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(strings.Join(answer.Snapshot.Warnings, "\n"), "permission") {
		t.Errorf("warnings %q", answer.Snapshot.Warnings)
	}
	if e := answer.Data.Environments["linux"]; e.CPU != nil || e.Memory != nil || !strings.Contains(e.Reason, "permission") {
		t.Errorf("linux: %+v", e)
	}
	// The contract has a code for it.
	c = asNobody(exec.Command(bed.Binary(), "wsltop", "mcp", "--root", root))
	c.Stdin = strings.NewReader(calls)
	if r := bed.RunCommand(t, c); r.Status != 0 || !strings.Contains(r.Stdout, "collection_failed") || !strings.Contains(r.Stdout, `"id":2`) {
		t.Errorf("wsltop: status %d, %s%s", r.Status, r.Stdout, r.Stderr)
	}
}

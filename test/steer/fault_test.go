//go:build linux

package steer

// This file breaks what the steer tools stand on: a full disk, processes of other
// users.

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"topside/test/bed"
)

// fullDisk makes a server's home a disk of its own with a configuration on it, and
// no room for anything else. It takes a mount namespace, and a user namespace for
// those who are not root.
func fullDisk(h home) bed.Option {
	command := []string{"unshare", "--mount"}
	if os.Geteuid() != 0 {
		command = append(command, "--map-root-user")
	}
	const script = `mount --make-rprivate / && mount -t tmpfs -o size=128k tmpfs "$0" &&
mkdir -p "$0/.config/topside" "$0/.local/state/topside" && printf '{"theme":"oslo"}' > "$0/.config/topside/config.json" &&
printf '%4000s\n' '{"stage":"done"}' > "$0/.local/state/topside/audit.log" && { cat /dev/zero > "$0/fill" 2>/dev/null; exec "$@"; }`
	return bed.Command(append(command, "sh", "-c", script, string(h), bed.Binary())...)
}

// TestSteerFullDisk: what is set and acknowledged holds in the server, which says
// that it could not be saved; nothing is signalled without a line in the audit log;
// and what was on the disk is still there.
func TestSteerFullDisk(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	s := bed.Start(t, []string{"mcp", "--no-engines", "--interval-ms", "200", "--toolsets", "steer"}, h.env(), fullDisk(h))
	call := func(tool, arguments string) map[string]any {
		t.Helper()
		r := bed.ResultOf(t, s.Do("tools/call", map[string]any{"name": tool, "arguments": json.RawMessage(arguments)}))
		var out map[string]any
		if err := json.Unmarshal(r.Structured, &out); err != nil || r.Failed() {
			t.Fatalf("%s %s: %s, %v", tool, arguments, r.Structured, err)
		}
		return out
	}
	if r := call("config_set", `{"theme":"paris"}`); r["set"] != true || !strings.Contains(fmt.Sprint(r["reason"]), "this server only") {
		t.Errorf("config_set: %v", r)
	}
	if r := call("threshold_set", `{"disk":0}`); r["set"] != true || r["unsaved"] == nil {
		t.Errorf("threshold_set: %v", r)
	}
	if r := call("config_get", `{}`); r["theme"] != "paris" {
		t.Errorf("config_get: %v", r)
	}
	got := call("process_alerts", `{"rule":"threshold_disk"}`)
	if got["matched"] != 1.0 {
		t.Fatalf("a full disk gives no alert: %v", got)
	}
	id := got["alerts"].([]any)[0].(map[string]any)["id"]
	if r := call("process_alerts", fmt.Sprintf(`{"acknowledge":%q}`, id)); !strings.HasPrefix(fmt.Sprint(r["done"]), "acknowledged") || !strings.Contains(fmt.Sprint(r["unsaved"]), "this server only") {
		t.Errorf("acknowledge: %v", r)
	}
	if r := call("process_alerts", `{"suppress":true,"rule":"fork_bomb"}`); r["unsaved"] == nil {
		t.Errorf("suppress: %v", r)
	}
	if r := call("alerts_status", `{}`); !strings.Contains(fmt.Sprint(r["warnings"]), "not kept") {
		t.Errorf("alerts_status: %v", r)
	}
	c := target(t, "sleep", "60")
	if r := call("process_kill", fmt.Sprintf(`{"pid":%d}`, c.Process.Pid)); r["outcome"] != "denied" || !strings.Contains(fmt.Sprint(r["reason"]), "audit") || !alive(c.Process.Pid) {
		t.Errorf("process_kill: %v", r)
	}
	// A log that had room for a part of the line only has none of it. The disk is seen from inside the server's own mounts.
	inside := fmt.Sprintf("/proc/%d/root%s", s.PID(), string(h))
	for name, want := range map[string]string{".config/topside/config.json": `{"theme":"oslo"}`, ".local/state/topside/audit.log": fmt.Sprintf("%4000s\n", `{"stage":"done"}`)} {
		if data, err := os.ReadFile(filepath.Join(inside, name)); err != nil || string(data) != want {
			t.Errorf("%s is %q, %v", name, data, err)
		}
	}
}

// TestSteerOthersProcess: a signal that the kernel refuses is told as such, on both
// surfaces, and written down.
func TestSteerOthersProcess(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	pid, options := othersProcess(t, h)
	x := startXtop(t, h, options...)
	if r := x.object("process_kill", fmt.Sprintf(`{"pid":%d}`, pid)); r["killed"] != false || r["outcome"] != "denied" || !strings.Contains(fmt.Sprint(r["reason"]), "not permit") {
		t.Errorf("process_kill: %v", r)
	}
	if !alive(pid) {
		t.Error("it was hit")
	}
	if log := h.audit(t); !strings.Contains(log, `"outcome":"denied"`) || strings.Count(log, "\n") != 2 {
		t.Errorf("the audit log is %s", log)
	}
}

// othersProcess is a process that a server may not signal, and how to start that
// server: as another user where the tests are root's.
func othersProcess(t *testing.T, h home) (int, []bed.Option) {
	t.Helper()
	if os.Geteuid() == 0 {
		const nobody = "65534"
		id, _ := strconv.Atoi(nobody)
		if err := os.Chown(string(h), id, id); err != nil {
			t.Fatal(err)
		}
		for folder := string(h); folder != os.TempDir() && folder != "/"; folder = filepath.Dir(folder) {
			if info, err := os.Stat(folder); err == nil && info.Mode().Perm()&0o001 == 0 {
				_ = os.Chmod(folder, info.Mode().Perm()|0o011)
			}
		}
		return target(t, "sleep", "60").Process.Pid, []bed.Option{
			bed.Command("setpriv", "--reuid="+nobody, "--regid="+nobody, "--clear-groups", bed.Binary())}
	}
	ours := map[int]bool{}
	for pid := os.Getpid(); pid > 1; {
		ours[pid] = true
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			break
		}
		_, fields, _ := strings.Cut(string(stat), ") ")
		pid, _ = strconv.Atoi(strings.Fields(fields)[1])
	}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		info, err2 := e.Info()
		if err != nil || err2 != nil || pid == 1 || ours[pid] {
			continue
		}
		cmdline, _ := os.ReadFile(filepath.Join("/proc", e.Name(), "cmdline"))
		if owner, ok := info.Sys().(*syscall.Stat_t); ok && int(owner.Uid) != os.Geteuid() && len(cmdline) > 0 {
			return pid, nil
		}
	}
	t.Skip("every process here is our own, and we are not root: there is none that a signal would be refused for")
	return 0, nil
}

package proc

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The files of the test itself, as the running kernel writes them.
func TestOwnProcess(t *testing.T) {
	t.Parallel()
	f := live(t)
	pid := int32(os.Getpid())
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if path, deleted, err := f.Executable(pid); path != exe || deleted || err != nil {
		t.Errorf("executable %q %v %v, expected %q", path, deleted, err, exe)
	}
	wd, _ := os.Getwd()
	if wd, _ = filepath.EvalSymlinks(wd); wd != "" {
		if path, err := f.WorkingDirectory(pid); path != wd || err != nil {
			t.Errorf("working directory %q %v, expected %q", path, err, wd)
		}
	}
	if args, err := f.Cmdline(pid); err != nil || len(args) != len(os.Args) || args[0] != os.Args[0] {
		t.Errorf("arguments %q %v", args, err)
	}
	if uid, err := f.Owner(pid); err != nil || int(uid) != os.Geteuid() {
		t.Errorf("owner %d %v", uid, err)
	}
	if lines, err := f.Cgroups(pid); err != nil {
		t.Errorf("cgroups %v %v", lines, err)
	}
	status, err := f.Status(pid)
	if err != nil || status.Uids == nil || int(status.Uids[1]) != os.Geteuid() || status.VmHWM == nil || status.CapEff == nil {
		t.Errorf("status %+v %v", status, err)
	}
	if limits, err := f.Limits(pid); err != nil || limits["Max open files"].Soft == 0 || limits["Max open files"].Unit != "files" {
		t.Errorf("limits %v %v", limits, err)
	}
	if n, err := f.OOMScore(pid); err != nil || n < 0 {
		t.Errorf("oom score %d %v", n, err)
	}
	if io, err := f.IO(pid); err != nil && f.ReasonOf(err) != Vanished && f.ReasonOf(err) != NoPermission {
		t.Errorf("io %+v %v", io, err)
	}
	if n, err := f.DescriptorCount(pid); err != nil || n < 3 {
		t.Errorf("descriptors %d %v", n, err)
	}
}

func TestDeletedExecutable(t *testing.T) {
	t.Parallel()
	f := live(t)
	copied := filepath.Join(t.TempDir(), "sleep")
	data, err := os.ReadFile(lookPath(t, "sleep"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(copied, data, 0o755); err != nil {
		t.Fatal(err)
	}
	started, err := os.StartProcess(copied, []string{"sleep", "600"}, &os.ProcAttr{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { started.Kill(); started.Wait() }()
	if err := os.Remove(copied); err != nil {
		t.Fatal(err)
	}
	path, deleted, err := f.Executable(int32(started.Pid))
	if path != copied || !deleted || err != nil {
		t.Errorf("%q %v %v", path, deleted, err)
	}
}

func TestVanishedProcess(t *testing.T) {
	t.Parallel()
	f := live(t)
	pid, end := sleeper(t)
	end()
	_, err := f.Status(pid)
	if f.ReasonOf(err) != Vanished {
		t.Errorf("%v is %q", err, f.ReasonOf(err))
	}
	if _, err := f.Owner(pid); f.ReasonOf(err) != Vanished {
		t.Errorf("%v is %q", err, f.ReasonOf(err))
	}
	if _, err := f.DescriptorCount(pid); f.ReasonOf(err) != Vanished {
		t.Errorf("%v is %q", err, f.ReasonOf(err))
	}
	if _, err := f.Cmdline(pid); f.ReasonOf(err) != Vanished || !strings.Contains(err.Error(), "cmdline") {
		t.Errorf("%v is %q", err, f.ReasonOf(err))
	}
}

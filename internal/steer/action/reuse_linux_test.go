package action

// A forced reuse of a process id: in a namespace of process ids of our own the
// kernel can be told which id to give next.

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"topside/internal/see/proc"
	"topside/internal/steer/audit"
)

// reuseHelper is the variable that makes the test binary the namespace's init.
const reuseHelper = "TOPSIDE_TEST_REUSE_ROOT"

// What the helper ends with.
const (
	reuseHeld   = 40 // the check held
	reuseFailed = 41
	reuseDenied = 42 // the machine does not let us choose ids
)

func TestForcedReuseOfAnID(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	if err := os.Mkdir(filepath.Join(root, "proc"), 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), reuseHelper+"="+root)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	if os.Geteuid() != 0 {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
	}
	out, err := cmd.CombinedOutput()
	switch code := cmd.ProcessState.ExitCode(); {
	case code == reuseHeld:
	case code == reuseDenied, code == -1 && os.Geteuid() != 0:
		// TestAnotherProcessIsNeverHit shows the same with an identity that
		// is not the process's; a real reuse needs rights that are not here.
		t.Logf("no id can be forced here (%v): %s", err, out)
	default:
		t.Errorf("exit %d: %v\n%s", code, err, out)
	}
}

// reuseInNamespace is process 1 of the namespace.
func reuseInNamespace() int {
	root := os.Getenv(reuseHelper)
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		fmt.Println("private mounts:", err)
		return reuseDenied
	}
	if err := syscall.Mount("proc", filepath.Join(root, "proc"), "proc", 0, ""); err != nil {
		fmt.Println("proc:", err)
		return reuseDenied
	}
	fs, err := proc.NewFS(root)
	if err != nil {
		fmt.Println(err)
		return reuseFailed
	}
	first := exec.Command("sleep", "600")
	if err := first.Start(); err != nil {
		fmt.Println(err)
		return reuseFailed
	}
	pid := first.Process.Pid
	stat, err := fs.Stat(int32(pid))
	if err != nil {
		fmt.Println(err)
		return reuseFailed
	}
	seen := Identity{PID: int32(pid), StartTicks: stat.StartTicks}
	// A handle that was taken before the reuse is of the first process still.
	handle, err := kernel().Open(int32(pid))
	if err != nil {
		fmt.Println(err)
		return reuseFailed
	}
	_ = first.Process.Kill()
	_ = first.Wait()
	time.Sleep(30 * time.Millisecond) // another tick of the clock
	second, code := startWithID(root, pid)
	if second == nil {
		return code
	}
	defer func() {
		_ = second.Process.Kill()
		_ = second.Wait()
	}()
	if err := handle.Signal(Kill); err != ErrGone {
		fmt.Println("the old handle:", err)
		return reuseFailed
	}
	actor := New(Options{FS: fs, Audit: audit.New(filepath.Join(root, "audit.log"))})
	result, err := actor.Act(context.Background(), Request{Tool: "process_kill", Target: seen, Signal: Kill, Wait: 100 * time.Millisecond})
	if err != nil || result.Outcome != NoSuchProcess || result.Sent {
		fmt.Printf("%+v, %v\n", result, err)
		return reuseFailed
	}
	if now, err := fs.Stat(int32(pid)); err != nil || now.State == 'Z' {
		fmt.Println("the second process was hit")
		return reuseFailed
	}
	return reuseHeld
}

// startWithID starts a process that gets that id. Threads take ids too, so
// that it may need more than one attempt.
func startWithID(root string, pid int) (*exec.Cmd, int) {
	last := filepath.Join(root, "proc/sys/kernel/ns_last_pid")
	for range 200 {
		if err := os.WriteFile(last, []byte(strconv.Itoa(pid-1)), 0o644); err != nil {
			fmt.Println(err)
			return nil, reuseDenied
		}
		cmd := exec.Command("sleep", "600")
		if err := cmd.Start(); err != nil {
			fmt.Println(err)
			return nil, reuseFailed
		}
		if cmd.Process.Pid == pid {
			return cmd, 0
		}
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
	fmt.Println("the id was never given again")
	return nil, reuseDenied
}

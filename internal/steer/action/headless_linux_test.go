package action

// A process whose first thread has ended while others run: the kernel shows it as
// a zombie.

import (
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"
	"time"
)

// headlessHelper is the variable that makes the test binary such a process.
const headlessHelper = "TOPSIDE_TEST_HEADLESS"

func init() {
	if os.Getenv(headlessHelper) == "" {
		return
	}
	runtime.LockOSThread() // this is the first thread
	go func() {
		time.Sleep(10 * time.Minute)
		os.Exit(0)
	}()
	_, _, _ = syscall.Syscall(syscall.SYS_EXIT, 0, 0, 0)
}

func TestHeadlessProcessIsAlive(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), headlessHelper+"=1")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pid := int32(cmd.Process.Pid)
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	for {
		stat, err := live(t).Stat(pid)
		if err != nil {
			t.Fatal(err)
		}
		if stat.State == 'Z' && stat.Threads > 1 {
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	// A policy that knows the executable applies.
	if result := newWorld(t, "deny executable="+self, nil).act(t, Request{Target: Identity{PID: pid}}); result.Outcome != Denied || result.Decision.Line != 1 {
		t.Errorf("the policy: %+v", result)
	}
	result := newWorld(t, "", nil).act(t, Request{Target: Identity{PID: pid}, Signal: Kill, Wait: 10 * time.Second})
	if result.Outcome != Exited || result.Process.Executable != self {
		t.Errorf("%+v", result)
	}
}

//go:build unix

package session

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/shirou/gopsutil/v4/process"
)

// stormFor is how long the storm lasts; TOPSIDE_SOAK (a duration) makes a soak of it.
func stormFor(t *testing.T) time.Duration {
	if text := os.Getenv("TOPSIDE_SOAK"); text != "" {
		d, err := time.ParseDuration(text)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	return 4 * time.Second
}

// TestKillStorm kills the processes of busy sessions at random moments. Whatever was acknowledged is still there
// afterwards, and no process or descriptor is left.
func TestKillStorm(t *testing.T) {
	before := descriptors()
	var kills atomic.Int64
	end := time.Now().Add(stormFor(t))
	var wg sync.WaitGroup
	for n := range 4 {
		w := open(t, nil)
		done := make(chan struct{})
		wg.Go(func() {
			r := rand.New(rand.NewPCG(1, uint64(n)))
			for {
				select {
				case <-done:
					return
				case <-time.After(time.Duration(20+r.IntN(150)) * time.Millisecond):
					if pid := w.Status().Pid; pid > 0 {
						syscall.Kill(pid, syscall.SIGKILL)
						kills.Add(1)
					}
				}
			}
		})
		wg.Go(func() {
			var once sync.Once
			calm := func() { once.Do(func() { close(done) }) }
			defer calm()
			r := rand.New(rand.NewPCG(2, uint64(n)))
			var acknowledged []int
			for i := 0; time.Now().Before(end); i++ {
				res, err := w.Eval(context.Background(), Request{Source: fmt.Sprintf("let v%d = %d;;", i, i*7), Timeout: 10 * time.Second})
				if err != nil {
					t.Errorf("session %d: %v", n, err)
					return
				}
				if res.Recovery != nil && len(res.Recovery.Failed) > 0 && res.Recovery.By == ByKeeper {
					t.Errorf("session %d: %+v", n, res.Recovery)
				}
				if res.Err == nil {
					acknowledged = append(acknowledged, i)
				}
				if r.IntN(3) == 0 {
					time.Sleep(time.Duration(r.IntN(8)) * time.Millisecond)
				}
			}
			calm()
			missing := 0
			for _, i := range acknowledged {
				for try := 0; try < 20; try++ {
					res, err := w.Eval(context.Background(), Request{Source: fmt.Sprintf("v%d;;", i)})
					if err != nil {
						t.Errorf("session %d: %v", n, err)
						return
					}
					if res.Err != nil && res.Recovery != nil {
						continue // killed once more
					}
					if res.Err != nil || res.Value.Head != fmt.Sprint(i*7) {
						missing++
						t.Errorf("session %d: v%d: %+v %+v", n, i, res.Err, res.Value)
					}
					break
				}
				if missing > 3 {
					return
				}
			}
			t.Logf("session %d: %d acknowledged, generation %d", n, len(acknowledged), w.Status().Generation)
			w.Session.Close()
		})
	}
	wg.Wait()
	t.Logf("%d kills", kills.Load())
	for i := 0; descriptors() > before && i < 100; i++ {
		time.Sleep(10 * time.Millisecond)
	}
	for i := 0; leftovers() > 0 && i < 100; i++ {
		time.Sleep(10 * time.Millisecond)
	}
	if n := leftovers(); n > 0 {
		t.Errorf("%d processes are left", n)
	}
	if after := descriptors(); after > before {
		t.Errorf("%d descriptors before, %d after", before, after)
	}
}

// descriptors counts the open ones below a bound no test reaches.
func descriptors() int {
	n := 0
	for fd := range 1024 {
		var st syscall.Stat_t
		if syscall.Fstat(fd, &st) == nil {
			n++
		}
	}
	return n
}

// leftovers counts this process's children that run the driver, dead ones included.
func leftovers() int {
	n := 0
	pids, _ := process.Pids()
	for _, pid := range pids {
		p := process.Process{Pid: pid}
		if parent, err := p.Ppid(); err != nil || int(parent) != os.Getpid() {
			continue
		}
		if name, err := p.Name(); err == nil && name == "topside-ocaml" {
			n++
		}
	}
	return n
}

// TestCloseWhileBusy: the running call and the waiting ones end at once, and so do the processes.
func TestCloseWhileBusy(t *testing.T) {
	w := open(t, nil)
	running, waiting := w.Start(Request{Source: "ignore (Sys.command \"sleep 60\"); while true do () done;;"}), make(chan error, 1)
	for !w.Progress().Running {
		time.Sleep(time.Millisecond)
	}
	go func() {
		_, err := w.Session.Eval(context.Background(), Request{Source: "1;;"})
		waiting <- err
	}()
	for w.Status().Waiting == 0 {
		time.Sleep(time.Millisecond)
	}
	begin := time.Now()
	w.Session.Close()
	if d := time.Since(begin); d > time.Second {
		t.Errorf("closing took %v", d)
	}
	if _, err := running.Result(); !errors.Is(err, ErrClosed) {
		t.Errorf("running: %v", err)
	}
	if err := <-waiting; !errors.Is(err, ErrClosed) {
		t.Errorf("waiting: %v", err)
	}
	if _, err := w.Session.Eval(context.Background(), Request{Source: "1;;"}); !errors.Is(err, ErrClosed) {
		t.Errorf("afterwards: %v", err)
	}
	if s := w.Status(); s.State != Closed {
		t.Error(s.State)
	}
}

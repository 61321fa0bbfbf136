package bed

// This file plays parts: the test binary starts itself again as a process that
// behaves in a known way, so that no test needs a compiler or a script.

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

const (
	partVariable = "TOPSIDE_TEST_PART"
	ready        = "ready"
)

// The parts, each with its argument.
const (
	Burner = "burner" // uses this many percent of one core, in one thread
	Crowd  = "crowd"  // uses this many percent of one core in each of 4 threads
	Hoard  = "hoard"  // holds this many MiB of memory, touched
	Mother = "mother" // has this many children that ended and were not waited for
	Actor  = "actor"  // takes lines: "name X" renames itself by prctl, "exec PATH ARG…" becomes another program
)

// A Player is a process that plays a part.
type Player struct {
	Cmd   *exec.Cmd
	stdin interface{ Write([]byte) (int, error) }
	t     testing.TB
}

// PID is the player's process id.
func (p *Player) PID() int { return p.Cmd.Process.Pid }

// Tell sends a line to an [Actor].
func (p *Player) Tell(line string) {
	p.t.Helper()
	if _, err := fmt.Fprintln(p.stdin, line); err != nil {
		p.t.Fatal(err)
	}
}

// Play starts a process that plays a part and returns when it plays. It ends
// with the test, or with the test process. configure may change the command.
func Play(t testing.TB, part, argument string, configure ...func(*exec.Cmd)) *Player {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command(exe)
	c.Args = []string{"bed-" + part}
	c.Env = append(os.Environ(), partVariable+"="+part, partVariable+"_ARGUMENT="+argument)
	c.SysProcAttr = &syscall.SysProcAttr{}
	for _, f := range configure {
		f(c)
	}
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	c.Stderr = os.Stderr
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close()
		_ = c.Process.Kill()
		_ = c.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || strings.TrimSpace(line) != ready {
		t.Fatalf("the player of %s is not ready: %q %v", part, line, err)
	}
	return &Player{c, in, t}
}

func play(part string) int {
	argument := os.Getenv(partVariable + "_ARGUMENT")
	number, _ := strconv.Atoi(argument)
	switch part {
	case Burner:
		runtime.GOMAXPROCS(2)
		go burn(number, unix.CLOCK_THREAD_CPUTIME_ID)
	case Crowd:
		runtime.GOMAXPROCS(8)
		for range 4 {
			go burn(number, unix.CLOCK_THREAD_CPUTIME_ID)
		}
	case Hoard:
		hoarded = make([]byte, number<<20)
		for i := 0; i < len(hoarded); i += 4096 {
			hoarded[i] = 1
		}
	case Mother:
		for range number {
			// Started without the os package's bookkeeping, which would wait.
			if _, err := syscall.ForkExec("/bin/true", []string{"true"}, &syscall.ProcAttr{}); err != nil {
				fmt.Fprintln(os.Stderr, "player:", err)
				return 1
			}
		}
		time.Sleep(300 * time.Millisecond)
	case Actor:
	default:
		fmt.Fprintln(os.Stderr, "player: no such part:", part)
		return 1
	}
	fmt.Println(ready)
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() { // the end of input ends the play
		if err := act(lines.Text()); err != nil {
			fmt.Fprintln(os.Stderr, "player:", err)
			return 1
		}
	}
	runtime.KeepAlive(hoarded)
	return 0
}

var hoarded []byte

func act(line string) error {
	verb, rest, _ := strings.Cut(line, " ")
	switch verb {
	case "name":
		// Of the first thread, which gives the process its name.
		name, err := strconv.Unquote(rest)
		if err != nil {
			return err
		}
		return os.WriteFile("/proc/self/comm", []byte(name), 0)
	case "exec":
		words := strings.Fields(rest)
		return syscall.Exec(words[0], words, os.Environ())
	}
	return fmt.Errorf("what is %q?", line)
}

// burn keeps one thread busy for a share of each period, by the thread's own
// clock, so that other load of the machine does not make it do less.
func burn(percent int, clock int32) {
	runtime.LockOSThread()
	const period = 20 * time.Millisecond
	share := period * time.Duration(percent) / 100
	begun := time.Now()
	var owed time.Duration
	var spins uint64
	for {
		owed += share
		now := clockOf(clock)
		for percent >= 100 || clockOf(clock)-now < owed {
			for range 1000 {
				spins++
			}
		}
		owed -= clockOf(clock) - now
		runtime.KeepAlive(spins)
		begun = begun.Add(period)
		time.Sleep(time.Until(begun))
	}
}

func clockOf(clock int32) time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(clock, &ts); err != nil {
		return 0
	}
	return time.Duration(ts.Nano())
}

// A Meter reads a process's CPU time again and again from its CPU clock, which
// is not what the program under test reads.
type Meter struct {
	mu     sync.Mutex
	points []point
	stop   chan struct{}
	done   sync.WaitGroup
}

type point struct {
	at  time.Time
	cpu time.Duration
}

// MeterOf begins to measure; it ends with the test.
func MeterOf(t testing.TB, pid int) *Meter {
	t.Helper()
	// The clock id of another process (see clock_getcpuclockid(3)).
	clock := int32(^pid<<3 | 2)
	if clockOf(clock) == 0 {
		t.Fatalf("process %d has no CPU clock", pid)
	}
	return meter(t, func() (time.Duration, bool) { d := clockOf(clock); return d, d > 0 })
}

// MeterOfFile measures a counter of nanoseconds or microseconds that read gives.
func MeterOfFile(t testing.TB, read func() (time.Duration, bool)) *Meter {
	t.Helper()
	return meter(t, read)
}

func meter(t testing.TB, read func() (time.Duration, bool)) *Meter {
	m := &Meter{stop: make(chan struct{})}
	m.done.Go(func() {
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for {
			if cpu, ok := read(); ok {
				m.mu.Lock()
				m.points = append(m.points, point{time.Now(), cpu})
				m.mu.Unlock()
			}
			select {
			case <-tick.C:
			case <-m.stop:
				return
			}
		}
	})
	t.Cleanup(func() {
		close(m.stop)
		m.done.Wait()
	})
	return m
}

// Cores is how many cores the process used on average between two moments.
func (m *Meter) Cores(from, to time.Time) float64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return float64(m.at(to)-m.at(from)) / float64(to.Sub(from))
}

// at needs m.mu; it interpolates between the two readings around a moment.
func (m *Meter) at(when time.Time) time.Duration {
	for i := 1; i < len(m.points); i++ {
		a, b := m.points[i-1], m.points[i]
		if b.at.After(when) && !a.at.After(when) {
			part := float64(when.Sub(a.at)) / float64(b.at.Sub(a.at))
			return a.cpu + time.Duration(part*float64(b.cpu-a.cpu))
		}
	}
	if n := len(m.points); n > 0 && when.Before(m.points[0].at) {
		return m.points[0].cpu
	} else if n > 0 {
		return m.points[n-1].cpu
	}
	return 0
}

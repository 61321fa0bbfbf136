package alert

// recent_spawn_storm (R10): a program that is started again and again.

import (
	"fmt"
	"time"
)

const ruleStorm = "recent_spawn_storm"

var spawnStorm = Rule{
	Name:       ruleStorm,
	Severities: []Severity{Warning},
	Asks:       "Is one program started again and again by something that is neither a build, a session nor a service that does so by trade?",
	Evidence:   "More than five processes of one executable and one parent that started within 120 seconds, where nobody installed the executable; or a service whose main process was started more than five times in that time (a crash loop).",
	Silent:     "Children of builds, CI runners, package managers, cron, sshd and terminals; workers that a server forks from its own executable; daemons that init took over, which it did not start; packaged programs under scripts.",
	Limits:     "Processes that live shorter than the time between two snapshots are counted only by fork_bomb's rate. The baseline of a script that legitimately starts a user's own program every few seconds must be suppressed by hand.",
	machine:    judgeStorms,
}

const (
	stormWindow = 120 * time.Second
	stormSize   = 5
	mostSpawns  = 4096 // groups that are remembered
)

// A spawnKey is what spawns are counted by. A service's restarts have init as
// their parent and are counted by unit.
type spawnKey struct {
	executable, comm, user, unit, container string
	parent                                  int32
}

type spawnHistory struct {
	groups map[spawnKey]*spawnGroup
}

type spawnGroup struct {
	births []birth // oldest first
}

type birth struct {
	id Identity
	at time.Time
}

func judgeStorms(p *pass) []Finding {
	h := &p.spawns
	if h.groups == nil {
		h.groups = map[spawnKey]*spawnGroup{}
	}
	if p.changes > 0 {
		for i, en := range p.Engine.entries {
			if en.born == p.number && !en.kernel {
				p.countSpawn(p.subject(i))
			}
		}
	}
	var out []Finding
	for key, g := range h.groups {
		kept := g.births[:0]
		for _, b := range g.births {
			if p.now.Sub(b.at) < stormWindow {
				kept = append(kept, b)
			}
		}
		g.births = kept
		if len(kept) == 0 {
			delete(h.groups, key)
			continue
		}
		if len(kept) > stormSize && (key.unit == "" || p.alive(kept) <= 1) {
			if f := p.storm(key, g); f != nil {
				out = append(out, *f)
			}
		}
	}
	return out
}

func (p *pass) countSpawn(s *subject) {
	age := s.age()
	if age >= stormWindow || s.ordinarySpawn() {
		return
	}
	place := &s.p.Facts.Placement
	key := spawnKey{executable: s.executable(), comm: s.comm(), user: s.p.Facts.User, container: place.ContainerID, parent: s.p.PPID}
	if s.service() && s.p.PPID == 1 {
		key.unit = s.p.Facts.Placement.Unit
	}
	g := p.spawns.groups[key]
	if g == nil {
		if len(p.spawns.groups) >= mostSpawns {
			return
		}
		g = new(spawnGroup)
		p.spawns.groups[key] = g
	}
	const most = 64
	if len(g.births) < most {
		g.births = append(g.births, birth{Identity{s.p.PID, s.p.StartTicks}, p.now.Add(-age)})
	}
}

// ordinarySpawn reports whether starting many such processes is ordinary.
func (s *subject) ordinarySpawn() bool {
	if s.service() && s.p.PPID == 1 {
		return s.is(containerEngine) // a shim for every container; others are judged by unit
	}
	if s.origin.trusted() || s.origin == unreadable {
		return true // nobody knows who installed what cannot be read, such as a zombie's
	}
	parent := s.parent()
	if s.p.PPID == 1 && (parent == nil || parent.p.Session != s.p.Session) {
		return true // daemons: init took them over, and nobody knows what started them
	}
	if parent != nil && parent.executable() == s.executable() && s.executable() != "" {
		return true
	}
	if s.below(builder|scheduler|browser) != nil || s.imageBuild() {
		return true
	}
	return s.attended()
}

// alive counts the processes that are still there.
func (p *pass) alive(births []birth) int {
	n := 0
	for _, b := range births {
		if s := p.at(b.id.PID); s != nil && s.p.StartTicks == b.id.StartTicks {
			n++
		}
	}
	return n
}

func (p *pass) storm(key spawnKey, g *spawnGroup) *Finding {
	newest := g.births[len(g.births)-1].id
	f := &Finding{
		Rule: ruleStorm, Severity: Warning, PID: newest.PID, StartTicks: newest.StartTicks, Process: key.comm,
		Executable: key.executable, User: key.user, Unit: key.unit, Container: key.container,
		Message: fmt.Sprintf("%d new instances in last 120s", len(g.births)),
	}
	f.Cause = f.place() + "\x00" + pidText(key.parent)
	if key.unit != "" {
		return f.because(fmt.Sprintf("%s was started %d times: it ends and is started again", key.unit, len(g.births))).
			then("the journal of " + key.unit)
	}
	if parent := p.at(key.parent); parent != nil {
		f.because(fmt.Sprintf("%s (%d) starts it", parent.comm(), key.parent), "of that parent: "+parent.origin.String())
	}
	return f.because("no package owns "+key.executable).then("what starts it", "the process tree around "+pidText(key.parent))
}

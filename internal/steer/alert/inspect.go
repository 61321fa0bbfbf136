package alert

// This file looks into processes: their rights, their environment and their
// executable memory. New processes come first, those of doubtful origin before
// the others, and then every process in turn.

import (
	"slices"
	"strings"
	"time"
)

// An inspection is what was found inside a process.
type inspection struct {
	rights *Credentials // nil when unknown
	// preloaded are the values of LD_PRELOAD and LD_AUDIT.
	preloaded map[string]string
	// executable are mappings that are not of an ordinary file: anonymous,
	// of a memfd, of a deleted file or of one in a temporary folder.
	executable []Mapping
	// libraries are the base names of the mapped files.
	libraries []string
	complete  bool
}

// inspect looks into as many processes as a pass may.
func (p *pass) inspect() {
	p.inspectNew()
	n := len(p.Engine.entries)
	for range min(p.inTurn(n), n) {
		p.turn = (p.turn + 1) % n
		en := p.Engine.entries[p.turn]
		if !en.kernel && (en.inspection == nil || en.inspectAge != p.number) {
			p.look(p.turn, en)
		}
	}
}

// inTurn is how many processes are looked into in turn: each comes to its turn
// within a minute, or later where that would be too many in one pass.
func (p *pass) inTurn(n int) int {
	const round, fewest = time.Minute, 2
	if p.before.IsZero() {
		return inspections
	}
	share := float64(p.now.Sub(p.before)) / float64(round)
	return min(max(int(share*float64(n))+1, fewest), inspections)
}

func (p *pass) inspectNew() {
	if p.changes == 0 {
		return
	}
	left := firstInspections
	if p.first {
		left = 8 * firstInspections
	}
	for _, doubtful := range []bool{true, false} {
		for i, en := range p.Engine.entries {
			if left == 0 {
				return
			}
			if en.dirty && !en.kernel && en.inspection == nil && en.origin.trusted() != doubtful {
				p.look(i, en)
				left--
			}
		}
	}
}

// look inspects one process; when it finds something new, the static rules
// judge the process again.
func (p *pass) look(i int, en *entry) {
	row := &p.o.Processes[i]
	found := &inspection{complete: true}
	if rights, err := p.evidence.Credentials(row.PID); err == nil {
		found.rights = rights
	} else {
		found.complete = false
	}
	if set, err := p.evidence.Environment(row.PID, "LD_PRELOAD", "LD_AUDIT"); err == nil {
		found.preloaded = set
	} else {
		found.complete = false
	}
	if mappings, err := p.evidence.Mappings(row.PID); err == nil {
		found.take(mappings)
	} else {
		found.complete = false
	}
	if old := en.inspection; old == nil || !old.same(found) {
		en.dirty = true
		p.changes++
	}
	en.inspection, en.inspectAge = found, p.number
}

func (n *inspection) take(mappings []Mapping) {
	for _, m := range mappings {
		switch {
		case m.Path == "" || strings.HasPrefix(m.Path, "/memfd:") || m.Deleted || hasPrefix(m.Path, temporaryFolders):
			n.executable = append(n.executable, m)
		case strings.HasPrefix(m.Path, "["):
		default:
			n.libraries = append(n.libraries, stem(m.Path))
		}
	}
}

func (n *inspection) same(o *inspection) bool {
	if (n.rights == nil) != (o.rights == nil) || n.rights != nil && *n.rights != *o.rights {
		return false
	}
	if len(n.executable) != len(o.executable) || len(n.preloaded) != len(o.preloaded) {
		return false
	}
	for key, value := range n.preloaded {
		if o.preloaded[key] != value {
			return false
		}
	}
	return slices.EqualFunc(n.executable, o.executable, func(a, b Mapping) bool {
		return a.Path == b.Path && a.Writable == b.Writable && a.ELF == b.ELF
	})
}

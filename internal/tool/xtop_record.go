package tool

// This file writes the process records of the xtop contract (section 1.3), and
// reads what its searches ask for (sections 1.4 and 1.5).

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"

	"topside/internal/see"
	"topside/internal/see/plaintext"
	"topside/internal/see/proc"
	"topside/internal/see/secret"
	"topside/internal/steer"
)

// tenths is a number that is written with a decimal point, as the contract's
// floats are. What is not finite is null.
type tenths float64

// MarshalJSON writes 90 as 90.0.
func (t tenths) MarshalJSON() ([]byte, error) {
	f := float64(t)
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return []byte("null"), nil
	}
	text := strconv.FormatFloat(f, 'f', -1, 64)
	if !strings.Contains(text, ".") {
		text += ".0"
	}
	return []byte(text), nil
}

// longestText bounds a text of a process in an answer, in characters.
const longestText = 4096

// line is a text of the machine's, clean and bounded.
func line(s string) string {
	shown, _ := plaintext.Bounded(s, longestText)
	return shown
}

// An xtopRecord is one process; its keys are in the contract's order.
type xtopRecord struct {
	Cmd      string `json:"cmd"`
	CPU      tenths `json:"cpu"`
	Cwd      string `json:"cwd"`
	Exe      string `json:"exe"`
	MemBytes uint64 `json:"mem_bytes"`
	Name     string `json:"name"`
	PID      int32  `json:"pid"`
	PPID     *int32 `json:"ppid"` // null without a parent
	RunTime  int64  `json:"run_time"`
	State    string `json:"state"`
	Threads  int32  `json:"threads"`
	User     string `json:"user"`
}

func xtopRecordOf(r *steer.Record) xtopRecord {
	out := xtopRecord{
		Cmd: line(r.Cmd), CPU: tenths(r.CPU), Cwd: line(r.Cwd), Exe: line(r.Exe), MemBytes: r.MemBytes, Name: line(r.Name),
		PID: r.PID, RunTime: r.RunTime, State: r.State, Threads: r.Threads, User: r.User,
	}
	if r.PPID != 0 {
		out.PPID = &r.PPID
	}
	return out
}

// records are the processes that match, at most so many, the busiest first.
// realUsers says that match looks at the user, who is read for every process
// then and else for those that are returned.
func (x *Xtop) records(s *see.Snapshot, match func(*steer.Record) bool, most int, realUsers bool) []xtopRecord {
	o, fs := s.Observation(), x.observer.FS()
	var found []steer.Record
	for i := range o.Processes {
		r := steer.RecordOf(o, &o.Processes[i], fs.ClockTicks())
		if realUsers {
			steer.RealUser(fs, &r)
		}
		if x.hide {
			r.Name, r.Cmd = secret.Text(line(r.Name)), secret.Text(line(r.Cmd))
		}
		if match(&r) {
			found = append(found, r)
		}
	}
	slices.SortStableFunc(found, func(a, b steer.Record) int { return cmp.Or(cmp.Compare(b.CPU, a.CPU), cmp.Compare(a.PID, b.PID)) })
	shown := make([]xtopRecord, 0, min(len(found), most))
	for i := range found[:min(len(found), most)] {
		if !realUsers {
			steer.RealUser(fs, &found[i])
		}
		shown = append(shown, xtopRecordOf(&found[i]))
	}
	return shown
}

// fieldsOf are the fields that a search looks at: a list, or a text with commas,
// with or without blanks. Without the argument it is the name.
func fieldsOf(c Call) []string {
	if !c.Has("fields") {
		return []string{"name"}
	}
	given := c.Texts("fields")
	if given == nil {
		given = []string{c.Text("fields")}
	}
	var fields []string
	for _, g := range given {
		for f := range strings.SplitSeq(g, ",") {
			fields = append(fields, strings.TrimSpace(f))
		}
	}
	return fields
}

// fieldOf is a field of a record by its name; known is false for other names.
func fieldOf(r *steer.Record, name string) (text string, known bool) {
	switch name {
	case "name":
		return r.Name, true
	case "cmd":
		return r.Cmd, true
	case "user":
		return r.User, true
	case "state":
		return r.State, true
	case "exe":
		return r.Exe, true
	case "cwd":
		return r.Cwd, true
	}
	return "", false
}

// memoryUse is total minus available, and total, in bytes; ok is false when they
// are not known.
func memoryUse(m *proc.Memory) (used, total float64, ok bool) {
	if m == nil || m.Total == nil || *m.Total == 0 || m.Available == nil || *m.Available > *m.Total {
		return 0, 0, false
	}
	return float64(*m.Total - *m.Available), float64(*m.Total), true
}

// The contract's regular expressions know the letters and digits of all scripts
// behind \d, \w and \s; RE2's know ASCII's only.
var (
	outsideClass = map[byte]string{
		'd': `\p{Nd}`, 'D': `\P{Nd}`, 'w': `[\p{L}\p{M}\p{Nd}\p{Pc}]`, 'W': `[^\p{L}\p{M}\p{Nd}\p{Pc}]`,
		's': `[\s\v\x{85}\p{Z}]`, 'S': `[^\s\v\x{85}\p{Z}]`,
	}
	insideClass = map[byte]string{'d': `\p{Nd}`, 'D': `\P{Nd}`, 'w': `\p{L}\p{M}\p{Nd}\p{Pc}`, 's': `\s\v\x{85}\p{Z}`}
)

// unicodeClasses widens the classes of a regular expression to all scripts.
func unicodeClasses(pattern string) string {
	var b strings.Builder
	inside := false
	for i := 0; i < len(pattern); i++ {
		c := pattern[i]
		switch {
		case c == '\\' && i+1 < len(pattern):
			i++
			classes := outsideClass
			if inside {
				classes = insideClass
			}
			if wide, ok := classes[pattern[i]]; ok {
				b.WriteString(wide)
				continue
			}
			b.WriteByte('\\')
			c = pattern[i]
		case c == '[' && !inside:
			inside = true
			// A bracket that stands first is a member of the class.
			for _, first := range []string{"[^]", "[]", "[^"} {
				if strings.HasPrefix(pattern[i:], first) {
					b.WriteString(first[:len(first)-1])
					i += len(first) - 1
					c = pattern[i]
					break
				}
			}
		case c == '[' && strings.HasPrefix(pattern[i:], "[:"):
			if end := strings.Index(pattern[i:], ":]"); end > 0 {
				b.WriteString(pattern[i : i+end+1])
				i += end + 1
				c = pattern[i]
			}
		case c == ']':
			inside = false
		}
		b.WriteByte(c)
	}
	return b.String()
}

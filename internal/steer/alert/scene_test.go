package alert

// This file replays scenes: tables of processes, recorded from real programs
// or composed, with what the rules may ask about them.

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"topside/internal/see/container"
	"topside/internal/see/model"
	"topside/internal/see/proc"
	"topside/internal/see/sample"
)

// A scene is a machine over a stretch of time.
type scene struct {
	Name  string `json:"name"`
	About string `json:"about"`
	// Kind is "benign" or "hostile"; Source "recorded" or "composed".
	Kind   string `json:"kind"`
	Source string `json:"source"`
	CPUs   int    `json:"cpus,omitempty"`
	// Passes are taken Every seconds; the last is at the scene's end.
	Passes int     `json:"passes,omitempty"`
	Every  float64 `json:"every,omitempty"`
	Uptime float64 `json:"uptime,omitempty"` // seconds at the first pass
	// Everything below /usr, /bin, /sbin and /lib is packaged, but for
	// Unowned; Owned adds what lies elsewhere. NoDatabase has none.
	Owned      []string   `json:"owned,omitempty"`
	Unowned    []string   `json:"unowned,omitempty"`
	NoDatabase bool       `json:"no_database,omitempty"`
	Preload    []string   `json:"preload,omitempty"`
	Hidden     []int32    `json:"hidden,omitempty"`
	Forks      float64    `json:"forks,omitempty"`
	Busy       float64    `json:"busy,omitempty"` // percent of the machine
	Self       int32      `json:"self,omitempty"` // topside's own process
	Processes  []*actor   `json:"processes"`
	Expect     []expected `json:"expect,omitempty"`
}

// An actor is one process of a scene, or Repeat of them.
type actor struct {
	PID       int32             `json:"pid"`
	PPID      int32             `json:"ppid"`
	Name      string            `json:"name"`
	Exe       string            `json:"exe,omitempty"`
	Deleted   bool              `json:"deleted,omitempty"`
	Args      []string          `json:"args,omitempty"`
	Cwd       string            `json:"cwd,omitempty"`
	UID       uint32            `json:"uid,omitempty"`
	Unit      string            `json:"unit,omitempty"`
	Container string            `json:"container,omitempty"`
	Cgroup    string            `json:"cgroup,omitempty"`
	State     string            `json:"state,omitempty"`
	Threads   int32             `json:"threads,omitempty"`
	Session   int32             `json:"session,omitempty"`
	Kernel    bool              `json:"kernel,omitempty"`
	Age       float64           `json:"age,omitempty"` // seconds at the first pass; 1000 by default
	CPU       float64           `json:"cpu,omitempty"` // percent of one core
	TTY       bool              `json:"tty,omitempty"`
	FDs       map[string]string `json:"fds,omitempty"`
	FDCount   int               `json:"fd_count,omitempty"`
	FDLimit   uint64            `json:"fd_limit,omitempty"`
	Rights    *rights           `json:"rights,omitempty"`
	Env       map[string]string `json:"env,omitempty"`
	Maps      []Mapping         `json:"maps,omitempty"`
	Sockets   []socket          `json:"sockets,omitempty"`
	File      *file             `json:"file,omitempty"`
	// From and Until bound the passes (from 0) in which the process is there;
	// Until 0 is the end.
	From  int `json:"from,omitempty"`
	Until int `json:"until,omitempty"`
	// Repeat makes so many of it, with PIDs one after the other; Stagger is
	// the passes between the starts of two, Life how many passes each is there.
	Repeat  int     `json:"repeat,omitempty"`
	Stagger float64 `json:"stagger,omitempty"`
	Life    int     `json:"life,omitempty"`
	// Then changes fields from a pass on.
	Then []then `json:"then,omitempty"`

	facts *sample.Facts
}

type then struct {
	At      int       `json:"at"`
	PPID    *int32    `json:"ppid,omitempty"`
	UID     *uint32   `json:"uid,omitempty"`
	Exe     *string   `json:"exe,omitempty"`
	Name    *string   `json:"name,omitempty"`
	Deleted *bool     `json:"deleted,omitempty"`
	Threads *int32    `json:"threads,omitempty"`
	FDCount *int      `json:"fd_count,omitempty"`
	CPU     *float64  `json:"cpu,omitempty"`
	Sockets *[]socket `json:"sockets,omitempty"`
	State   *string   `json:"state,omitempty"`
}

type rights struct {
	Real, Effective, Saved uint32
	Capabilities           uint64
	Tracer                 int32
}

type socket struct {
	Inode  uint64 `json:"inode"`
	Local  string `json:"local"`
	Remote string `json:"remote,omitempty"`
	Listen bool   `json:"listen,omitempty"`
}

type file struct {
	Mode uint32  `json:"mode"`
	UID  uint32  `json:"uid"`
	Age  float64 `json:"age"` // seconds since it was changed, at the first pass
	Gone bool    `json:"gone,omitempty"`
}

// An expected is an alert that a scene must give.
type expected struct {
	Rule     string   `json:"rule"`
	PID      int32    `json:"pid,omitempty"` // one of the alert's processes; 0 is any
	Severity Severity `json:"severity"`
}

var sceneEpoch = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func loadScenes(t testing.TB) []*scene {
	t.Helper()
	paths, err := filepath.Glob("testdata/corpus/*.json")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no corpus: %v", err)
	}
	var out []*scene
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var many []*scene
		if err := json.Unmarshal(data, &many); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		for _, s := range many {
			s.complete()
			out = append(out, s)
		}
	}
	return out
}

func (s *scene) complete() {
	if s.CPUs == 0 {
		s.CPUs = 4
	}
	if s.Passes == 0 {
		s.Passes = 4
	}
	if s.Every == 0 {
		s.Every = 5
	}
	if s.Uptime == 0 {
		s.Uptime = 100000
	}
	var all []*actor
	for _, a := range s.Processes {
		all = append(all, a.copies()...)
	}
	slices.SortFunc(all, func(a, b *actor) int { return int(a.PID - b.PID) })
	s.Processes = all
}

func (a *actor) copies() []*actor {
	if a.Age == 0 && a.From == 0 {
		a.Age = 1000
	}
	if a.Repeat == 0 {
		return []*actor{a}
	}
	var out []*actor
	for i := range a.Repeat {
		c := *a
		c.PID += int32(i)
		c.From += int(float64(i) * a.Stagger)
		if a.Life > 0 {
			c.Until = c.From + a.Life
		}
		out = append(out, &c)
	}
	return out
}

// at applies the changes up to a pass; changed is true when one is of it.
func (a *actor) at(pass int) (now actor, changed bool) {
	now = *a
	for _, t := range a.Then {
		if t.At > pass {
			continue
		}
		changed = changed || t.At == pass
		assign(&now.PPID, t.PPID)
		assign(&now.UID, t.UID)
		assign(&now.Exe, t.Exe)
		assign(&now.Name, t.Name)
		assign(&now.Deleted, t.Deleted)
		assign(&now.Threads, t.Threads)
		assign(&now.FDCount, t.FDCount)
		assign(&now.CPU, t.CPU)
		assign(&now.Sockets, t.Sockets)
		assign(&now.State, t.State)
	}
	return now, changed
}

func assign[T any](into *T, v *T) {
	if v != nil {
		*into = *v
	}
}

// observation is what see would say at a pass.
func (s *scene) observation(pass int) *model.Observation {
	uptime := s.Uptime + float64(pass)*s.Every
	o := &model.Observation{CapturedAt: s.time(pass), CPUs: s.CPUs, Window: time.Duration(s.Every * float64(time.Second))}
	o.System.Uptime = time.Duration(uptime * float64(time.Second))
	if s.Forks > 0 {
		o.System.Forks = model.Known(s.Forks)
	}
	if s.Busy > 0 {
		o.System.Busy = model.Known(s.Busy)
	}
	for _, a := range s.Processes {
		if pass < a.From || a.Until > 0 && pass >= a.Until {
			continue
		}
		now, changed := a.at(pass)
		if a.facts == nil || changed {
			a.facts = now.factsNow()
		}
		start := s.Uptime + float64(a.From)*s.Every - now.Age
		row := &sample.Process{
			PID: now.PID, PPID: now.PPID, StartTicks: uint64(max(start, 0)*100) + uint64(now.PID%7), State: 'S', Kernel: now.Kernel,
			Threads: max(now.Threads, 1), Session: now.Session, Facts: a.facts, Group: -1,
		}
		if now.State != "" {
			row.State = now.State[0]
		}
		o.Processes = append(o.Processes, model.Process{Process: row, CPU: model.Known(now.CPU / float64(s.CPUs)), Group: -1})
	}
	return o
}

func (s *scene) time(pass int) time.Time {
	return sceneEpoch.Add(time.Duration(float64(pass) * s.Every * float64(time.Second)))
}

func (a *actor) factsNow() *sample.Facts {
	f := &sample.Facts{Comm: a.Name, Args: a.Args, Executable: a.Exe, Deleted: a.Deleted, Directory: a.Cwd, UID: a.UID, UIDKnown: true, User: fmt.Sprint(a.UID)}
	if a.UID == 0 {
		f.User = "root"
	}
	switch {
	case a.Container != "":
		f.Placement = container.Attribution{Runtime: container.Docker, ContainerID: a.Container, Path: "/docker/" + a.Container}
	case a.Unit != "":
		f.Placement = container.Attribution{Runtime: container.Systemd, Unit: a.Unit, Path: "/system.slice/" + a.Unit, UnitPath: "/system.slice/" + a.Unit}
	}
	if a.Cgroup != "" {
		f.Cgroups = []proc.CgroupLine{{Path: a.Cgroup}}
	}
	return f
}

// sceneEvidence answers from a scene at one pass.
type sceneEvidence struct {
	s    *scene
	pass int
}

var errUnknown = errors.New("not in this scene")

func (e *sceneEvidence) actor(pid int32) *actor {
	for _, a := range e.s.Processes {
		if a.PID == pid && e.pass >= a.From && (a.Until == 0 || e.pass < a.Until) {
			now, _ := a.at(e.pass)
			return &now
		}
	}
	return nil
}

func (e *sceneEvidence) Renew() {}

func (e *sceneEvidence) Descriptors(pid int32) ([]Descriptor, error) {
	a := e.actor(pid)
	if a == nil {
		return nil, errUnknown
	}
	var out []Descriptor
	for number, target := range a.FDs {
		var n int
		fmt.Sscan(number, &n)
		out = append(out, Descriptor{Number: n, Target: target})
	}
	for i, s := range a.Sockets {
		target := fmt.Sprintf("socket:[%d]", s.Inode)
		if !slices.ContainsFunc(out, func(d Descriptor) bool { return d.Target == target }) {
			out = append(out, Descriptor{Number: 10 + i, Target: target})
		}
	}
	slices.SortFunc(out, func(x, y Descriptor) int { return x.Number - y.Number })
	return out, nil
}

func (e *sceneEvidence) DescriptorUse(pid int32) (int, uint64, error) {
	a := e.actor(pid)
	if a == nil {
		return 0, 0, errUnknown
	}
	return a.FDCount, a.FDLimit, nil
}

func (e *sceneEvidence) Credentials(pid int32) (*Credentials, error) {
	a := e.actor(pid)
	if a == nil {
		return nil, errUnknown
	}
	if a.Rights == nil {
		return &Credentials{RealUID: a.UID, EffectiveUID: a.UID, SavedUID: a.UID}, nil
	}
	r := a.Rights
	return &Credentials{RealUID: r.Real, EffectiveUID: r.Effective, SavedUID: r.Saved, Capabilities: r.Capabilities, CapabilitiesKnown: true, Tracer: r.Tracer}, nil
}

func (e *sceneEvidence) Mappings(pid int32) ([]Mapping, error) {
	a := e.actor(pid)
	if a == nil {
		return nil, errUnknown
	}
	return a.Maps, nil
}

func (e *sceneEvidence) Environment(pid int32, names ...string) (map[string]string, error) {
	a := e.actor(pid)
	if a == nil {
		return nil, errUnknown
	}
	out := map[string]string{}
	for _, n := range names {
		if v, ok := a.Env[n]; ok {
			out[n] = v
		}
	}
	return out, nil
}

func (e *sceneEvidence) Terminal(pid int32) (bool, error) {
	a := e.actor(pid)
	if a == nil {
		return false, errUnknown
	}
	return a.TTY, nil
}

func (s socket) value() Socket {
	out := Socket{Inode: s.Inode, Listening: s.Listen, Established: !s.Listen}
	out.Local = netip.MustParseAddrPort(s.Local)
	if s.Remote != "" {
		out.Remote = netip.MustParseAddrPort(s.Remote)
	}
	return out
}

func (e *sceneEvidence) Socket(_ int32, inode uint64) (Socket, bool) {
	for _, a := range e.s.Processes {
		now, _ := a.at(e.pass)
		for _, s := range now.Sockets {
			if s.Inode == inode {
				return s.value(), true
			}
		}
	}
	return Socket{}, false
}

func (e *sceneEvidence) Listening() ([]Socket, error) {
	var out []Socket
	for _, a := range e.s.Processes {
		if e.actor(a.PID) == nil || a.Container != "" {
			continue
		}
		for _, s := range a.Sockets {
			if s.Listen {
				out = append(out, s.value())
			}
		}
	}
	return out, nil
}

func (e *sceneEvidence) Packaged(path string) Ownership {
	switch {
	case e.s.NoDatabase:
		return NoDatabase
	case slices.Contains(e.s.Owned, path):
		return Owned
	case slices.Contains(e.s.Unowned, path), strings.HasPrefix(path, "/usr/local/"):
		return NotOwned
	case inSystemFolder(path):
		return Owned
	}
	return NotOwned
}

func (e *sceneEvidence) File(pid int32, path string) (*File, error) {
	a := e.actor(pid)
	if a == nil {
		return nil, errUnknown
	}
	if path != a.Exe {
		if e.Packaged(path) == Owned {
			return &File{Mode: 0o755}, nil
		}
		return nil, fs.ErrNotExist
	}
	switch {
	case a.File != nil && a.File.Gone, a.Deleted && a.File == nil:
		return nil, fs.ErrNotExist
	case a.File == nil:
		return &File{Mode: 0o755, Changed: sceneEpoch.Add(-30 * 24 * time.Hour)}, nil
	}
	return &File{Mode: a.File.Mode, UID: a.File.UID, Changed: sceneEpoch.Add(-time.Duration(a.File.Age * float64(time.Second)))}, nil
}

func (e *sceneEvidence) Preload() ([]string, error) { return e.s.Preload, nil }

func (e *sceneEvidence) Unlisted(func(int32) bool) ([]int32, error) { return e.s.Hidden, nil }

// replay runs a scene through a new engine and book and returns every alert
// that there was.
func (s *scene) replay(change ...func(*model.Observation)) []Alert {
	for _, a := range s.Processes {
		a.facts = nil
	}
	engine, book := NewEngine(100), &Book{}
	evidence := &sceneEvidence{s: s}
	engine.Serve(s.Self)
	for pass := range s.Passes {
		evidence.pass = pass
		o := s.observation(pass)
		for _, c := range change {
			c(o)
		}
		book.Update(s.time(pass), engine.Evaluate(o, evidence))
	}
	return book.List(View{Acknowledged: true, Suppressed: true, History: true}, s.time(s.Passes))
}

// userless takes the names of the users out of an observation.
func userless(o *model.Observation) {
	for i := range o.Processes {
		o.Processes[i].Facts.User = ""
	}
}

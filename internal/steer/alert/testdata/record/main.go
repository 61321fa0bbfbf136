// Command record makes a scene of the corpus from real processes: the trees
// below some processes, over a few passes, with what the rules ask about them.
//
//	go run ./internal/steer/alert/testdata/record -name NAME -about TEXT -roots PID,PID
//
// What is above the roots becomes process 1; host names and other people's
// paths do not get in, since only the trees below the roots are recorded.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"topside/internal/see"
	"topside/internal/see/model"
	"topside/internal/see/proc"
	"topside/internal/steer/alert"
	"topside/internal/steer/evidence"
	"topside/internal/steer/packages"
)

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
	State     string            `json:"state,omitempty"`
	Threads   int32             `json:"threads,omitempty"`
	Session   int32             `json:"session,omitempty"`
	Age       float64           `json:"age,omitempty"`
	CPU       float64           `json:"cpu,omitempty"`
	TTY       bool              `json:"tty,omitempty"`
	FDs       map[string]string `json:"fds,omitempty"`
	FDCount   int               `json:"fd_count,omitempty"`
	FDLimit   uint64            `json:"fd_limit,omitempty"`
	Rights    *rights           `json:"rights,omitempty"`
	Env       map[string]string `json:"env,omitempty"`
	Maps      []alert.Mapping   `json:"maps,omitempty"`
	Sockets   []socket          `json:"sockets,omitempty"`
	File      *file             `json:"file,omitempty"`
	From      int               `json:"from,omitempty"`
	Until     int               `json:"until,omitempty"`

	start uint64
	last  int
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
	Age  float64 `json:"age"`
	Gone bool    `json:"gone,omitempty"`
}

type scene struct {
	Name      string     `json:"name"`
	About     string     `json:"about"`
	Kind      string     `json:"kind"`
	Source    string     `json:"source"`
	CPUs      int        `json:"cpus"`
	Passes    int        `json:"passes"`
	Every     float64    `json:"every"`
	Uptime    float64    `json:"uptime"`
	Owned     []string   `json:"owned,omitempty"`
	Unowned   []string   `json:"unowned,omitempty"`
	Self      int32      `json:"self,omitempty"`
	Processes []*actor   `json:"processes"`
	Expect    []struct{} `json:"expect,omitempty"`
}

var (
	name     = flag.String("name", "", "of the scene")
	about    = flag.String("about", "", "what it shows")
	kind     = flag.String("kind", "benign", "benign or hostile")
	roots    = flag.String("roots", "", "the processes below which to record")
	passes   = flag.Int("passes", 4, "how many")
	every    = flag.Duration("every", 2*time.Second, "the time between them")
	packaged = flag.String("packages", "/", "the root whose package databases count")
	self     = flag.Int("self", 0, "topside's own process, whose client is recorded with it")
	strip    = flag.String("strip", "", "OLD=NEW[,OLD=NEW]: replaced in every path")
)

func main() {
	flag.Parse()
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	observer, err := see.New(see.Options{WithoutEngines: true, Interval: *every})
	if err != nil {
		return err
	}
	defer observer.Close()
	root, err := proc.NewFS(*packaged)
	if err != nil {
		return err
	}
	r := &recorder{evidence: evidence.New(observer.FS()), database: packages.New(root), actors: map[string]*actor{}, fs: observer.FS()}
	out := &scene{Name: *name, About: *about, Kind: *kind, Source: "recorded", Passes: *passes, Every: every.Seconds(), Self: int32(*self)}
	zero := time.Duration(0)
	for pass := range *passes {
		began := time.Now()
		s, err := observer.Select(context.Background(), see.Selector{MaxAge: &zero})
		if err != nil {
			return err
		}
		o := s.Observation()
		if pass == 0 {
			out.CPUs, out.Uptime = o.CPUs, o.System.Uptime.Seconds()
		}
		r.evidence.Renew()
		r.take(pass, o, out)
		time.Sleep(*every - time.Since(began))
	}
	for _, a := range out.Processes {
		if a.last != *passes-1 {
			a.Until = a.last + 1
		}
	}
	data, err := json.Marshal(out)
	if err != nil {
		return err
	}
	fmt.Println(string(data))
	return nil
}

type recorder struct {
	evidence *evidence.Reader
	database *packages.Database
	fs       proc.FS
	actors   map[string]*actor
	roots    map[int32]bool
	asked    map[string]bool
}

func (r *recorder) take(pass int, o *model.Observation, out *scene) {
	if r.roots == nil {
		r.roots, r.asked = map[int32]bool{}, map[string]bool{}
		for text := range strings.SplitSeq(*roots, ",") {
			pid, _ := strconv.Atoi(text)
			r.roots[int32(pid)] = true
		}
	}
	inside := map[int32]bool{}
	for changed := true; changed; {
		changed = false
		for i := range o.Processes {
			p := &o.Processes[i]
			if !inside[p.PID] && (r.roots[p.PID] || inside[p.PPID]) {
				inside[p.PID], changed = true, true
			}
		}
	}
	for i := range o.Processes {
		p := &o.Processes[i]
		key := fmt.Sprint(p.PID, ".", p.StartTicks)
		a := r.actors[key]
		if a == nil && inside[p.PID] {
			a = r.record(pass, o, p, out)
			r.actors[key] = a
			out.Processes = append(out.Processes, a)
		}
		if a != nil {
			a.last = pass
			a.CPU = max(a.CPU, float64(int(p.CPU.Or(0)*float64(o.CPUs))))
			a.Threads = max(a.Threads, p.Threads)
		}
	}
}

func (r *recorder) record(pass int, o *model.Observation, p *model.Process, out *scene) *actor {
	f := p.Facts
	a := &actor{PID: p.PID, PPID: p.PPID, Name: f.Comm, Exe: f.Executable, Deleted: f.Deleted, Cwd: f.Directory, UID: f.UID, Unit: f.Placement.Unit, Container: f.Placement.ContainerID, State: string(rune(p.State)), Session: p.Session, From: pass}
	for _, arg := range f.Args {
		if len(arg) > 160 {
			arg = arg[:160]
		}
		if len(a.Args) == 24 {
			break
		}
		a.Args = append(a.Args, clean(arg))
	}
	if r.roots[p.PID] {
		a.PPID = 1
	}
	a.Age = float64(int(max(o.System.Uptime.Seconds()-float64(p.StartTicks)/100, 0.01)*100)) / 100
	a.TTY, _ = r.evidence.Terminal(p.PID)
	a.FDCount, a.FDLimit, _ = r.evidence.DescriptorUse(p.PID)
	if list, err := r.evidence.Descriptors(p.PID); err == nil {
		for _, d := range list {
			s, ok := r.socket(p.PID, d.Target)
			if ok {
				a.Sockets = append(a.Sockets, s)
			}
			if d.Number < 3 || ok || strings.HasPrefix(d.Target, "pipe:") {
				if a.FDs == nil {
					a.FDs = map[string]string{}
				}
				a.FDs[strconv.Itoa(d.Number)] = clean(d.Target)
			}
		}
	}
	if c, err := r.evidence.Credentials(p.PID); err == nil && (c.RealUID != c.EffectiveUID || c.Tracer != 0 || c.RealUID != 0 && c.Capabilities != 0) {
		a.Rights = &rights{c.RealUID, c.EffectiveUID, c.SavedUID, c.Capabilities, c.Tracer}
	}
	if env, err := r.evidence.Environment(p.PID, "LD_PRELOAD", "LD_AUDIT", "SUDO_UID", "DOAS_USER", "PKEXEC_UID"); err == nil && len(env) > 0 {
		a.Env = env
	}
	if maps, err := r.evidence.Mappings(p.PID); err == nil {
		a.Maps = worth(maps)
	}
	if found, err := r.evidence.File(p.PID, f.Executable); err == nil && f.Executable != "" {
		if age := time.Since(found.Changed).Seconds(); found.Mode != 0o755 || found.UID != 0 || age < 3600 {
			// A scene counts from its first pass.
			age -= float64(pass) * every.Seconds()
			a.File = &file{Mode: found.Mode, UID: found.UID, Age: float64(int(age))}
		}
	}
	r.ask(clean(f.Executable), out)
	for _, arg := range f.Args {
		if strings.HasPrefix(arg, "/") && !strings.ContainsAny(arg, " \n") {
			r.ask(clean(arg), out)
		}
	}
	a.Exe, a.Cwd = clean(a.Exe), clean(a.Cwd)
	return a
}

// worth keeps one mapping of a kind: what a rule can tell apart.
func worth(maps []alert.Mapping) []alert.Mapping {
	var out []alert.Mapping
	seen := map[string]bool{}
	odd := false
	for _, m := range maps {
		odd = odd || m.Path == "" || m.Deleted || strings.HasPrefix(m.Path, "/memfd") || strings.HasPrefix(m.Path, "/tmp")
	}
	if !odd {
		return nil
	}
	for _, m := range maps {
		m.Path = clean(m.Path)
		key := fmt.Sprint(m.Path, m.Writable, m.ELF, m.Deleted)
		plain := m.Path != "" && !m.Deleted && !strings.HasPrefix(m.Path, "/memfd") && !strings.HasPrefix(m.Path, "/tmp")
		if plain && !strings.Contains(m.Path, ".so") || seen[key] || strings.HasPrefix(m.Path, "[") {
			continue
		}
		seen[key] = true
		m.Start, m.End = 0, m.End-m.Start
		out = append(out, m)
	}
	return out
}

func (r *recorder) socket(pid int32, target string) (socket, bool) {
	rest, ok := strings.CutPrefix(target, "socket:[")
	inode, err := strconv.ParseUint(strings.TrimSuffix(rest, "]"), 10, 64)
	if !ok || err != nil {
		return socket{}, false
	}
	s, ok := r.evidence.Socket(pid, inode)
	if !ok {
		return socket{}, false
	}
	out := socket{Inode: inode, Local: s.Local.String(), Listen: s.Listening}
	if s.Established {
		out.Remote = s.Remote.String()
	}
	return out, true
}

// ask notes what the package database says against the scene's own rule.
func (r *recorder) ask(path string, out *scene) {
	if path == "" || r.asked[path] {
		return
	}
	r.asked[path] = true
	owned, err := r.database.Owns(path)
	system := false
	for _, folder := range []string{"/bin/", "/sbin/", "/lib/", "/lib64/", "/libexec/", "/share/"} {
		system = system || strings.HasPrefix(strings.TrimPrefix(path, "/usr"), folder)
	}
	switch {
	case err != nil:
	case owned && !system:
		out.Owned = append(out.Owned, clean(path))
	case !owned && system:
		out.Unowned = append(out.Unowned, clean(path))
	}
}

func clean(text string) string {
	for pair := range strings.SplitSeq(*strip, ",") {
		if old, replacement, ok := strings.Cut(pair, "="); ok && old != "" {
			text = strings.ReplaceAll(text, old, replacement)
		}
	}
	return text
}

package tool

// This file handles the calls that look at sessions, start them and end them,
// and the reading of long outputs.

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"topside/internal/compute/engine"
	"topside/internal/compute/pool"
	"topside/internal/compute/session"
)

// A binding is one name of a session.
type binding struct {
	Name     string  `json:"name"`
	Type     string  `json:"type"`
	Location *place  `json:"location,omitempty"`
	Preview  *string `json:"preview"`
}

// Bounds of what is shown of one binding, in bytes.
const (
	longestType    = 400
	longestPreview = 200
)

func bindingOf(b engine.Binding, scale int) binding {
	out := binding{Name: b.Name, Type: shorten(strings.ToValidUTF8(b.Type, "\uFFFD"), scale*longestType), Location: placeOf(b.Location)}
	if b.Preview != nil {
		p := shorten(strings.ToValidUTF8(*b.Preview, "\uFFFD"), scale*longestPreview)
		out.Preview = &p
	}
	return out
}

func (b binding) text() string {
	text := b.Name + " : " + b.Type
	if b.Preview != nil && *b.Preview != "" {
		text += " = " + *b.Preview
	}
	return text
}

type envReply struct {
	standing
	Bindings  []json.RawMessage `json:"bindings"`
	Matched   int               `json:"matched"`
	LeftOut   int               `json:"left_out"`
	Recovered bool              `json:"recovered,omitempty"`
	Recovery  *recovered        `json:"recovery,omitempty"`
}

func (c *Computer) env(ctx context.Context, call Call) (Result, error) {
	name := nameOf(call)
	var found []engine.Binding
	s, err := c.patient(ctx, name, c.known, func(ctx context.Context, s *session.Session) (err error) {
		found, err = s.Env(ctx, call.Flag("all"), call.Text("filter"))
		return err
	})
	if err != nil {
		return Result{}, err
	}
	slices.SortStableFunc(found, func(a, b engine.Binding) int { return strings.Compare(a.Name, b.Name) })
	resumed := recoveredOf(s.TakeResumed())
	reply := envReply{standing: standingOf(name, s), Bindings: []json.RawMessage{}, Matched: len(found), Recovered: resumed != nil, Recovery: resumed}
	var b strings.Builder
	if resumed != nil {
		fmt.Fprintf(&b, "recovered: %s\n", resumed.Says)
	}
	length := 0
	for i, f := range found {
		one := bindingOf(f, 1)
		encoded := encode(one)
		if length += len(encoded) + 1; length > longestReply-1000 {
			reply.LeftOut = len(found) - i
			break
		}
		reply.Bindings = append(reply.Bindings, encoded)
		fmt.Fprintln(&b, one.text())
	}
	if len(found) == 0 {
		b.WriteString("no names\n")
	}
	if reply.LeftOut > 0 {
		fmt.Fprintf(&b, "%d more names were left out: use filter\n", reply.LeftOut)
	}
	return Result{Structured: reply, Text: b.String() + reply.line() + "\n"}, nil
}

type lookupReply struct {
	standing
	Found     bool       `json:"found"`
	Binding   *binding   `json:"binding,omitempty"`
	Recovered bool       `json:"recovered,omitempty"`
	Recovery  *recovered `json:"recovery,omitempty"`
}

func (c *Computer) lookup(ctx context.Context, call Call) (Result, error) {
	name := nameOf(call)
	var found *engine.Binding
	s, err := c.patient(ctx, name, c.known, func(ctx context.Context, s *session.Session) (err error) {
		found, err = s.Lookup(ctx, call.Text("name"))
		return err
	})
	if err != nil {
		return Result{}, err
	}
	resumed := recoveredOf(s.TakeResumed())
	reply := lookupReply{standing: standingOf(name, s), Found: found != nil, Recovered: resumed != nil, Recovery: resumed}
	text := "not found; env lists the names\n"
	if found != nil {
		b := bindingOf(*found, 20)
		reply.Binding = &b
		text = b.text() + "\n"
	}
	return Result{Structured: reply, Text: text + reply.line() + "\n"}, nil
}

type resetReply struct {
	OK bool `json:"ok"`
	standing
}

func (c *Computer) reset(ctx context.Context, call Call) (Result, error) {
	name := nameOf(call)
	s, err := c.patient(ctx, name, c.emptied, func(ctx context.Context, s *session.Session) error {
		s.TakeResumed()
		return s.Reset(ctx)
	})
	if err != nil {
		return Result{}, err
	}
	reply := resetReply{true, standingOf(name, s)}
	return Result{Structured: reply, Text: "empty; the old log is kept beside the new one\n" + reply.line() + "\n"}, nil
}

type checkpointReply struct {
	OK    bool   `json:"ok"`
	Label string `json:"label"`
	Path  string `json:"path"`
	standing
	Phrases int `json:"phrases"`
}

func (c *Computer) checkpoint(ctx context.Context, call Call) (Result, error) {
	label, err := labelOf(call)
	if err != nil {
		return Result{}, err
	}
	name := nameOf(call)
	reply := checkpointReply{OK: true, Label: label}
	s, err := c.patient(ctx, name, c.known, func(ctx context.Context, s *session.Session) (err error) {
		reply.Path, err = s.Checkpoint(ctx, label)
		return err
	})
	if err != nil {
		return Result{}, err
	}
	reply.standing, reply.Phrases = standingOf(name, s), s.Log().Len()
	return Result{Structured: reply, Text: fmt.Sprintf("%d phrases saved as %s: %s\n%s\n", reply.Phrases, label, reply.Path, reply.line())}, nil
}

// prewarmOf is the prewarm file of a call; nil when it was not given.
func prewarmOf(call Call) *string {
	if !call.Has("prewarm") {
		return nil
	}
	path := call.Text("prewarm")
	return &path
}

// mostSiblings bounds a pool.
const mostSiblings = 64

// poolOf is how many sessions a call wants; 0 when it does not say.
func poolOf(call Call) (int, error) {
	n, given := call.Integer("pool")
	if given && (n.Int() < 1 || n.Int() > mostSiblings) {
		return 0, call.Fault("pool", "must be an integer from 1 to %d", mostSiblings)
	}
	return int(n.Int()), nil
}

func (c *Computer) start(ctx context.Context, call Call) (Result, error) {
	name, engineName := nameOf(call), call.Text("engine")
	if name == "" {
		return Result{}, call.Fault("session", "must not be local: that session is always there")
	}
	if engineName != "" {
		if err := c.checkEngine(call, engineName); err != nil {
			return Result{}, err
		}
	}
	size, err := poolOf(call)
	if err != nil {
		return Result{}, err
	}
	entry, _ := c.registered(name)
	request := pool.StartRequest{Name: name, Prewarm: prewarmOf(call), Engine: engineName, Resume: true, Pool: size}
	if request.Pool == 0 {
		request.Pool = max(entry.Pool, 1)
	}
	r := c.begin("start_local_session", name, "", func(ctx context.Context, r *run) (answer, error) {
		var notes []string
		if s := c.live(name); s != nil {
			if is := s.Language().Name(); engineName != "" && engineName != is {
				notes = append(notes, "it runs already and evaluates "+is+"; other engines need another name")
			}
			if request.Prewarm != nil && *request.Prewarm != entry.Prewarm {
				notes = append(notes, "it runs already: update_local_session and restart_local_session change its prewarm file")
			}
			if err := c.pool.Start(ctx, request); isRegistry(err) {
				notes = append(notes, err.Error())
			} else if err != nil {
				return nil, err
			}
			return startResult{s, request.Pool, nil, notes}, nil
		}
		s, note, err := c.started(ctx, request)
		if err != nil {
			return nil, err
		}
		if note != "" {
			notes = append(notes, note)
		}
		r.session.Store(s)
		return startResult{s, request.Pool, s.TakeResumed(), notes}, nil
	})
	return c.collect(ctx, call, r)
}

func (c *Computer) restart(ctx context.Context, call Call) (Result, error) {
	name := nameOf(call)
	if name == "" {
		return Result{}, call.Fault("session", "must not be local: reset empties that one")
	}
	if _, known := c.registered(name); !known {
		return Result{}, c.unknown(name)
	}
	// What hangs there, or waits behind it, may be the reason for it.
	under := slices.DeleteFunc(c.openRuns(name, false), func(u *run) bool { return u.tool == buildTool })
	for _, u := range under {
		u.cancel()
	}
	r := c.begin("restart_local_session", name, "", func(ctx context.Context, r *run) (answer, error) {
		for _, u := range under { // what waited is over before what ran
			if err := u.wait(ctx); err != nil {
				return nil, err
			}
		}
		if err := c.pool.Restart(ctx, name); err != nil {
			return nil, err
		}
		s, err := c.pool.Session(name)
		if err != nil {
			return nil, err
		}
		r.session.Store(s)
		return startResult{session: s}, nil
	})
	return c.collect(ctx, call, r)
}

func (c *Computer) update(_ context.Context, call Call) (Result, error) {
	name := nameOf(call)
	if name == "" {
		return Result{}, call.Fault("session", "must not be local: it has neither prewarm file nor siblings")
	}
	var size *int
	n, err := poolOf(call)
	if err != nil {
		return Result{}, err
	}
	if n > 0 {
		size = &n
	}
	if err := c.pool.Update(name, prewarmOf(call), size); err != nil {
		return Result{}, explained(err, name)
	}
	reply := resetReply{true, standingOf(name, c.live(name))}
	return Result{Structured: reply, Text: "noted for the next start; restart_local_session applies it now\n" + reply.line() + "\n"}, nil
}

// A listedSession is a session in list_sessions.
type listedSession struct {
	standing
	Prewarm  string  `json:"prewarm,omitempty"`
	Pool     int     `json:"pool,omitempty"`
	Phrases  *int    `json:"phrases,omitempty"`
	Log      string  `json:"log,omitempty"`
	Running  string  `json:"running,omitempty"`
	Seconds  float64 `json:"running_seconds,omitempty"`
	Waiting  int     `json:"waiting,omitempty"`
	LastSeen string  `json:"last_seen,omitempty"`
}

type listedEngine struct {
	Engine    string `json:"engine"`
	Version   string `json:"version,omitempty"`
	Available bool   `json:"available"`
	Missing   string `json:"missing,omitempty"`
	Default   bool   `json:"default,omitempty"`
	Note      string `json:"note,omitempty"`
}

type listedRun struct {
	Run     string  `json:"run"`
	Tool    string  `json:"tool"`
	Session string  `json:"session"`
	State   string  `json:"state"`
	Source  string  `json:"source,omitempty"`
	Seconds float64 `json:"seconds"`
}

type listReply struct {
	Folder      string          `json:"folder,omitempty"`
	Engines     []listedEngine  `json:"engines"`
	Sessions    []listedSession `json:"sessions"`
	Runs        []listedRun     `json:"runs"`
	Checkpoints []string        `json:"checkpoints"`
	LeftOut     int             `json:"left_out,omitempty"`
}

// mostSessions bounds the list.
const mostSessions = 60

func (c *Computer) list(context.Context, Call) (Result, error) {
	reply := listReply{Folder: c.folder, Engines: []listedEngine{}, Runs: []listedRun{}, Checkpoints: c.checkpoints()}
	for i, e := range c.engines {
		reply.Engines = append(reply.Engines, listedEngine{e.Name, e.Version, e.Missing == "", e.Missing, i == 0, e.Note})
	}
	reply.Sessions = append(reply.Sessions, listedOf("", pool.Entry{}, c.live("")))
	if reply.Sessions[0].Engine == "" {
		reply.Sessions[0].Engine = c.engines[0].Name
	}
	for _, l := range c.pool.List() {
		if len(reply.Sessions) == mostSessions {
			reply.LeftOut++
			continue
		}
		one := listedOf(l.Name, l.Entry, c.live(l.Name))
		if one.Engine == "" {
			one.Engine = c.engineOf(l.Entry)
		}
		reply.Sessions = append(reply.Sessions, one)
	}
	c.mu.Lock()
	latest := slices.Clone(c.runs[max(0, len(c.runs)-mostListed):])
	c.mu.Unlock()
	for _, r := range latest {
		one := listedRun{r.id, r.tool, shownWhole(r.name), "ended", r.source, time.Since(r.started).Seconds()}
		if r.over() {
			one.Seconds = r.ended.Sub(r.started).Seconds()
		} else {
			one.State = c.state(r)
		}
		reply.Runs = append(reply.Runs, one)
	}
	return Result{Structured: reply, Text: reply.text()}, nil
}

func listedOf(name string, e pool.Entry, s *session.Session) listedSession {
	l := listedSession{standing: standingOf(name, s), Prewarm: e.Prewarm}
	if e.Pool > 1 {
		l.Pool = e.Pool
	}
	if !e.LastSeen.IsZero() {
		l.LastSeen = e.LastSeen.UTC().Format(time.RFC3339)
	}
	if s != nil {
		st := s.Status()
		l.Phrases, l.Log, l.Waiting = &st.Phrases, st.LogPath, st.Waiting
		if st.State == session.Busy {
			l.Running, l.Seconds = shorten(strings.ToValidUTF8(st.Running, "\uFFFD"), 80), time.Since(st.Since).Seconds()
		}
	}
	return l
}

// checkpoints lists the labels of all languages, as files.
func (c *Computer) checkpoints() []string {
	labels := []string{}
	if c.folder == "" {
		return labels
	}
	entries, _ := os.ReadDir(filepath.Join(c.folder, "checkpoints"))
	for _, e := range entries {
		ext := filepath.Ext(e.Name())
		if label := strings.TrimSuffix(e.Name(), ext); e.Type().IsRegular() && (ext == ".ml" || ext == ".js") && session.CheckLabel(label) == nil {
			labels = append(labels, e.Name())
		}
		if len(labels) == 200 {
			break
		}
	}
	return labels
}

func (l listReply) text() string {
	var b strings.Builder
	for _, e := range l.Engines {
		fmt.Fprintf(&b, "engine %s %s", e.Engine, e.Version)
		if e.Default {
			b.WriteString(" (default)")
		}
		if !e.Available {
			fmt.Fprintf(&b, ": %s", e.Missing)
		}
		if e.Note != "" {
			fmt.Fprintf(&b, ": %s", e.Note)
		}
		b.WriteByte('\n')
	}
	for _, s := range l.Sessions {
		fmt.Fprintf(&b, "session %s", s.line())
		if s.Phrases != nil {
			fmt.Fprintf(&b, " %d phrases", *s.Phrases)
		}
		if s.Running != "" {
			fmt.Fprintf(&b, ", for %.1f s: %q", s.Seconds, s.Running)
		}
		b.WriteByte('\n')
	}
	if l.LeftOut > 0 {
		fmt.Fprintf(&b, "%d more sessions were left out\n", l.LeftOut)
	}
	for _, r := range l.Runs {
		if r.State == "ended" {
			continue
		}
		fmt.Fprintf(&b, "run %s %s in %s: %s, %.1f s\n", r.Run, r.Tool, shown(r.Session), r.State, r.Seconds)
	}
	if len(l.Checkpoints) > 0 {
		fmt.Fprintf(&b, "checkpoints: %s\n", strings.Join(l.Checkpoints, ", "))
	}
	if l.Folder != "" {
		fmt.Fprintf(&b, "kept in %s\n", l.Folder)
	}
	return b.String()
}

// usualRead and longestRead bound one reading of an output, in bytes.
const (
	usualRead   = 8000
	longestRead = 16000
)

type readReply struct {
	Path   string `json:"path"`
	Total  int64  `json:"total_bytes"`
	Offset int64  `json:"offset"`
	Next   *int64 `json:"next_offset,omitempty"`
	Text   string `json:"text"`
}

func (c *Computer) readOutput(_ context.Context, call Call) (Result, error) {
	path := call.Text("path")
	file, err := c.openOutput(path)
	if err != nil {
		return Result{}, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return Result{}, &ComputeError{"unknown_output", "no output is kept at " + excerpt([]byte(path)), "pass a path that a reply gave"}
	}
	offset, _ := call.Integer("offset")
	length := int64(usualRead)
	if limit, given := call.Integer("limit"); given {
		length = min(max(limit.Int(), 1), longestRead)
	}
	reply := readReply{Path: path, Total: info.Size(), Offset: offset.Int()}
	if reply.Offset < 0 {
		reply.Offset = max(0, reply.Total+reply.Offset)
	}
	reply.Offset = min(reply.Offset, reply.Total)
	raw := make([]byte, min(length, reply.Total-reply.Offset))
	n, err := file.ReadAt(raw, reply.Offset)
	if n < len(raw) && err != nil {
		return Result{}, &ComputeError{"unknown_output", fmt.Sprintf("reading %s: %v", excerpt([]byte(path)), err), ""}
	}
	raw = whole(raw[:n], reply.Offset+int64(n) < reply.Total)
	if end := reply.Offset + int64(len(raw)); end < reply.Total {
		reply.Next = &end
	}
	reply.Text = strings.ToValidUTF8(string(raw), "\uFFFD")
	return Result{Structured: reply, Text: reply.text()}, nil
}

// whole cuts a character that goes on behind the range.
func whole(b []byte, goesOn bool) []byte {
	if !goesOn {
		return b
	}
	for n := len(b) - 1; n > 0 && n > len(b)-utf8.UTFMax; n-- {
		if utf8.RuneStart(b[n]) {
			if !utf8.FullRune(b[n:]) {
				return b[:n]
			}
			break
		}
	}
	return b
}

func (r readReply) text() string {
	if r.Next == nil {
		return fmt.Sprintf("%s\n[bytes %d to %d, the end]\n", r.Text, r.Offset, r.Total)
	}
	return fmt.Sprintf("%s\n[bytes %d to %d of %d; go on at offset %d]\n", r.Text, r.Offset, *r.Next, r.Total, *r.Next)
}

// openOutput opens a file below the folder of outputs; no link leads out of it.
func (c *Computer) openOutput(path string) (*os.File, error) {
	refused := func(why string) error {
		return &ComputeError{"unknown_output", fmt.Sprintf("%s %s", excerpt([]byte(path)), why), "pass a path that a reply gave; outputs go when the server that wrote them has ended and another starts"}
	}
	if c.folder == "" {
		return nil, refused("is not kept: this server keeps nothing on disk")
	}
	inside := path
	if filepath.IsAbs(path) {
		rel, err := filepath.Rel(c.spillFolder(), path)
		if err != nil {
			return nil, refused("is no output of a session")
		}
		inside = rel
	}
	if !filepath.IsLocal(inside) {
		return nil, refused("is no output of a session: those are in " + c.spillFolder())
	}
	root, err := os.OpenRoot(c.spillFolder())
	if err != nil {
		return nil, refused("is not there")
	}
	defer root.Close()
	file, err := root.OpenFile(inside, os.O_RDONLY|nonblocking, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, refused("is not there any more")
	}
	if err != nil {
		return nil, refused("cannot be read")
	}
	return file, nil
}

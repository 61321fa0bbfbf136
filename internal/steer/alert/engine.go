package alert

// This file runs the rules over one snapshot after another. What a process is
// stays with its identity, so that a pass costs next to nothing for processes
// that did not change; files are read for candidates only, and for a few
// others in turn.

import (
	"cmp"
	"slices"
	"sort"
	"strconv"
	"time"

	"topside/internal/see/model"
	"topside/internal/see/sample"
)

// The bounds of what one pass reads.
const (
	// inspections is how many processes are looked into in one pass beyond
	// those that are new: every process comes to its turn.
	inspections = 16
	// firstInspections is the same for processes that are new.
	firstInspections = 64
	// mostOrigins bounds the executables whose origin is remembered.
	mostOrigins = 1 << 14
)

// An Engine runs the rules. It remembers the machine between passes, and is
// not safe for concurrent use.
type Engine struct {
	ticks   uint64    // of the kernel's clock in a second
	number  uint64    // of the pass
	before  time.Time // when the pass before was; zero for the first
	self    int32     // see [Engine.Serve]
	entries []*entry
	pids    []int32 // of the entries
	origins map[originKey]origin
	turn    int // where the inspections in turn go on

	spawns       spawnHistory
	crowds       crowdHistory
	profiles     map[string]*profile
	made         map[string]time.Time // executables that builds made and ran, with when
	compilations []compilation
	listeners    map[uint64]*Finding // by socket inode; nil for those found innocent
	suspects     map[int32]uint64    // ids that answered unlisted, with the pass
	preload      preloadFile
}

type originKey struct{ container, executable string }

// NewEngine returns an engine for a kernel that counts so many ticks in a
// second; 0 means 100.
func NewEngine(clockTicks uint64) *Engine {
	if clockTicks == 0 {
		clockTicks = 100
	}
	return &Engine{
		ticks: clockTicks, origins: map[originKey]origin{}, profiles: map[string]*profile{}, made: map[string]time.Time{},
		listeners: map[uint64]*Finding{}, suspects: map[int32]uint64{},
	}
}

// Serve names our own process. What its client starts (the program that talks
// to topside, and what that runs in) is known to whoever reads the alerts, as far
// as the client knows what it starts.
func (e *Engine) Serve(pid int32) { e.self = pid }

// ForgetOrigins forgets where executables came from, after packages were
// installed or removed.
func (e *Engine) ForgetOrigins() {
	clear(e.origins)
	for _, en := range e.entries {
		en.facts = nil // judged anew in the next pass
	}
}

// An entry is what the engine remembers of one process.
type entry struct {
	start  uint64
	facts  *sample.Facts
	ppid   int32
	bornTo int32 // the first parent seen
	seen   time.Time
	class  class
	origin origin
	kernel bool
	// dirty is set when the static rules must judge the process again.
	dirty   bool
	watch   uint32 // bits of the dynamic rules that watch it, by index
	found   []*Finding
	changed change
	born    uint64   // the pass that saw it first
	held    *Finding // what a rule said that reads only now and again
	dropped *Finding // the same of judgeDropped

	opened     []Descriptor
	openedIn   uint64
	inspection *inspection
	inspectAge uint64 // pass of the inspection

	threads gauge
	files   gauge
	counted *Finding // what the last count of its descriptors said
	mining  miningWatch
}

// A change is what changed about a process without a new process: the user and
// the executable before the last change of its facts.
type change struct {
	known      bool
	uid        uint32
	executable string
}

// A gauge remembers a figure: the first one and when it was taken.
type gauge struct {
	first   float64
	firstAt time.Time
}

// A pass is one run over one snapshot.
type pass struct {
	*Engine
	o        *model.Observation
	now      time.Time
	evidence Evidence
	first    bool // the engine knew nothing before
	changes  int  // processes that are new or changed
	births   int  // processes that are new
	clients  map[int32]bool
}

// Evaluate judges one snapshot and returns what the rules say now, the most
// severe first: a finding that holds is returned in every pass. Observations
// must come in the order of time.
func (e *Engine) Evaluate(o *model.Observation, evidence Evidence) []Finding {
	e.number++
	evidence.Renew()
	p := &pass{Engine: e, o: o, now: o.CapturedAt, evidence: evidence, first: e.number == 1}
	p.match()
	p.classify()
	p.inspect()
	var out []Finding
	out = p.judge(out)
	for i := range rules {
		if rules[i].machine != nil {
			out = append(out, rules[i].machine(p)...)
		}
	}
	e.before = p.now
	slices.SortStableFunc(out, func(a, b Finding) int { return cmp.Compare(a.Severity.Rank(), b.Severity.Rank()) })
	return out
}

// match gives every row of the table its entry, by merging, since both are
// sorted by PID.
func (p *pass) match() {
	rows := p.o.Processes
	next := make([]*entry, len(rows))
	before, pids := p.entries, p.pids
	j := 0
	for i := range rows {
		row := &rows[i]
		for j < len(pids) && pids[j] < row.PID {
			j++
		}
		if j < len(pids) && pids[j] == row.PID && before[j].start == row.StartTicks {
			next[i] = before[j]
			if next[i].facts != row.Facts || next[i].ppid != row.PPID {
				p.renew(next[i], row)
			}
			continue
		}
		next[i] = p.meet(row)
	}
	pids = pids[:0]
	for i := range rows {
		pids = append(pids, rows[i].PID)
	}
	p.Engine.entries, p.pids = next, pids
}

func (p *pass) meet(row *model.Process) *entry {
	p.changes++
	p.births++
	return &entry{start: row.StartTicks, facts: row.Facts, ppid: row.PPID, bornTo: row.PPID, seen: p.now, born: p.number, kernel: row.Kernel, dirty: true, origin: unreadable}
}

// renew takes up what changed about a process.
func (p *pass) renew(en *entry, row *model.Process) {
	old, adopted := en.facts, en.ppid != row.PPID
	en.facts, en.ppid = row.Facts, row.PPID
	if old != nil && !adopted && sameFacts(old, row.Facts) {
		return // the sampler read the same again
	}
	p.changes++
	en.dirty = true
	if old == nil {
		return
	}
	if old.UIDKnown && (old.UID != row.Facts.UID || old.Executable != row.Facts.Executable) {
		en.changed = change{known: true, uid: old.UID, executable: old.Executable}
	}
	if old.Executable != row.Facts.Executable || old.Comm != row.Facts.Comm {
		en.inspection = nil
	}
}

func sameFacts(a, b *sample.Facts) bool {
	return a.Comm == b.Comm && a.Executable == b.Executable && a.Deleted == b.Deleted && a.UID == b.UID &&
		a.Placement.UnitPath == b.Placement.UnitPath && a.Placement.ContainerID == b.Placement.ContainerID && slices.Equal(a.Args, b.Args)
}

// classify tells what the changed processes are. It comes before any judgement,
// since rules look at parents too.
func (p *pass) classify() {
	if p.changes == 0 {
		return
	}
	for i, en := range p.Engine.entries {
		if !en.dirty || en.kernel {
			continue
		}
		row := &p.o.Processes[i]
		facts := row.Facts
		name := program(facts.Comm, facts.Executable, facts.Args)
		en.class = classify(name) | scriptClass(name, facts.Args)
		en.origin = p.originOf(row)
	}
	p.noteMade()
	p.noteCompilers()
}

// noteMade remembers the executables in temporary folders that builds and test
// runs started, so that what they leave behind, cut off from them, is known.
func (p *pass) noteMade() {
	const most = 1024
	for i, en := range p.Engine.entries {
		if !en.dirty || en.origin != temporary {
			continue
		}
		s := p.subject(i)
		if _, ok := s.built(); !ok {
			continue
		}
		if len(p.made) >= most {
			clear(p.made)
		}
		p.made[s.executable()] = p.now
	}
}

// originOf tells where the executable of a process came from.
func (p *pass) originOf(row *model.Process) origin {
	key := originKey{row.Facts.Placement.ContainerID, row.Facts.Executable}
	if o, ok := p.origins[key]; ok {
		return o
	}
	var o origin
	if row.Facts.Placement.InContainer() {
		o = p.originInContainer(row)
	} else {
		o = originOf(row.Facts.Executable, p.evidence.Packaged)
	}
	if len(p.origins) >= mostOrigins {
		clear(p.origins)
	}
	p.origins[key] = o
	return o
}

// originInContainer compares the age of the file with that of the container:
// an image's files are older than any container of it.
func (p *pass) originInContainer(row *model.Process) origin {
	executable := row.Facts.Executable
	switch o := originOf(executable, func(string) Ownership { return NoDatabase }); o {
	case unreadable, memory:
		return o
	}
	file, err := p.evidence.File(row.PID, executable)
	if err != nil || file.Changed.IsZero() {
		return image
	}
	oldest := time.Duration(0)
	for i := range p.o.Processes {
		other := &p.o.Processes[i]
		if other.Facts.Placement.ContainerID == row.Facts.Placement.ContainerID {
			oldest = max(oldest, p.ageOf(other))
		}
	}
	const slack = 5 * time.Second
	if file.Changed.After(p.now.Add(slack - oldest)) {
		if hasPrefix(executable, temporaryFolders) {
			return temporary
		}
		return drifted
	}
	return image
}

// ageOf is how long ago a process started; 0 when the uptime is unknown.
func (p *pass) ageOf(row *model.Process) time.Duration {
	if p.o.System.Uptime == 0 {
		return 0
	}
	started := time.Duration(float64(row.StartTicks) / float64(p.ticks) * float64(time.Second))
	return max(p.o.System.Uptime-started, 0)
}

// judge runs the rules on the processes that changed or are watched.
func (p *pass) judge(out []Finding) []Finding {
	for i, en := range p.Engine.entries {
		if en.kernel && !en.dirty {
			continue
		}
		if en.dirty {
			p.judgeStatic(i, en)
		}
		if p.o.Processes[i].Ended() {
			continue // what it was is in the history; a zombie does nothing
		}
		for _, f := range en.found {
			out = append(out, *f)
		}
		if en.watch != 0 {
			out = p.judgeDynamic(out, i, en)
		}
	}
	return out
}

func (p *pass) subject(i int) *subject {
	s := &subject{entry: p.Engine.entries[i], pass: p, p: &p.o.Processes[i]}
	if s.openedIn != p.number {
		s.opened = nil
	}
	return s
}

func (p *pass) judgeStatic(i int, en *entry) {
	en.dirty, en.found, en.watch = false, nil, 0
	if en.kernel {
		return
	}
	s := p.subject(i)
	for r := range rules {
		rule := &rules[r]
		if rule.static != nil {
			if f := rule.static(s); f != nil {
				en.found = append(en.found, f)
			}
		}
		if rule.watches != nil && rule.watches(s) {
			en.watch |= 1 << r
		}
	}
	s.settle()
}

func (p *pass) judgeDynamic(out []Finding, i int, en *entry) []Finding {
	s := p.subject(i)
	for r := range rules {
		if en.watch&(1<<r) == 0 {
			continue
		}
		if f := rules[r].dynamic(s); f != nil && en.finding(f.Rule) == nil {
			out = append(out, *f)
		}
	}
	return out
}

// finding returns the static finding of a rule that holds; nil without.
func (en *entry) finding(rule string) *Finding {
	for _, f := range en.found {
		if f.Rule == rule {
			return f
		}
	}
	return nil
}

// settle lets go of what was read for the judgement.
func (s *subject) settle() { s.entry.opened = nil }

// at returns the process with that PID; nil when there is none.
func (p *pass) at(pid int32) *subject {
	rows := p.o.Processes
	i := sort.Search(len(rows), func(i int) bool { return rows[i].PID >= pid })
	if i == len(rows) || rows[i].PID != pid || pid == 0 {
		return nil
	}
	return p.subject(i)
}

// all calls visit for every process that is not the kernel's.
func (p *pass) all(visit func(*subject)) {
	for i, en := range p.Engine.entries {
		if !en.kernel {
			visit(p.subject(i))
		}
	}
}

func pidText(pid int32) string { return strconv.Itoa(int(pid)) }

package steer

// This file keeps alerts over the end of this process, and joins them with those
// of the user's other servers and views, in the ledger.

import (
	"errors"
	"os"
	"time"

	"topside/internal/steer/ledger"
)

// The pace of writing the ledger down, beyond what changes.
const (
	// rewrite is how often alerts that last are said to have been seen.
	rewrite = 5 * time.Minute
	// retry is the pause after a failure.
	retry = time.Minute
)

// A memory is the ledger as one advisor uses it. Its fields are of the mutex of
// the advisor.
type memory struct {
	file    *ledger.File // nil keeps alerts in this process only
	read    bool
	written int // the revision of the book that was written down
	at      time.Time
	err     error // why the last attempt failed
	failed  time.Time
}

// ledgerFor is the ledger of an observed machine.
func (a *Advisor) ledgerFor(path string) *ledger.File {
	if path == "" || !a.o.Observer.Live() {
		return nil
	}
	boot, err := a.o.Observer.FS().BootID()
	if err != nil || boot == "" {
		return nil
	}
	host, err := a.o.Observer.FS().Hostname()
	if err != nil || host == "" {
		host, _ = os.Hostname()
	}
	return ledger.New(path, ledger.Origin{Host: host, Boot: boot})
}

// recall takes over, once and before the first pass, what was written down.
func (a *Advisor) recall(now time.Time) {
	m := &a.memory
	a.mu.Lock()
	done := m.file == nil || m.read
	m.read = true
	a.mu.Unlock()
	if done {
		return
	}
	kept, err := m.file.Read()
	a.mu.Lock()
	defer a.mu.Unlock()
	m.err = err
	a.book.Resume(kept.Lasting, now)
	a.book.Adopt(nil, kept.Past)
	m.written, m.at = a.book.Revision(), now
}

// remember writes down what changed, and takes over what others wrote.
func (a *Advisor) remember(now time.Time) error {
	a.remembering.Lock()
	defer a.remembering.Unlock()
	m := &a.memory
	if m.file == nil {
		return nil
	}
	theirs := m.file.Changed()
	a.mu.Lock()
	mine := ledger.Kept{Lasting: a.book.Lasting(), Past: a.book.Past()}
	revision := a.book.Revision()
	news := revision != m.written || len(mine.Lasting) > 0 && now.Sub(m.at) >= rewrite
	retrying := m.err != nil && now.Sub(m.failed) >= retry
	a.mu.Unlock()
	var merged ledger.Kept
	var err error
	switch {
	case news, retrying:
		merged, err = m.file.Merge(mine)
	case theirs && m.err == nil:
		// Only what somebody else wrote is new: it is not answered by a write,
		// which they would have to read in their turn.
		if merged, err = m.file.Read(); err == nil {
			merged = ledger.Merge(merged, mine)
		}
	default:
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	// A failure is tried again after a while, or when there is something new.
	m.err, m.failed = err, now
	if news || retrying {
		m.written, m.at = revision, now
	}
	if err != nil {
		return err
	}
	if a.book.Revision() == revision {
		a.book.Adopt(merged.Lasting, merged.Past)
	}
	return nil
}

// parting writes down when the alerts that last were seen last.
func (a *Advisor) parting() {
	a.mu.Lock()
	if a.passes > 0 && len(a.book.Lasting()) > 0 {
		a.memory.at = time.Time{}
	}
	idle := a.passes == 0
	now := a.last
	a.mu.Unlock()
	if !idle {
		_ = a.remember(now)
	}
}

// Acknowledge marks an alert as seen, here and in the user's other servers. The
// error wraps [alert.ErrNoAlert]; a *[ledger.FileError] means that it holds in
// this process only.
func (a *Advisor) Acknowledge(id, note string) error {
	now := time.Now()
	a.mu.Lock()
	err := a.book.Acknowledge(id, note, now)
	a.mu.Unlock()
	if err != nil {
		return err
	}
	return a.remember(now)
}

// memoryProblem is why alerts are not remembered; "" when they are. The caller
// holds the lock.
func (a *Advisor) memoryProblem() string {
	var file *ledger.FileError
	if errors.As(a.memory.err, &file) {
		return "alerts and acknowledgements are not kept over the end of this server: " + file.Error()
	}
	return ""
}

package steer

// This file is this machine's word in calls to other hosts: its policy, and its audit
// log, beside those of the host.

import (
	"errors"
	"sync"

	"topside/internal/steer/audit"
	"topside/internal/steer/config"
	"topside/internal/steer/policy"
)

// Elsewhere judges calls to other hosts by the policy of this machine, and writes
// down those that act. It reads nothing before it is first asked, and is safe for
// concurrent use.
type Elsewhere struct {
	configuration, auditLog string

	begin sync.Once
	rules *policy.File
	log   *audit.Log
	words policy.Confirmations
}

// NewElsewhere uses the configuration and the audit log at these paths; "" for a
// machine without them.
func NewElsewhere(configuration, auditLog string) *Elsewhere {
	return &Elsewhere{configuration: configuration, auditLog: auditLog}
}

func (e *Elsewhere) open() {
	store := config.InMemory()
	if e.configuration != "" {
		store, _ = config.Open(e.configuration) // PolicyUnknown tells of a broken one
	}
	e.rules = policy.NewFile(func() policy.Source {
		return policy.Source{Path: store.PolicyPath(), Named: store.Get().Policy != "", Unknown: store.PolicyUnknown()}
	})
	if e.auditLog != "" {
		e.log = audit.New(e.auditLog)
	}
}

// Decide says what becomes of a call of a tool on a host; signal is that of a
// process_kill, else "".
func (e *Elsewhere) Decide(tool, host, signal string) policy.Decision {
	e.begin.Do(e.open)
	p, _ := e.rules.Current() // one that cannot be read denies, and says why
	return p.DecideElsewhere(tool, host, signal)
}

// Ask gives out a token for what a person must agree to, [Elsewhere.Agreed] takes it
// back, once and for the same.
func (e *Elsewhere) Ask(what policy.Binding) (string, error) { return e.words.Issue(what) }

// Agreed uses a token up.
func (e *Elsewhere) Agreed(token string, what policy.Binding) error {
	return e.words.Redeem(token, what)
}

// Withdraw takes a token back unused, after a no.
func (e *Elsewhere) Withdraw(token string) { e.words.Revoke(token) }

// Write appends to the audit log. What is not written must not be done.
func (e *Elsewhere) Write(entry audit.Entry) error {
	e.begin.Do(e.open)
	if e.log == nil {
		return errors.Join(audit.ErrAudit, errors.New("there is no place for it"))
	}
	return e.log.Write(entry)
}

package policy

// This file holds confirmations: what a person agreed to, and nothing else.

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"sync"
	"time"
)

// A Binding is what a confirmation is for. It cannot be used for anything that
// differs in any field.
type Binding struct {
	Tool       string
	Host       string
	PID        int32
	StartTicks uint64
	BootID     string
	Signal     string
	Escalate   bool
	// Arguments are those of a call to another host, or a digest of them.
	Arguments string
}

// The errors of a confirmation that does not count.
var (
	ErrNoConfirmation = errors.New("no such confirmation: it was used, has expired, or was never given out")
	ErrOtherAction    = errors.New("the confirmation is for another action")
)

// Lifetime is how long a confirmation can be used.
const Lifetime = 2 * time.Minute

// mostPending bounds the confirmations that wait; the oldest goes.
const mostPending = 128

// Confirmations gives out tokens for actions that await a person's word, and
// takes each back once. The zero value is ready; it is safe for concurrent use.
type Confirmations struct {
	mu      sync.Mutex
	pending map[string]pending
}

type pending struct {
	binding Binding
	issued  time.Time
}

// Issue gives out a token for an action, to be handed to whoever asks the
// person.
func (c *Confirmations) Issue(b Binding) (string, error) {
	raw := make([]byte, 18)
	if _, err := rand.Read(raw); err != nil {
		return "", fmt.Errorf("no randomness for a confirmation: %w", err)
	}
	token := base64.RawURLEncoding.EncodeToString(raw)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pending == nil {
		c.pending = map[string]pending{}
	}
	c.expire()
	for len(c.pending) >= mostPending {
		c.dropOldest()
	}
	c.pending[token] = pending{b, time.Now()}
	return token, nil
}

// Redeem uses a token up. Whatever it returns, the token is gone: one that was
// tried for another action cannot be tried again.
func (c *Confirmations) Redeem(token string, b Binding) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.expire()
	p, ok := c.pending[token]
	if !ok {
		return ErrNoConfirmation
	}
	delete(c.pending, token)
	if p.binding != b {
		return ErrOtherAction
	}
	return nil
}

// Revoke takes a token back unused, after the person said no, and returns what it
// was for; false when there is no such token.
func (c *Confirmations) Revoke(token string) (Binding, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p, ok := c.pending[token]
	delete(c.pending, token)
	return p.binding, ok
}

func (c *Confirmations) expire() {
	for token, p := range c.pending {
		if time.Since(p.issued) >= Lifetime {
			delete(c.pending, token)
		}
	}
}

func (c *Confirmations) dropOldest() {
	oldest := ""
	for token, p := range c.pending {
		if oldest == "" || p.issued.Before(c.pending[oldest].issued) {
			oldest = token
		}
	}
	delete(c.pending, oldest)
}

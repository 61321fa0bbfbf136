package link

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

var (
	errNotConnected = errors.New("not connected")
	errClosed       = errors.New("connection closed")
	errDropped      = errors.New("connection closed to make another")
	errNoTicket     = errors.New("no such call is awaited")
	errForgotten    = errors.New("the host knows nothing of this call any more: its daemon ended, or the time for which replies are kept is over")
	errTooMuchLate  = errors.New("the replies that came late were too large to be kept")
	errSilent       = errors.New("the host does not answer")
	errEnded        = errors.New("channel: closed")
)

// Work is what became of the work of a call.
type Work string

// What can become of it.
const (
	NotStarted Work = "not started" // the call never reached the host
	GoesOn     Work = "goes on"     // the host said that it runs, and keeps it
	Unknown    Work = "unknown"     // it may have begun, and then it goes on
	Ended      Work = "ended"       // it ended with the connection
	Lost       Work = "lost"        // its reply cannot be had any more
	Cancelling Work = "cancelling"  // the host was told to cancel it
)

// BrokenError is a call whose connection broke.
type BrokenError struct {
	Host   string
	Work   Work
	Ticket uint64        // for Link.Collect; 0 if the reply cannot be had
	Kept   time.Duration // how long the reply is kept there
	Cause  error
}

func (e *BrokenError) Error() string {
	var work string
	switch e.Work {
	case NotStarted:
		work = "nothing was started there"
	case GoesOn:
		work = "the work goes on there"
	case Unknown:
		work = "whether the work had begun is not known; if so, it goes on there"
	case Ended:
		work = "the work there ended with it"
	case Lost:
		return fmt.Sprintf("remote %s: %v", e.Host, e.Cause)
	}
	if e.Ticket != 0 {
		work += fmt.Sprintf(", and its reply is kept for %v", e.Kept)
	}
	return fmt.Sprintf("remote %s: channel: closed before response: %v; %s; the next call connects again", e.Host, e.Cause, work)
}

// Unwrap returns the reason.
func (e *BrokenError) Unwrap() error { return e.Cause }

// ConnectError is a connection that could not be made: nothing was started.
type ConnectError struct {
	Host    string
	Cause   error
	RetryIn time.Duration // calls before that fail at once
}

func (e *ConnectError) Error() string {
	text := fmt.Sprintf("remote %s: %v", e.Host, e.Cause)
	if e.RetryIn >= time.Second {
		text += fmt.Sprintf("; it is tried again in %v", e.RetryIn.Round(time.Second))
	}
	return text
}

// Unwrap returns the reason: an *ssh.Error, a *frame.IncompatibleError, …
func (e *ConnectError) Unwrap() error { return e.Cause }

// DeadlineError is a call that was given up by this side.
type DeadlineError struct {
	Host   string
	After  time.Duration
	Work   Work
	Silent time.Duration // for how long the far side has given no sign of life; 0 if it has
	Ticket uint64        // for Link.Collect, where the far side is silent; 0 if the reply cannot be had
	Kept   time.Duration // how long the reply is kept there
	Err    error         // the context's
}

func (e *DeadlineError) Error() string {
	what := "no answer in time"
	if e.After > 0 {
		what = fmt.Sprintf("no answer in %v", e.After.Round(time.Millisecond))
	}
	if e.Silent > 0 {
		what += fmt.Sprintf(", and no sign of life for %v", e.Silent.Round(time.Second))
	}
	switch {
	case e.Work == NotStarted:
		what += "; the call was not made"
	case e.Work == GoesOn:
		what += "; the work goes on there"
	case e.Ticket != 0:
		what += "; whether the work had begun is not known; if so, it goes on there"
	default:
		what += "; the host was told to cancel it"
	}
	if e.Ticket != 0 {
		what += fmt.Sprintf(", and its reply is kept for %v", e.Kept)
	}
	return fmt.Sprintf("remote %s: %s", e.Host, what)
}

// Unwrap returns the context's error.
func (e *DeadlineError) Unwrap() error { return e.Err }

// RemoteError is a JSON-RPC error of the far side.
type RemoteError struct {
	Code    int64           `json:"code"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data,omitempty"`
}

func (e *RemoteError) Error() string { return e.Message }

func remoteError(raw json.RawMessage) error {
	e := &RemoteError{}
	if err := json.Unmarshal(raw, e); err != nil {
		return &RemoteError{Code: -32603, Message: "the host sent an error that cannot be read"}
	}
	return e
}

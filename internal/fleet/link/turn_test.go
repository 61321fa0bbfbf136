package link_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"topside/internal/fleet/frame"
	"topside/internal/fleet/link"
	"topside/internal/fleet/ssh"
)

// scripted is a far side that answers hello and then does what the test says.
type scripted struct {
	net.Conn
	in *frame.Reader
}

func dialScripted(t *testing.T, o link.Options) (*link.Link, *scripted) {
	t.Helper()
	near, far := net.Pipe()
	s := &scripted{far, frame.NewReader(far, 0)}
	o.Host, o.Surface = "far", "test"
	o.Dial = func(context.Context) (*ssh.Conn, error) { return ssh.NewConn(near, true), nil }
	l := link.New(o)
	t.Cleanup(func() {
		far.Close()
		l.Close()
	})
	greeted := make(chan struct{})
	go func() {
		defer close(greeted)
		_, body, err := s.in.Next()
		if err != nil {
			t.Error(err)
			return
		}
		n, _ := frame.DecodeNote(body)
		w := frame.Welcome{Protocol: frame.MaxProtocol, Capabilities: frame.Capabilities()}
		answer, _ := frame.Answer(n.ID, w, nil).Encode()
		s.send(frame.Control, answer)
	}()
	if err := l.Connect(within(t, 5*time.Second)); err != nil {
		t.Fatal(err)
	}
	<-greeted
	return l, s
}

func (s *scripted) send(k frame.Kind, body []byte) { _, _ = s.Write(frame.Append(nil, k, body)) }

// call returns the next call, and answers what else comes.
func (s *scripted) call() (frame.Envelope, error) {
	for {
		kind, body, err := s.in.Next()
		if err != nil {
			return frame.Envelope{}, err
		}
		if kind == frame.Control {
			if n, _ := frame.DecodeNote(body); n.ID != 0 {
				answer, _ := frame.Answer(n.ID, struct{}{}, nil).Encode()
				s.send(frame.Control, answer)
			}
			continue
		}
		if e, err := frame.Scan(body); err != nil || e.IsRequest() {
			return e, err
		}
	}
}

func reply(id json.RawMessage, result string) []byte {
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"result":%s}`, id, result)
}

// A call that reads the connection for itself ends with its deadline in the middle of a
// frame, and what follows of that frame is read by the next.
func TestADeadlineInTheMiddleOfAFrame(t *testing.T) {
	t.Parallel()
	l, far := dialScripted(t, link.Options{})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for i := range 6 {
			e, err := far.call()
			if err != nil {
				t.Error(err)
				return
			}
			answer := frame.Append(nil, frame.Message, reply(e.ID, fmt.Sprintf(`"%d"`, i)))
			if i%2 == 1 {
				_, _ = far.Write(answer[:2+i*3]) // in the head, in the body
				kind, body, err := far.in.Next()
				for err == nil && kind == frame.Control { // a ping, which has no place in the middle of a frame
					kind, body, err = far.in.Next()
				}
				if err != nil || !strings.Contains(string(body), "cancelled") {
					t.Errorf("after the deadline: %s %v", body, err)
				}
				answer = answer[2+i*3:]
			}
			_, _ = far.Write(answer)
		}
	}()
	for i := range 6 {
		wait := 5 * time.Second
		if i%2 == 1 {
			wait = 30 * time.Millisecond
		}
		ctx, cancel := context.WithTimeout(context.Background(), wait)
		began := time.Now()
		result, err := l.Call(ctx, "x", nil)
		cancel()
		var d *link.DeadlineError
		switch {
		case i%2 == 0 && (err != nil || string(result) != fmt.Sprintf(`"%d"`, i)):
			t.Fatalf("call %d: %s %v", i, result, err)
		case i%2 == 1 && !errors.As(err, &d):
			t.Fatalf("call %d: %s %v", i, result, err)
		case time.Since(began) > 3*time.Second:
			t.Errorf("call %d took %v", i, time.Since(began))
		}
	}
	<-ended
}

// Many calls at a time, of which any may be the one that reads, some of them given up:
// each gets its own answer.
func TestAnyCallMayBeTheOneThatReads(t *testing.T) {
	t.Parallel()
	l, far := dialScripted(t, link.Options{})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		var held []frame.Envelope
		for {
			e, err := far.call()
			if err != nil {
				return
			}
			// Answered in pairs, the later one first, so that each waits for another.
			if held = append(held, e); len(held) == 2 || e.Method == "now" {
				for i := len(held) - 1; i >= 0; i-- {
					far.send(frame.Message, reply(held[i].ID, string(held[i].Params)))
				}
				held = nil
			}
		}
	}()
	ctx := within(t, 20*time.Second)
	var group sync.WaitGroup
	for w := range 8 {
		group.Go(func() {
			for i := range 200 {
				want := fmt.Sprintf(`{"w":%d,"i":%d}`, w, i)
				call, cancel := ctx, context.CancelFunc(func() {})
				short := (w+i)%17 == 0
				if short {
					call, cancel = context.WithTimeout(ctx, time.Duration(i%3)*100*time.Microsecond)
				}
				method := "pair"
				if w == 0 {
					method = "now"
				}
				result, err := l.Call(call, method, json.RawMessage(want))
				cancel()
				if err != nil && short {
					continue
				}
				if err != nil || string(result) != want {
					t.Errorf("%s: %s %v", want, result, err)
					return
				}
			}
		})
	}
	// The last of the pairs may wait for a partner that does not come.
	stop := make(chan struct{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			case <-time.After(20 * time.Millisecond):
				_, _ = l.Call(ctx, "now", json.RawMessage(`0`))
			}
		}
	}()
	group.Wait()
	close(stop)
	<-done
	far.Close()
	<-ended
}

// What the far side says while no call is under way is heard soon after one has read
// for itself.
func TestTheConnectionIsReadBetweenCalls(t *testing.T) {
	t.Parallel()
	heard := make(chan string, 1)
	l, far := dialScripted(t, link.Options{Notifications: func(method string, _ json.RawMessage) { heard <- method }})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for i := range 3 {
			e, err := far.call()
			if err != nil {
				t.Error(err)
				return
			}
			far.send(frame.Message, reply(e.ID, fmt.Sprint(i)))
		}
		far.send(frame.Message, []byte(`{"jsonrpc":"2.0","method":"news"}`))
	}()
	for range 3 {
		if _, err := l.Call(within(t, 5*time.Second), "x", nil); err != nil {
			t.Fatal(err)
		}
	}
	select {
	case <-heard:
	case <-time.After(5 * time.Second):
		t.Error("a notification between calls was not heard")
	}
	<-ended
	far.Close()
	for l.State().Phase == link.Connected {
		time.Sleep(time.Millisecond) // the test's own deadline bounds it
	}
}

// A far side that gives no sign of life cannot be told to cancel: what it was asked
// for goes on as after a break, and its reply is collected when it comes.
func TestADeadlineOfASilentFarSide(t *testing.T) {
	t.Parallel()
	l, far := dialScripted(t, link.Options{Ping: 50 * time.Millisecond})
	answer, told := make(chan struct{}), make(chan string, 100)
	go func() {
		e, err := far.call()
		if err != nil {
			t.Error(err)
			return
		}
		go func() {
			<-answer
			far.send(frame.Message, reply(e.ID, `"late"`))
		}()
		for {
			kind, body, err := far.in.Next()
			if err != nil {
				return
			}
			if kind == frame.Message {
				told <- string(body)
			}
		}
	}()
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	_, err := l.Call(ctx, "x", nil)
	var d *link.DeadlineError
	if !errors.As(err, &d) || d.Ticket == 0 || d.Silent == 0 || !strings.Contains(err.Error(), "if so, it goes on there") {
		t.Fatalf("%v", err)
	}
	if len(told) > 0 {
		t.Errorf("a far side that does not listen was told %s", <-told)
	}
	if _, err = l.Collect(within(t, 50*time.Millisecond), d.Ticket); !errors.As(err, new(*link.DeadlineError)) {
		t.Errorf("nothing is there to collect yet, and %v", err)
	}
	close(answer)
	if result, err := l.Collect(within(t, 5*time.Second), d.Ticket); err != nil || string(result) != `"late"` {
		t.Errorf("collected %s %v", result, err)
	}
}

// One that answers pings is told to cancel, as ever.
func TestADeadlineOfAFarSideThatLives(t *testing.T) {
	t.Parallel()
	l, far := dialScripted(t, link.Options{Ping: 50 * time.Millisecond})
	go func() {
		for {
			if _, err := far.call(); err != nil {
				return
			}
		}
	}()
	_, err := l.Call(within(t, 3*time.Second), "x", nil)
	var d *link.DeadlineError
	if !errors.As(err, &d) || d.Ticket != 0 || !strings.Contains(err.Error(), "told to cancel") {
		t.Errorf("%v", err)
	}
}

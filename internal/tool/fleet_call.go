package tool

// This file calls a tool on one other host: whether that is permitted, the form of
// the call, what comes back, and what a person is asked on the way.

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"topside/internal/fleet/frame"
	"topside/internal/fleet/host"
	"topside/internal/fleet/link"
	"topside/internal/see/plaintext"
	"topside/internal/steer"
	"topside/internal/steer/audit"
	"topside/internal/steer/policy"
)

// The members of the metadata with which a call needs no handshake (MCP 2026-07-28).
const (
	callProtocol     = `"io.modelcontextprotocol/protocolVersion":"2026-07-28"`
	callClient       = `"io.modelcontextprotocol/clientInfo":`
	callCapabilities = `"io.modelcontextprotocol/clientCapabilities":`
)

// The states of questions: which side asked.
const (
	askedHere  = "here:"
	askedThere = "there:"
)

// longestState bounds what a host gives with a question, in bytes.
const longestState = 4096

// one makes a call on one host.
func (r *remote) one(ctx context.Context, t *Tool, call Call, name string) (Result, error) {
	deadline := oneDeadline
	if t.Toolset == Compute {
		deadline = evalDeadline
	}
	ctx, stop := context.WithTimeout(ctx, deadline)
	defer stop()
	begun := func() {
		if call.Begun != nil {
			call.Begun()
		}
	}
	answer, err := r.on(ctx, t, call, name, nil, begun, true)
	if err != nil {
		return Result{}, r.farError(t.Name, name, err)
	}
	return answer, nil
}

// on makes a call on a host: permitted, written down where it must be, and asked of a
// person where it must be and can.
func (r *remote) on(ctx context.Context, t *Tool, call Call, name string, instead map[string]json.RawMessage, begun func(), ask bool) (Result, error) {
	reads := onlyReads(t, call)
	if err := r.fleet.Permit(name, t.Name, reads); err != nil {
		return Result{}, err
	}
	arguments := call.forwarded(instead)
	signal := ""
	if t.Name == killTool {
		if signal = call.Text("signal"); signal == "" {
			signal = "TERM"
		}
	}
	sum := sha256.Sum256(arguments)
	binding := policy.Binding{Tool: t.Name, Host: name, Signal: signal, Arguments: hex.EncodeToString(sum[:])}
	word, question, err := r.permitted(t, &call, binding, arguments, reads, ask)
	if err != nil || question != nil {
		return Result{Question: question}, err
	}
	do := func() (Result, error) {
		result, err := r.collectOrCall(ctx, t, call, name, arguments, begun)
		if q := result.Question; q != nil {
			err = r.pass(q, word, binding)
		}
		return result, err
	}
	if t.Toolset != Steer || reads {
		return do()
	}
	return writtenDown(r.judge, audit.Entry{
		Tool: t.Name, Host: name, Client: call.Client, PID: pidOf(call), Signal: signal,
		Verdict: string(word.Verdict), PolicyLine: word.Line, Confirmed: word.Verdict == policy.Confirm,
	}, do, outcomeOf)
}

// writtenDown makes a change elsewhere between two lines of the audit log; outcome is
// what the second says of it. What cannot be written down is not made. Without a judge
// there is no log.
func writtenDown[T any](judge *steer.Elsewhere, entry audit.Entry, do func() (T, error), outcome func(T, error) (string, string)) (T, error) {
	if judge == nil {
		return do()
	}
	entry.Stage = "decided"
	if err := judge.Write(entry); err != nil {
		var none T
		return none, &FleetError{"audit_failed", line(err.Error()) + "; nothing was done", "make the audit log of this machine writable"}
	}
	result, err := do()
	entry.Stage = "done"
	entry.Outcome, entry.Reason = outcome(result, err)
	if werr := judge.Write(entry); werr != nil && err == nil {
		err = &FleetError{"audit_failed", "it was done, but " + line(werr.Error()), ""}
	}
	return result, err
}

// pidOf is the process that a call names, 0 for none.
func pidOf(call Call) int32 {
	pid, ok := call.Integer("pid")
	if !ok || pid.Negative || pid.Magnitude > 1<<31-1 {
		return 0
	}
	return int32(pid.Magnitude)
}

// outcomeOf is what the audit log says of an answer.
func outcomeOf(r Result, err error) (outcome, reason string) {
	switch {
	case err != nil:
		return "failed", line(err.Error())
	case r.Question != nil:
		return "needs confirmation", ""
	case r.Foreign == nil:
		return "", ""
	}
	var said struct {
		Outcome string `json:"outcome"`
		Reason  string `json:"reason"`
		Error   Failure
	}
	_ = json.Unmarshal(r.Foreign.Structured, &said)
	switch {
	case r.Foreign.Failed:
		return "failed", line(said.Error.Message)
	case said.Outcome == "":
		return "done", ""
	}
	return line(said.Outcome), line(said.Reason)
}

// pass makes the question of a host one of this side. Where a person had to agree
// here before, the answer must come with a word that tells so.
func (r *remote) pass(q *Question, word policy.Decision, binding policy.Binding) error {
	token := ""
	if word.Verdict == policy.Confirm {
		var err error
		if token, err = r.judge.Ask(binding); err != nil {
			return err
		}
	}
	q.State = askedThere + token + ":" + q.State
	return nil
}

// permitted asks the policy of this machine. A question is to be put to a person
// first. What is left of the call's answer is for the host.
func (r *remote) permitted(t *Tool, call *Call, binding policy.Binding, arguments json.RawMessage, reads, ask bool) (policy.Decision, *Question, error) {
	name, token := binding.Host, ""
	answer := call.Answer
	call.Answer = nil
	if answer != nil {
		if state, there := strings.CutPrefix(answer.State, askedThere); there {
			state, theirs, _ := strings.Cut(state, ":")
			token, call.Answer = state, &Answer{State: theirs, Agreed: answer.Agreed, Why: answer.Why}
		} else {
			token = strings.TrimPrefix(answer.State, askedHere)
		}
	}
	if r.judge == nil {
		return policy.Decision{Verdict: policy.Allow}, nil, nil
	}
	d := r.judge.Decide(t.Name, name, binding.Signal)
	because := ""
	if d.Reason != "" {
		because = ": " + told(d.Reason)
	}
	switch {
	case d.Verdict == policy.Deny:
		why := "the policy of this machine denies it" + because
		if d.Line > 0 {
			why = fmt.Sprintf("line %d of the policy of this machine denies it%s", d.Line, because)
		}
		return d, nil, &host.PolicyError{Host: name, Tool: t.Name, Why: why}
	case d.Verdict != policy.Confirm, reads:
		return d, nil, nil
	}
	refused := func(why string) error {
		return &host.PolicyError{Host: name, Tool: t.Name, Why: fmt.Sprintf("line %d of the policy of this machine wants a person's word, and %s", d.Line, why)}
	}
	if !ask {
		return d, nil, refused("nobody is asked for many hosts at a time: call it with host")
	}
	if answer == nil {
		token, err := r.judge.Ask(binding)
		if err != nil {
			return d, nil, refused(line(err.Error()))
		}
		shown, _ := plaintext.Bounded(string(arguments), 300)
		return d, &Question{Message: fmt.Sprintf("Call %s on host %s with %s? The policy asks for your word%s", t.Name, name, shown, because), State: askedHere + token}, nil
	}
	if !answer.Agreed && call.Answer == nil { // one of the host's hears of a no itself
		r.judge.Withdraw(token)
		return d, nil, refused(answer.Why)
	}
	if err := r.judge.Agreed(token, binding); err != nil {
		return d, nil, refused(line(err.Error()))
	}
	return d, nil, nil
}

// A ticket is a call that a broken connection left behind.
type ticket struct {
	number  uint64
	until   time.Time
	host    string
	session string // of a run of eval
	run     bool   // poll has its result as well
}

// collected is said with a reply that an earlier call lost: the work was not done again.
const collected = "This is the reply of the same call before, whose connection broke or was silent; nothing was run again."

// mostTickets bounds those that are kept.
const mostTickets = 256

// collectOrCall collects the reply that an earlier call with the same arguments lost
// its connection before, or makes the call.
func (r *remote) collectOrCall(ctx context.Context, t *Tool, call Call, name string, arguments json.RawMessage, begun func()) (Result, error) {
	key := name + "\x00" + t.Name + "\x00" + string(arguments)
	var raw json.RawMessage
	var err error
	kept, late := r.ticket(key)
	if late {
		var l *link.Link
		if l, err = r.fleet.Link(name); err != nil {
			return Result{}, err
		}
		begun()
		raw, err = l.Collect(ctx, kept.number)
		var answered *link.RemoteError
		var broken *link.BrokenError
		if err == nil || errors.As(err, &answered) || errors.As(err, &broken) && broken.Work != link.GoesOn && broken.Work != link.Unknown {
			r.setTicket(key, ticket{})
		}
	} else {
		raw, err = r.send(ctx, t, call, name, arguments, begun)
	}
	var broken *link.BrokenError
	var silent *link.DeadlineError
	left := ticket{host: name, run: t.Name == "eval" || t.Name == "eval_batch"}
	left.session, _, _ = Places(arguments)
	switch {
	case errors.As(err, &broken) && broken.Ticket != 0:
		left.number, left.until = broken.Ticket, time.Now().Add(broken.Kept)
		r.setTicket(key, left)
	case errors.As(err, &silent) && silent.Ticket != 0:
		left.number, left.until = silent.Ticket, time.Now().Add(silent.Kept)
		r.setTicket(key, left)
	}
	if err != nil {
		return Result{}, err
	}
	answer, err := r.received(t, name, raw)
	switch {
	case err != nil || answer.Foreign == nil:
	case late:
		answer.Foreign.say(collected)
	case t.Name == "poll":
		r.polled(left, answer.Foreign)
	}
	return answer, err
}

// say adds a block of text.
func (f *Foreign) say(text string) {
	inside := bytes.TrimSpace(f.Content[1:bytes.LastIndexByte(f.Content, ']')])
	content := append([]byte{'['}, inside...)
	if len(inside) > 0 {
		content = append(content, ',')
	}
	f.Content = append(append(append(content, `{"type":"text","text":`...), encode(text)...), "}]"...)
}

// polled forgets the runs of a session whose result poll has brought: who calls the
// same again wants it run again.
func (r *remote) polled(of ticket, f *Foreign) {
	var said struct{ State string }
	if f.Failed || json.Unmarshal(f.Structured, &said) != nil || said.State == "running" || said.State == "opening" {
		return
	}
	r.ticketsMu.Lock()
	defer r.ticketsMu.Unlock()
	for key, kept := range r.tickets {
		if kept.run && kept.host == of.host && kept.session == of.session {
			delete(r.tickets, key)
		}
	}
}

func (r *remote) ticket(key string) (ticket, bool) {
	r.ticketsMu.Lock()
	defer r.ticketsMu.Unlock()
	kept, ok := r.tickets[key]
	if ok && time.Now().After(kept.until) {
		delete(r.tickets, key)
		return kept, false
	}
	return kept, ok
}

// setTicket keeps a ticket; one without a number is forgotten.
func (r *remote) setTicket(key string, t ticket) {
	r.ticketsMu.Lock()
	defer r.ticketsMu.Unlock()
	if t.number == 0 {
		delete(r.tickets, key)
		return
	}
	for old, kept := range r.tickets {
		if len(r.tickets) < mostTickets {
			break
		}
		if time.Now().After(kept.until) || len(r.tickets) >= mostTickets {
			delete(r.tickets, old)
		}
	}
	r.tickets[key] = t
}

// send makes the call itself.
func (r *remote) send(ctx context.Context, t *Tool, call Call, name string, arguments json.RawMessage, begun func()) (json.RawMessage, error) {
	b := make([]byte, 0, len(arguments)+512)
	b = append(append(b, `{"name":`...), encode(t.Name)...)
	b = append(append(b, `,"arguments":`...), arguments...)
	b = append(b, `,"_meta":{`...)
	if t.Toolset == Steer && !onlyReads(t, call) {
		// It may ask a person, and writes down who called. The form for that costs the
		// host more than a simple call is worth.
		b = append(append(append(b, callProtocol...), ','), callClient...)
		b = append(b, encode(map[string]string{"name": strings.TrimSpace(call.Client + " through topside"), "version": r.version})...)
		b = append(append(append(b, ','), callCapabilities...), '{')
		if call.CanAsk {
			b = append(b, `"elicitation":{"form":{}}`...)
		}
		b = append(b, '}', ',')
	}
	if call.Progress != nil {
		token, stop := r.listen(ctx, name, call.Progress)
		defer stop()
		b = strconv.AppendUint(append(b, `"progressToken":`...), token, 10)
	}
	b = append(bytes.TrimSuffix(b, []byte{','}), '}')
	if a := call.Answer; a != nil {
		action := "cancel"
		switch {
		case a.Agreed:
			action = "accept"
		case a.Why == "the person declined":
			action = "decline"
		}
		b = append(append(b, `,"inputResponses":{"confirm":{"action":`...), encode(action)...)
		b = append(append(b, `,"content":{}}},"requestState":`...), encode(a.State)...)
	}
	b = append(b, '}')
	return r.fleet.Call(link.WithSent(ctx, begun), name, "tools/call", b)
}

// received makes a Result of what a host answered. The bytes are valid JSON; all else
// is the host's word.
func (r *remote) received(t *Tool, name string, raw json.RawMessage) (Result, error) {
	raw, err := frame.OneLine(raw) // clients read lines
	if err != nil {
		return Result{}, err
	}
	if !utf8.Valid(raw) {
		raw = bytes.ToValidUTF8(raw, []byte("\ufffd"))
	}
	var content, structured, kind, state, requests, failed []byte
	frame.Members(raw, func(member string, value []byte) {
		switch member {
		case "content":
			content = value
		case "structuredContent":
			structured = value
		case "isError":
			failed = value
		case "resultType":
			kind = value
		case "requestState":
			state = value
		case "inputRequests":
			requests = value
		}
	})
	odd := func(what string) error {
		return &FleetError{"host_failed", fmt.Sprintf("host %s answered %s with something that is no answer of a tool: %s", name, t.Name, what), "upgrade it there: topside hosts install " + name}
	}
	if string(kind) == `"input_required"` {
		q, err := questionFrom(name, state, requests)
		if err != nil || t.Annotations.ReadOnly {
			return Result{}, odd("a question that cannot be put")
		}
		return Result{Question: q}, nil
	}
	switch {
	case len(raw) > longestForeign:
		return Result{}, &FleetError{"too_large", fmt.Sprintf("host %s answered with %d bytes, more than %d", name, len(raw), longestForeign), "ask for less: a limit, a filter"}
	case len(content) == 0 || content[0] != '[':
		return Result{}, odd("it has no content")
	case structured != nil && structured[0] != '{':
		return Result{}, odd("its structured content is no object")
	case failed != nil && string(failed) != "true" && string(failed) != "false":
		return Result{}, odd("isError is no boolean")
	case structured == nil && t.Output != nil:
		return Result{}, odd("it has no structured content")
	}
	return Result{Foreign: &Foreign{Content: content, Structured: structured, Failed: bytes.Equal(failed, []byte("true"))}}, nil
}

// longestForeign bounds the answer of a host, in bytes: no tool of this version
// answers with more.
const longestForeign = 4 << 20

// questionFrom is a host's question to a person.
func questionFrom(name string, state, requests []byte) (*Question, error) {
	token, ok := textOf(state)
	var all map[string]struct {
		Params struct {
			Message string `json:"message"`
		} `json:"params"`
	}
	if err := json.Unmarshal(requests, &all); err != nil {
		return nil, err
	}
	asked, there := all["confirm"]
	if !ok || !there || len(token) > longestState || asked.Params.Message == "" {
		return nil, errors.New("no question")
	}
	message, _ := plaintext.Bounded(asked.Params.Message, 2000)
	return &Question{Message: "On host " + name + ": " + message, State: token}, nil
}

// progressing is a call that its client wants to hear of.
type progressing struct {
	host  string
	lines chan string // has room for some; what does not fit is dropped
}

// listen passes on what a host tells of a call until stop.
func (h *Hosts) listen(ctx context.Context, name string, tell func(string)) (token uint64, stop func()) {
	p := progressing{name, make(chan string, 16)}
	h.mu.Lock()
	h.lastToken++
	token = h.lastToken
	h.listening[token] = p
	h.mu.Unlock()
	ended, over := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(over)
		for {
			select {
			case text := <-p.lines:
				tell(text)
			case <-ended:
				return
			case <-ctx.Done():
				return
			}
		}
	}()
	return token, func() {
		h.mu.Lock()
		delete(h.listening, token)
		h.mu.Unlock()
		close(ended)
		<-over
	}
}

// notified takes what a host tells. It does not block.
func (h *Hosts) notified(name, method string, params json.RawMessage) {
	if method != "notifications/progress" {
		return
	}
	var p struct {
		Token   json.RawMessage `json:"progressToken"`
		Message string          `json:"message"`
	}
	if json.Unmarshal(params, &p) != nil {
		return
	}
	token, err := strconv.ParseUint(string(p.Token), 10, 64)
	if err != nil {
		return
	}
	h.mu.Lock()
	to, ok := h.listening[token]
	h.mu.Unlock()
	if !ok || to.host != name {
		return
	}
	shown, _ := plaintext.Bounded(p.Message, 200)
	select {
	case to.lines <- "host " + name + ": " + shown:
	default:
	}
}

package tool

// This file calls a tool on many hosts at a time, and puts their answers together: a
// result for each with a status of its own, within one greatest length.

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"topside/internal/fleet/frame"
	"topside/internal/fleet/host"
	"topside/internal/fleet/route"
	"topside/internal/see/plaintext"
)

// longestMany bounds the answers of many hosts together, in bytes, once as structured
// content and once as text: about ten thousand tokens.
const longestMany = 40_000

// A part is what one of many hosts answered.
type part struct {
	host       string
	status     route.Status
	took       time.Duration
	structured json.RawMessage // as it came; nil for none
	content    json.RawMessage
	failure    *Failure
}

func (r *remote) many(ctx context.Context, t *Tool, call Call) (Result, error) {
	if t.Name == alertsTool && !onlyReads(t, call) {
		return Result{}, call.Fault(hostsArgument, "only lists alerts; acknowledge and suppress them with host, one host at a time")
	}
	names, unknown, err := r.selected(t, call)
	if err != nil {
		return Result{}, err
	}
	if t.Name == "list_resources" {
		return r.manyRows(ctx, t, call, names, unknown)
	}
	if call.Has("snapshot_id") && len(names) > 1 {
		return Result{}, call.Fault(hostsArgument, "cannot be combined with \"snapshot_id\" for more than one host: a snapshot belongs to one; use max_age_ms")
	}
	parts := append(r.each(ctx, t, call, names, nil), unknown...)
	if err := ctx.Err(); err != nil {
		return Result{}, err
	}
	return together(parts)
}

// selected are the names that a call chooses; a name that is not known is a part of
// its own.
func (r *remote) selected(t *Tool, call Call) (names []string, unknown []part, err error) {
	selection := namesIn(call.Texts(hostsArgument))
	if len(selection) == 0 {
		return nil, nil, call.Fault(hostsArgument, "must name at least one host: names, tag:NAME, or * for this machine and all")
	}
	for _, s := range selection {
		found, err := r.fleet.Select([]string{s})
		var missing *host.UnknownError
		if errors.As(err, &missing) {
			failure := Describe(r.farError(t.Name, s, err), "unknown_host")
			shown, _ := plaintext.Bounded(s, 253)
			unknown = append(unknown, part{host: shown, status: route.UnknownHost, failure: &failure})
			continue
		}
		if err != nil {
			return nil, nil, call.Fault(hostsArgument, "is refused: %v; it takes names, tag:NAME and *", err)
		}
		for _, name := range found {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names, unknown, nil
}

// namesIn takes names apart that were sent in one string, as people write them: a name
// has neither commas nor spaces.
func namesIn(selection []string) []string {
	var names []string
	for _, s := range selection {
		parts := strings.FieldsFunc(s, func(r rune) bool { return r == ',' || r == ' ' })
		if len(parts) == 0 {
			parts = []string{s} // refused by its own name
		}
		names = append(names, parts...)
	}
	return names
}

// each calls a tool on many hosts, this machine among them where it is named. instead
// are arguments to be sent in place of those that came.
func (r *remote) each(ctx context.Context, t *Tool, call Call, names []string, instead map[string]json.RawMessage) []part {
	answered := func() {}
	if tell := call.Progress; tell != nil {
		var count atomic.Int64
		var over atomic.Bool
		defer over.Store(true) // one that is left behind at its deadline tells nothing
		answered = func() {
			if !over.Load() {
				tell(fmt.Sprintf("%d of %d hosts are done", count.Add(1), len(names)))
			}
		}
	}
	call.Progress, call.Advance, call.CanAsk, call.Answer = nil, nil, false, nil
	here := call.without(hostsArgument)
	outcomes := route.Each(ctx, names, deadlineOf(t, call), func(ctx context.Context, name string) (json.RawMessage, error) {
		defer answered()
		begun := func() {}
		if call.Turn != nil {
			begun = call.Turn(ctx, Place(name))
		}
		defer begun()
		if host.IsLocal(name) {
			here := here
			here.Begun = begun
			return local(ctx, t, here.with(instead))
		}
		answer, err := r.on(ctx, t, call, name, instead, begun, false)
		if err != nil {
			return nil, r.farError(t.Name, name, err)
		}
		if answer.Question != nil {
			return nil, &FleetError{"denied", "host " + name + " asks a person first", "call it with host, not hosts"}
		}
		return sealed(answer.Foreign), nil
	})
	parts := make([]part, len(outcomes))
	for i, o := range outcomes {
		parts[i] = partOf(o)
	}
	return parts
}

// with returns the call with other arguments in place of some.
func (c Call) with(instead map[string]json.RawMessage) Call {
	for name, sent := range instead {
		c = c.without(name)
		if p, ok := c.tool.property(name); ok && sent != nil {
			if v, ok := coerce(p, sent); ok {
				c.values = append(c.values, value{name, v})
			}
		}
	}
	return c
}

// sealed is the answer of a host as one object, to pass through package route.
func sealed(f *Foreign) json.RawMessage {
	b := make([]byte, 0, len(f.Content)+len(f.Structured)+64)
	b = append(append(b, `{"content":`...), f.Content...)
	if f.Structured != nil {
		b = append(append(b, `,"structuredContent":`...), f.Structured...)
	}
	b = strconv.AppendBool(append(b, `,"isError":`...), f.Failed)
	return append(b, '}')
}

// local is the answer of this machine in the same form.
func local(ctx context.Context, t *Tool, call Call) (json.RawMessage, error) {
	answer, err := t.Handler(ctx, call)
	if err != nil {
		return nil, err
	}
	if answer.Question != nil {
		return nil, &FleetError{"denied", "a person is asked first on this machine", "call it without hosts"}
	}
	structured, err := marshal(answer.Structured)
	if err != nil {
		return nil, err
	}
	if answer.Text == "" {
		answer.Text = string(structured)
	}
	content := append(append([]byte(`[{"type":"text","text":`), encode(answer.Text)...), "}]"...)
	return sealed(&Foreign{Content: content, Structured: structured}), nil
}

func partOf(o route.Outcome) part {
	p := part{host: o.Host, status: o.Status, took: o.Took}
	if o.Err != nil {
		p.status = fleetStatus(o.Err)
		var argument *ArgumentError
		var rpc *RemoteError
		var failure Failure
		switch {
		case errors.As(o.Err, &argument), errors.As(o.Err, &rpc):
			failure = Failure{Code: "invalid_argument", Message: line(o.Err.Error())}
		default:
			failure = Describe(o.Err, string(p.status))
		}
		p.failure = &failure
		return p
	}
	failed := false
	frame.Members(o.Result, func(name string, value []byte) {
		switch name {
		case "content":
			p.content = value
		case "structuredContent":
			p.structured = value
		case "isError":
			failed = string(value) == "true"
		}
	})
	if failed {
		p.status = route.Failed
		var said struct{ Error Failure }
		_ = json.Unmarshal(p.structured, &said)
		p.failure = &Failure{said.Error.Code, line(said.Error.Message), line(said.Error.Hint)}
		if p.failure.Message == "" {
			p.failure.Message, _ = plaintext.Bounded(p.text(2000), 500)
		}
	}
	return p
}

// text is the text blocks of an answer, as far as they may be needed.
func (p *part) text(most int) string {
	var blocks []struct {
		Text string `json:"text"`
	}
	_ = json.Unmarshal(p.content, &blocks)
	var b strings.Builder
	for i, block := range blocks {
		if i > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(block.Text)
		if b.Len() > most {
			break
		}
	}
	return strings.TrimRight(b.String(), "\n")
}

// head are the members of a part that all have, without the brace at the end.
func (p *part) head(b []byte) []byte {
	b = append(append(b, `{"host":`...), encode(p.host)...)
	b = append(append(b, `,"status":`...), encode(string(p.status))...)
	b = strconv.AppendInt(append(b, `,"took_ms":`...), p.took.Milliseconds(), 10)
	if p.failure != nil {
		b = append(append(b, `,"error":`...), encode(p.failure)...)
	}
	return b
}

// line is a part in words.
func (p *part) line() string {
	text := fmt.Sprintf("%s: %s, %d ms", p.host, p.status, p.took.Milliseconds())
	if p.failure != nil {
		text = fmt.Sprintf("%s: %s", p.host, p.status)
		if p.failure.Message != "" {
			text += ": " + p.failure.Message
		}
		if p.failure.Hint != "" {
			text += " (next: " + p.failure.Hint + ")"
		}
	}
	return text
}

// share is the greatest length that all may have so that the sum of lengths, none
// longer than that, is at most whole: what the short ones leave is the long ones'.
func share(lengths []int, whole int) int {
	sorted := slices.Sorted(slices.Values(lengths))
	for i, length := range sorted {
		each := whole / (len(sorted) - i)
		if length > each {
			return each
		}
		whole -= length
	}
	return longestForeign
}

// leastShare is how much text of a host is worth showing, in bytes.
const leastShare = 120

// together is the answer of many hosts, one after the other. Where they are too long
// together, the longest are cut: of them the beginning of their text is kept.
func together(parts []part) (Result, error) {
	structuredLengths, textLengths := make([]int, len(parts)), make([]int, len(parts))
	texts := make([]string, len(parts))
	ok := 0
	for i := range parts {
		p := &parts[i]
		texts[i] = p.text(longestMany)
		if p.failure != nil && p.status == route.Failed {
			texts[i] = "" // it is told in the line
		}
		structuredLengths[i], textLengths[i] = len(p.structured), len(texts[i])
		if p.status == route.OK {
			ok++
		}
	}
	structuredShare, textShare := max(share(structuredLengths, longestMany), leastShare), max(share(textLengths, longestMany), leastShare)
	var b []byte
	var text strings.Builder
	b = fmt.Appendf(b, `{"answered":%d,"failed":%d,"hosts":[`, ok, len(parts)-ok)
	fmt.Fprintf(&text, "%d of %d hosts answered\n", ok, len(parts))
	for i := range parts {
		p := &parts[i]
		if i > 0 {
			b = append(b, ',')
		}
		b = p.head(b)
		switch {
		case p.failure != nil || p.structured == nil:
		case len(p.structured) <= structuredShare:
			b = append(append(b, `,"result":`...), p.structured...)
		default:
			b = fmt.Appendf(b, `,"left_out":%d,"text":`, len(p.structured))
			b = append(b, encode(cutText(texts[i], structuredShare))...)
		}
		b = append(b, '}')
		fmt.Fprintf(&text, "== %s\n", p.line())
		if texts[i] != "" {
			text.WriteString(cutText(texts[i], textShare))
			text.WriteByte('\n')
		}
	}
	return Result{Structured: json.RawMessage(append(b, "]}"...)), Text: text.String()}, nil
}

// cutText keeps whole lines of a text, as many as fit, and says what is missing.
func cutText(text string, most int) string {
	if len(text) <= most {
		return text
	}
	kept := text[:most]
	if at := strings.LastIndexByte(kept, '\n'); at > most/2 {
		kept = kept[:at]
	}
	kept = strings.ToValidUTF8(kept, "")
	return fmt.Sprintf("%s\n… %d bytes left out: ask this host alone, with host", kept, len(text)-len(kept))
}

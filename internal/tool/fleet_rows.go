package tool

// This file merges the lists of many hosts: their rows are sorted and limited
// together, and each names its host.

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"topside/internal/fleet/route"
	"topside/internal/see/plaintext"
)

// A farRow is a row of one of many hosts.
type farRow struct {
	raw json.RawMessage
	row row
}

// farList is what a merged list needs of a host's own.
type farList struct {
	Snapshot struct {
		ID string `json:"snapshot_id"`
	} `json:"snapshot"`
	Matched int               `json:"matched"`
	Absent  map[string]string `json:"absent"`
	Data    []json.RawMessage `json:"data"`
}

// longestListing is the greatest limit of a list; a merged one needs all rows up to
// its end from each host.
const longestListing = 1000

func (r *remote) manyRows(ctx context.Context, t *Tool, call Call, names []string, unknown []part) (Result, error) {
	for _, a := range []string{"snapshot_id", "parent"} {
		if call.Has(a) && len(names) > 1 {
			return Result{}, call.Fault(hostsArgument, "cannot be combined with %q for more than one host: a snapshot belongs to one; use max_age_ms", a)
		}
	}
	limit, _ := call.Integer("limit")
	offset, _ := call.Integer("offset")
	end := min(limit.Int(), longestListing) + min(offset.Int(), longestListing)
	if end > longestListing {
		return Result{}, call.Fault("offset", "and limit together must be at most %d for many hosts; use a filter, or one host", longestListing)
	}
	parts := r.each(ctx, t, call, names, map[string]json.RawMessage{"limit": encode(end), "offset": nil})
	if err := ctx.Err(); err != nil {
		return Result{}, err
	}
	parts = append(parts, unknown...)
	outcomes := make([]route.Outcome, len(parts))
	lists := make([]farList, len(parts))
	for i := range parts {
		outcomes[i] = route.Outcome{Host: parts[i].host, Status: parts[i].status, Result: encode(i)}
	}
	decode := func(index json.RawMessage) ([]farRow, error) {
		var i int
		if err := json.Unmarshal(index, &i); err != nil {
			return nil, err
		}
		if err := json.Unmarshal(parts[i].structured, &lists[i]); err != nil {
			return nil, fmt.Errorf("its list cannot be read: %w", err)
		}
		rows := make([]farRow, len(lists[i].Data))
		for j, raw := range lists[i].Data {
			rows[j].raw = raw
			if err := json.Unmarshal(raw, &rows[j].row); err != nil || raw[0] != '{' || len(raw) < 3 {
				return nil, fmt.Errorf("row %d of its list cannot be read: %v", j, err)
			}
		}
		return rows, nil
	}
	items, _ := route.Merge(outcomes, decode, rowOrder(call), int(end))
	for i := range parts {
		if outcomes[i].Status != parts[i].status {
			parts[i].status = outcomes[i].Status
			parts[i].failure = &Failure{Code: "host_failed", Message: line(outcomes[i].Err.Error())}
		}
	}
	items = items[min(int(offset.Int()), len(items)):]
	return merged(call, parts, lists, items, int(min(offset.Int(), longestListing)))
}

// rowOrder compares rows as the call wants them sorted; what is unknown comes last.
func rowOrder(call Call) func(a, b farRow) int {
	by, ascending := call.Text("sort_by"), call.Text("sort_order") == "asc"
	directed := func(c int) int {
		if ascending {
			return c
		}
		return -c
	}
	return func(a, b farRow) int {
		switch by {
		case "name":
			return directed(strings.Compare(a.row.Usage.Name, b.row.Usage.Name))
		case "memory":
			return knownFirst(a.row.Usage.MemoryBytes, b.row.Usage.MemoryBytes, directed)
		}
		return knownFirst(a.row.Usage.CPUPercent, b.row.Usage.CPUPercent, directed)
	}
}

func knownFirst[T cmp.Ordered](a, b *T, directed func(int) int) int {
	switch {
	case a == nil && b == nil:
		return 0
	case a == nil:
		return 1
	case b == nil:
		return -1
	}
	return directed(cmp.Compare(*a, *b))
}

// merged writes the list of many hosts.
func merged(call Call, parts []part, lists []farList, items []route.From[farRow], offset int) (Result, error) {
	matched, answered := 0, 0
	for i := range parts {
		if parts[i].status == route.OK {
			matched += lists[i].Matched
			answered++
		}
	}
	var rows []byte
	var lines strings.Builder
	returned := 0
	for _, item := range items {
		if len(rows)+len(item.Item.raw) > longestList && returned > 0 {
			break
		}
		if returned > 0 {
			rows = append(rows, ',')
		}
		rows = append(append(append(rows, `{"host":`...), encode(item.Host)...), ',')
		rows = append(rows, strings.TrimLeft(string(item.Item.raw[1:]), " \t\r\n")...)
		lines.WriteString(item.Host + " " + plaintext.Line(item.Item.row.text()) + "\n")
		returned++
	}
	left := max(matched-offset-returned, 0)
	b := fmt.Appendf(nil, `{"matched":%d,"returned":%d,"left_out":%d`, matched, returned, left)
	if left > 0 && returned > 0 {
		b = fmt.Appendf(b, `,"next_offset":%d`, offset+returned)
	}
	cut := ""
	if returned < len(items) {
		cut = fmt.Sprintf("the list was ended after %d rows, at about %d characters: offset=%d goes on, a filter makes it shorter", returned, longestList, offset+returned)
		b = append(append(b, `,"cut":`...), encode(cut)...)
	}
	b = append(b, `,"hosts":[`...)
	var text strings.Builder
	fmt.Fprintf(&text, "%d of %d matching on %d of %d hosts", returned, matched, answered, len(parts))
	switch {
	case left > 0 && returned > 0:
		fmt.Fprintf(&text, "; %d left out (offset=%d goes on, or filter)", left, offset+returned)
	case left > 0:
		fmt.Fprintf(&text, "; %d left out (raise limit)", left)
	}
	text.WriteString("\n")
	if cut != "" {
		text.WriteString(cut + "\n")
	}
	for i := range parts {
		if i > 0 {
			b = append(b, ',')
		}
		b = parts[i].head(b)
		text.WriteString(parts[i].line())
		if parts[i].status == route.OK {
			b = append(append(b, `,"snapshot_id":`...), encode(lists[i].Snapshot.ID)...)
			b = fmt.Appendf(b, `,"matched":%d`, lists[i].Matched)
			if len(lists[i].Absent) > 0 {
				b = append(append(b, `,"absent":`...), encode(lists[i].Absent)...)
			}
			fmt.Fprintf(&text, ", snapshot %s, %d matching", plaintext.Line(lists[i].Snapshot.ID), lists[i].Matched)
		}
		b = append(b, '}')
		text.WriteByte('\n')
	}
	b = append(append(append(b, `],"data":[`...), rows...), "]}"...)
	if returned > 0 {
		text.WriteString("host resource_id kind environment pid user cpu% cores memory name args < parent\n")
	}
	text.WriteString(lines.String())
	return Result{Structured: json.RawMessage(slices.Clip(b)), Text: text.String()}, nil
}

package cli

// This file holds "topside doctor": what can be observed and computed here, what
// cannot and why, and what would make it work.

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"strings"

	"github.com/spf13/cobra"
)

// A verdict is how one thing stands.
type verdict string

const (
	works   verdict = "ok"
	limited verdict = "limited" // part of it is missing
	missing verdict = "missing" // nothing of it can be had as things are
	absent  verdict = "absent"  // it does not exist here, and nothing is wrong with that
	failed  verdict = "failed"  // without it nothing can be observed
)

// A finding is one line of the doctor's report.
type finding struct {
	Name    string  `json:"name"`
	Verdict verdict `json:"status"`
	// Found is what is the case, and why.
	Found string `json:"finding"`
	// Remedy is what would make it work; "" where nothing is to be done.
	Remedy string `json:"remedy,omitempty"`
}

// A diagnosis is the doctor's report.
type diagnosis struct {
	Version    string        `json:"topside_version"`
	Platform   string        `json:"platform"`
	Root       string        `json:"root"`
	Live       bool          `json:"live"`
	Observable bool          `json:"observable"`
	Sample     *sampleTiming `json:"sample"`
	Findings   []finding     `json:"checks"`
}

// A sampleTiming is what taking the process table costs here.
type sampleTiming struct {
	Processes int     `json:"processes"`
	FirstMS   float64 `json:"first_ms"`
	NextMS    float64 `json:"next_ms"`
}

func (d *diagnosis) add(name string, v verdict, found, remedy string) {
	d.Findings = append(d.Findings, finding{name, v, found, remedy})
}

func newDoctorCommand(s Streams) *cobra.Command {
	var (
		root   string
		asJSON bool
	)
	c := &cobra.Command{
		Use:   "doctor",
		Short: "Say what can be observed and computed here, what not and why, and what would help",
		Long: `Look at this machine, and at what this user may read of it, and say for each part
of an observation whether it works here, and if not, why and what would help. The
same of the engines that sessions compute with: OCaml's session driver is compiled
for that, once.

Status 0 when there is something to observe, 1 when there is nothing.`,
		Args: noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			if root == "" {
				return badUsage("", `--root is empty: name a folder that holds proc/, for example "/"`)
			}
			d := examine(c.Context(), root)
			if err := c.Context().Err(); err != nil {
				return context.Cause(c.Context())
			}
			if err := d.write(s.Out, asJSON); err != nil {
				return err
			}
			if !d.Observable {
				return silentFailure{}
			}
			return nil
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print the report as one JSON object")
	c.Flags().StringVar(&root, "root", "/", "examine the machine whose proc/ and sys/ are in this `folder`")
	return c
}

func newDiagnosis(root string) *diagnosis {
	return &diagnosis{Version: Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH, Root: root, Findings: []finding{}}
}

func (d *diagnosis) write(w io.Writer, asJSON bool) error {
	if asJSON {
		return writeJSON(w, d)
	}
	var b strings.Builder
	p, columns := paletteFor(w), columnsOf(w)
	fmt.Fprintf(&b, "%s\n\n", p.strong(fmt.Sprintf("topside %s on %s, root %s", d.Version, d.Platform, d.Root)))
	width := 0
	for _, f := range d.Findings {
		width = max(width, len(f.Name))
	}
	indent := strings.Repeat(" ", len("limited")+2+width+2)
	for _, f := range d.Findings {
		fmt.Fprintf(&b, "%s  %s  %s\n", p.verdict(f.Verdict), p.strong(fmt.Sprintf("%-*s", width, f.Name)), folded(f.Found, indent, columns))
		if f.Remedy != "" {
			fmt.Fprintf(&b, "%s%s\n", indent, folded("→ "+f.Remedy, indent+"  ", columns))
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (p palette) verdict(v verdict) string {
	text := fmt.Sprintf("%-*s", len("limited"), v)
	switch v {
	case works:
		return p.good(text)
	case limited, missing:
		return p.warn(text)
	case failed:
		return p.bad(text)
	}
	return p.faint(text)
}

// folded breaks a text into lines of a terminal's width behind an indent.
func folded(text, indent string, columns int) string {
	room := columns - len(indent)
	if columns == 0 || room < 20 {
		return text
	}
	var b strings.Builder
	used := 0
	for i, word := range strings.Fields(text) {
		length := len([]rune(word))
		switch {
		case i == 0:
		case used+1+length > room:
			b.WriteString("\n" + indent)
			used = 0
		default:
			b.WriteByte(' ')
			used++
		}
		b.WriteString(word)
		used += length
	}
	return b.String()
}

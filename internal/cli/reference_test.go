package cli

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

var update = flag.Bool("update", false, "write the reference of the commands anew")

// TestReferenceIsFresh compares docs/cli.md with the help texts, of which it is
// made.
func TestReferenceIsFresh(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	b.WriteString("# Commands\n\nThis page is generated from the help texts in `internal/cli` (`go generate ./internal/cli`).\n\n" +
		"Standard output carries data or the protocol, standard error speaks to people. Statuses: 0 done, 1 failed, 2 wrong\n" +
		"usage, 130 and 143 interrupted. A link named `wsltop`, `xtop` or `topup` to the binary is\n" +
		"`topside wsltop` and so on.\n")
	for _, c := range newRoot(Streams{}, func() {}).Commands() {
		if !c.Hidden && c.Name() != "help" && c.Name() != "completion" {
			describe(&b, c)
		}
	}
	fmt.Fprintf(&b, "\n## topside wsltop mcp\n\n```\n%s```\n", wsltopMCPHelp)
	path := filepath.Join("..", "..", "docs", "cli.md")
	if *update {
		if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(b.Bytes(), want) {
		t.Errorf("%s is out of date; run go generate ./internal/cli", path)
	}
}

// describe writes the section of one command.
func describe(b *bytes.Buffer, c *cobra.Command) {
	fmt.Fprintf(b, "\n## %s\n", c.CommandPath())
	text := c.Long
	if c.DisableFlagParsing {
		fmt.Fprintf(b, "\n%s.\n\n```\n%s```\n", c.Short, text)
		return
	}
	if text == "" {
		text = c.Short + "."
	}
	fmt.Fprintf(b, "\n%s\n\n```\n%s\n", text, c.UseLine())
	if flags := c.LocalFlags().FlagUsages(); strings.TrimSpace(flags) != "" {
		fmt.Fprintf(b, "\n%s", flags)
	}
	b.WriteString("```\n")
	if c.Example != "" {
		fmt.Fprintf(b, "\nFor example:\n\n```\n%s\n```\n", c.Example)
	}
}

// TestEveryCommandIsDocumented keeps the help texts good enough to be the
// manual.
func TestEveryCommandIsDocumented(t *testing.T) {
	t.Parallel()
	for _, c := range newRoot(Streams{}, func() {}).Commands() {
		if c.Hidden {
			continue
		}
		if c.Short == "" || strings.HasSuffix(c.Short, ".") {
			t.Errorf("%s has the short help %q", c.Name(), c.Short)
		}
	}
}

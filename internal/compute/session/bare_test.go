package session

import (
	"bufio"
	"io"
	"os/exec"
	"strings"
	"testing"
)

// BenchmarkBareToplevel is what a user would pick instead: the toplevel itself on pipes, no structure, no recovery.
// BenchmarkEval is to be read as a ratio to it, on the same machine in the same run.
func BenchmarkBareToplevel(b *testing.B) {
	cmd := exec.Command("ocaml", "-noprompt", "-noinit")
	in, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { in.Close(); cmd.Wait() })
	lines := bufio.NewReader(out)
	ask := func() {
		if _, err := io.WriteString(in, "1+1;;\n"); err != nil {
			b.Fatal(err)
		}
		for {
			line, err := lines.ReadString('\n')
			if err != nil {
				b.Fatal(err)
			}
			if strings.HasPrefix(line, "- : int = 2") {
				return
			}
		}
	}
	ask()
	for b.Loop() {
		ask()
	}
}

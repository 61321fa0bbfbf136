package promote

import (
	"fmt"
	"os"
	"regexp"
	"strings"
)

// program is the log as a compiler can take it.
type program struct {
	phrases   []string // OCaml only; a directive is a comment
	libraries []string // of #require
	topup     bool     // module Topup is mentioned
}

var (
	directive = regexp.MustCompile(`^#([a-z_]+)\s*(?:"((?:[^"\\]|\\.)*)")?[^;]*;;\s*$`)
	comment   = regexp.MustCompile(`^(?:\s|\(\*[^*]*\*\))+`)
)

// read sorts the phrases: packages become libraries, a used file its content, other directives comments.
func read(phrases []string) program {
	var p program
	for _, text := range phrases {
		bare := comment.ReplaceAllString(text, "")
		m := directive.FindStringSubmatch(bare)
		switch {
		case m == nil:
			p.phrases = append(p.phrases, text)
		case m[1] == "require":
			p.libraries = append(p.libraries, strings.FieldsFunc(m[2], func(r rune) bool { return r == ',' || r == ' ' })...)
			p.phrases = append(p.phrases, remark(bare))
		case m[1] == "use":
			if used, err := os.ReadFile(m[2]); err == nil {
				p.phrases = append(p.phrases, fmt.Sprintf("# 1 %q\n%s\n", m[2], strings.TrimSuffix(string(used), "\n")))
			} else {
				p.phrases = append(p.phrases, remark(bare))
			}
		default:
			p.phrases = append(p.phrases, remark(bare))
		}
		if strings.Contains(text, "Topup.") {
			p.topup = true
		}
	}
	p.libraries = unique(p.libraries)
	return p
}

// remark keeps a directive as a comment.
func remark(text string) string {
	text = strings.TrimSuffix(strings.TrimSpace(text), ";;")
	if strings.Contains(text, "*)") || strings.Contains(text, "(*") {
		return "\n"
	}
	return "(* " + text + " *)\n"
}

// verbatim is the log itself.
func (p program) verbatim() string {
	var b strings.Builder
	for _, text := range p.phrases {
		b.WriteString(text)
		if !strings.HasSuffix(text, "\n") {
			b.WriteByte('\n')
		}
	}
	return b.String()
}

// wrapped has each phrase in a module that is opened after it: a later definition of a name, a type or a module hides
// the earlier one, as in the session.
func (p program) wrapped() string {
	var b strings.Builder
	for i, text := range p.phrases {
		if strings.HasPrefix(text, "(* #") || strings.TrimSpace(text) == "" {
			b.WriteString(text)
			continue
		}
		fmt.Fprintf(&b, "module Phrase%d_ = struct\n", i+1)
		if !strings.HasPrefix(text, "# 1 ") {
			fmt.Fprintf(&b, "# 1 \"phrase[%d]\"\n", i+1)
		}
		fmt.Fprintf(&b, "%s\nend open Phrase%d_\n", strings.TrimSpace(text), i+1)
	}
	return b.String()
}

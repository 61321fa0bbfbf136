package promote

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// program is the log as a compiler can take it.
type program struct {
	phrases   []string // OCaml only; a directive is a comment
	libraries []string // of #require
	folders   []string // of #directory, the last first, where used files are looked for
	topup     bool     // module Topup is mentioned
}

var (
	directive = regexp.MustCompile(`^#([a-z_]+)\s*(?:"((?:[^"\\]|\\.)*)")?[^;]*;;\s*$`)
	comment   = regexp.MustCompile(`^(?:\s|\(\*[^*]*\*\))+`)
	// lineDirective is a directive in a file, where it may lack its end. Other lines that begin with # call a method.
	lineDirective = regexp.MustCompile(`^#(require|use|mod_use|directory|load|load_rec|cd|thread|list|show|install_printer|remove_printer|` +
		`print_depth|print_length|warnings|warn_error|labels|principal|rectypes|predicates|camlp4[or])\b\s*(?:"((?:[^"\\]|\\.)*)"\s*(?:;;)?|[^;"]*;;)\s*$`)
)

// mostNested bounds files that use files: one may use itself.
const mostNested = 20

// read sorts the phrases: packages become libraries, a used file its content, other directives comments.
func read(phrases []string) program {
	var p program
	for _, text := range phrases {
		bare := comment.ReplaceAllString(text, "")
		if m := directive.FindStringSubmatch(bare); m != nil {
			p.phrases = append(p.phrases, p.meaning(bare, m[1], m[2], 0))
		} else {
			p.phrases = append(p.phrases, text)
		}
		if strings.Contains(text, "Topup.") {
			p.topup = true
		}
	}
	p.libraries = unique(p.libraries)
	return p
}

// meaning is what a directive is in a program: the content of a file, or else a comment.
func (p *program) meaning(text, name, argument string, nested int) string {
	switch name {
	case "require":
		p.libraries = append(p.libraries, strings.FieldsFunc(argument, func(r rune) bool { return r == ',' || r == ' ' })...)
	case "directory":
		p.folders = append([]string{argument}, p.folders...)
	case "use":
		if used, ok := p.used(argument, nested); ok {
			return used
		}
	case "mod_use":
		if used, ok := p.used(argument, nested); ok {
			return fmt.Sprintf("module %s = struct\n%send\n", moduleOf(argument), used)
		}
	}
	return remark(text)
}

// used is the content of a used file. Its directives mean what they do in the session.
func (p *program) used(path string, nested int) (string, bool) {
	text, err := os.ReadFile(path)
	for i := 0; err != nil && i < len(p.folders) && !filepath.IsAbs(path); i++ {
		text, err = os.ReadFile(filepath.Join(p.folders[i], path))
	}
	if err != nil || nested == mostNested {
		return "", false
	}
	var b strings.Builder
	fmt.Fprintf(&b, "# 1 %q\n", path)
	for i, line := range strings.Split(strings.TrimSuffix(string(text), "\n"), "\n") {
		m := lineDirective.FindStringSubmatch(line)
		if m == nil {
			b.WriteString(line + "\n")
			continue
		}
		b.WriteString(p.meaning(line, m[1], m[2], nested+1))
		fmt.Fprintf(&b, "# %d %q\n", i+2, path)
	}
	return b.String(), true
}

// moduleOf is the module that #mod_use makes of a file: its name up to the first dot.
func moduleOf(path string) string {
	name, _, _ := strings.Cut(filepath.Base(path), ".")
	if name == "" {
		return "_"
	}
	return strings.ToUpper(name[:1]) + name[1:]
}

// remark keeps a directive as a comment.
func remark(text string) string {
	text = strings.TrimSuffix(strings.TrimSpace(text), ";;")
	if strings.Contains(text, "*)") || strings.Contains(text, "(*") {
		return "\n"
	}
	return "(* " + text + " *)\n"
}

// place says that what follows text is where it is, after files whose lines had other names.
func place(text string) string {
	return fmt.Sprintf("# %d \"main.ml\"\n", strings.Count(text, "\n")+2)
}

// verbatim is the log itself.
func (p program) verbatim() string {
	var b strings.Builder
	for _, text := range p.phrases {
		b.WriteString(text)
		if !strings.HasSuffix(text, "\n") {
			b.WriteByte('\n')
		}
		if fromFile(text) {
			b.WriteString(place(b.String()))
		}
	}
	return b.String()
}

func fromFile(text string) bool {
	return strings.HasPrefix(text, "# 1 ") || strings.HasPrefix(text, "module ") && strings.Contains(text, "\n# 1 ")
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
	b.WriteString(place(b.String()))
	return b.String()
}

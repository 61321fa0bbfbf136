package host

import (
	"bufio"
	"bytes"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

const (
	maxIncludeDepth = 16 // as OpenSSH
	maxIncludes     = 256
	maxConfig       = 4 << 20
)

// FromSSHConfig returns the hosts that an OpenSSH configuration names: the concrete
// names of its Host lines, Include followed. Patterns, negations and Match blocks
// name no host. A missing file gives none. home stands for "~".
func FromSSHConfig(path, home string) []Entry {
	c := sshConfig{home: home, seen: map[string]bool{}}
	c.file(path, 0)
	slices.SortFunc(c.entries, func(a, b Entry) int { return strings.Compare(a.Name, b.Name) })
	return c.entries
}

// SSHConfigSource is the Source of entries from the OpenSSH configuration.
const SSHConfigSource = "ssh config"

// AllowedSource is the Source of hosts that the configuration allows unregistered.
const AllowedSource = "allowed"

type sshConfig struct {
	home    string
	files   int
	seen    map[string]bool
	entries []Entry
}

func (c *sshConfig) file(path string, depth int) {
	if c.files++; depth > maxIncludeDepth || c.files > maxIncludes {
		return
	}
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() {
		return
	}
	f, err := os.Open(path)
	if err != nil {
		return
	}
	data, err := io.ReadAll(io.LimitReader(f, maxConfig))
	f.Close()
	if err != nil {
		return
	}
	for _, line := range ParseSSHConfig(data) {
		if !line.Include {
			c.add(line.Words)
			continue
		}
		for _, pattern := range line.Words {
			if rest, ok := strings.CutPrefix(pattern, "~/"); ok {
				pattern = filepath.Join(c.home, rest)
			} else if !filepath.IsAbs(pattern) {
				pattern = filepath.Join(c.home, ".ssh", pattern)
			}
			found, _ := filepath.Glob(pattern) // a bad pattern names no file
			for _, each := range found {
				c.file(each, depth+1)
			}
		}
	}
}

func (c *sshConfig) add(names []string) {
	for _, name := range names {
		if !c.seen[name] && name != Local && CheckName(name) == nil {
			c.seen[name] = true
			c.entries = append(c.entries, Entry{Name: name, Source: SSHConfigSource})
		}
	}
}

// ConfigLine is a line of an OpenSSH configuration that leads to hosts.
type ConfigLine struct {
	Include bool // Words are files; otherwise patterns of hosts
	Words   []string
}

// ParseSSHConfig returns the Host and Include lines of an OpenSSH configuration.
func ParseSSHConfig(data []byte) []ConfigLine {
	var out []ConfigLine
	lines := bufio.NewScanner(bytes.NewReader(data))
	lines.Buffer(nil, maxConfig+1)
	for lines.Scan() {
		words := configWords(lines.Text())
		if len(words) < 2 {
			continue
		}
		switch strings.ToLower(words[0]) {
		case "host":
			out = append(out, ConfigLine{Words: words[1:]})
		case "include":
			out = append(out, ConfigLine{Include: true, Words: words[1:]})
		}
	}
	return out
}

// configWords splits a line as OpenSSH does: a keyword, blanks or one '=', and
// arguments that may be quoted. A comment ends the line.
func configWords(line string) []string {
	line = strings.TrimSpace(line)
	end := strings.IndexAny(line, " \t=")
	if end < 0 || line[0] == '#' {
		return nil
	}
	words := []string{line[:end]}
	rest := strings.TrimLeft(line[end:], " \t")
	rest = strings.TrimLeft(strings.TrimPrefix(rest, "="), " \t")
	for rest != "" && rest[0] != '#' {
		var word string
		if rest[0] == '"' {
			word, rest, _ = strings.Cut(rest[1:], `"`)
		} else if i := strings.IndexAny(rest, " \t"); i >= 0 {
			word, rest = rest[:i], rest[i:]
		} else {
			word, rest = rest, ""
		}
		words = append(words, word)
		rest = strings.TrimLeft(rest, " \t")
	}
	return words
}

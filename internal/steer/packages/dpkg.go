package packages

// This file reads the databases that are text: dpkg's, apk's and pacman's.

import (
	"bytes"
	"strings"

	"topside/internal/see/proc"
)

// readDpkg reads var/lib/dpkg/info/*.list, one path a line, and the other
// names of diverted files (var/lib/dpkg/diversions: from, to and by whom).
func readDpkg(fs proc.FS, take func(string)) error {
	const folder = "var/lib/dpkg/info"
	entries, err := fs.ReadDir(folder)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".list") {
			continue
		}
		// The list of one package that cannot be read leaves its files
		// unowned, which errs on the side of asking.
		if data, err := fs.Read(folder + "/" + e.Name()); err == nil {
			takeLines(data, take)
		}
	}
	if data, err := fs.Read("var/lib/dpkg/diversions"); err == nil {
		for i, line := range bytes.Split(data, []byte{'\n'}) {
			if i%3 == 1 && len(line) > 0 && line[0] == '/' {
				take(string(line))
			}
		}
	}
	return nil
}

func takeLines(data []byte, take func(string)) {
	for line := range bytes.SplitSeq(data, []byte{'\n'}) {
		if line = bytes.TrimRight(line, "\r"); len(line) > 1 && line[0] == '/' {
			take(string(line))
		}
	}
}

// readApk reads lib/apk/db/installed: F:folder, then R:file in it.
func readApk(fs proc.FS, take func(string)) error {
	data, err := fs.Read("lib/apk/db/installed")
	if err != nil {
		return err
	}
	ParseApk(data, take)
	return nil
}

// ParseApk passes the absolute path of every file of an apk database on.
func ParseApk(data []byte, take func(path string)) {
	folder := ""
	for line := range bytes.SplitSeq(data, []byte{'\n'}) {
		if name, ok := bytes.CutPrefix(line, []byte("F:")); ok {
			folder = "/" + string(name)
		} else if name, ok := bytes.CutPrefix(line, []byte("R:")); ok && len(name) > 0 {
			take(strings.TrimSuffix(folder, "/") + "/" + string(name))
		}
	}
}

// readPacman reads var/lib/pacman/local/*/files: paths below %FILES%.
func readPacman(fs proc.FS, take func(string)) error {
	const folder = "var/lib/pacman/local"
	entries, err := fs.ReadDir(folder)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if data, err := fs.Read(folder + "/" + e.Name() + "/files"); err == nil {
			ParsePacman(data, take)
		}
	}
	return nil
}

// ParsePacman passes the absolute path of every file of a package on.
func ParsePacman(data []byte, take func(path string)) {
	inside := false
	for line := range bytes.SplitSeq(data, []byte{'\n'}) {
		switch {
		case bytes.HasPrefix(line, []byte{'%'}):
			inside = bytes.Equal(line, []byte("%FILES%"))
		case inside && len(line) > 0 && line[len(line)-1] != '/':
			take("/" + string(line))
		}
	}
}

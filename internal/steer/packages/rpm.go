package packages

// This file reads rpm's database: headers of packages in a table of SQLite.
// The older formats (Berkeley DB, ndb) are not read.

import (
	"encoding/binary"
	"fmt"
	"os"

	"topside/internal/see/proc"
)

// rpmFiles are where the database is, with the log that recent changes are in
// before SQLite moves them over: those are not seen until then.
var rpmFiles = []string{"var/lib/rpm/rpmdb.sqlite", "usr/lib/sysimage/rpm/rpmdb.sqlite"}

func readRPM(fs proc.FS, take func(string)) error {
	var last error
	for _, name := range rpmFiles {
		f, err := os.Open(fs.Path(name))
		if err != nil {
			last = err
			continue
		}
		defer f.Close()
		return eachRow(f, "Packages", func(blob []byte) {
			// A header that cannot be understood is left out.
			_ = ParseHeader(blob, take)
		})
	}
	return last
}

// The tags of a header that hold its files (rpm/lib/rpmtag.h).
const (
	tagOldNames   = 1027 // whole paths, of ancient packages
	tagDirIndexes = 1116
	tagBaseNames  = 1117
	tagDirNames   = 1118
)

// The types of a tag's value.
const (
	typeInt32       = 4
	typeStringArray = 8
)

// ParseHeader passes the path of every file that a package's header names on.
// A header is two big-endian counts (of index entries, of bytes), the entries
// (tag, type, offset, count) and the bytes.
func ParseHeader(header []byte, take func(path string)) error {
	if len(header) < 8 {
		return fmt.Errorf("rpm header: %w", proc.ErrMalformed)
	}
	entries, size := int(binary.BigEndian.Uint32(header)), int(binary.BigEndian.Uint32(header[4:]))
	index := header[8:]
	if entries < 0 || size < 0 || entries > len(index)/16 || size > len(index)-16*entries {
		return fmt.Errorf("rpm header: %d entries and %d bytes in %d: %w", entries, size, len(header), proc.ErrMalformed)
	}
	data := index[16*entries:][:size]
	var names, folders []string
	var numbers []uint32
	for i := range entries {
		e := index[16*i:]
		tag, kind := binary.BigEndian.Uint32(e), binary.BigEndian.Uint32(e[4:])
		offset, count := int(binary.BigEndian.Uint32(e[8:])), int(binary.BigEndian.Uint32(e[12:]))
		if offset < 0 || offset > len(data) || count < 0 || count > len(data)-offset {
			continue
		}
		switch {
		case tag == tagOldNames && kind == typeStringArray:
			for _, name := range stringArray(data[offset:], count) {
				take(name)
			}
		case tag == tagBaseNames && kind == typeStringArray:
			names = stringArray(data[offset:], count)
		case tag == tagDirNames && kind == typeStringArray:
			folders = stringArray(data[offset:], count)
		case tag == tagDirIndexes && kind == typeInt32 && count <= (len(data)-offset)/4:
			for n := range count {
				numbers = append(numbers, binary.BigEndian.Uint32(data[offset+4*n:]))
			}
		}
	}
	for i, name := range names {
		if i < len(numbers) && int64(numbers[i]) < int64(len(folders)) {
			take(folders[numbers[i]] + name)
		}
	}
	return nil
}

// stringArray reads NUL-terminated strings.
func stringArray(data []byte, count int) []string {
	out := make([]string, 0, min(count, 1<<16))
	for range count {
		end := 0
		for end < len(data) && data[end] != 0 {
			end++
		}
		if end == len(data) {
			return out
		}
		out = append(out, string(data[:end]))
		data = data[end+1:]
	}
	return out
}

package packages

// This file reads the rows of one table of an SQLite database, as far as rpm
// needs it: tables with a row id, and the last blob of each row
// (sqlite.org/fileformat2.html).

import (
	"encoding/binary"
	"fmt"
	"io"

	"topside/internal/see/proc"
)

// The bounds of what is read of a database.
const (
	deepestTree = 32
	longestRow  = 64 << 20
	mostPages   = 1 << 18
)

type database struct {
	file     io.ReaderAt
	pageSize int
	usable   int // bytes of a page without the reserved end
	visited  int // pages; a file that loops ends
}

// eachRow passes the last blob of every row of a table on. A blob that a row
// keeps on other pages is put together.
func eachRow(file io.ReaderAt, table string, row func(blob []byte)) error {
	d, err := openDatabase(file)
	if err != nil {
		return err
	}
	root := uint32(0)
	err = d.walk(1, 0, func(record []byte) {
		columns := parseRecord(record)
		// The schema's columns: type, name, table, root page, statement.
		if len(columns) >= 4 && string(columns[0].bytes) == "table" && string(columns[1].bytes) == table {
			root = uint32(columns[3].number)
		}
	})
	if err != nil {
		return err
	}
	if root == 0 {
		return fmt.Errorf("sqlite: no table %s: %w", table, proc.ErrMalformed)
	}
	return d.walk(root, 0, func(record []byte) {
		columns := parseRecord(record)
		for i := len(columns) - 1; i >= 0; i-- {
			if columns[i].blob {
				row(columns[i].bytes)
				return
			}
		}
	})
}

func openDatabase(file io.ReaderAt) (*database, error) {
	header := make([]byte, 100)
	if _, err := file.ReadAt(header, 0); err != nil {
		return nil, fmt.Errorf("sqlite header: %w", err)
	}
	if string(header[:16]) != "SQLite format 3\x00" {
		return nil, fmt.Errorf("not an SQLite database: %w", proc.ErrMalformed)
	}
	size := int(binary.BigEndian.Uint16(header[16:]))
	if size == 1 {
		size = 65536
	}
	usable := size - int(header[20])
	if size < 512 || size&(size-1) != 0 || usable < 480 {
		return nil, fmt.Errorf("sqlite page size %d: %w", size, proc.ErrMalformed)
	}
	return &database{file: file, pageSize: size, usable: usable}, nil
}

func (d *database) page(number uint32) ([]byte, error) {
	if d.visited++; d.visited > mostPages || number == 0 {
		return nil, fmt.Errorf("sqlite page %d: %w", number, proc.ErrMalformed)
	}
	page := make([]byte, d.pageSize)
	if _, err := d.file.ReadAt(page, int64(number-1)*int64(d.pageSize)); err != nil {
		return nil, fmt.Errorf("sqlite page %d: %w", number, err)
	}
	return page, nil
}

// The kinds of pages of a table.
const (
	interiorPage = 5
	leafPage     = 13
)

// walk visits the records of a table's tree in order.
func (d *database) walk(number uint32, depth int, visit func(record []byte)) error {
	if depth > deepestTree {
		return fmt.Errorf("sqlite tree: %w", proc.ErrMalformed)
	}
	page, err := d.page(number)
	if err != nil {
		return err
	}
	at := 0
	if number == 1 {
		at = 100
	}
	kind, cells := page[at], int(binary.BigEndian.Uint16(page[at+3:]))
	pointers := at + 8
	if kind == interiorPage {
		pointers = at + 12
	}
	if kind != interiorPage && kind != leafPage || pointers+2*cells > len(page) {
		return fmt.Errorf("sqlite page %d: %w", number, proc.ErrMalformed)
	}
	for i := range cells {
		cell := int(binary.BigEndian.Uint16(page[pointers+2*i:]))
		if cell+4 > len(page) {
			return fmt.Errorf("sqlite page %d: %w", number, proc.ErrMalformed)
		}
		if kind == interiorPage {
			if err := d.walk(binary.BigEndian.Uint32(page[cell:]), depth+1, visit); err != nil {
				return err
			}
			continue
		}
		record, err := d.record(page, cell)
		if err != nil {
			return err
		}
		visit(record)
	}
	if kind == interiorPage {
		return d.walk(binary.BigEndian.Uint32(page[at+8:]), depth+1, visit)
	}
	return nil
}

// record returns the payload of a leaf's cell, with what lies on other pages.
func (d *database) record(page []byte, cell int) ([]byte, error) {
	length, n := varint(page[cell:])
	_, m := varint(page[min(cell+n, len(page)):])
	at := cell + n + m
	if n == 0 || m == 0 || length > longestRow || at > d.usable {
		return nil, fmt.Errorf("sqlite record: %w", proc.ErrMalformed)
	}
	here := d.here(int(length))
	if at+here > len(page) {
		return nil, fmt.Errorf("sqlite record: %w", proc.ErrMalformed)
	}
	record := append(make([]byte, 0, length), page[at:at+here]...)
	if here == int(length) {
		return record, nil
	}
	if at+here+4 > len(page) {
		return nil, fmt.Errorf("sqlite record: %w", proc.ErrMalformed)
	}
	next := binary.BigEndian.Uint32(page[at+here:])
	for len(record) < int(length) {
		more, err := d.page(next)
		if err != nil {
			return nil, err
		}
		next = binary.BigEndian.Uint32(more)
		record = append(record, more[4:4+min(d.usable-4, int(length)-len(record))]...)
	}
	return record, nil
}

// here is how much of a payload a leaf holds itself.
func (d *database) here(length int) int {
	most := d.usable - 35
	if length <= most {
		return length
	}
	least := (d.usable-12)*32/255 - 23
	if k := least + (length-least)%(d.usable-4); k <= most {
		return k
	}
	return least
}

// varint reads a number of one to nine bytes; n is 0 when it is cut off.
func varint(b []byte) (v uint64, n int) {
	for i := range min(len(b), 9) {
		if i == 8 {
			return v<<8 | uint64(b[i]), 9
		}
		v = v<<7 | uint64(b[i]&0x7f)
		if b[i] < 0x80 {
			return v, i + 1
		}
	}
	return 0, 0
}

type column struct {
	bytes  []byte
	blob   bool
	number int64
}

// parseRecord cuts a record into its columns; what does not fit is left out.
func parseRecord(record []byte) []column {
	size, n := varint(record)
	if n == 0 || size > uint64(len(record)) || int(size) < n {
		return nil
	}
	kinds, body := record[n:size], record[size:]
	var out []column
	for len(kinds) > 0 {
		kind, n := varint(kinds)
		if n == 0 {
			return out
		}
		kinds = kinds[n:]
		c, length, ok := columnOf(kind, body)
		if !ok {
			return out
		}
		out = append(out, c)
		body = body[length:]
	}
	return out
}

func columnOf(kind uint64, body []byte) (column, int, bool) {
	switch {
	case kind == 0, kind == 8:
		return column{}, 0, true
	case kind == 9:
		return column{number: 1}, 0, true
	case kind <= 7:
		length := [...]int{0, 1, 2, 3, 4, 6, 8, 8}[kind]
		if length > len(body) {
			return column{}, 0, false
		}
		v := int64(0)
		for _, b := range body[:length] {
			v = v<<8 | int64(b)
		}
		return column{number: v}, length, true
	case kind >= 12:
		length := (kind - 12) / 2
		if length > uint64(len(body)) {
			return column{}, 0, false
		}
		return column{bytes: body[:length], blob: kind%2 == 0}, int(length), true
	}
	return column{}, 0, false
}

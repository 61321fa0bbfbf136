package proc

import "io/fs"

// KeptFile is a file that stays open between reads, which costs a fraction of
// opening it each time. It is not safe for concurrent use; its owner closes it.
type KeptFile struct {
	fs   FS
	name string
	file file
	open bool
	buf  []byte
}

// The names of the system's files, for [FS.Keep] and [FS.Read], and the parser
// of each.
const (
	FileStat       = "proc/stat"                   // ParseKernelStat
	FileMemory     = "proc/meminfo"                // ParseMemory
	FileLoad       = "proc/loadavg"                // ParseLoad
	FileUptime     = "proc/uptime"                 // ParseUptime
	FileDisks      = "proc/diskstats"              // ParseDisks, then FS.TellPartition
	FileInterfaces = "proc/net/dev"                // ParseInterfaces
	FileARC        = "proc/spl/kstat/zfs/arcstats" // ParseARC
)

// FilePressure names the pressure file of a resource: "cpu", "memory", "io" or
// "irq". Its parser is ParsePressure.
func FilePressure(resource string) string { return "proc/pressure/" + resource }

// Keep returns a file that is opened at its first read.
func (f FS) Keep(name string) *KeptFile {
	if name == FileInterfaces {
		name = f.interfacesFile()
	}
	return &KeptFile{fs: f, name: name}
}

// Name returns the name that the file was asked for by.
func (k *KeptFile) Name() string { return k.name }

// Read returns the file's present content, which is valid until the next Read
// or Close. When the kept descriptor fails, because what it stood for is gone,
// the file is opened anew by its name; the error is that of the second try.
func (k *KeptFile) Read() ([]byte, error) {
	if k.open {
		data, err := k.readOpen()
		if err == nil {
			return data, nil
		}
		k.Close()
	}
	opened, err := k.fs.open(k.name, 0)
	if err != nil {
		return nil, err
	}
	k.file, k.open = opened, true
	data, err := k.readOpen()
	if err != nil {
		k.Close()
	}
	return data, err
}

// ReadInto is Read with a buffer of the caller's, for owners of many kept files
// that read one after the other: the file then holds no buffer of its own. The
// result lies in buf, or in a larger one when that is too small.
func (k *KeptFile) ReadInto(buf []byte) ([]byte, error) {
	if cap(buf) == 0 {
		return k.Read()
	}
	k.buf = buf[:cap(buf)]
	defer func() { k.buf = nil }()
	return k.Read()
}

// largestRead bounds one call: the kernel refuses to make a buffer of megabytes
// for some of its files.
const largestRead = 256 << 10

func (k *KeptFile) readOpen() ([]byte, error) {
	if k.buf == nil {
		k.buf = make([]byte, 4<<10)
	}
	n := 0
	for {
		if n == len(k.buf) {
			if n >= maxFile {
				return nil, &fs.PathError{Op: "read", Path: k.fs.Path(k.name), Err: ErrTooLong}
			}
			k.buf = append(k.buf, make([]byte, len(k.buf))...)
		}
		got, err := k.file.readAt(k.buf[n:min(len(k.buf), n+largestRead)], int64(n))
		if err != nil {
			return nil, &fs.PathError{Op: "pread", Path: k.fs.Path(k.name), Err: err}
		}
		if got == 0 {
			return k.buf[:n], nil
		}
		n += got
	}
}

// Close closes the file. A later Read opens it again.
func (k *KeptFile) Close() error {
	if k.open {
		k.file.close()
		k.open = false
	}
	return nil
}

package proc

import (
	"bytes"
	"math"
	"strconv"
	"strings"
)

// Disks reads proc/diskstats and tells partitions by sys/dev/block, where it
// is there.
func (f FS) Disks() ([]Disk, error) {
	data, err := f.Read(FileDisks)
	if err != nil {
		return nil, err
	}
	disks, err := ParseDisks(data)
	if err != nil {
		return nil, err
	}
	for i := range disks {
		f.TellPartition(&disks[i])
	}
	return disks, nil
}

// TellPartition corrects d.Partition by what sysfs says of the device; it
// leaves it alone when sysfs does not know it. The answer holds as long as the
// device number stands for the same name.
func (f FS) TellPartition(d *Disk) {
	device := "sys/dev/block/" + strconv.FormatUint(uint64(d.Major), 10) + ":" + strconv.FormatUint(uint64(d.Minor), 10)
	if f.Exists(device) {
		d.Partition = f.Exists(device + "/partition")
		return
	}
	// sysfs writes the slash of "cciss/c0d0" as '!'.
	if f.Exists("sys/block/" + strings.ReplaceAll(d.Name, "/", "!")) {
		d.Partition = false
	}
}

// ParseDisks parses the content of proc/diskstats
// (Documentation/admin-guide/iostats.rst): 14 columns, 18 since Linux 4.18, 20
// since 5.5. A shorter or broken line is left out; when all are, the error
// wraps [ErrMalformed]. Partition is guessed by name: sda1 is one when sda is
// listed, and nvme0n1p1 when nvme0n1 is.
func ParseDisks(data []byte) ([]Disk, error) {
	var disks []Disk
	seen := false
	for rest := data; len(rest) > 0; {
		var line []byte
		line, rest = nextLine(rest)
		terminated := len(rest) > 0 || bytes.HasSuffix(data, newline)
		if word, _ := nextWord(line); len(word) > 0 {
			seen = true
		}
		if d, ok := parseDisk(line, terminated); ok {
			disks = append(disks, d)
		}
	}
	if seen && len(disks) == 0 {
		return nil, malformed("diskstats", data)
	}
	guessPartitions(disks)
	return disks, nil
}

func parseDisk(line []byte, terminated bool) (Disk, bool) {
	major, rest := nextWord(line)
	minor, rest := nextWord(rest)
	name, rest := nextWord(rest)
	maj, ok := parseUint(major)
	min, ok2 := parseUint(minor)
	if !ok || !ok2 || len(name) == 0 || maj > math.MaxUint32 || min > math.MaxUint32 {
		return Disk{}, false
	}
	var v [12]uint64
	n := parseUints(rest, v[:])
	// A line that ends with its eleventh number must really end there.
	if n < 11 || (n == 11 && !terminated) {
		return Disk{}, false
	}
	return Disk{
		Major: uint32(maj), Minor: uint32(min), Name: string(name),
		Reads: v[0], ReadSectors: v[2], ReadMS: v[3],
		Writes: v[4], WriteSectors: v[6], WriteMS: v[7],
		InFlight: v[8], BusyMS: v[9], WeightedMS: v[10],
	}, true
}

func guessPartitions(disks []Disk) {
	names := make(map[string]bool, len(disks))
	for _, d := range disks {
		names[d.Name] = true
	}
	for i := range disks {
		disks[i].Partition = names[parentDisk(disks[i].Name)]
	}
}

// parentDisk names the disk that a device would be a partition of, "" if none.
func parentDisk(name string) string {
	parent := strings.TrimRight(name, "0123456789")
	if parent == name || parent == "" {
		return ""
	}
	if before, ok := strings.CutSuffix(parent, "p"); ok && before != "" && isDigit(before[len(before)-1]) {
		return before
	}
	return parent
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

package proc

import (
	"bytes"
	"math"
	"time"
)

// Uptime reads proc/uptime: how long ago the kernel booted, suspended time
// included, to 10 ms.
func (f FS) Uptime() (time.Duration, error) {
	data, err := f.Read(FileUptime)
	if err != nil {
		return 0, err
	}
	return ParseUptime(data)
}

// ParseUptime parses the content of proc/uptime: "350735.47 234388.90".
func ParseUptime(data []byte) (time.Duration, error) {
	word, _ := nextWord(data)
	whole, fraction, _ := bytes.Cut(bytes.TrimSpace(word), []byte{'.'})
	seconds, ok := parseUint(whole)
	if !ok || seconds > math.MaxInt64/uint64(time.Second)-1 || len(fraction) > 9 {
		return 0, malformed("uptime", data)
	}
	uptime := time.Duration(seconds) * time.Second
	unit := time.Second
	for _, c := range fraction {
		if !isDigit(c) {
			return 0, malformed("uptime", data)
		}
		unit /= 10
		uptime += time.Duration(c-'0') * unit
	}
	return uptime, nil
}

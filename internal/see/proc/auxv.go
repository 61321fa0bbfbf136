package proc

import (
	"encoding/binary"
	"os"
)

// auxClockTicks is a key of the auxiliary vector (getauxval(3)).
const auxClockTicks = 17

// ClockTicks returns how many ticks the kernel counts in a second. It is 100
// everywhere but on a few old architectures; a recorded tree is taken to be of
// such a kernel.
func (f FS) ClockTicks() uint64 {
	const usual = 100
	if !f.live {
		return usual
	}
	data, err := f.Read("proc/self/auxv")
	if err != nil {
		return usual
	}
	if ticks, ok := ParseAuxv(data, auxClockTicks); ok && ticks > 0 {
		return ticks
	}
	return usual
}

// PageSize returns the size of a memory page in bytes; 4096 is assumed of a
// recorded tree.
func (f FS) PageSize() uint64 {
	if f.live {
		return uint64(os.Getpagesize())
	}
	return 4096
}

// ParseAuxv finds a value in the content of proc/PID/auxv, which is pairs of
// machine words of the running architecture.
func ParseAuxv(data []byte, key uint64) (uint64, bool) {
	const wordSize = 4 << (^uintptr(0) >> 63)
	word := func(b []byte) uint64 {
		if wordSize == 8 {
			return binary.NativeEndian.Uint64(b)
		}
		return uint64(binary.NativeEndian.Uint32(b))
	}
	for ; len(data) >= 2*wordSize; data = data[2*wordSize:] {
		if k := word(data); k == key {
			return word(data[wordSize:]), true
		} else if k == 0 {
			break
		}
	}
	return 0, false
}

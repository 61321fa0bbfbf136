//go:build !linux

package proc

// Scanner walks the process table of a recorded tree.
type Scanner struct {
	fs   FS
	stat Stat
}

// NewScanner returns a scanner.
func (f FS) NewScanner(ScannerOptions) *Scanner { return &Scanner{fs: f} }

// Close releases what the scanner holds: nothing here.
func (sc *Scanner) Close() error { return nil }

func (sc *Scanner) scanLive(visit func(pid int32, s *Stat, err error)) error {
	return sc.scanRecorded(visit)
}

package proc

// This file declares the scanner of the process table: the one loop that runs
// over every process in every sample.

// ScannerOptions tune a scanner.
type ScannerOptions struct {
	// KeepDescriptors is how many stat files may stay open between scans.
	// A kept file costs about half the processor time of one that is opened
	// again, one descriptor, and a page in the kernel. 0 keeps none. It is
	// ignored in a recorded tree.
	KeepDescriptors int
}

// longestStat bounds a stat line: 51 numbers of at most 20 digits and a name
// of at most 64 bytes are well below it.
const longestStat = 2048

// Scan reads the stat line of every process and passes it to visit, in the
// order of the directory. The pid is that of the directory; s.PID is set to
// it. s and its Comm are valid only during the call.
//
// A process that vanished meanwhile is not visited. For any other fault of one
// process visit gets the error (see [FS.ReasonOf]) and whatever could be
// parsed. Scan itself fails only when the directory cannot be read. A Scanner
// is not safe for concurrent use.
func (sc *Scanner) Scan(visit func(pid int32, s *Stat, err error)) error {
	if sc.fs.live {
		return sc.scanLive(visit)
	}
	return sc.scanRecorded(visit)
}

// scanRecorded goes the slow and confined way of the other files.
func (sc *Scanner) scanRecorded(visit func(pid int32, s *Stat, err error)) error {
	entries, err := sc.fs.ReadDir("proc")
	if err != nil {
		return err
	}
	for _, entry := range entries {
		pid, ok := parsePID([]byte(entry.Name()))
		if !ok || pid == 0 {
			continue
		}
		line, err := sc.fs.Read(ofPID(pid, "stat"))
		if err != nil {
			if reason := sc.fs.ReasonOf(err); reason == NotRecorded || reason == Vanished {
				continue
			}
			sc.stat = Stat{PID: pid}
			visit(pid, &sc.stat, err)
			continue
		}
		err = ParseStat(line, &sc.stat)
		sc.stat.PID = pid
		visit(pid, &sc.stat, err)
	}
	return nil
}

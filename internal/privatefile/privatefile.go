// Package privatefile replaces the files in which state is kept: registries,
// checkpoints, the configuration, the ledger of alerts. A reader, or a crash, finds
// the old content or the new one whole, and nobody but the owner may read it
// (DESIGN.md, decision 12).
//
// It is a leaf: fleet, compute and steer keep their state through it, and none of
// them may import another.
package privatefile

import "io/fs"

// LongestName is what file systems allow the name of a file, in bytes.
const LongestName = 255

// Replace writes a file whole, with mode 0600 whatever the file before had.
func Replace(path string, data []byte) error { return ReplaceMode(path, data, 0o600) }

// ReplaceMode does so with the mode given, for a file of another program's. Where a
// system promises it, the exchange is atomic; what a writer that dies leaves behind is in
// the same folder.
func ReplaceMode(path string, data []byte, mode fs.FileMode) error { return exchange(path, data, mode) }

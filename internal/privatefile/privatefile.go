// Package privatefile replaces the files in which state is kept: registries,
// checkpoints, the configuration, the ledger of alerts. A reader, or a crash, finds
// the old content or the new one whole, and nobody but the owner may read it
// (DESIGN.md, decision 12).
//
// It is a leaf: fleet, compute and steer keep their state through it, and none of
// them may import another.
package privatefile

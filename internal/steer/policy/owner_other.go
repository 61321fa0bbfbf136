//go:build !unix

package policy

// guarded has nothing to look at: access lists decide on these systems.
func guarded(string) error { return nil }

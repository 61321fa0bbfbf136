//go:build !unix

package host

// lock does nothing where there is no flock: two servers that change a registry at
// the same moment may lose one of the changes, never the file.
func lock(string) (unlock func(), err error) { return func() {}, nil }
